"""Google's .npz files: the authors' numbers, what must be asked, both ways.

Where VITEDU_GOLDEN is set, against what the authors' code computed with these
files.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from vitedu.data import PreprocessSpec
from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig
from vitedu.model.hybrid import Hybrid
from vitedu.model.position import NoPosition, SinCos2D
from vitedu.model.resize import resize_pos_embed
from vitedu.model.resnet import ResNet, ResNetConfig
from vitedu.weights import Checkpoint, Metadata, load
from vitedu.weights.npz import (
    from_vitedu,
    preprocess,
    to_vitedu,
    unstacked,
    without_prefix,
)

from .examples import assert_same

# Every case of the golden set, and the arguments that its file alone does not
# say.
CASES = {
    "a_vit_token_p8": {},
    "b_vit_rep_p8": {},
    "c_vit_gap_p8": {},
    "c2_vit_token_unpooled_rep": {"image_size": (16, 24), "pool": "none"},
    "d2_vit_rect_patch_crop": {},
    "e_vit_p16_h3": {},
    "f1_hybrid_r212_p1": {},
    "f3_hybrid_stem_p2": {"image_size": (70, 64)},
    "h1_bv_gap_learn": {},
    "h3_bv_map_learn": {"image_size": (24, 32)},
    "h4_bv_gap_sincos": {"image_size": (24, 40)},
    "h5_bv_map_sincos_rep_scan": {"image_size": (32, 32)},
    "g1_bit_v2_paper": {},
    "g2_bit_v1": {},
    "a_finetune48": {"image_size": 48, "num_classes": 5},
    "b_finetune56_drophead": {"image_size": 56, "num_classes": 5},
}
WITH_FILE = [name for name in CASES if "finetune" not in name]
VITS = [name for name in WITH_FILE if name[0] != "g"]
DTYPES = [torch.float64, torch.float32]


@pytest.fixture(scope="module")
def cases(golden):
    listed = json.loads((golden / "cases.json").read_text())["cases"]
    return {case["name"]: case for case in listed}


def arrays_of(path):
    with np.load(path) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def load_case(golden, case, dtype=torch.float32, **overrides):
    """A case's model, its images, and what the authors' code made of them."""
    stored = arrays_of(golden / case["io_file"])
    overrides = CASES[case["name"]] | overrides
    model = load(golden / case["weights_file"], dtype=dtype, **overrides)
    if "head_kernel" in stored:  # the new head of a fine-tuning load
        with torch.no_grad():
            model.head.weight.copy_(stored["head_kernel"].mT)
            model.head.bias.copy_(stored["head_bias"])
    height, width = model.config.image_size
    images = stored["images"].permute(0, 3, 1, 2).to(dtype)
    if isinstance(model, ViT):  # d2: their code leaves the last pixels out
        images = images[:, :, :height, :width]
    return model, images, stored


def head_input(model):
    """A list that will hold what enters the head at each call."""
    head, seen = getattr(model.head, "fc", model.head), []
    head.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    return seen


def allowed(cases, case, key, dtype):
    """A result's tolerance by its case or, for a fine-tuning load, its base."""
    case = cases[case.get("base_case", case["name"])]
    if dtype == torch.float64:
        return case["suggested_atol_f64"]
    return case["suggested_atol_f32"][key]


def distance(ours, theirs):
    ours, theirs = ours.double(), theirs.double().reshape(ours.shape)
    return (ours - theirs).abs().max().item()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_the_numbers_are_the_authors(golden, cases, name, dtype):
    model, images, stored = load_case(golden, cases[name], dtype)
    seen = head_input(model)
    logits = model(images)
    end = "_f64" if dtype == torch.float64 else ""
    for key, ours in (("logits", logits), ("features", seen[0])):
        atol = allowed(cases, cases[name], key, dtype)
        assert distance(ours, stored[key + end]) <= atol


@torch.no_grad()
@pytest.mark.parametrize("name", VITS)
def test_all_tokens_are_the_authors(golden, cases, name):
    model, images, stored = load_case(golden, cases[name], torch.float64)
    ours = model.forward_features(images)
    # before any pooling all cases are exact in float64
    assert distance(ours, stored["encoded_f64"]) <= 1e-10


def test_no_case_is_left_out(cases):
    assert cases.keys() == CASES.keys()


