"""Learned positions at another resolution, as in section 3.2.

`resize_pos_embed(pos_embed, (24, 24), num_prefix_tokens=1)` takes (1, 197, d)
of a 14x14 grid and a class token to (1, 577, d).
"""

import math
from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from vitedu.errors import UserError, did_you_mean
from vitedu.model.relative import Relative

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig
    from vitedu.model.resnet import ResNetConfig

ResizeMode = Literal["paper", "timm", "torchvision", "hf"]


def resize_pos_embed(
    pos_embed: Tensor,
    grid: tuple[int, int],
    *,
    old_grid: tuple[int, int] | None = None,
    num_prefix_tokens: int,
    mode: ResizeMode = "paper",
) -> Tensor:
    """Resize learned positions to another grid: (1, t_old, d) -> (1, t_new, d).

    The first `num_prefix_tokens` rows (class token) are kept; the others are
    read as an image of `old_grid` (rows, columns; None: a square) and resampled
    to `grid`. An equal grid returns `pos_embed` itself. `mode` says how:

    - "paper": the authors', linear between neighbours, corners stay corners
    - "timm": bicubic with antialias, what timm does outside of .npz files
    - "torchvision": bicubic, corners stay corners
    - "hf": bicubic of pixel areas, Hugging Face's `interpolate_pos_encoding`

    Computed in float64 on the CPU; dtype and device are kept. The libraries
    compute in float32, which moves values of size 1 by up to 1e-5. The authors'
    scipy.ndimage.zoom(order=1) turns the last row and column into zeros for
    some sizes (8 -> 26, 28 -> 24), by rounding; here they are the old grid's.

    UserError: the rows do not form `old_grid`, or none is given and they form
    no square; the mode is unknown.
    Source: paper, section 3.2; vit_jax's interpolate_posembed.
    """
    modes = {
        "paper": {"mode": "bilinear", "align_corners": True},
        "timm": {"mode": "bicubic", "antialias": True},
        "torchvision": {"mode": "bicubic", "align_corners": True},
        "hf": {"mode": "bicubic", "align_corners": False},
    }
    if mode not in modes:
        raise UserError(
            f"resize_pos_embed has no mode {mode!r}; "
            + did_you_mean(mode, modes)
        )
    patches = pos_embed[:, num_prefix_tokens:]
    n = patches.shape[1]
    shape = "square"
    if old_grid is None:
        old_grid = (math.isqrt(n), math.isqrt(n))
    else:
        shape = f"{old_grid[0]}x{old_grid[1]}"
    if num_prefix_tokens < 0 or n < 1 or math.prod(old_grid) != n:
        raise UserError(
            f"{pos_embed.shape[1]} positions, {num_prefix_tokens} of them for "
            f"prefix tokens, form no {shape} grid; give old_grid=(rows, "
            "columns), or another num_prefix_tokens"
        )
    if tuple(grid) == tuple(old_grid):
        return pos_embed
    image = rearrange(patches, "1 (gh gw) d -> 1 d gh gw", gh=old_grid[0])
    # Not every device has float64. In the other layout torch 2.13's antialias
    # is wrong by the size of the values where the new grid is one column wide.
    image = image.to("cpu", torch.float64).clone(
        memory_format=torch.channels_last
    )
    image = F.interpolate(image, size=tuple(grid), **modes[mode])
    patches = rearrange(image, "1 d gh gw -> 1 (gh gw) d").to(pos_embed)
    return torch.cat([pos_embed[:, :num_prefix_tokens], patches], dim=1)


def resize_positions(
    state_dict: dict[str, Tensor],
    old: "ViTConfig | ResNetConfig",
    new: "ViTConfig | ResNetConfig",
    *,
    mode: ResizeMode = "paper",
) -> dict[str, Tensor]:
    """The state_dict of `old`, with its positions resized to the grid of `new`.

    Everything else is passed on, as is a ResNet's. Tables in blocks are resized
    like the model's own; Learned2D's each along its own axis, which resizes the
    grid they span: all modes treat rows and columns separately.

    UserError: Relative, where the grid changes.
    """
    has_tables = any("pos_embed" in name for name in state_dict)
    if not has_tables or old.grid == new.grid:
        return dict(state_dict)
    if isinstance(old.position, Relative):
        raise UserError(
            f"Relative() positions learned on a {old.grid[0]}x{old.grid[1]} "
            f"grid do not fit one of {new.grid[0]}x{new.grid[1]}: their "
            f"offsets count places in a row of {old.num_tokens} tokens; keep "
            f"image_size={old.image_size}"
        )
    (old_rows, old_columns), (rows, columns) = old.grid, new.grid
    has_rows = getattr(old.position, "prefix", True)
    prefix = old.num_prefix_tokens if has_rows else 0
    # end of a key: old grid, new grid, prefix tokens
    grids = {
        "pos_embed": (old.grid, new.grid, prefix),
        "pos_embed.x": ((1, old_columns), (1, columns), 0),
        "pos_embed.y": ((old_rows, 1), (rows, 1), 0),
    }
    resized = dict(state_dict)
    for name, table in state_dict.items():
        end = name[name.find("pos_embed") :]
        if end in grids:
            before, after, num_prefix_tokens = grids[end]
            resized[name] = resize_pos_embed(
                table,
                after,
                old_grid=before,
                num_prefix_tokens=num_prefix_tokens,
                mode=mode,
            )
    return resized
