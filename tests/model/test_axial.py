"""Axial attention against loops over rows and columns, and whole attention."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from tests.tiny import tiny
from vitedu.model import ViT, record_attention
from vitedu.model.axial import Axial, AxialBlock, AxisAttention

GRID = (3, 5)
CONFIG = tiny(image_size=(12, 20), mlp_dim=96, block=Axial())
# float64, at most 96 terms per sum in another order: measured below 1e-13
EXACT = {"rtol": 0, "atol": 1e-11}


def fill_randomly(module):
    """No zeros and ones left from initial values: every tensor matters."""
    torch.manual_seed(0)
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.3)
    return module


def random_tokens(t, b=2):
    torch.manual_seed(1)
    return torch.randn(b, t, 32, dtype=torch.float64)


def random_attention(axis, grid=GRID):
    return fill_randomly(AxisAttention(32, 4, grid, axis).double())


def random_block(grid=GRID, **fields):
    return fill_randomly(AxialBlock(32, 4, 96, grid, **fields).double())


def one_line(x, weights):
    """Equations (5) to (7) for one sequence, before U_msa: (s, d) -> (s, d)."""
    qkv = x @ weights["qkv.weight"].T + weights["qkv.bias"]
    heads = []
    for head in range(4):
        q, k, v = (
            each[:, 8 * head : 8 * head + 8] for each in qkv.split(32, dim=-1)
        )
        heads.append((q @ k.T / math.sqrt(8)).softmax(-1) @ v)
    return torch.cat(heads, dim=-1)


def lines_of(axis, grid):
    """The indices of the patches of each row, or of each column."""
    index = torch.arange(grid[0] * grid[1]).reshape(grid)
    return list(index if axis == "row" else index.T)


def loop_over_lines(x, weights, axis, grid, class_token):
    """An image and a line at a time; the class token's answers are averaged."""
    out = torch.zeros_like(x)
    for image in range(len(x)):
        lines = lines_of(axis, grid)
        for patches in lines:
            at = patches + class_token
            if class_token:
                answers = one_line(
                    torch.cat([x[image, :1], x[image, at]]), weights
                )
                out[image, 0] += answers[0] / len(lines)
                out[image, at] = answers[1:]
            else:
                out[image, at] = one_line(x[image, at], weights)
    return out @ weights["proj.weight"].T + weights["proj.bias"]


GRIDS = [(3, 5), (5, 3), (4, 4), (1, 6), (6, 1), (1, 1)]


@pytest.mark.parametrize("class_token", [False, True])
@pytest.mark.parametrize("axis", ["row", "column"])
@pytest.mark.parametrize("grid", GRIDS)
def test_attention_along_an_axis_equals_a_loop(grid, axis, class_token):
    layer = random_attention(axis, grid)
    x = random_tokens(class_token + math.prod(grid))
    want = loop_over_lines(x, layer.state_dict(), axis, grid, class_token)
    assert_close(layer(x), want, **EXACT)


@pytest.mark.parametrize("class_token", [False, True])
@pytest.mark.parametrize("gelu", ["exact", "tanh"])
@pytest.mark.parametrize("norm_eps", [1e-6, 1e-2])
def test_block_equals_row_and_mlp_then_column_and_mlp(
    norm_eps, gelu, class_token
):
    block = random_block(gelu=gelu, norm_eps=norm_eps)
    tokens = x = random_tokens(class_token + 15)
    approximate = {"exact": "none", "tanh": "tanh"}[gelu]
    for axis in ("row", "column"):
        weights = block.get_submodule(axis).state_dict()

        def norm(z, name, weights=weights):
            scale, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
            return F.layer_norm(z, (32,), scale, shift, norm_eps)

        def dense(z, name, weights=weights):
            return z @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

        attention = {
            key.removeprefix("attn."): weight
            for key, weight in weights.items()
            if key.startswith("attn.")
        }
        x = x + loop_over_lines(
            norm(x, "norm1"), attention, axis, GRID, class_token
        )
        hidden = F.gelu(
            dense(norm(x, "norm2"), "mlp.fc1"), approximate=approximate
        )
        x = x + dense(hidden, "mlp.fc2")
    # values grow to 30 through two MLPs
    assert_close(block(tokens), x, rtol=0, atol=1e-10)


def test_a_block_takes_every_field_twice():
    config = replace(CONFIG, gelu="tanh", norm_eps=1e-3, dropout=0.3)
    block = Axial().build(config, drop_path=0.2)
    for half in (block.row, block.column):
        assert half.attn.num_heads == 4
        assert half.attn.grid == (3, 5)
        assert half.mlp.fc1.out_features == 96
        assert half.mlp.act.approximate == "tanh"
        assert half.norm1.eps == half.norm2.eps == 1e-3
        assert half.attn.dropout.p == half.mlp.dropout.p == 0.3
        assert half.drop_path.rate == 0.2


@pytest.mark.parametrize("axis", ["row", "column"])
def test_dropout_comes_after_the_lines_are_joined(axis):
    layer = AxisAttention(32, 4, GRID, axis, dropout=0.5).double()
    fill_randomly(layer)
    x = random_tokens(16, b=40)
    whole, dropped = layer.eval()(x), layer.train()(x)
    kept = dropped != 0
    # 1,280 numbers of class tokens, 19,200 of patches, kept with probability
    # 1/2: outside of it by 0.08 with probability 1e-8. A mean of dropped rows
    # would keep nearly all of the class tokens'.
    for tokens in (kept[:, :1], kept[:, 1:]):
        assert abs(tokens.double().mean() - 0.5) < 0.08
    assert_close(dropped[kept], 2 * whole[kept], **EXACT)


def random_model(**fields):
    return fill_randomly(ViT(replace(CONFIG, **fields)).double().eval())


def random_images():
    torch.manual_seed(2)
    return torch.randn(2, 3, 12, 20, dtype=torch.float64)


@pytest.mark.parametrize("class_token", [False, True])
def test_record_attention_gives_rows_then_columns_line_by_line(class_token):
    model = random_model(class_token=class_token, pool="mean")
    with record_attention(model) as maps:
        model(random_images())
    of_rows = (2 * 3, 4, 5 + class_token, 5 + class_token)
    of_columns = (2 * 5, 4, 3 + class_token, 3 + class_token)
    assert [weights.shape for weights in maps] == [of_rows, of_columns] * 2
