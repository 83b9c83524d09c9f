"""`set_input_size`: a model that takes images of another size, in place."""

import copy

import pytest
import torch
from torch.testing import assert_close

from tests.tiny import TINY, random_model, tiny
from vitedu.errors import UserError
from vitedu.model import (
    Relative,
    SinCos2D,
)
from vitedu.model.position import FixedTable


def images(height, width):
    torch.manual_seed(1)
    return torch.randn(2, 3, height, width, dtype=torch.float64)


def test_a_resized_table_is_trained_if_it_was_before():
    model = random_model(TINY)
    model.set_input_size(16)
    assert model.pos_embed.requires_grad and model.pos_embed.is_leaf
    model.pos_embed.requires_grad_(False)
    model.set_input_size(8)
    assert not model.pos_embed.requires_grad


def test_the_global_generator_is_left_alone():
    model = random_model(tiny(pool="map"))
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
        (tiny(position=Relative()), 16, "paper", "keep image_size"),
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

    model = random_model(tiny(position=Scaled()))
    assert (model.pos_embed() == 2).all()
    model.set_input_size((16, 12))
    assert (model.pos_embed() == 4).all()
