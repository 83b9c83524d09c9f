"""Positions inside attention, which sees how far apart two tokens are.

`vit("ViT-B/16", position=Relative())` adds a bias to the logits (paper,
appendix D.4), `RoPE()` rotates q and k.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from einops import rearrange
from torch import Tensor, fx, nn

from vitedu.errors import UserError
from vitedu.fields import LATER, Count, Range, shown
from vitedu.model.attention import attention_layers
from vitedu.model.position import (
    FixedTable,
    Position,
    beside,
    draw,
    rotation_table,
)

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig
    from vitedu.model.vit import ViT

# calls that torch.fx keeps, as in vitedu.model.attention
fx.wrap("rearrange")
fx.wrap("rows_of_offsets")
fx.wrap("beside")


@dataclass(frozen=True)
class Relative(Position):
    """1-D relative attention: a bias of the logits from query and offset.

    Every offset p_q - p_k has a learned key embedding; its product with the
    query, divided by sqrt(hd), is added before the softmax. Places are those in
    the sequence (the class token's is 0). Row o + t - 1 of the table (1, 2t -
    1, d) belongs to offset o; each head has its own part of the row. `at` is
    "layers", a table for every block, or "shared"; the paper doesn't say.

    UserError, when the model is built: the blocks aren't those of `Standard()`.
    Source: paper, appendix D.4.
    """

    at: Literal["layers", "shared"] = "layers"

    def table(self, config: "ViTConfig") -> nn.Parameter:
        """A key embedding per offset, (1, 2t - 1, d), not yet drawn."""
        offsets = 2 * config.num_tokens - 1
        return nn.Parameter(torch.zeros(1, offsets, config.embed_dim))

    def build(self, config: "ViTConfig") -> nn.Parameter | None:
        return None if self.at == "layers" else self.table(config)

    def attach(self, model: "ViT") -> None:
        layers = attention_layers(model.blocks, "Relative()")
        for block, layer in zip(model.blocks, layers, strict=True):
            owner = model
            if self.at == "layers":
                owner = block
                block.pos_embed = draw(self.table(model.config))
            layer.position_bias = RelativeBias(owner)


class RelativeBias(nn.Module):
    """The bias of Relative: q (b, heads, t, hd) -> (b, heads, t, t)."""

    def __init__(self, owner: nn.Module) -> None:
        super().__init__()
        self.owner = (owner,)  # a tuple hides it from nn.Module

    def forward(self, q: Tensor) -> Tensor:
        b, heads, t, hd = q.shape
        table = self.owner[0].pos_embed
        keys = rearrange(table, "1 o (heads hd) -> heads hd o", heads=heads)
        scores = q @ keys / math.sqrt(hd)  # (b, heads, t, 2t - 1)
        return scores.gather(-1, rows_of_offsets(q).expand(b, heads, t, t))


def rows_of_offsets(q: Tensor) -> Tensor:
    """The table's row for each query and key: (b, heads, t, hd) -> (t, t)."""
    t = q.shape[2]
    place = torch.arange(t, device=q.device)
    return place[:, None] - place + t - 1


@dataclass(frozen=True)
class RoPE(Position):
    """Axial rotary positions: in every layer q and k are rotated, v is not.

    The hd numbers of a head are hd/2 points of a plane. A patch turns half of
    them by its column and half by its row, each point at its own speed: k =
    hd/4 speeds per axis, from 1 down towards 1/theta radians a patch. A product
    of q and k then depends on how far apart the two patches are, and not on
    where. The tokens before the patches aren't rotated. Nothing is learned or
    stored.

    - theta: the largest speed over the smallest, nearly
    - rows_first: the first half of the points turns by row, not by column
    - across: places are scaled to this many patches a side; None: they count
    - unit: as DINOv3, whose places are from -1 to 1 across an image of any
      size, times 2 pi; its rows are first, and the two numbers of a point are
      hd/2 apart, not neighbours

    UserError, when the model is built: the width of a head isn't a multiple of
    4, or the blocks aren't those of `Standard()`.
    Source: Heo et al. 2024, "Rotary Position Embedding for Vision Transformer"
    (RoPE-Axial); equal to timm's vit_small_patch16_rope_224. Not in the paper.
    """

    theta: Annotated[float, Range(1)] = 100.0
    rows_first: bool = field(default=False, metadata=LATER)
    across: Count | None = field(default=None, metadata=LATER)
    unit: bool = field(default=False, metadata=LATER)
    __repr__ = shown

    def build(self, config: "ViTConfig") -> FixedTable:
        head_dim = config.embed_dim // config.num_heads
        if head_dim % 4:
            raise UserError(
                f"RoPE needs heads whose width is a multiple of 4; embed_dim="
                f"{config.embed_dim} and {config.num_heads} heads make "
                f"{head_dim}"
            )
        compute = partial(
            rotation_table,
            head_dim=head_dim,
            theta=self.theta,
            num_prefix_tokens=config.num_prefix_tokens,
            rows_first=self.rows_first,
            across=self.across,
            unit=self.unit,
        )
        return FixedTable(config.grid, compute)

    def attach(self, model: "ViT") -> None:
        for layer in attention_layers(model.blocks, "RoPE()"):
            layer.rotate = Rotation(model, self.unit)


class Rotation(nn.Module):
    """q and k (b, heads, t, hd), rotated by the table in `owner.pos_embed`."""

    def __init__(self, owner: nn.Module, in_halves: bool = False) -> None:
        super().__init__()
        self.owner = (owner,)  # as in RelativeBias
        self.in_halves = in_halves

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        cosine, sine = beside(q, self.owner[0].pos_embed())
        turn = rotated_halves if self.in_halves else rotated
        return turn(q, cosine, sine), turn(k, cosine, sine)


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Neighbours in (b, heads, t, hd) are points of a plane; turn each."""
    a, b = x[..., ::2], x[..., 1::2]
    turned = torch.stack([a * cosine - b * sine, b * cosine + a * sine], dim=-1)
    return turned.flatten(-2).to(x.dtype)


def rotated_halves(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """As `rotated`, of points whose two numbers are hd/2 apart."""
    a, b = x.chunk(2, dim=-1)
    turned = torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)
    return turned.to(x.dtype)