@torch.no_grad()
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("file", "padding", "key"),
    [
        ("g1_bit_v2_paper.legacy.weights.npz", None, "logits_zero_pad_pool"),
        ("g1_bit_v2_paper.legacy.weights.npz", "-inf", "logits"),
        ("g1_bit_v2_paper.weights.npz", None, "logits"),
        ("g1_bit_v2_paper.weights.npz", "zeros", "logits_zero_pad_pool"),
    ],
)
def test_the_names_of_bit_say_the_padding_of_its_pool(
    golden, cases, file, padding, key, dtype
):
    case = cases["g1_bit_v2_paper"] | {"weights_file": file}
    asked = {} if padding is None else {"pool_padding": padding}
    model, images, stored = load_case(golden, case, dtype, **asked)
    end = "_f64" if dtype == torch.float64 else ""
    atol = allowed(cases, case, "logits", dtype)
    assert distance(model(images), stored[key + end]) <= atol


def test_an_image_that_is_no_multiple_of_the_patch_is_refused(golden, cases):
    case = cases["d2_vit_rect_patch_crop"]
    model, _, stored = load_case(golden, case)
    assert model.config.image_size == (32, 48)
    with pytest.raises(ValueError, match="32x48 pixels, got 3 channels, 35x52"):
        model(stored["images"].permute(0, 3, 1, 2))


@torch.no_grad()
@pytest.mark.parametrize("name", ["a_vit_token_p8", "b_vit_rep_p8"])
def test_without_classes_the_features_are_the_authors(golden, cases, name):
    width = cases[name]["representation_size"]
    model, images, stored = load_case(
        golden, cases[name], torch.float64, num_classes=0, pre_logits=width
    )
    assert distance(model(images), stored["features_f64"]) <= 1e-10


@pytest.mark.parametrize("name", ["a_finetune48", "b_finetune56_drophead"])
def test_resized_positions_are_those_of_their_fine_tuning(golden, cases, name):
    model, _, stored = load_case(golden, cases[name])
    # one rounding to float32 of values up to 2
    assert distance(model.pos_embed, stored["pos_embedding"]) <= 1.2e-7
    assert model.load_report.resized == ("pos_embed",)


def test_the_fine_tuning_load_says_what_went(golden, cases):
    model, *_ = load_case(golden, cases["b_finetune56_drophead"])
    went = {"pre_logits.fc.weight", "pre_logits.fc.bias"}
    assert went <= set(model.load_report.dropped)
    assert model.config.pre_logits is None


# of these our writer takes the very names
AS_WRITTEN = [name for name in WITH_FILE if name[0] != "h"]
BIG_VISION = [name for name in WITH_FILE if name[0] == "h"]


@pytest.mark.parametrize("name", AS_WRITTEN)
def test_a_file_comes_back_bit_by_bit(golden, cases, name):
    """Attention's key biases too, which no output shows."""
    arrays = arrays_of(golden / cases[name]["weights_file"])
    again = from_vitedu(to_vitedu(arrays, Metadata(**CASES[name])))
    assert_same(arrays, again)


def test_a_legacy_file_comes_back_bit_by_bit(golden):
    arrays = arrays_of(golden / "g1_bit_v2_paper.legacy.weights.npz")
    assert_same(arrays, from_vitedu(to_vitedu(arrays, Metadata())))


@pytest.mark.parametrize("name", BIG_VISION)
def test_a_file_of_big_vision_comes_back_without_prefix_and_stack(
    golden, cases, name
):
    arrays = arrays_of(golden / cases[name]["weights_file"])
    about = Metadata(**CASES[name])
    found = to_vitedu(arrays, about)
    again = from_vitedu(found)
    # vit_jax has such a ViT too, and its names are taken
    if name.startswith("h1"):
        assert_same(found.state_dict, to_vitedu(again, about).state_dict)
    else:
        assert_same(unstacked(without_prefix(arrays)[0]), again)


# --- without the golden set


