"""What the first layer has learned: its filters, and its positions.

`filters(model)[0]` is (28, 3, 16, 16); `position_similarity(model)[2, 5]` is
how similar the position of row 2, column 5 is to all others.
Source: the paper, Figure 7, left and centre.
"""

from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vitedu.errors import UserError


def filters(model: nn.Module, count: int = 28) -> tuple[Tensor, Tensor]:
    """Principal components of a ViT's patch embedding, the largest first.

    (count, c, p, q) of length 1, and the share of the variance that each has,
    (count,). Of vitedu's ViTs and timm's.

    UserError: the patches are not cut from pixels (a hybrid).
    Source: Figure 7, left: the mean filter is subtracted, then the singular
    value decomposition.
    """
    embed: Any = getattr(model, "patch_embed", None)
    if not hasattr(embed, "proj") or hasattr(embed, "backbone"):
        raise UserError(
            f"this {type(model).__name__} doesn't cut patches of pixels, so "
            "its first layer has no filters to look at; give a ViT without a "
            "ResNet before it"
        )
    weight = embed.proj.weight
    rows = weight.detach().flatten(1)
    rows = rows - rows.mean(dim=0)
    _, sizes, components = torch.linalg.svd(rows, full_matrices=False)
    shares = sizes.square() / sizes.square().sum()
    return components[:count].unflatten(1, weight.shape[1:]), shares[:count]


def position_similarity(model: nn.Module) -> Tensor:
    """Cosines between the positions of all patches: (gh, gw, gh, gw).

    `[row, column]` is the map of one patch. Of vitedu's ViTs and timm's.

    UserError: no vectors are added at the stem (relative positions, RoPE, or
    none).
    Source: Figure 7, centre; the class token's row is left out.
    """
    table: Any = getattr(model, "pos_embed", None)
    if isinstance(table, nn.Module):
        table = table()
    embed: Any = getattr(model, "patch_embed", None)
    # RoPE's table of angles is as wide as a head
    if table is None or table.shape[-1] != len(embed.proj.weight):
        raise UserError(
            f"this {type(model).__name__} has no table of position vectors to "
            "compare; give one with positions that are added to the patches"
        )
    rows, columns = grid_of(model)
    vectors = F.normalize(table.detach()[0, -rows * columns :], dim=-1)
    pattern = "(gh gw) (h w) -> gh gw h w"
    return rearrange(vectors @ vectors.T, pattern, gh=rows, h=rows)


def grid_of(model: Any) -> tuple[int, int]:
    embed = model.patch_embed
    rows, columns = getattr(embed, "grid", None) or embed.grid_size
    return rows, columns
