"""Attention distance: closed forms, the two ways with the class token."""

import math

import pytest
import torch
from torch.testing import assert_close

import vitedu
from vitedu.interpret import attention_distance
from vitedu.interpret.distance import patch_distances


def uniform(num_tokens, layers=1):
    shape = (2, 3, num_tokens, num_tokens)
    return [torch.full(shape, 1 / num_tokens, dtype=torch.float64)] * layers


@pytest.mark.parametrize(
    ("grid", "size", "pixels"),
    [
        ((14, 14), 16, 116.49),
        ((7, 7), 32, 115.50),
        ((16, 16), 14, 116.57),
        ((24, 24), 16, 200.05),
        ((8, 8), 4, 16.55),
    ],
)
def test_uniform_attention_has_the_mean_distance_of_the_grid(
    grid, size, pixels
):
    n = math.prod(grid)
    places = [(i, j) for i in range(grid[0]) for j in range(grid[1])]
    mean = sum(math.dist(a, b) for a in places for b in places) / n**2
    found = attention_distance(uniform(n, layers=2), grid, size)
    assert found.shape == (2, 3)
    want = torch.full((2, 3), size * mean, dtype=torch.float64)
    # float64, up to 331,776 terms
    assert_close(found, want, rtol=0, atol=1e-9)
    assert round(size * mean, 2) == pytest.approx(pixels, abs=0.006)


def test_a_head_that_stays_where_it_is_has_the_distance_zero():
    stays = torch.eye(6).expand(1, 2, 6, 6)
    assert not attention_distance([stays], (2, 3), 16).any()


def test_a_step_to_the_right_is_as_wide_as_a_patch():
    right = torch.zeros(1, 1, 3, 3)
    right[0, 0, [0, 1, 2], [1, 2, 2]] = 1  # the last one stays
    found = attention_distance([right], (1, 3), (8, 16))
    assert_close(found, torch.tensor([[16 * 2 / 3]]))


def test_without_a_renormalised_row_the_class_token_shortens_the_distance():
    maps = [0.1 * uniform(6)[0]]  # a tenth for the patches
    taken = torch.full((2, 3, 6, 1), 0.9, dtype=torch.float64)
    maps = [torch.cat([taken, maps[0]], dim=-1)]
    maps = [torch.cat([maps[0][:, :, :1], maps[0]], dim=-2)]
    whole = attention_distance(maps, (2, 3), 16)
    cut = attention_distance(maps, (2, 3), 16, "drop")
    assert_close(cut, 0.1 * whole)
    assert_close(whole, attention_distance(uniform(6), (2, 3), 16))


def test_distances_are_those_between_the_middles_of_patches():
    between = patch_distances((2, 2), (3, 4))
    assert between[0].tolist() == [0, 4, 3, 5]


@pytest.mark.slow
def test_the_last_blocks_of_the_real_model_look_farther_than_everywhere():
    model = vitedu.load("ViT-Ti/16")
    cat = vitedu.preprocess(model, vitedu.data.photo("cat"))
    with torch.no_grad(), vitedu.record_attention(model) as maps:
        model(cat)
    found = attention_distance(maps, (14, 14), 16)
    assert found.shape == (12, 3)
    assert found[0].min() < 30 and found[10:].min() > 117
    # in block 1, head 3 takes most from the class token
    posted = attention_distance(maps, (14, 14), 16, "drop")
    assert found[0, 2] > 20 > 10 > posted[0, 2]
