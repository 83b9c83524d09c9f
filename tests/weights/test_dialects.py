"""What every dialect has to do, the same tests for each."""

from functools import partial

import pytest
import torch
from torch.testing import assert_close

from vitedu.compat import import_timm, import_torchvision
from vitedu.errors import UserError
from vitedu.model import Learned1D, Learned2D, NoPosition
from vitedu.model.axial import Axial
from vitedu.model.hybrid import Hybrid
from vitedu.model.patches import Patches
from vitedu.model.position import SinCos2D
from vitedu.model.relative import Relative, RoPE
from vitedu.pictures import PreprocessSpec
from vitedu.weights import DIALECTS, Checkpoint, load, recognise
from vitedu.weights.files import read_arrays

from ..tiny import tiny
from .examples import (
    CASES,
    HELD,
    SQUARE,
    answers,
    assert_same,
    example,
    images,
    metadata,
    model_of,
    refused,
    with_exact_rope,
    write,
)

EXTRA = {"extra/a": torch.ones(2), "extra/b": torch.ones(3)}
WITH_JSON = ["hf", "timm"]


sentence = partial(refused, load)


def test_every_dialect_has_examples():
    assert HELD.keys() == DIALECTS.keys()


# --- both ways


@pytest.mark.slow
@pytest.mark.parametrize(("to", "name"), CASES)
def test_there_and_back_is_the_same_configuration_and_bits(to, name):
    before = example(to, name)
    arrays = DIALECTS[to].from_vitedu(before)
    about = metadata(to, before, **answers(to, before.config))
    after = DIALECTS[to].to_vitedu(arrays, about)
    assert after.config == before.config
    assert_same(after.state_dict, before.state_dict)
    assert after.dropped == ()
    if to in WITH_JSON:
        assert after.preprocess == before.preprocess and after.doubts == ()


@pytest.mark.parametrize(("to", "name"), CASES)
def test_its_arrays_are_recognised_and_no_others(tmp_path, to, name):
    assert recognise(read_arrays(write(to, tmp_path, example(to, name)))) == to


@pytest.mark.parametrize("to", DIALECTS)
def test_a_written_file_gives_the_same_function(tmp_path, to):
    before = example(to)
    model = load(
        write(to, tmp_path, before),
        dtype=torch.float64,
        **answers(to, before.config),
    )
    x = images(before.config)
    assert model.load_report.dialect == to
    with torch.no_grad():
        assert torch.equal(model(x), model_of(before)(x))


@pytest.mark.parametrize("to", DIALECTS)
def test_writing_leaves_the_model_alone(to):
    before = example(to)
    for array in DIALECTS[to].from_vitedu(before).values():
        if to != "vitedu":  # which hands on what it gets
            array.zero_()
    assert_same(before.state_dict, example(to).state_dict)


@pytest.mark.parametrize("to", ["vitedu", *WITH_JSON])
@pytest.mark.parametrize("names", [(), ("crane", "ant", "bee", "crane", "fly")])
def test_names_of_classes_go_there_and_back(to, names):
    before = example(to, class_names=names)
    arrays = DIALECTS[to].from_vitedu(before)
    after = DIALECTS[to].to_vitedu(arrays, metadata(to, before))
    assert after.class_names == names


@pytest.mark.parametrize("to", ["vitedu", *WITH_JSON])
@pytest.mark.parametrize("crop", [None, 0.875, 0.9, 0.95, 1.0])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_preprocessing_goes_there_and_back(to, crop, interpolation):
    config = tiny(image_size=224, patch_size=56)
    mean = (0.485, 0.456, 0.406)
    spec = PreprocessSpec(224, 3, mean, 0.25, interpolation, crop)
    before = Checkpoint(config, model_of(example(to)).state_dict(), spec)
    state = {"pos_embed": torch.ones(1, 17, 32)}
    state["patch_embed.proj.weight"] = torch.ones(32, 3, 56, 56)
    before = before._replace(state_dict=before.state_dict | state)
    arrays = DIALECTS[to].from_vitedu(before)
    after = DIALECTS[to].to_vitedu(arrays, metadata(to, before))
    assert (after.preprocess, after.doubts) == (spec, ())


# --- the other library


def by_timm(folder, before):
    path = write("timm", folder, before)
    timm = import_timm()
    return timm.create_model(f"local-dir:{path}", pretrained=True)


def by_timms_reader_of_npz(folder, before):
    config = before.config
    model = import_timm().models.vision_transformer.VisionTransformer(
        img_size=config.image_size,
        patch_size=config.patch_size,
        num_classes=config.num_classes,
        embed_dim=config.embed_dim,
        depth=config.depth,
        num_heads=config.num_heads,
        mlp_ratio=config.mlp_dim / config.embed_dim,
        act_layer="gelu_tanh",
    )
    model.load_pretrained(str(write("npz", folder, before)))
    return model


def by_torchvision(folder, before):
    config = before.config
    model = import_torchvision().models.VisionTransformer(
        image_size=config.image_size[0],
        patch_size=config.patch_size[0],
        num_layers=config.depth,
        num_heads=config.num_heads,
        hidden_dim=config.embed_dim,
        mlp_dim=config.mlp_dim,
        num_classes=config.num_classes,
        representation_size=config.pre_logits,
    )
    model.load_state_dict(torch.load(write("torchvision", folder, before)))
    return model


READERS = {
    "timm": by_timm,
    "torchvision": by_torchvision,
    "npz": by_timms_reader_of_npz,
}


