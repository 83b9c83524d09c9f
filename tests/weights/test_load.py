"""vitedu.load: from a file to a model that is ready, or one sentence."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from vitedu.data import PreprocessSpec
from vitedu.model.position import Learned2D, NoPosition, SinCos2D
from vitedu.model.relative import Relative
from vitedu.model.resize import resize_pos_embed
from vitedu.weights import checkpoint_of, load, write_weights

from ..tiny import tiny
from ..train.runs import sentence as refused
from .examples import BIT, checkpoint, model_of, write

TINY = tiny(
    image_size=8,
    patch_size=2,
    in_channels=1,
    num_classes=3,
    pre_logits=6,
    dropout=0.5,
)
SPEC = PreprocessSpec(image_size=8, in_channels=1, mean=0.13, std=0.31)
NAMES = ("zero", "one", "two")
STORED = checkpoint(TINY, preprocess=SPEC, class_names=NAMES)
MODEL = model_of(STORED).float()


@pytest.fixture
def file(tmp_path):
    return write("vitedu", tmp_path, STORED)


sentence = partial(refused, load)


def test_the_loaded_model_is_the_one_that_was_written(file):
    images, model = torch.randn(4, 1, 8, 8), load(file)
    assert torch.equal(model(images), MODEL(images))
    assert not any(module.training for module in model.modules())
    assert (model.config, model.preprocess) == (TINY, SPEC)
    assert model.class_names == NAMES


def test_the_report_says_that_all_was_taken_over(file):
    model = load(file)
    report = model.load_report
    assert (report.source, report.dialect) == (str(file), "vitedu")
    assert set(report.loaded) == set(model.state_dict())
    assert report.dropped == report.new == ()


def test_training_a_loaded_model_leaves_the_file_alone(file):
    before = file.read_bytes()
    model, second = load(file), load(file)
    model(torch.randn(2, 1, 8, 8)).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert file.read_bytes() == before
    assert second.head.weight.abs().min() > 0


def test_loading_draws_no_random_number(file):
    torch.manual_seed(7)
    want = torch.rand(3)
    torch.manual_seed(7)
    load(file)
    load(file, num_classes=5)
    assert torch.equal(torch.rand(3), want)


def test_saving_what_was_loaded_gives_the_same_bytes(file, tmp_path):
    write_weights(tmp_path / "again", checkpoint_of(load(file)))
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_weights_lie_on_the_gpu_if_asked_for(file):
    model = load(file, device="cuda")
    assert {weight.device.type for weight in model.parameters()} == {"cuda"}


# --- overrides


def test_another_number_of_classes_puts_a_head_of_zeros(file):
    model = load(file, num_classes=5)
    assert (model.config.num_classes, model.config.pre_logits) == (5, None)
    assert model.head.weight.shape == (5, 32)
    assert not model(torch.randn(2, 1, 8, 8)).any()
    assert model.class_names == model.load_report.notes == ()
    gone = {"pre_logits.fc.weight", "pre_logits.fc.bias"}
    assert set(model.load_report.new) == {"head.weight", "head.bias"}
    assert set(model.load_report.dropped) == {*model.load_report.new, *gone}


def test_a_new_head_with_a_layer_before_it_can_learn(file):
    model = load(file, num_classes=5, pre_logits=4)
    logits = model(torch.randn(2, 1, 8, 8))
    nn.functional.cross_entropy(logits, torch.tensor([0, 1])).backward()
    kernels = (model.head.weight, model.pre_logits.fc.weight)
    assert any(kernel.grad.any() for kernel in kernels)


def test_an_override_without_shapes_is_taken(file):
    model = load(file, dropout=0.0, gelu="tanh")
    assert model.config == replace(TINY, dropout=0.0, gelu="tanh")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"embed_dim": 16}, "shape"),
        ({"mlp_dim": 8}, "shape"),
        ({"depth": 1}, "unknown"),
        ({"depth": 3}, "missing"),
        ({"patch_size": 4}, "shape"),
        ({"in_channels": 3}, "shape"),
        ({"pre_logits": None}, "unknown"),
        ({"pre_logits": 5}, "shape"),
        ({"class_token": False, "pool": "mean"}, "unknown"),
    ],
)
def test_an_override_that_changes_shapes_is_refused(file, overrides, said):
    assert said in sentence(file, **overrides)


@pytest.mark.parametrize(
    ("name", "near"),
    [("num_class", "num_classes"), ("image_sise", "image_size")],
)
def test_an_unknown_override_names_the_nearest(file, name, near):
    assert f"no field {name!r}; did you mean {near!r}" in sentence(
        file, **{name: 5}
    )


@pytest.mark.parametrize("value", ["four", -1, 0, 2.5, None, True])
def test_an_override_of_the_wrong_type_is_one_sentence(file, value):
    assert "depth" in sentence(file, depth=value)


# --- another size: positions are resized


def test_another_size_resizes_the_positions_as_the_paper_does(file):
    model = load(file, image_size=16)
    want = resize_pos_embed(
        MODEL.pos_embed, (8, 8), num_prefix_tokens=1, mode="paper"
    )
    assert torch.equal(model.pos_embed, want)
    assert model(torch.randn(2, 1, 16, 16)).shape == (2, 3)


def test_a_rectangle_resizes_the_positions_and_nothing_else(file):
    model, stored = load(file, image_size=(16, 8)), STORED.state_dict
    report, state = model.load_report, model.state_dict()
    assert report.resized == ("pos_embed",)
    assert set(report.loaded) == stored.keys() - {"pos_embed"}
    assert report.notes == ("the grid of patches was 4x4 and is 8x4",)
    assert all(torch.equal(state[name], stored[name]) for name in report.loaded)
    assert model.preprocess == replace(SPEC, image_size=(16, 8))


def test_another_size_with_as_many_patches_is_resized_too(file):
    # 2 x 8 patches in place of 4 x 4: the table of positions has the same shape
    model = load(file, image_size=(4, 16))
    assert model.pos_embed.shape == MODEL.pos_embed.shape
    assert not torch.equal(model.pos_embed, MODEL.pos_embed)
    assert model.load_report.resized == ("pos_embed",)


@pytest.mark.parametrize(
    ("position", "resized"),
    [(Learned2D(at="layers"), 4), (SinCos2D(), 0), (NoPosition(), 0)],
)
def test_other_positions_fit_another_size(tmp_path, position, resized):
    config = replace(TINY, position=position)
    path = write("vitedu", tmp_path, checkpoint(config))
    model = load(path, image_size=16)
    assert model(torch.randn(1, 1, 16, 16)).isfinite().all()
    assert len(model.load_report.resized) == resized


def test_relative_positions_do_not_fit_another_size(tmp_path):
    config = replace(TINY, position=Relative())
    path = write("vitedu", tmp_path, checkpoint(config))
    assert "Relative()" in sentence(path, image_size=16)


# --- precision


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16]
)
def test_the_model_comes_in_the_dtype_asked_for(file, dtype):
    model = load(file, dtype=dtype)
    assert {weight.dtype for weight in model.parameters()} == {dtype}


def test_a_dtype_of_whole_numbers_is_a_wrong_call(file):
    with pytest.raises(ValueError, match="floats"):
        load(file, dtype=torch.int8)


# --- heads


def test_the_pre_logits_layer_stays_if_its_width_is_named(file):
    model, stored = load(file, num_classes=5, pre_logits=6), MODEL
    assert torch.equal(model.pre_logits.fc.weight, stored.pre_logits.fc.weight)
    assert model.head.weight.shape == (5, 6) and not model.head.weight.any()
    assert set(model.load_report.new) == {"head.weight", "head.bias"}


def test_features_can_be_those_after_pre_logits(file):
    images, stored = torch.randn(2, 1, 8, 8), MODEL
    with torch.no_grad():
        want = stored.pre_logits(stored.pool(stored.forward_features(images)))
        got = load(file, num_classes=0, pre_logits=6)(images)
    assert torch.equal(got, want)


def test_a_stored_head_of_zeros_is_said_so(tmp_path):
    zeros = {"head.weight": torch.zeros(3, 6)}
    path = write("vitedu", tmp_path, STORED, **zeros)
    with pytest.warns(UserWarning, match="its head is all zeros"):
        loaded = load(path)
    assert "all zeros" in loaded.load_report.notes[0]


# --- preprocessing that is said in two ways


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "preprocessor_config.json",
            {"image_mean": [0.485], "image_std": [0.31]},
        ),
        ("config.json", {"pretrained_cfg": {"mean": [0.485], "std": [0.31]}}),
    ],
)
def test_two_sayings_on_preprocessing_warn_with_both(file, name, content):
    (file.parent / name).write_text(json.dumps(content))
    with pytest.warns(UserWarning) as caught:
        model = load(file)
    assert len(caught) == 1
    said = str(caught[0].message)
    assert "(0.485,)" in said and "(0.13,)" in said
    assert caught[0].filename == __file__
    assert model.preprocess == SPEC


# --- ResNets


@pytest.fixture
def resnet_file(tmp_path):
    return write("vitedu", tmp_path, checkpoint(BIT))


def test_a_resnet_gets_another_head_and_size(resnet_file):
    model = load(resnet_file, num_classes=7, image_size=64)
    assert not model(torch.randn(2, 3, 64, 64)).any()
    assert model.preprocess.image_size == model.config.image_size == (64, 64)
    assert set(model.load_report.new) == {"head.fc.weight", "head.fc.bias"}


def test_a_resnet_has_no_field_of_a_vit(resnet_file):
    assert "ResNetConfig has no field 'num_heads'" in sentence(
        resnet_file, num_heads=3
    )


# --- what cannot be loaded


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_absent_is_one_sentence(file):
    assert "cuda" in sentence(file, device="cuda")


def test_the_body_of_another_model_is_refused_with_a_new_head_too(tmp_path):
    wrong = {"norm.bias": torch.zeros(4)}
    path = write("vitedu", tmp_path, STORED, **wrong)
    assert "norm.bias of shape (4,)" in sentence(path, num_classes=5)
    assert sentence(path).endswith("it is damaged")
