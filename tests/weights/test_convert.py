"""Weights from any dialect to any other, and what their own readers see."""

import copy
import json
import os
import re
import warnings
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vitedu import PreprocessSpec, UserError, load
from vitedu.compat import import_timm
from vitedu.model import Learned1D, ViT, ViTConfig
from vitedu.model.hybrid import Hybrid
from vitedu.model.position import Learned2D, NoPosition, SinCos2D
from vitedu.model.resnet import ResNet, ResNetConfig
from vitedu.weights import Checkpoint, write_weights
from vitedu.weights.convert import SUFFIXES, convert
from vitedu.weights.files import read_arrays

from .examples import assert_same, images, randomise

pytestmark = pytest.mark.slow  # every format to every other: hundreds of files

# Sizes of Table 1's ViT-Ti in width and depth, so that 3 heads need not be
# told.
TINY = {
    "image_size": 16,
    "patch_size": 8,
    "embed_dim": 192,
    "depth": 12,
    "num_heads": 3,
    "mlp_dim": 24,
    "num_classes": 5,
}


@cache
def drawn(**changes):
    return randomise(ViT(ViTConfig(**TINY | changes)))


def source(folder, dtype=torch.float32, names=(), spec=None, **changes):
    """Our own file of a model with drawn weights, and the model."""
    model = copy.deepcopy(drawn(**changes))
    return written(folder, model, dtype, names, spec)


def written(folder, model, dtype=torch.float32, names=(), spec=None):
    config, path = model.config, folder / "source.safetensors"
    spec = spec or PreprocessSpec(config.image_size, config.in_channels)
    state = {name: x.to(dtype) for name, x in model.state_dict().items()}
    write_weights(path, Checkpoint(config, state, spec, names))
    return path, model.double()


def place(folder, to, name="out"):
    return folder / (name + (SUFFIXES[to][0] if SUFFIXES[to] else ""))


