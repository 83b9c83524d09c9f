"""Positions: what each adds and where, what the network can't know without.

The fixed table is compared with the authors' where VITEDU_GOLDEN is set.
"""

import itertools
import math
import os
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.tiny import random_images, random_model, tiny
from vitedu.model import (
    Learned1D,
    RoPE,
    ViT,
    attention,
    patchify,
    record_attention,
    sincos_table,
    unpatchify,
)
from vitedu.model.position import Learned2D, NoPosition, SinCos2D
from vitedu.model.relative import Relative

# sums over the same numbers in another order, in float64, of size 10 and less
EXACT = {"rtol": 0, "atol": 1e-10}

ADDED = [
    kind(at=at)
    for kind in (Learned1D, Learned2D, SinCos2D)
    for at in ("stem", "layers", "shared")
]
RELATIVE = [Relative(at="layers"), Relative(at="shared")]
POSITIONS = [NoPosition(), *ADDED, *RELATIVE, RoPE()]
FIXED = NoPosition | SinCos2D | RoPE
LEARNED = [p for p in POSITIONS if not isinstance(p, FIXED)]
in_blocks = pytest.mark.parametrize(
    "kind", [Learned1D, Learned2D, SinCos2D], ids=lambda kind: kind.__name__
)


def with_shuffled_patches(images):
    order = [4, 2, 0, 5, 3, 1]
    return unpatchify(patchify(images, 4)[:, order], 4, (2, 3))


def embedded(model, images):
    """Class token and patches, before any position."""
    first = model.cls_token.expand(len(images), -1, -1)
    return torch.cat([first, model.patch_embed(images)], dim=1)


def table_of(owner):
    """(1, t, d) of a model or a block."""
    table = owner.pos_embed
    return table() if isinstance(table, nn.Module) else table


@pytest.mark.parametrize("class_token", [True, False])
def test_without_positions_the_order_of_the_patches_does_not_matter(
    class_token,
):
    model = random_model(
        position=NoPosition(), pool="mean", class_token=class_token
    )
    images = random_images()
    assert_close(model(with_shuffled_patches(images)), model(images), **EXACT)


@pytest.mark.parametrize("position", POSITIONS[1:], ids=str)
def test_with_positions_the_order_of_the_patches_matters(position):
    model = random_model(position=position, pool="mean")
    images = random_images()
    difference = model(with_shuffled_patches(images)) - model(images)
    assert difference.abs().max() > 1e-3


ROOT = {"pos_embed": (1, 7, 32)}
XY = {
    "pos_embed.x": (1, 3, 16),
    "pos_embed.y": (1, 2, 16),
    "pos_embed.cls": (1, 1, 32),
}


def in_both_blocks(shapes):
    return {
        f"blocks.{i}.{name}": shape
        for i in (0, 1)
        for name, shape in shapes.items()
    }


KEYS = [
    (NoPosition(), {}),
    (Learned1D("stem"), ROOT),
    (Learned1D("layers"), in_both_blocks(ROOT)),
    (Learned1D("shared"), ROOT),
    (Learned2D("stem"), XY),
    (Learned2D("layers"), in_both_blocks(XY)),
    (Learned2D("shared"), XY),
    (SinCos2D("stem"), {}),
    (SinCos2D("layers"), {}),
    (SinCos2D("shared"), {}),
    (Relative("layers"), in_both_blocks({"pos_embed": (1, 13, 32)})),
    (Relative("shared"), {"pos_embed": (1, 13, 32)}),
    (RoPE(), {}),
]


@pytest.mark.parametrize(("position", "shapes"), KEYS, ids=str)
def test_the_state_dict_holds_each_learned_table_once(position, shapes):
    state = ViT(tiny(position=position)).state_dict()
    plain = ViT(tiny(position=NoPosition())).state_dict()
    own = {
        name: tuple(table.shape)
        for name, table in state.items()
        if name not in plain
    }
    assert own == shapes
    assert plain.keys() <= state.keys()


@pytest.mark.parametrize("at", ["stem", "layers", "shared"])
@in_blocks
def test_a_table_is_added_where_its_place_says(kind, at):
    model, images = random_model(position=kind(at)), random_images()
    tokens = embedded(model, images)
    if at == "stem":
        tokens = tokens + table_of(model)
    for block in model.blocks:
        if at != "stem":
            tokens = tokens + table_of(block if at == "layers" else model)
        tokens = tokens + block.attn(block.norm1(tokens))
        tokens = tokens + block.mlp(block.norm2(tokens))
    assert_close(model.forward_features(images), model.norm(tokens), **EXACT)


@pytest.mark.parametrize("position", LEARNED, ids=str)
def test_tables_start_normal_with_a_deviation_of_002(position):
    torch.manual_seed(0)
    wide = {"image_size": (64, 96), "embed_dim": 256}  # 16 x 24 patches
    model = ViT(tiny(**wide, position=position))
    for name, weight in model.named_parameters():
        if "pos_embed" not in name:
            continue
        table = weight.detach()
        # of n draws the deviation's own error is 1 / sqrt(2n); 5 times that:
        # 6e-7
        error = 5 / math.sqrt(2 * table.numel())
        assert table.std() == pytest.approx(0.02, rel=error), name
        assert table.mean().abs() < 5 * 0.02 / math.sqrt(table.numel()), name


