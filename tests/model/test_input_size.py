"""`set_input_size`: a model that takes images of another size, in place."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitedu.errors import UserError
from vitedu.model import (
    Axial,
    Hybrid,
    Learned1D,
    Learned2D,
    NoPosition,
    Relative,
    ResNet,
    ResNetConfig,
    RoPE,
    SinCos2D,
    ViT,
    ViTConfig,
    resize_positions,
)
from vitedu.model.position import FixedTable

TINY = ViTConfig(
    image_size=(8, 12),
    patch_size=4,
    num_classes=5,
    embed_dim=32,
    depth=2,
    num_heads=4,
    mlp_dim=48,
)
KINDS = {
    "plain": TINY,
    "mean": replace(TINY, pool="mean"),
    "map": replace(TINY, pool="map", class_token=False),
    "axial": replace(TINY, block=Axial()),
    "in blocks": replace(TINY, position=Learned1D(at="layers")),
    "shared": replace(TINY, position=Learned1D(at="shared")),
    "2-D": replace(TINY, position=Learned2D()),
    "2-D in blocks": replace(TINY, position=Learned2D(at="layers")),
    "sin-cos": replace(TINY, position=SinCos2D()),
    "sin-cos in blocks": replace(TINY, position=SinCos2D(at="layers")),
    "rope": replace(TINY, position=RoPE()),
    "registers": replace(TINY, registers=2),
    "none": replace(TINY, position=NoPosition()),
    "hybrid": replace(
        TINY, stem=Hybrid((1,), width=0.5), patch_size=1, position=Learned2D()
    ),
}
every_kind = pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)


def random_model(config):
    torch.manual_seed(0)
    model = ViT(config).double().eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.2)
    return model


def images(height, width):
    torch.manual_seed(1)
    return torch.randn(2, 3, height, width, dtype=torch.float64)


@every_kind
@pytest.mark.parametrize("mode", ["paper", "timm"])
def test_it_is_the_model_built_for_that_size_with_resized_positions(
    config, mode
):
    model = random_model(config)
    larger = replace(config, image_size=(16, 20))
    other = ViT(larger).double().eval()
    other.load_state_dict(
        resize_positions(model.state_dict(), config, larger, mode=mode)
    )
    model.set_input_size((16, 20), mode=mode)
    assert torch.equal(model(images(16, 20)), other(images(16, 20)))


@every_kind
def test_all_that_knows_the_size_is_told(config):
    model = random_model(config)
    model.set_input_size(16)
    assert model.config == replace(config, image_size=(16, 16))
    assert model.preprocess.image_size == (16, 16)
    assert model.patch_embed.grid == model.config.grid == (4, 4)
    with pytest.raises(ValueError, match="16x16 pixels, got"):
        model(images(8, 12))


@every_kind
def test_what_is_not_resized_stays_the_same_object(config):
    model = random_model(config)
    before = dict(model.named_parameters())
    model.set_input_size(16)
    after = dict(model.named_parameters())
    assert before.keys() == after.keys()
    for name, weight in after.items():
        is_table = "pos_embed" in name
        # the class token's own row keeps its shape, and may be either
        if not is_table or weight.shape != before[name].shape:
            assert (weight is before[name]) != is_table


def test_the_same_size_changes_nothing():
    model = random_model(TINY)
    before, want = dict(model.named_parameters()), model(images(8, 12))
    model.set_input_size((8, 12))
    assert all(w is before[name] for name, w in model.named_parameters())
    assert torch.equal(model(images(8, 12)), want)


def test_a_resized_table_is_trained_if_it_was_before():
    model = random_model(TINY)
    model.set_input_size(16)
    assert model.pos_embed.requires_grad and model.pos_embed.is_leaf
    model.pos_embed.requires_grad_(False)
    model.set_input_size(8)
    assert not model.pos_embed.requires_grad


@every_kind
def test_a_fixed_table_keeps_the_models_dtype_and_the_mode_stays(config):
    model = random_model(config).float().train()
    model.set_input_size(16)
    assert model.training
    assert model.eval()(images(16, 16).float()).dtype == torch.float32


def test_the_global_generator_is_left_alone():
    model = random_model(replace(TINY, pool="map"))
    torch.manual_seed(3)
    want = torch.rand(3)
    torch.manual_seed(3)
    model.set_input_size(16)
    assert torch.equal(torch.rand(3), want)


@pytest.mark.parametrize(
    ("config", "size", "mode", "sentence"),
    [
        (TINY, 18, "paper", "not a multiple of the patch size 4"),
        (TINY, (16, 16, 16), "paper", "image_size must be one number, or"),
        (TINY, 0, "paper", "image_size must be one number, or"),
        (TINY, 16, "bicubic", "no mode 'bicubic'"),
        (replace(TINY, position=Relative()), 16, "paper", "keep image_size"),
    ],
)
def test_what_does_not_fit_changes_nothing(config, size, mode, sentence):
    model = random_model(config)
    want, before = model(images(8, 12)), copy.deepcopy(model.preprocess)
    with pytest.raises(UserError, match=sentence):
        model.set_input_size(size, mode=mode)
    assert model.config == config and model.preprocess == before
    assert torch.equal(model(images(8, 12)), want)


def test_there_and_back_by_the_papers_mode_keeps_a_line_of_positions():
    # linear between neighbours: positions on a straight line stay on it
    model = random_model(TINY)
    line = torch.linspace(0, 1, 6, dtype=torch.float64).reshape(1, 6, 1)
    model.pos_embed.data[:, 1:] = line
    model.set_input_size((16, 24))
    model.set_input_size((8, 12))
    # float64, numbers of size 1: measured 1e-16
    assert_close(
        model.pos_embed.data[:, 1:],
        line.expand(1, 6, 32),
        rtol=0,
        atol=1e-14,
    )


def test_a_resnet_takes_any_size_and_says_the_new_one():
    config = ResNetConfig(layers=(1, 1), width=0.5, image_size=32)
    model = ResNet(config).eval()
    want = model(torch.ones(1, 3, 48, 40))
    model.set_input_size((48, 40))
    assert model.config.image_size == (48, 40)
    assert model.preprocess.image_size == (48, 40)
    assert torch.equal(model(torch.ones(1, 3, 48, 40)), want)
    with pytest.raises(UserError, match="image_size must be one number, or"):
        model.set_input_size(0)


def test_a_fixed_table_that_depends_on_the_grid_is_the_new_grids():
    class Scaled(SinCos2D):
        def table(self, config):
            rows = config.grid[0]
            return FixedTable(
                config.grid,
                lambda grid, *, dtype: torch.full(
                    (1, 1 + grid[0] * grid[1], 32), float(rows), dtype=dtype
                ),
            )

    model = random_model(replace(TINY, position=Scaled()))
    assert (model.pos_embed() == 2).all()
    model.set_input_size((16, 12))
    assert (model.pos_embed() == 4).all()