def quietly(*args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return convert(*args, **keywords)


def said_of(path, target, to):
    """All that a conversion warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        convert(path, target, to=to)
    return " ".join(str(each.message) for each in caught)


def quiet_load(*args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(*args, dtype=torch.float64, **keywords)


def logits(model):
    with torch.no_grad():
        return model(images(model.config))


# --- round trips


@pytest.mark.parametrize("first, second", [*combinations(SUFFIXES, 2)])
def test_from_any_format_to_any_other_the_bits_stay(tmp_path, first, second):
    path, _ = source(tmp_path)
    one, other = place(tmp_path, first), place(tmp_path, second, "other")
    back = place(tmp_path, first, "back")
    for start, end, to in (
        (path, one, first),
        (one, other, second),
        (other, back, first),
    ):
        quietly(start, end, to=to)
    assert_same(read_arrays(one).arrays, read_arrays(back).arrays)


@pytest.mark.parametrize("to", SUFFIXES)
@pytest.mark.parametrize(
    "gelu, eps", [("exact", 1e-6), ("tanh", 1e-6), ("exact", 1e-3)]
)
def test_the_function_is_the_same_once_told_what_was_warned_of(
    tmp_path, to, gelu, eps
):
    path, model = source(tmp_path, gelu=gelu, norm_eps=eps)
    done = quietly(path, place(tmp_path, to), to=to)
    told = {}
    for note in done.notes:
        for name, value in (("gelu", gelu), ("norm_eps", eps)):
            if re.search(rf"no place for [^;]*{name}=", note):
                told[name] = value
    can_say = {"vitedu": "gelu norm_eps", "hf": "gelu norm_eps", "timm": "gelu"}
    asked = {"gelu": gelu, "norm_eps": eps}
    reader = {"gelu": "tanh" if to == "npz" else "exact", "norm_eps": 1e-6}
    assert set(told) == {
        name
        for name in asked
        if name not in can_say.get(to, "") and asked[name] != reader[name]
    }
    again = quiet_load(done.target, **told)
    # The same network and numbers; the source has the format's own order of
    # loading.
    assert_close(logits(again), logits(model), rtol=0, atol=1e-12)


CHAIN = ("vitedu", "timm", "hf", "torchvision", "npz")


@pytest.mark.parametrize("case", ["drawn", "a_vit_token_p8", "e_vit_p16_h3"])
def test_around_the_world_every_array_is_the_same(tmp_path, case, request):
    start = tmp_path / "start.npz"
    hints = {}
    if case == "drawn":
        path, _ = source(tmp_path, gelu="tanh")
        quietly(path, start, to="npz")
    else:
        start = request.getfixturevalue("golden") / f"{case}.weights.npz"
        hints = {"num_heads": quiet_load(start).config.num_heads}
    stations = [start]
    for to in CHAIN:
        is_asked = stations[-1].suffix == ".pth"
        end = place(tmp_path, to, f"station{len(stations)}")
        quietly(stations[-1], end, to=to, **(hints if is_asked else {}))
        stations.append(end)
    first, last = np.load(start), np.load(stations[-1])
    assert sorted(first.files) == sorted(last.files)
    for name in first.files:
        assert first[name].dtype == last[name].dtype, name
        assert first[name].tobytes() == last[name].tobytes(), name
    # all but torchvision say the GELU
    answers = [
        logits(quiet_load(station))
        for station in stations
        if station.suffix != ".pth"
    ]
    for one, other in pairwise(answers):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "case, to",
    [
        ("b_vit_rep_p8", "torchvision"),
        ("c_vit_gap_p8", "timm"),
        ("h1_bv_gap_learn", "timm"),
        ("f1_hybrid_r212_p1", "vitedu"),
        ("g1_bit_v2_paper.legacy", "vitedu"),
    ],
)
def test_the_authors_cases_go_there_and_back(tmp_path, golden, case, to):
    path = golden / f"{case}.weights.npz"
    model = quiet_load(path)
    one, back = place(tmp_path, to), tmp_path / "back.npz"
    hints = {}
    if to == "torchvision":
        hints = {"num_heads": model.config.num_heads}
    quietly(path, one, to=to)
    quietly(one, back, to="npz", **hints)
    assert torch.equal(logits(quiet_load(back)), logits(model))
    names = {
        x.rpartition("params/")[2].removeprefix("img/") for x in np.load(path)
    }
    if (
        case[0] in "bcfg"
    ):  # under released names; of others ours are the released
        assert names == set(np.load(back))


@pytest.mark.parametrize("to", SUFFIXES)
@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64]
)
def test_the_dtype_of_the_arrays_stays(tmp_path, to, dtype):
    path, _ = source(tmp_path, dtype)
    target = place(tmp_path, to)
    quietly(path, target, to=to)
    found = {x.dtype for x in read_arrays(target).arrays.values()}
    if to == "npz" and dtype == torch.bfloat16:
        dtype = torch.float32  # numpy has no bfloat16
    assert found == {dtype}


# --- what the format has no place for


def test_the_difference_that_is_warned_of_is_the_measured_one(tmp_path):
    path, model = source(tmp_path, gelu="tanh")
    said = said_of(path, tmp_path / "w.pth", "torchvision")
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(2, 3, 16, 16, generator=generator)
    other = quiet_load(path, gelu="exact").float()
    with torch.no_grad():
        one = model.float()(noise)
        moved = (one - other(noise)).abs().max()
    assert "takes gelu='exact', which moves the logits" in said
    assert f"up to {moved:.1e} (the largest is {one.abs().max():.1e})" in said
    assert moved > 1e-5


def test_heads_that_a_reader_would_take_for_others_are_warned_of(tmp_path):
    path, _ = source(tmp_path, num_heads=12)
    said = said_of(path, tmp_path / "w.pth", "torchvision")
    assert "no place for num_heads=12; a reader takes num_heads=3" in said


def test_heads_that_a_reader_has_to_be_told_are_warned_of(tmp_path):
    path, _ = source(tmp_path, depth=1)
    said = said_of(path, tmp_path / "w.pth", "torchvision")
    assert "has to be told more: " in said and "give num_heads=" in said


def test_preprocessing_that_is_lost_is_warned_of_with_both(tmp_path):
    spec = PreprocessSpec(16, 3, 0.25, 0.5, "bicubic", 0.9)
    path, _ = source(tmp_path, spec=spec)
    for to, theirs in (("npz", "(0.5, 0.5, 0.5)"), ("torchvision", "(0.485, ")):
        said = said_of(path, place(tmp_path, to), to)
        assert "no place for the preprocessing" in said
        assert "mean=(0.25, 0.25, 0.25)" in said and f"mean={theirs}" in said


@pytest.mark.parametrize("to", SUFFIXES)
def test_names_of_classes_travel_or_are_warned_of(tmp_path, to):
    path, _ = source(tmp_path, names=tuple("abcde"))
    said = said_of(path, place(tmp_path, to), to)
    kept = quiet_load(place(tmp_path, to)).class_names == tuple("abcde")
    assert kept == (to in ("vitedu", "timm", "hf"))
    assert kept != ("names of the classes" in said)


def test_rates_of_training_are_warned_of(tmp_path):
    path, _ = source(tmp_path, dropout=0.1, drop_path=0.2)
    with pytest.warns(UserWarning, match=r"dropout=0\.1"):
        convert(path, tmp_path / "t", to="timm")


# --- positions that the format cannot say


@pytest.mark.parametrize(
    "position", [SinCos2D(), Learned2D(), NoPosition()], ids=str
)
@pytest.mark.parametrize("to", ["hf", "torchvision", "timm"])
def test_positions_at_the_stem_become_a_table(tmp_path, to, position):
    path, model = source(tmp_path, position=position)
    done = quietly(path, place(tmp_path, to), to=to)
    again = quiet_load(done.target)
    is_said = to == "timm" and position == NoPosition()
    assert again.config.position == (position if is_said else Learned1D())
    assert is_said != any("as the table" in note for note in done.notes)
    # sines are written in float32: their rounding reaches the logits
    assert_close(logits(again), logits(model), rtol=0, atol=1e-5)


def test_a_grid_that_npz_cannot_say_is_asked_of_the_reader(tmp_path):
    path, model = source(tmp_path, image_size=(24, 16), gelu="tanh")
    said = said_of(path, tmp_path / "w.npz", "npz")
    assert "has to be told more" in said and "give image_size=" in said
    again = quiet_load(tmp_path / "w.npz", image_size=(24, 16))
    assert torch.equal(logits(again), logits(model))


def test_a_grid_that_a_reader_would_take_for_a_square_is_refused(tmp_path):
    path, _ = source(tmp_path, image_size=(8, 32))
    with pytest.raises(UserError, match=r"of \(8, 32\).*takes \(16, 16\)"):
        convert(path, tmp_path / "w.npz", to="npz")
    quietly(path, tmp_path / "t", to="timm")
    assert load(tmp_path / "t").config.image_size == (8, 32)


# --- their own readers


def small_hybrid():
    fields = {"embed_dim": 32, "depth": 1, "num_heads": 2, "mlp_dim": 32}
    stem = {"stem": Hybrid(()), "patch_size": 8, "image_size": 64}
    return randomise(ViT(ViTConfig(**fields, **stem, num_classes=5)))


def small_bit():
    return randomise(ResNet(ResNetConfig(num_classes=5, image_size=64)))


@pytest.mark.parametrize("build", [small_hybrid, small_bit])
def test_of_timms_resnets_the_difference_is_warned_of(tmp_path, build):
    timm = import_timm()
    path, model = written(tmp_path, build())
    with pytest.warns(UserWarning, match="small numbers in the norms of"):
        convert(path, tmp_path / "t", to="timm")
    theirs = timm.create_model(f"local-dir:{tmp_path / 't'}", pretrained=True)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(2, 3, 64, 64, generator=generator)
    with torch.no_grad():
        one, other = model.float()(noise), theirs.eval()(noise)
    assert_close(one, other, rtol=0, atol=1e-2)
    again = quiet_load(tmp_path / "t")
    assert_same(again.float().state_dict(), model.state_dict())


# --- refused in a sentence, and nothing left behind


@pytest.mark.parametrize(
    "to, name, sentence",
    [
        ("tim", "t", "no format 'tim'; did you mean 'timm'"),
        ("npz", "w.safetensors", r"file that ends in \.npz"),
        ("torchvision", "w", r"\.pth or \.safetensors"),
        ("timm", "w.safetensors", "written to a folder"),
        ("hf", "w.npz", "written to a folder"),
        ("vitedu", "source.safetensors", "is there already"),
        ("hf", "full", "is there already"),
        ("npz", "nowhere/w.npz", "cannot write"),
        ("hf", "nowhere/h", "cannot write"),
    ],
)
def test_a_target_that_will_not_do_is_refused(tmp_path, to, name, sentence):
    path, _ = source(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    before = sorted(tmp_path.rglob("*")), path.read_bytes()
    with pytest.raises(UserError, match=sentence):
        quietly(path, tmp_path / name, to=to)
    assert (sorted(tmp_path.rglob("*")), path.read_bytes()) == before


def test_an_empty_folder_is_taken(tmp_path):
    path, _ = source(tmp_path)
    (tmp_path / "t").mkdir()
    convert(path, tmp_path / "t", to="timm")
    found = {file.name for file in (tmp_path / "t").iterdir()}
    assert found == {"config.json", "model.safetensors"}


def test_what_the_source_cannot_say_is_given(tmp_path):
    path, model = source(tmp_path, num_heads=6)
    quietly(path, tmp_path / "w.pth", to="torchvision")
    quietly(tmp_path / "w.pth", tmp_path / "t", to="timm", num_heads=6)
    assert torch.equal(logits(quiet_load(tmp_path / "t")), logits(model))


@pytest.mark.parametrize(
    "value, sentence",
    [
        (torch.full((192,), torch.nan), "NaN or infinity in norm"),
        (torch.zeros(192, dtype=torch.int32), r"norm\.bias as torch\.int32"),
        (torch.zeros(3), r"norm\.bias of shape \(3,\)"),
    ],
)
def test_a_damaged_source_is_refused(tmp_path, value, sentence):
    state = drawn().state_dict() | {"norm.bias": value}
    path = tmp_path / "w.safetensors"
    write_weights(path, Checkpoint(drawn().config, state, PreprocessSpec(16)))
    with pytest.raises(UserError, match=sentence):
        convert(path, tmp_path / "t", to="timm")
    assert not (tmp_path / "t").exists()


def test_a_full_disk_leaves_no_folder_behind(tmp_path, monkeypatch):
    path, _ = source(tmp_path)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        convert(path, tmp_path / "t", to="timm")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_the_answer_says_what_was_written(tmp_path):
    path, model = source(tmp_path)
    done = convert(path, tmp_path / "t", to="timm")
    assert (done.source, done.dialect) == (str(path), "vitedu")
    assert (done.target, done.format) == (str(tmp_path / "t"), "timm")
    assert done.num_arrays == len(model.state_dict())
    assert replace(done.config) == model.config
    assert json.loads((tmp_path / "t" / "config.json").read_text())
