"""Axial attention: along the rows of the grid, then along its columns.

`vit("ViT-B/16", block=Axial())`; paper, appendix D.6.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from einops import rearrange, repeat
from torch import Tensor, fx, nn

from vitedu.fields import Variant
from vitedu.model.attention import MultiHeadAttention
from vitedu.model.encoder import EncoderBlock

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig

# calls that torch.fx keeps, as in vitedu.model.attention
fx.wrap("rearrange")
fx.wrap("repeat")


class AxisAttention(MultiHeadAttention):
    """Equations (5) to (8) in each line of the grid: (b, t, d) -> (b, t, d).

    `grid` is (rows, columns); the last rows * columns tokens are the grid, row
    by row. A token before them, such as the class token, belongs to every line:
    it has one q, k and v, the tokens of all lines read it, and it takes the
    mean of what it reads in each.

    Under `record_attention` the weights are (b*lines, heads, s, s), image after
    image, line after line; s counts the prefix tokens, then a line's.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        grid: tuple[int, int],
        axis: Literal["row", "column"],
        dropout: float = 0.0,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout)
        self.grid = grid
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = rearrange(
            self.to_lines(self.qkv(x)),
            "bl s (three heads hd) -> three bl heads s hd",
            three=3,
            heads=self.num_heads,
        )
        values = self.attend(q, k, v)
        values = rearrange(values, "bl heads s hd -> bl s (heads hd)")
        return self.dropout(self.proj(self.from_lines(values)))

    def to_lines(self, x: Tensor) -> Tensor:
        """(b, t, d) -> (b*lines, s, d), prefix tokens before each line."""
        rows, columns = self.grid
        first, patches = x[:, : -rows * columns], x[:, -rows * columns :]
        order = "b gh gw d" if self.axis == "row" else "b gw gh d"
        lines = rearrange(
            patches, f"b (gh gw) d -> {order}", gh=rows, gw=columns
        )
        first = repeat(first, "b one d -> b lines one d", lines=lines.shape[1])
        return torch.cat([first, lines], dim=2).flatten(0, 1)

    def from_lines(self, lines: Tensor) -> Tensor:
        """(b*lines, s, d) -> (b, t, d), with the mean of each prefix token."""
        rows, columns = self.grid
        order = "b gh gw d"
        if self.axis == "column":
            rows, columns, order = columns, rows, "b gw gh d"
        lines = rearrange(lines, "(b lines) s d -> b lines s d", lines=rows)
        first = lines[:, :, :-columns].mean(dim=1)  # (b, 1, d), or no token
        patches = rearrange(lines[:, :, -columns:], f"{order} -> b (gh gw) d")
        return torch.cat([first, patches], dim=1)


class AxialBlock(nn.Module):
    """Row attention, MLP, column attention, MLP: (b, t, d) -> (b, t, d).

    Two encoder blocks, `row` and `column`, with twice the weights of one; after
    both, every token has seen every other.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        mlp_dim: int,
        grid: tuple[int, int],
        *,
        gelu: str = "exact",
        norm_eps: float = 1e-6,
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        for axis in ("row", "column"):
            half = EncoderBlock(
                embed_dim,
                num_heads,
                mlp_dim,
                gelu=gelu,
                norm_eps=norm_eps,
                dropout=dropout,
                drop_path=drop_path,
            )
            half.attn = AxisAttention(embed_dim, num_heads, grid, axis, dropout)
            self.add_module(axis, half)

    def forward(self, x: Tensor) -> Tensor:
        return self.column(self.row(x))


@dataclass(frozen=True)
class Axial(Variant):
    """Attention along one axis of the grid at a time, in place of Standard().

    The paper doesn't say what becomes of the class token, or whether row
    attention reads inside a row or across rows. Here it reads inside, and the
    class token is part of every line, so each pool works. A co-author's later
    code (scenic's X-ViT) reads across rows first, without a class token.
    Source: paper, appendix D.6.
    """

    def build(self, config: "ViTConfig", drop_path: float) -> AxialBlock:
        """One block of the encoder; `drop_path` is that of each branch."""
        return AxialBlock(
            config.embed_dim,
            config.num_heads,
            config.mlp_dim,
            config.grid,
            gelu=config.gelu,
            norm_eps=config.norm_eps,
            dropout=config.dropout,
            drop_path=drop_path,
        )