TINY = ViTConfig(
    image_size=32,
    patch_size=8,
    num_classes=5,
    embed_dim=16,
    depth=2,
    num_heads=2,
    mlp_dim=24,
    gelu="tanh",
)
BIT = ResNetConfig(layers=(1, 2), width=0.5, num_classes=5, pool_padding="-inf")
CONFIGS = {
    "token": TINY,
    "pre-logits": replace(TINY, pre_logits=7),
    "no head": replace(TINY, num_classes=0),
    "mean": replace(TINY, class_token=False, pool="mean"),
    "map": replace(TINY, class_token=False, pool="map"),
    "map with a class token": replace(TINY, pool="map"),
    "sines": replace(TINY, class_token=False, pool="mean", position=SinCos2D()),
    "sines with a class token": replace(TINY, position=SinCos2D()),
    "rectangular patches": replace(
        TINY, patch_size=(8, 4), image_size=(32, 16)
    ),
    "grey": replace(TINY, in_channels=1),
    "root": replace(TINY, stem=Hybrid(()), patch_size=2),
    "hybrid": replace(TINY, stem=Hybrid((1, 2), width=0.5), patch_size=1),
    "bit": BIT,
    "bit with zeros": replace(BIT, pool_padding="zeros"),
    "bit without head": replace(BIT, num_classes=0),
    "bit-v1": replace(BIT, family="bit-v1"),
}


def drawn(config):
    """A model of a configuration with a number in every place."""
    torch.manual_seed(0)
    model = (ResNet if isinstance(config, ResNetConfig) else ViT)(config)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model.eval()


def written(config, path):
    arrays = from_vitedu(Checkpoint(config, drawn(config).state_dict()))
    np.savez(path, **{name: array.numpy() for name, array in arrays.items()})
    return path


@pytest.mark.parametrize(
    "prefix", ["", "params/", "params/img/", "opt/target/"]
)
@pytest.mark.parametrize(
    "name", ["token", "map", "hybrid", "bit", "bit with zeros"]
)
def test_every_prefix_is_taken_off(prefix, name):
    config, state = CONFIGS[name], drawn(CONFIGS[name]).state_dict()
    arrays = from_vitedu(Checkpoint(config, state))
    arrays = {prefix + key: array for key, array in arrays.items()}
    about = Metadata(image_size=config.image_size)
    assert_same(state, to_vitedu(arrays, about).state_dict)


@pytest.mark.parametrize(
    ("prefix", "beside"),
    [
        ("opt/target/", "opt/state/step"),
        ("opt/target/", "opt/state/param_states/cls/grad_ema"),
        ("params/", "opt/0/mu/cls"),
        ("params/", "chrono/accum_train_time"),
        ("", "opt/state/step"),
    ],
)
def test_what_training_kept_beside_is_dropped_and_said(
    tmp_path, prefix, beside
):
    arrays = from_vitedu(Checkpoint(TINY, drawn(TINY).state_dict()))
    named = {prefix + key: array.numpy() for key, array in arrays.items()}
    np.savez(tmp_path / "w.npz", **named, **{beside: np.ones(3)})
    model = load(tmp_path / "w.npz")
    assert model.load_report.dropped == (beside,)
    assert_same(drawn(TINY).state_dict(), model.state_dict())


RENAMED = {
    "MultiHeadDotProductAttention_1": "MultiHeadDotProductAttention_0",
    "LayerNorm_2": "LayerNorm_1",
    "MlpBlock_3": "MlpBlock_0",
}


def renamed(arrays):
    """Released names to those of today's flax."""
    out = {}
    for name, array in arrays.items():
        for old, new in RENAMED.items():
            name = name.replace(f"/{old}/", f"/{new}/")
        out[name] = array
    return out


def test_todays_names_are_read_as_the_released_ones():
    state = drawn(TINY).state_dict()
    arrays = renamed(from_vitedu(Checkpoint(TINY, state)))
    found = to_vitedu(arrays, Metadata())
    assert found.config == TINY
    assert_same(state, found.state_dict)


def test_the_written_names_are_the_released_ones():
    arrays = from_vitedu(Checkpoint(TINY, drawn(TINY).state_dict()))
    for part in ("LayerNorm_0", *RENAMED):
        assert any(f"_1/{part}/" in name for name in arrays)
    assert "Transformer/posembed_input/pos_embedding" in arrays


def test_scanned_blocks_are_taken_apart():
    state = drawn(TINY).state_dict()
    arrays = renamed(from_vitedu(Checkpoint(TINY, state)))
    first = "Transformer/encoderblock_0/"
    for name in [name for name in arrays if name.startswith(first)]:
        blocks = [
            arrays.pop(name.replace("_0/", f"_{i}/", 1)) for i in range(2)
        ]
        arrays[name.replace("_0/", "/", 1)] = torch.stack(blocks)
    assert_same(state, to_vitedu(arrays, Metadata()).state_dict)


