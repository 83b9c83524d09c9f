"""Configurations: what they hold, refuse and change, and their JSON."""

import pydoc
from dataclasses import dataclass, fields, replace
from typing import get_type_hints

import pytest
import torch
from torch import nn

from tests.tiny import tiny
from vitedu import vit
from vitedu.fields import meanings, to_json
from vitedu.model import (
    NAMES,
    Learned1D,
    Patches,
    ResNetConfig,
    Standard,
    ViT,
    ViTConfig,
    resnet,
    vit_config,
)
from vitedu.model.config import ViTFields
from vitedu.model.resnet import ResNetFields
from vitedu.pictures import PreprocessSpec


def test_json_holds_every_field_and_the_names_of_the_parts():
    written = ViTConfig().to_json()
    names = [field.name for field in fields(ViTConfig)]
    # as in the files that are older than registers
    assert list(written) == [name for name in names if name != "registers"]
    assert written["image_size"] == [224, 224]
    assert written["position"] == {"name": "Learned1D", "at": "stem"}


def test_json_without_a_field_means_its_default():
    assert ViTConfig.from_json({"depth": 3}) == ViTConfig(depth=3)


@pytest.mark.parametrize("field", ["image_size", "patch_size"])
def test_one_number_and_a_list_become_a_pair(field):
    assert getattr(ViTConfig(**{field: 32}), field) == (32, 32)
    assert getattr(ViTConfig(**{field: [32, 16]}), field) == (32, 16)


def test_the_defaults_are_b16():
    assert ViTConfig() == vit_config("ViT-B/16")


def test_grid_and_tokens_of_a_rectangular_image():
    config = ViTConfig(image_size=(32, 96), patch_size=(16, 8))
    assert config.grid == (2, 12)
    assert (config.num_patches, config.num_tokens) == (24, 25)


# Paper, Table 1, and its follow-up's Ti and S: layers, width, MLP, heads.
TABLE_1 = {
    "Ti": (12, 192, 768, 3),
    "S": (12, 384, 1536, 6),
    "B": (12, 768, 3072, 12),
    "L": (24, 1024, 4096, 16),
    "H": (32, 1280, 5120, 16),
}


@pytest.mark.parametrize("patch", [8, 14, 16, 32])
@pytest.mark.parametrize("size", TABLE_1)
def test_names_are_table_1(size, patch):
    config = vit_config(f"ViT-{size}/{patch}")
    sizes = (config.depth, config.embed_dim, config.mlp_dim, config.num_heads)
    assert sizes == TABLE_1[size]
    assert config.patch_size == (patch, patch)


def test_every_name_is_in_table_1():
    assert set(NAMES) == {
        f"ViT-{s}/{p}" for s in TABLE_1 for p in (8, 14, 16, 32)
    }


def test_a_name_with_fields_overrides_the_table():
    config = vit_config("ViT-Ti/16", image_size=64, patch_size=8, depth=2)
    assert (config.image_size, config.patch_size) == ((64, 64), (8, 8))
    assert (config.depth, config.embed_dim) == (2, 192)


@dataclass(frozen=True)
class DoubledPatches(Patches):
    def build(self, config):
        return nn.Sequential(super().build(config), Double())


class Double(nn.Module):
    def forward(self, x):
        return 2 * x


@dataclass(frozen=True)
class Subtracted(Learned1D):
    def add(self, tokens, pos_embed):
        return tokens - pos_embed


@dataclass(frozen=True)
class AttentionOnly(Standard):
    def build(self, config, drop_path):
        block = super().build(config, drop_path)
        block.mlp = Double()
        return block


# For each field a value other than that of CHANGED_FROM.
CHANGED_FROM = tiny(pool="mean")
CHANGES = {
    "image_size": (12, 12),
    "patch_size": (2, 4),
    "in_channels": 1,
    "num_classes": 6,
    "embed_dim": 64,
    "depth": 3,
    "num_heads": 2,
    "mlp_dim": 64,
    "stem": DoubledPatches(),
    "position": Subtracted(),
    "block": AttentionOnly(),
    "pool": "token",
    "class_token": False,
    "registers": 2,
    "pre_logits": 24,
    "gelu": "tanh",
    "norm_eps": 1e-2,
    "dropout": 0.5,
    "drop_path": 0.5,
}


def shapes_and_logits(config):
    """A model of random numbers in every tensor, equal for equal shapes."""
    model = ViT(config).double().train()
    torch.manual_seed(0)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    images = torch.randn(4, config.in_channels, *config.image_size).double()
    return [tuple(weight.shape) for weight in model.parameters()], model(images)


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_changes_the_weights_or_the_logits(field):
    shapes, logits = shapes_and_logits(CHANGED_FROM)
    changed = replace(CHANGED_FROM, **{field: CHANGES[field]})
    other_shapes, other_logits = shapes_and_logits(changed)
    if shapes == other_shapes:
        # float64 noise is 1e-14; the smallest change, the GELU's, is 5e-5
        assert (logits - other_logits).abs().max() > 1e-6


def test_no_field_is_without_a_change():
    assert set(CHANGES) == {field.name for field in fields(ViTConfig)}
    assert all(
        getattr(CHANGED_FROM, name) != new for name, new in CHANGES.items()
    )


LATER_FIELDS = {
    "Patches(bias=False, norm=True)": Patches(bias=False, norm=True),
    "Standard(layer_scale=1e-05, qkv_bias=False)": Standard(1e-5, False),
    "Learned1D(at='stem', prefix=False)": Learned1D(prefix=False),
}


@pytest.mark.parametrize("text", LATER_FIELDS)
def test_later_fields_are_said_only_where_they_are_set(text):
    seam, kind = LATER_FIELDS[text], type(LATER_FIELDS[text])
    assert repr(seam) == text
    assert {*to_json(kind())} <= {"name", "at"}
    assert "prefix" not in repr(kind()) and "bias" not in repr(kind())


# --- what the fields mean, and their types


@pytest.mark.parametrize("owner", [ViTConfig, ResNetConfig, PreprocessSpec])
def test_every_field_has_its_meaning_and_nothing_else_has(owner):
    assert [*meanings(owner)] == [each.name for each in fields(owner)]
    assert all(len(meaning) > 10 for meaning in meanings(owner).values())


@pytest.mark.parametrize(
    ("function", "owner"), [(vit, ViTConfig), (resnet, ResNetConfig)]
)
def test_help_names_every_field_with_its_meaning(function, owner):
    text = " ".join(pydoc.render_doc(function).split())
    for name, meaning in meanings(owner).items():
        assert f"{name}: {meaning}" in text


@pytest.mark.parametrize(
    ("owner", "typed"), [(ViTConfig, ViTFields), (ResNetConfig, ResNetFields)]
)
def test_the_arguments_of_a_call_are_the_fields_and_their_types(owner, typed):
    hints = get_type_hints(typed)
    assert [*hints] == [each.name for each in fields(owner)]
    for name, kind in get_type_hints(owner).items():
        # one number may be given for a pair
        of_call = int | kind if kind == tuple[int, int] else kind
        assert hints[name] == of_call, name
