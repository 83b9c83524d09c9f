"""Google's .npz files: the authors' numbers, what must be asked, both ways.

Where VITEDU_GOLDEN is set, against what the authors' code computed with these
files.
"""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from vitedu.data import PreprocessSpec
from vitedu.errors import UserError
from vitedu.model import ViT
from vitedu.model.position import NoPosition
from vitedu.weights import Metadata, load
from vitedu.weights.npz import from_vitedu, preprocess, to_vitedu

from .examples import assert_same, checkpoint, example, refused, write

PLAIN = example("npz")
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


@pytest.mark.parametrize("name", ["a_finetune48", "b_finetune56_drophead"])
def test_resized_positions_are_those_of_their_fine_tuning(golden, cases, name):
    model, _, stored = load_case(golden, cases[name])
    # one rounding to float32 of values up to 2
    assert distance(model.pos_embed, stored["pos_embedding"]) <= 1.2e-7
    assert model.load_report.resized == ("pos_embed",)


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
def test_a_file_of_big_vision_comes_back_under_released_names(
    golden, cases, name
):
    arrays = arrays_of(golden / cases[name]["weights_file"])
    about = Metadata(**CASES[name])
    found = to_vitedu(arrays, about)
    again = from_vitedu(found)
    assert_same(found.state_dict, to_vitedu(again, about).state_dict)


# --- without the golden set


@pytest.mark.slow
@pytest.mark.parametrize(
    "prefix", ["", "params/", "params/img/", "opt/target/"]
)
@pytest.mark.parametrize(
    "name", ["plain", "map", "hybrid", "bit", "bit_with_zeros"]
)
def test_every_prefix_is_taken_off(prefix, name):
    before = example("npz", name)
    arrays = {prefix + k: x for k, x in from_vitedu(before).items()}
    about = Metadata(image_size=before.config.image_size)
    assert_same(before.state_dict, to_vitedu(arrays, about).state_dict)


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
def test_what_training_kept_beside_is_dropped_and_said(prefix, beside):
    arrays = {prefix + k: x for k, x in from_vitedu(PLAIN).items()}
    found = to_vitedu(arrays | {beside: torch.ones(3)}, Metadata())
    assert found.dropped == (beside,)
    assert "the state of a training" in found.notes[0]
    assert_same(PLAIN.state_dict, found.state_dict)


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
    arrays = from_vitedu(PLAIN)
    for part in ("LayerNorm_0", *RENAMED):
        assert any(f"_1/{part}/" in name for name in arrays)
    found = to_vitedu(renamed(arrays), Metadata())
    assert found.config == PLAIN.config
    assert_same(PLAIN.state_dict, found.state_dict)


def test_scanned_blocks_are_taken_apart():
    arrays = renamed(from_vitedu(PLAIN))
    first = "Transformer/encoderblock_0/"
    for name in [name for name in arrays if name.startswith(first)]:
        blocks = [
            arrays.pop(name.replace("_0/", f"_{i}/", 1)) for i in range(2)
        ]
        arrays[name.replace("_0/", "/", 1)] = torch.stack(blocks)
    found = to_vitedu(arrays, Metadata())
    assert_same(PLAIN.state_dict, found.state_dict)


def test_positions_without_a_class_token_get_a_row_of_zeros():
    """big_vision adds positions first, and the class token comes after them."""
    arrays = from_vitedu(PLAIN)
    table = arrays.pop("Transformer/posembed_input/pos_embedding")
    arrays["pos_embedding"] = table[:, 1:]
    config, after, *_ = to_vitedu(arrays, Metadata())
    assert config == PLAIN.config
    assert not after["pos_embed"][:, 0].any()
    want = PLAIN.state_dict["pos_embed"][:, 1:]
    assert torch.equal(after["pos_embed"][:, 1:], want)


# --- what must be asked for


sentence = partial(refused, load)


def test_a_grid_that_is_no_square_is_asked_for(tmp_path):
    config = replace(PLAIN.config, image_size=(8, 12))
    path = write("npz", tmp_path, checkpoint(config))
    assert "its 6 positions form no square; give image_size=" in sentence(path)
    fault = "form no square, and image_size=(32, 32) has another number"
    assert fault in sentence(path, image_size=32)
    assert load(path, image_size=(8, 12)).config == config
    assert load(path, image_size=(12, 8)).config.grid == (3, 2)


def test_without_a_table_the_size_is_asked_for(tmp_path):
    path = write("npz", tmp_path, example("npz", "sines"))
    assert "it has no table of positions" in sentence(path)
    assert load(path, image_size=(20, 12)).config.grid == (5, 3)


@pytest.mark.parametrize("position", [NoPosition(), "none"])
def test_without_a_table_there_may_be_no_positions(tmp_path, position):
    path = write("npz", tmp_path, example("npz", "sines"))
    model = load(path, image_size=16, position=position)
    assert model.config.position == NoPosition()
    images = torch.randn(1, 3, 16, 16)
    assert not torch.equal(model(images), load(path, image_size=16)(images))


def test_what_the_file_says_cannot_be_asked_for(tmp_path):
    path = write("npz", tmp_path)
    assert load(path, num_heads=4).config.num_heads == 4
    assert "with 2 heads" in sentence(path, num_heads=2)
    assert "1 unknown (pos_embed)" in sentence(path, position=NoPosition())
    with pytest.raises(UserError, match="no field 'pool_padding'"):
        load(path, pool_padding="zeros")
    (tmp_path / "bit").mkdir()
    path = write("npz", tmp_path / "bit", example("npz", "bit_v1"))
    assert "pool_padding" in sentence(path, pool_padding="zeros")


def test_logits_of_every_token_are_asked_for(tmp_path):
    model = load(write("npz", tmp_path), pool="none")
    assert model(torch.randn(2, 3, 16, 16)).shape == (2, 17, 5)


# --- preprocessing


def test_pictures_are_prepared_as_the_authors_evaluate(tmp_path):
    model = load(write("npz", tmp_path))
    assert model.preprocess == PreprocessSpec(
        image_size=16, mean=0.5, std=0.5, interpolation="bilinear", crop=None
    )


@pytest.mark.parametrize("name", ["map", "sines"])
def test_files_of_big_vision_alone_are_cropped(name):
    assert preprocess(example("npz", name).config).crop == 0.875
