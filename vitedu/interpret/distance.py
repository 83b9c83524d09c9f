"""Attention distance: how far away a head looks, in pixels.

`attention_distance(maps, (14, 14), 16)[0]` are the heads of the first layer.
Source: the paper, Figures 7 (right) and 11, and appendix D.7.
"""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

from vitedu.errors import UserError

Prefix = Literal["renormalise", "drop"]


def attention_distance(
    maps: Iterable[Tensor],
    grid: tuple[int, int],
    patch_size: int | tuple[int, int],
    prefix: Prefix = "renormalise",
) -> Tensor:
    """The mean distance between a patch and what it looks at: (layers, heads).

    `maps` are the layers' weights (b, heads, t, t), as `record_attention`
    collects them, with the patches of `grid` = (rows, columns) last. The
    distance from patch to patch is weighted by attention, then the mean is
    taken over all patches and images, in pixels for `patch_size` in pixels.

    The class token and registers have no place, so what a patch takes from
    them is left out. "renormalise" lets the rest sum to 1 again, as a mean
    distance must. "drop" doesn't, like the code that a co-author has posted: a
    head that takes nearly everything from the class token then seems to look
    at its own place. Uniform attention has a distance of 116.49 pixels on a
    grid of 14 by 14 patches of 16.

    UserError: the maps have fewer tokens than the grid has patches.
    """
    between = patch_distances(grid, patch_size)
    return torch.stack([_distance(layer, between, prefix) for layer in maps])


def patch_distances(
    grid: tuple[int, int], patch_size: int | tuple[int, int]
) -> Tensor:
    """Distances (n, n) between the patches of a grid, in pixels."""
    size = torch.as_tensor(patch_size).expand(2)
    places = (torch.cartesian_prod(*map(torch.arange, grid)) * size).double()
    return torch.cdist(places, places, compute_mode=EXACT)


EXACT = "donot_use_mm_for_euclid_dist"


def _distance(maps: Tensor, between: Tensor, prefix: Prefix) -> Tensor:
    num_patches, num_tokens = len(between), maps.shape[-1]
    if num_tokens < num_patches:
        raise UserError(
            f"the maps have {num_tokens} tokens, and the grid has "
            f"{num_patches} patches; give the grid of the model, and a layer "
            "that attends over all tokens"
        )
    shares = maps[..., -num_patches:, -num_patches:]
    if prefix == "renormalise":
        shares = shares / shares.sum(dim=-1, keepdim=True)
    between = between.to(shares)
    return (shares * between).sum(dim=-1).mean(dim=(0, 2))