def test_positions_without_a_class_token_get_a_row_of_zeros():
    """big_vision adds positions first, and the class token comes after them."""
    state = drawn(TINY).state_dict()
    arrays = from_vitedu(Checkpoint(TINY, state))
    table = arrays.pop("Transformer/posembed_input/pos_embedding")
    arrays["pos_embedding"] = table[:, 1:]
    config, after, *_ = to_vitedu(arrays, Metadata())
    assert config == TINY
    assert not after["pos_embed"][:, 0].any()
    assert torch.equal(after["pos_embed"][:, 1:], state["pos_embed"][:, 1:])


# --- what must be asked for


def sentence(path, **overrides):
    with pytest.raises(UserError) as error:
        load(path, **overrides)
    assert "\n" not in str(error.value) and str(path) in str(error.value)
    return str(error.value)


def test_a_grid_that_is_no_square_is_asked_for(tmp_path):
    config = replace(TINY, image_size=(16, 24))
    path = written(config, tmp_path / "w.npz")
    assert "its 6 positions form no square; give image_size=" in sentence(path)
    assert load(path, image_size=(16, 24)).config == config
    assert load(path, image_size=(24, 16)).config.grid == (3, 2)


def test_a_size_that_the_positions_do_not_fit_is_one_sentence(tmp_path):
    path = written(replace(TINY, image_size=(16, 24)), tmp_path / "w.npz")
    assert (
        "form no square, and image_size=(32, 32) has another number"
        in sentence(path, image_size=32)
    )


def test_without_a_table_the_size_is_asked_for(tmp_path):
    path = written(CONFIGS["sines"], tmp_path / "w.npz")
    assert "it has no table of positions" in sentence(path)
    assert load(path, image_size=(40, 24)).config.grid == (5, 3)


@pytest.mark.parametrize("position", [NoPosition(), "none"])
def test_without_a_table_there_may_be_no_positions(tmp_path, position):
    path = written(CONFIGS["sines"], tmp_path / "w.npz")
    model = load(path, image_size=32, position=position)
    assert model.config.position == NoPosition()
    images = torch.randn(1, 3, 32, 32)
    assert not torch.equal(model(images), load(path, image_size=32)(images))


def test_no_positions_where_there_are_some_is_refused(tmp_path):
    path = written(TINY, tmp_path / "w.npz")
    assert "1 unknown (pos_embed)" in sentence(path, position=NoPosition())


def test_logits_of_every_token_are_asked_for(tmp_path):
    path = written(TINY, tmp_path / "w.npz")
    assert load(path)(torch.randn(2, 3, 32, 32)).shape == (2, 5)
    model = load(path, pool="none")
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 17, 5)


def test_the_number_of_heads_is_in_the_file(tmp_path):
    path = written(TINY, tmp_path / "w.npz")
    assert load(path, num_heads=2).config.num_heads == 2
    assert "2 heads, not 4" in sentence(path, num_heads=4)


def test_a_square_grid_is_resized_to_the_size_asked_for(tmp_path):
    path = written(TINY, tmp_path / "w.npz")
    model = load(path, image_size=(48, 32))
    want = resize_pos_embed(
        drawn(TINY).pos_embed, (6, 4), num_prefix_tokens=1, mode="paper"
    )
    assert torch.equal(model.pos_embed, want)
    assert model.preprocess.image_size == (48, 32)


def test_the_padding_of_bit_v1_cannot_be_asked_for(tmp_path):
    path = written(CONFIGS["bit-v1"], tmp_path / "w.npz")
    assert "pool_padding" in sentence(path, pool_padding="zeros")


def test_padding_is_no_question_to_a_vit(tmp_path):
    path = written(TINY, tmp_path / "w.npz")
    with pytest.raises(UserError, match="no field 'pool_padding'"):
        load(path, pool_padding="zeros")


# --- preprocessing


def test_pictures_are_prepared_as_the_authors_evaluate(tmp_path):
    model = load(written(TINY, tmp_path / "w.npz"))
    assert model.preprocess == PreprocessSpec(
        image_size=32, mean=0.5, std=0.5, interpolation="bilinear", crop=None
    )


@pytest.mark.parametrize("name", ["map", "sines"])
def test_files_of_big_vision_alone_are_cropped(name):
    assert preprocess(CONFIGS[name]).crop == 0.875
