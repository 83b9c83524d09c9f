"""What the tokens of the patches say, block by block.

`components(model, images)` are colours (b, gh, gw, 3): patches of one kind have
one colour. Of vitedu's ViTs and timm's.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitedu.errors import UserError
from vitedu.interpret.learned import grid_of
from vitedu.interpret.rollout import as_vit

# as many times the median norm as an outlier has at least
TIMES = 4.0


@torch.no_grad()
def patch_tokens(model: nn.Module, images: Tensor, block: int = -1) -> Tensor:
    """The patches' tokens after a block, (b, n, d); -1 is the last."""
    if not hasattr(model, "get_intermediate_layers"):
        model = as_vit(model)  # timm's EVA
    read: Any = model
    depth = len(read.blocks)
    if not -depth <= block < depth:
        raise UserError(
            f"there is no block {block}: the model has {depth}, counted from "
            f"0 to {depth - 1}"
        )
    (tokens,) = read.get_intermediate_layers(images, [block % depth])
    return tokens


def outlier_tokens(
    model: nn.Module, images: Tensor, block: int = -1, times: float = TIMES
) -> Tensor:
    """Which patches' tokens are giants after a block: (b, n) of bool.

    Those at least `times` as long as the median of their image. ViTs keep
    notes about the whole image there instead of the patch's own content.
    Source: Darcet et al. 2024, "Vision Transformers Need Registers".
    """
    return giants(patch_tokens(model, images, block), times)


def giants(tokens: Tensor, times: float = TIMES) -> Tensor:
    """`outlier_tokens` for tokens (b, n, d)."""
    norms = tokens.norm(dim=-1)
    return norms > times * norms.median(dim=-1, keepdim=True).values


def components(model: nn.Module, images: Tensor, block: int = -1) -> Tensor:
    """Three principal components of each image's tokens: (b, gh, gw, 3), 0..1.

    Tokens have length 1 first. Outliers take no part and are grey, since they
    would be the first component. A component goes from 0 to 1 between its 2nd
    and 98th percentile; its sign says nothing.
    Source: Oquab et al. 2023, "DINOv2", Figure 1.
    """
    tokens = patch_tokens(model, images, block)
    grid = grid_of(model)
    return torch.stack(
        [
            _colours(each, ~is_giant).view(*grid, 3)
            for each, is_giant in zip(tokens, giants(tokens), strict=True)
        ]
    )


def _colours(tokens: Tensor, usual: Tensor) -> Tensor:
    """(n, d), and which of them count -> (n, 3)."""
    unit = F.normalize(tokens.float(), dim=-1)
    unit = unit - unit[usual].mean(dim=0)
    axes = torch.linalg.svd(unit[usual], full_matrices=False).Vh[:3]
    values = unit @ axes.T
    ends = torch.tensor([0.02, 0.98], device=values.device)
    low, high = values[usual].quantile(ends, dim=0)
    shown = ((values - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)
    shown[~usual] = 0.5
    missing = 3 - shown.shape[1]  # of fewer than three tokens or numbers
    return F.pad(shown, (0, missing), value=0.5)


def similar_to(
    model: nn.Module,
    images: Tensor,
    patch: tuple[int, int],
    block: int = -1,
) -> Tensor:
    """How similar all patches are to the one at (row, column): (b, gh, gw).

    Cosines of tokens, less the mean token of the image's patches; outliers
    don't count for the mean.

    UserError: the grid has no such patch.
    """
    rows, columns = grid_of(model)
    row, column = patch
    if not (0 <= row < rows and 0 <= column < columns):
        raise UserError(
            f"there is no patch {row, column}: the grid has {rows} rows and "
            f"{columns} columns, counted from 0"
        )
    tokens = patch_tokens(model, images, block)
    usual = (~giants(tokens))[..., None].to(tokens)
    tokens = F.normalize(tokens, dim=-1)
    mean = (usual * tokens).sum(1, keepdim=True) / usual.sum(1, keepdim=True)
    unit = F.normalize(tokens - mean, dim=-1)
    cosines = unit @ unit[:, row * columns + column, :, None]
    return cosines.view(-1, rows, columns)