# -- 2-D


def test_learned_2d_joins_the_column_s_and_the_line_s_row():
    tables = Learned2D().build(tiny())
    table = tables()
    for row, column in itertools.product(range(2), range(3)):
        want = torch.cat([tables.x[0, column], tables.y[0, row]])
        assert torch.equal(table[0, 1 + 3 * row + column], want)


# -- sines and cosines


def test_the_fixed_table_is_the_formula():
    table = sincos_table((2, 3), 8)
    for row, column in itertools.product(range(2), range(3)):
        x, y = [column, column / 10_000], [row, row / 10_000]
        want = [
            *(math.sin(angle) for angle in x),
            *(math.cos(angle) for angle in x),
            *(math.sin(angle) for angle in y),
            *(math.cos(angle) for angle in y),
        ]
        want = torch.tensor(want, dtype=torch.float64)
        assert_close(table[0, 3 * row + column], want, rtol=0, atol=1e-15)


golden = Path(os.environ.get("VITEDU_GOLDEN", "golden is not set"))
needs_golden = pytest.mark.skipif(
    not golden.is_dir(), reason="VITEDU_GOLDEN names no folder"
)


@needs_golden
@pytest.mark.parametrize(
    ("name", "grid", "embed_dim", "step"),
    [
        ("h4_w4_d16", (4, 4), 16, 1),
        ("h3_w5_d32", (3, 5), 32, 1),
        ("h7_w7_d64", (7, 7), 64, 1),
        ("h1_w6_d8", (1, 6), 8, 1),
        ("h14_w14_d192_every7th", (14, 14), 192, 7),
    ],
)
def test_the_fixed_table_is_the_authors(name, grid, embed_dim, step):
    numpy = pytest.importorskip("numpy")
    with numpy.load(golden / "sincos2d.npz") as tables:
        want = torch.from_numpy(tables[f"{name}_f64"])
        in_float32 = torch.from_numpy(tables[name])
    table = sincos_table(grid, embed_dim)[:, ::step]
    assert_close(table, want, rtol=0, atol=1e-15)  # measured 2e-16
    # their float32 rounds angles up to 13: measured 6e-7
    assert_close(table.float(), in_float32, rtol=0, atol=1e-6)


def test_the_class_token_gets_zeros_from_the_fixed_table():
    table = SinCos2D().build(tiny())()
    assert table.shape == (1, 7, 32)
    assert not table[:, 0].any()
    assert torch.equal(table[:, 1:], sincos_table((2, 3), 32).float())
    assert SinCos2D().build(tiny(class_token=False, pool="mean"))().shape == (
        1,
        6,
        32,
    )


EXACT_TABLE = nn.functional.pad(sincos_table((2, 3), 32), (0, 0, 1, 0))


def fixed_model():
    return ViT(tiny(position=SinCos2D()))


def test_a_fixed_table_follows_the_dtype_of_the_model_exactly():
    for model in (fixed_model().double(), fixed_model().bfloat16().double()):
        assert torch.equal(model.pos_embed.table, EXACT_TABLE)
    table = fixed_model().bfloat16().pos_embed.table
    assert torch.equal(table, EXACT_TABLE.bfloat16())
    model = fixed_model().to("meta").to_empty(device="cpu")
    assert torch.equal(model.pos_embed.table, EXACT_TABLE.float())


# -- relative


@pytest.mark.parametrize("position", RELATIVE, ids=str)
def test_relative_logits_are_the_query_times_the_offset_s_key(position):
    model, images = random_model(position=position), random_images(b=1)
    with record_attention(model) as maps:
        model(images)
    block = model.blocks[0]
    owner = block if position.at == "layers" else model
    table = owner.pos_embed  # (1, 13, 32)
    qkv = block.attn.qkv(block.norm1(embedded(model, images)))
    q, k, v = (x.reshape(1, 7, 4, 8).transpose(1, 2) for x in qkv.chunk(3, -1))
    bias = torch.zeros(1, 4, 7, 7, dtype=torch.float64)
    for head, i, j in itertools.product(range(4), range(7), range(7)):
        key = table[0, i - j + 6, 8 * head : 8 * head + 8]
        bias[0, head, i, j] = q[0, head, i] @ key / math.sqrt(8)
    assert_close(maps[0], attention(q, k, v, bias)[1], **EXACT)


# -- rotations


def test_where_a_patch_is_for_each_kind_of_rope():
    def turns(rope):
        """Angles of the last of 2x3 patches, two heads' worth: (2,)."""
        model = ViT(tiny(position=rope, num_heads=8))
        cosine, sine = model.double().pos_embed.table[:, -1]
        return torch.atan2(sine, cosine).tolist()

    # row 1 of 2 and column 2 of 3; one speed, 1 radian
    assert turns(RoPE()) == pytest.approx([2, 1])
    assert turns(RoPE(rows_first=True)) == pytest.approx([1, 2])
    assert turns(RoPE(rows_first=True, across=1)) == pytest.approx(
        [1 / 2, 2 / 3]
    )
    # the centres of the last row and column, from -1 to 1, times 2 pi
    row, column = 2 * math.pi * (1 / 2), 2 * math.pi * (2 / 3)
    assert turns(RoPE(unit=True)) == pytest.approx([row, column - 2 * math.pi])
