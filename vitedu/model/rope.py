"""Rotary positions (RoPE): q and k are turned by angles that say where.

`vit("ViT-B/16", position=RoPE())`
"""

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

import torch
from torch import Tensor, fx, nn

from vitedu.errors import UserError
from vitedu.fields import Range
from vitedu.model.attention import attention_layers
from vitedu.model.footprint import MODULE, Footprint
from vitedu.model.position import Position
from vitedu.model.tables import (
    FixedTable,
    beside,
    recompute_after_loading,
    rotation_table,
)

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig
    from vitedu.model.vit import ViT

# a call that torch.fx keeps, as in vitedu.model.attention
fx.wrap("beside")


@dataclass(frozen=True)
class RoPE(Position):
    """Axial rotary positions: in every layer q and k are rotated, v is not.

    The hd numbers of a head are hd/2 points of a plane. A patch turns half of
    them by its column and half by its row, each point at its own speed: k =
    hd/4 speeds per axis, from 1 down towards 1/theta radians a patch. A product
    of q and k then depends on how far apart the two patches are, and not on
    where. The tokens before the patches aren't rotated. Nothing is learned or
    stored.

    UserError: theta is below 1; when the model is built, the width of a head
    isn't a multiple of 4, or the blocks aren't those of `Standard()`.
    Source: Heo et al. 2024, "Rotary Position Embedding for Vision Transformer"
    (RoPE-Axial); equal to timm's vit_small_patch16_rope_224. Not in the paper.
    """

    name: str = field(default="RoPE", init=False, repr=False)
    theta: Annotated[float, Range(1)] = 100.0

    def build(self, config: "ViTConfig") -> FixedTable:
        """The cosines and sines, one table for all blocks."""
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
        )
        return FixedTable(config.grid, compute)

    def attach(self, model: "ViT") -> None:
        """Give every attention layer its `rotate`."""
        for layer in attention_layers(model.blocks, "RoPE()"):
            layer.rotate = Rotation(model)
        model.register_load_state_dict_post_hook(recompute_after_loading)

    def footprint(self, config: "ViTConfig") -> tuple[Footprint, Footprint]:
        """One table of cosines and sines; in every block what reads it."""
        head_dim = config.embed_dim // config.num_heads
        table = Footprint(buffers=config.num_tokens * head_dim)
        return table + MODULE, MODULE


class Rotation(nn.Module):
    """q and k (b, heads, t, hd), rotated by the table in `owner.pos_embed`.

    The owner is kept in a tuple: as an attribute it would become a part of this
    module.
    """

    def __init__(self, owner: nn.Module) -> None:
        super().__init__()
        self.owner = (owner,)

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Both (b, heads, t, hd), in their own dtype."""
        cosine, sine = beside(q, self.owner[0].pos_embed())
        return rotated(q, cosine, sine), rotated(k, cosine, sine)


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Neighbours in (b, heads, t, hd) are points of a plane; turn each."""
    a, b = x[..., ::2], x[..., 1::2]
    turned = torch.stack([a * cosine - b * sine, b * cosine + a * sine], dim=-1)
    return turned.flatten(-2).to(x.dtype)
