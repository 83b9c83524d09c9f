"""Arrays that nobody knows: refused by name, left out if the caller says so."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from vitedu.data import PreprocessSpec
from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig
from vitedu.weights import Checkpoint, convert, load, write_weights
from vitedu.weights.hf import beside as hf_beside
from vitedu.weights.hf import from_vitedu as to_hf
from vitedu.weights.leftovers import pattern_for
from vitedu.weights.npz import from_vitedu as to_npz
from vitedu.weights.timm import from_vitedu as to_timm
from vitedu.weights.torchvision import from_vitedu as to_torchvision

TINY = ViTConfig(
    image_size=8,
    patch_size=4,
    num_classes=3,
    embed_dim=8,
    depth=2,
    num_heads=2,
    mlp_dim=16,
)
SPEC = PreprocessSpec(image_size=8)
HEADS = {"num_heads": 2}  # which most arrays cannot say
EXTRA = {"extra/a": torch.ones(2), "extra/b": torch.ones(3)}

pytestmark = pytest.mark.filterwarnings("ignore:.*neither a config")


def state():
    torch.manual_seed(0)
    model = ViT(TINY)
    torch.nn.init.normal_(model.head.weight)
    return model.state_dict()


def write_npz(path, more):
    arrays = to_npz(Checkpoint(TINY, state())) | more
    np.savez(path / "w.npz", **{k: v.numpy() for k, v in arrays.items()})
    return path / "w.npz"


def write_timm(path, more):
    save_file(to_timm(Checkpoint(TINY, state())) | more, path / "w.safetensors")
    return path / "w.safetensors"


def write_torchvision(path, more):
    torch.save(to_torchvision(Checkpoint(TINY, state())) | more, path / "w.pth")
    return path / "w.pth"


def write_hf(path, more):
    save_file(
        to_hf(Checkpoint(TINY, state())) | more, path / "model.safetensors"
    )
    for name, content in hf_beside(Checkpoint(TINY, {}, SPEC)).items():
        (path / name).write_text(json.dumps(content))
    return path


def write_ours(path, more):
    checkpoint = Checkpoint(TINY, state() | more, SPEC, ())
    write_weights(path / "w.safetensors", checkpoint)
    return path / "w.safetensors"


WRITERS = {
    "npz": (write_npz, {}),
    "timm": (write_timm, HEADS),
    "torchvision": (write_torchvision, HEADS),
    "hf": (write_hf, {}),
    "vitedu": (write_ours, {}),
}


def sentence(path, **arguments):
    with pytest.raises(UserError) as error:
        load(path, **arguments)
    assert "\n" not in str(error.value) and str(path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("dialect", WRITERS)
def test_an_unknown_array_is_refused_and_the_remedy_named(tmp_path, dialect):
    write, hints = WRITERS[dialect]
    said = sentence(write(tmp_path, EXTRA), **hints)
    assert "extra/a, extra/b" in said and 'ignore="extra/*"' in said


@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize("ignore", ["extra/*", ("extra/*",), ["*/b", "*/a"]])
def test_what_is_ignored_is_left_out_and_reported(tmp_path, dialect, ignore):
    write, hints = WRITERS[dialect]
    model = load(write(tmp_path, EXTRA), ignore=ignore, **hints)
    assert model.load_report.dialect == dialect
    assert set(model.load_report.dropped) == EXTRA.keys()
    said = "2 arrays are left out: ignore= matches them"
    assert said in model.load_report.notes
    for name, tensor in state().items():
        assert torch.equal(model.state_dict()[name], tensor)


@pytest.mark.parametrize("dialect", WRITERS)
def test_a_pattern_that_matches_nothing_is_an_error(tmp_path, dialect):
    write, hints = WRITERS[dialect]
    path = write(tmp_path, EXTRA)
    said = sentence(path, ignore=("extra/*", "exrta/*"), **hints)
    assert "ignore='exrta/*' matches no array" in said


def test_a_needed_array_that_is_ignored_is_missed(tmp_path):
    path = write_ours(tmp_path, {})
    assert "1 tensor missing (norm.bias)" in sentence(path, ignore="norm.bias")
    assert "leaves none" in sentence(path, ignore="*")


def test_a_pattern_is_text(tmp_path):
    path = write_ours(tmp_path, {})
    with pytest.raises(TypeError, match="patterns of names"):
        load(path, ignore=(3,))


def test_convert_leaves_out_what_is_ignored_too(tmp_path):
    path = write_npz(tmp_path, EXTRA)
    with pytest.raises(UserError, match="no place for: extra/a"):
        convert(path, tmp_path / "w.safetensors", to="vitedu")
    done = convert(
        path, tmp_path / "w.safetensors", to="vitedu", ignore="extra/*"
    )
    assert any("ignore= matches them" in note for note in done.notes)
    assert load(done.target).load_report.dropped == ()


# --- what is suggested


@pytest.mark.parametrize(
    ("unknown", "needed", "pattern"),
    [
        (["extra/a"], ["head"], "extra/*"),
        (["blocks.1.gate"], ["blocks.1.norm"], "blocks.1.gate"),
        (["blocks.2.a", "blocks.2.b"], ["blocks.1.a"], "blocks.2.*"),
        (["more"], ["head"], "more"),
    ],
)
def test_the_suggested_pattern_spares_what_is_needed(unknown, needed, pattern):
    assert pattern_for(unknown, set(needed)) == pattern


def test_the_names_are_those_of_the_file(tmp_path):
    arrays = {
        f"params/{k}": v for k, v in to_npz(Checkpoint(TINY, state())).items()
    }
    arrays = {k: v.numpy() for k, v in arrays.items()}
    np.savez(tmp_path / "w.npz", **arrays, **{"params/extra/a": np.ones(2)})
    said = sentence(tmp_path / "w.npz")
    assert "params/extra/a" in said and 'ignore="params/extra/*"' in said
    load(tmp_path / "w.npz", ignore=("params/extra/*",))


def test_an_array_outside_of_the_prefix_replaces_none_inside(tmp_path):
    arrays = {
        f"params/{k}": v for k, v in to_npz(Checkpoint(TINY, state())).items()
    }
    arrays = {k: v.numpy() for k, v in arrays.items()}
    np.savez(tmp_path / "w.npz", **arrays, cls=np.full((1, 1, 8), 9.0))
    assert "no place for: cls" in sentence(tmp_path / "w.npz")
    model = load(tmp_path / "w.npz", ignore="cls")
    assert torch.equal(model.cls_token, state()["cls_token"])


@pytest.mark.parametrize("ignore", ["extra.a", "module.extra.a"])
def test_a_pattern_may_leave_out_the_wrapper(tmp_path, ignore):
    arrays = {f"module.{name}": x for name, x in state().items()}
    save_file(
        arrays | {"module.extra.a": torch.ones(2)}, tmp_path / "w.safetensors"
    )
    model = load(tmp_path / "w.safetensors", ignore=ignore, **HEADS)
    assert model.load_report.dropped == (ignore,)


def test_what_is_outside_of_the_wrapper_can_be_ignored(tmp_path):
    arrays = {f"module.{name}": x for name, x in state().items()}
    path = tmp_path / "w.safetensors"
    save_file(arrays | {"centre": torch.ones(2)}, path)
    assert load(path, ignore="centre", **HEADS).config.num_classes == 3


# --- what dialects know and leave out


@pytest.mark.parametrize(
    ("name", "dialect"),
    [("decoder_extra", "timm"), ("decoder.extra.weight", "hf")],
)
def test_only_known_names_are_taken_for_a_decoder(tmp_path, name, dialect):
    write, hints = WRITERS[dialect]
    assert name in sentence(write(tmp_path, {name: torch.ones(2)}), **hints)


def test_what_a_dialect_leaves_out_has_a_reason(tmp_path):
    path = write_timm(tmp_path, {"mask_token": torch.ones(1, 1, 8)})
    report = load(path, **HEADS).load_report
    assert report.dropped == ("mask_token",)
    assert "1 array is left out: MAE's decoder" in report.notes


# --- checkpoints of torch


def write_torch(path, content):
    torch.save(content, path / "w.pth")
    return path / "w.pth"


def test_arrays_beside_the_state_dict_are_refused(tmp_path):
    content = {"model": state(), "extra": {"a": [torch.ones(2)]}}
    path = write_torch(tmp_path, content)
    said = sentence(path, **HEADS)
    assert "extra/a/0" in said and 'ignore="extra/*"' in said
    report = load(path, ignore="extra/*", **HEADS).load_report
    assert report.dropped == ("extra/a/0",)


def test_arrays_beside_the_weights_in_one_dict_are_refused(tmp_path):
    path = write_torch(tmp_path, {**state(), "more": {"a": torch.ones(2)}})
    assert "more/a" in sentence(path, **HEADS)


@pytest.mark.parametrize(
    "beside",
    [
        {"optimizer": {"state": {0: {"exp_avg": torch.ones(5)}}}},
        {"optimizer_states": [{"a": torch.ones(5)}], "epoch": 3},
        {"lr_schedulers": [torch.ones(2)], "loops": {"a": torch.ones(2)}},
        {"state_dict_ema": {"head.weight": torch.ones(5)}},
        {"rng_state": torch.ones(5000, dtype=torch.uint8)},
        {"best_acc1": torch.tensor(0.5), "args": {"lr": 0.1}},
    ],
    ids=lambda beside: next(iter(beside)),
)
def test_a_trainings_state_is_left_out_and_noted(tmp_path, beside):
    content = {"state_dict": state(), **beside}
    report = load(write_torch(tmp_path, content), **HEADS).load_report
    assert report.dropped == ()
    assert f"left out of w.pth: {', '.join(beside)}" in report.notes


def test_a_pickle_that_holds_itself_ends(tmp_path):
    content = {"a": 1}
    content["model"] = content
    assert "no dictionary of named tensors" in sentence(
        write_torch(tmp_path, content)
    )


def test_an_array_in_two_shards_is_refused(tmp_path):
    arrays = to_timm(Checkpoint(TINY, state()))
    save_file(arrays, tmp_path / "one.safetensors")
    twice = {"norm.bias": arrays["norm.bias"] + 1}
    save_file(twice, tmp_path / "two.safetensors")
    places = dict.fromkeys(arrays, "one.safetensors")
    index = {"weight_map": {**places, "norm.bias": "two.safetensors"}}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    assert "norm.bias twice" in sentence(path, **HEADS)