@pytest.mark.parametrize(
    ("to", "name"),
    [
        (to, name)
        for to, name in CASES
        if to in READERS and (to != "npz" or name == "plain")
    ],
)
def test_the_other_library_gives_our_logits(tmp_path, to, name):
    before = example(to, name)
    theirs = with_exact_rope(READERS[to](tmp_path, before))
    x = images(before.config)
    with torch.no_grad():
        # float64, sums of at most 192 terms in another order: measured 4e-15
        assert_close(model_of(before)(x), theirs(x), rtol=0, atol=1e-11)


# --- what is missing, left over or of another form


@pytest.mark.slow
@pytest.mark.parametrize("to", [x for x in DIALECTS if x != "vitedu"])
def test_no_array_can_be_missing(to):
    before = example(to)
    arrays = DIALECTS[to].from_vitedu(before)
    about = metadata(to, before, **answers(to, before.config))
    # without a token, a head or positions it might be another network
    others = {"head", "cls", "class_token", "classifier", "pos"}
    for name in arrays:
        if to == "npz" and "posembed" in name:  # then they are fixed ones
            continue
        rest = {k: v for k, v in arrays.items() if k != name}
        with pytest.raises((UserError, StopIteration, ValueError)) as error:
            DIALECTS[to].to_vitedu(rest, about)
        is_mark = any(name in marks for marks in DIALECTS[to].MARKS)
        if not is_mark and not any(part in name for part in others):
            assert f"lacks {name!r}" in str(error.value)


@pytest.mark.parametrize("to", DIALECTS)
@pytest.mark.slow
def test_an_array_of_another_shape_is_one_sentence(tmp_path, to):
    before = example(to)
    arrays = DIALECTS[to].from_vitedu(before)
    for name, array in arrays.items():
        if name == "embedding/kernel":  # of taller patches
            continue
        wrong = torch.cat([array, array])
        path = write(to, tmp_path, before, **{name: wrong})
        said = sentence(path, **answers(to, before.config))
        assert "shape" in said or "form no square" in said or "heads" in said
        if path.is_dir():
            path.rename(tmp_path / f"done {name}".replace("/", "-"))


@pytest.mark.parametrize("to", DIALECTS)
def test_an_unknown_array_is_refused_and_the_remedy_named(tmp_path, to):
    said = sentence(write(to, tmp_path, **EXTRA), **answers(to, SQUARE))
    assert "extra/a, extra/b" in said and 'ignore="extra/*"' in said


@pytest.mark.parametrize("to", DIALECTS)
@pytest.mark.parametrize("ignore", ["extra/*", ("extra/*",), ["*/b", "*/a"]])
def test_what_is_ignored_is_left_out_and_reported(tmp_path, to, ignore):
    path = write(to, tmp_path, **EXTRA)
    model = load(path, ignore=ignore, **answers(to, SQUARE))
    assert set(model.load_report.dropped) == EXTRA.keys()
    said = "arrays left out: 2, ignore= matches them"
    assert said in model.load_report.notes
    assert_same(example(to).state_dict, model.state_dict())


@pytest.mark.parametrize("to", DIALECTS)
def test_a_pattern_that_matches_nothing_is_an_error(tmp_path, to):
    said = sentence(write(to, tmp_path), ignore="exrta/*")
    assert "ignore='exrta/*' matches no array" in said


# --- what it has no place for

IN_BLOCKS = {
    "Learned1D(at='layers')": {"position": Learned1D(at="layers")},
    "Axial": {"block": Axial()},
}
HYBRID = {"stem": Hybrid((1, 1)), "patch_size": 1, "image_size": 32}
NO_PLACE = {
    "npz": {
        "RoPE": {"position": RoPE()},
        "Learned2D": {"position": Learned2D()},
        "Relative": {"position": Relative()},
        "SinCos2D(at='shared'": {"position": SinCos2D(at="shared")},
        "NoPosition": {"position": NoPosition()},
        "registers=2": {"registers": 2},
        "pool='mean' beside a class token": {"pool": "mean"},
        "pool='mean_norm'": {"pool": "mean_norm"},
        "Patches(norm=True)": {"stem": Patches(norm=True)},
    },
    "hf": {
        "RoPE": {"position": RoPE()},
        "pool='mean'": {"pool": "mean"},
        "pool='map'": {"pool": "map", "class_token": False},
        "a pre-logits layer below a head": {"pre_logits": 8},
        "NoPosition": {"position": NoPosition()},
        "registers=2": {"registers": 2},
        "Hybrid": HYBRID,
    },
    "torchvision": {
        "RoPE": {"position": RoPE()},
        "pool='mean'": {"pool": "mean"},
        "a network without a head": {"num_classes": 0},
        "images of 16x32": {"image_size": (16, 32)},
        "patches of 4x2": {"patch_size": (4, 2)},
        "in_channels=1": {"in_channels": 1},
        "NoPosition": {"position": NoPosition()},
        "registers=2": {"registers": 2},
        "Hybrid": HYBRID,
    },
    "timm": {
        "a pre-logits layer": {"pre_logits": 8},
        "Learned2D": {"position": Learned2D()},
        "Patches(norm=True)": {"stem": Patches(norm=True)},
        "Hybrid((1": HYBRID,
        "width=0.5": HYBRID | {"stem": Hybrid((3, 4, 9), 0.5)},
    },
}


@pytest.mark.parametrize(
    ("to", "what", "changes"),
    [
        (to, what, changes)
        for to, table in NO_PLACE.items()
        for what, changes in (table | IN_BLOCKS).items()
    ],
)
def test_what_its_network_cannot_be_is_refused(to, what, changes):
    config = tiny(**{"image_size": 16} | changes)
    with pytest.raises(UserError, match="has no place for") as error:
        DIALECTS[to].from_vitedu(Checkpoint(config, {}))
    said = str(error.value)
    assert what in said or what.replace("Hybrid((1", "Hybrid(layers=(1") in said
