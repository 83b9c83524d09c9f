"""Photographs and maps over them: what several chapters show.

Every function returns a figure and its alt text, for `figures.show(*...)`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart
from vitedu.figures.palette import MAP
from vitedu.figures.schematic import rectangle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy import ndarray

LEVELS = 15  # of a colour as drawn, so that a photograph stays a small PNG
MOST = 0.1  # share of attention from which on a map is as bright as can be
GHOST = 0.55  # of the photograph, where a map over it is dark
LIT = 0.15  # of the photograph, where a map over it is bright


def pictures(
    panels: Mapping[str, Tensor], alt: str, columns: int | None = None
) -> "tuple[Figure, str]":
    """Pictures (3, h, w) in 0..1, each with a title, in rows of `columns`."""
    figure, grid = _panels(len(panels), columns or len(panels))
    for axes, (title, picture) in zip(grid, panels.items(), strict=False):
        draw_picture(axes, picture)
        axes.set_title(title, fontsize=11)
    return figure, alt


def maps(
    picture: Tensor,
    weights: Mapping[str, Tensor],
    label: str,
    alt: str,
    marked: tuple[int, int] | None = None,
    columns: int | None = None,
) -> "tuple[Figure, str]":
    """A picture (3, h, w), then maps (gh, gw) under their titles, on one scale.

    The scale runs from 0 to the largest weight of all and is printed once, as
    `label`. `marked` is the row and column of the patch that asks: it is framed
    everywhere.
    """
    columns = columns or min(len(weights) + 1, 3)
    figure, grid = _panels(len(weights) + 1, columns, below=0.6)
    draw_picture(grid[0], picture)
    rows, _ = next(iter(weights.values())).shape
    highest = max(each.max().item() for each in weights.values())
    for axes, (title, each) in zip(grid[1:], weights.items(), strict=False):
        shown = axes.imshow(each.numpy(), cmap=MAP, vmin=0, vmax=highest)
        axes.set_title(title, fontsize=11)
    if marked is not None:
        frame_patch(grid[0], marked, picture.shape[1] / rows)
        for axes in grid[1 : len(weights) + 1]:
            frame_patch(axes, marked, 1)
    figure.colorbar(
        shown, ax=grid, location="bottom", aspect=40, shrink=0.8, label=label
    )
    return figure, alt


def named(
    picture: Tensor, places: Mapping[str, tuple[int, int]], patch_size: int
) -> "tuple[Figure, str]":
    """A picture (3, h, w) in 0..1; patches (row, column) framed and named."""
    from matplotlib.patheffects import withStroke

    figure, axes = chart(3.2, 3.2)
    draw_picture(axes, picture)
    axes.axis("off")
    for name, (row, column) in places.items():
        frame_patch(axes, (row, column), patch_size)
        axes.text(
            (column + 1.4) * patch_size,
            (row + 0.5) * patch_size,
            name,
            color="white",
            fontsize=13,
            weight="bold",
            va="center_baseline",
            path_effects=[withStroke(linewidth=2.5, foreground="black")],
        )
    listed = ", ".join(
        f"the {name} at row {row}, column {column}"
        for name, (row, column) in places.items()
    )
    return figure, f"The photograph with frames around two patches: {listed}."


def heads(
    picture: Tensor,
    maps: Mapping[str, tuple[Tensor, tuple[int, int]]],
    alt: str,
    across: int = 1,
) -> "tuple[Figure, str]":
    """What a patch looks at, head by head, on one scale, over a photograph.

    `maps` is name to (maps (heads, gh, gw), row and column of the patch that
    asks), over the photograph (3, h, w). A name fills a row, or `across` names
    share one.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    many = len(next(iter(maps.values()))[0])
    columns, lines = many * across, math.ceil(len(maps) / across)
    side = (WIDTH - 0.3) / columns
    height = lines * (side + 0.06 + 0.2 * (across > 1)) + 1.0
    figure, grid = chart(WIDTH, height, lines, columns, squeeze=False)
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02)
    ghost = F.avg_pool2d(picture.mean(dim=0)[None], 2)[0]  # (h / 2, w / 2)
    for number, (name, (each, place)) in enumerate(maps.items()):
        row, column = divmod(number, across)
        for head, shares in enumerate(each):
            axes = grid[row, column * many + head]
            axes.imshow(_over(ghost, shares), interpolation="nearest")
            patch_side = len(ghost) / len(shares)
            frame_patch(axes, place, patch_side, [("white", 1.2)])
            axes.set(xticks=[], yticks=[])
            bare(axes, "top", "right", "bottom", "left")
            if across > 1:
                axes.set_title(f"{name}.{head + 1}", fontsize=11, pad=3)
            elif not row:
                axes.set_title(f"head {head + 1}", fontsize=12)
            if across == 1 and not head:
                axes.set_ylabel(name, fontsize=12)
    for axes in grid.flat[many * len(maps) :]:
        axes.axis("off")
    figure.colorbar(
        ScalarMappable(Normalize(0, MOST), MAP),
        ax=grid,
        ticks=(0, MOST / 2, MOST),
        format=lambda tick, _: f"{tick:g}" + " or more" * int(tick == MOST),
        location="bottom",
        aspect=40,
        shrink=0.8,
        pad=0.02,
    ).set_label("share of attention", fontsize=11)
    return figure, alt


def draw_picture(axes: "Axes", picture: Tensor) -> None:
    """A picture (3, h, w) in 0..1, or grey (1, h, w)."""
    shown = (picture.clamp(0, 1) * LEVELS).round() / LEVELS
    if shown.shape[0] == 1:
        axes.imshow(shown[0].numpy(), cmap="gray", vmin=0, vmax=1)
    else:
        axes.imshow(shown.permute(1, 2, 0).numpy(), interpolation="nearest")


def frame_patch(
    axes: "Axes",
    place: tuple[int, int],
    side: float,
    lines: Sequence[tuple[str, float]] = (("black", 4), ("white", 2)),
) -> None:
    """A frame around the patch at (row, column), `side` pixels wide.

    `lines` are its colours and widths, the lowest first; these two are visible
    on any ground.
    """
    row, column = place
    corner = (column * side - 0.5, row * side - 0.5)
    for color, width in lines:
        rectangle(axes, corner, (side, side), fill=False, ec=color, lw=width)


def _over(ghost: Tensor, shares: Tensor) -> "ndarray":
    """Colours (h, w, 3) of a map (gh, gw) over a grey picture (h, w)."""
    from matplotlib import colormaps

    pixels = len(ghost) // len(shares)  # of a patch
    bright = (shares / MOST).clamp(max=1)
    bright = bright.repeat_interleave(pixels, 0).repeat_interleave(pixels, 1)
    color = torch.tensor(colormaps[MAP](bright.numpy())[..., :3])
    through = (LIT + (GHOST - LIT) * (1 - bright) ** 3)[..., None]
    lighter = ghost.clamp(min=0).sqrt()[..., None]  # dark cloth has folds, too
    mixed = (1 - through) * color + through * lighter
    return ((mixed * LEVELS).round() / LEVELS).numpy()


def _panels(
    number: int, columns: int, below: float = 0.0
) -> "tuple[Figure, list[Axes]]":
    """A figure with bare panels in rows; those beyond `number` stay empty.

    `below` is the room under the last row, in inches.
    """
    rows = math.ceil(number / columns)
    height = rows * (WIDTH / columns + 0.27) + below
    figure, grid = chart(WIDTH, height, rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    return figure, list(grid.flat)
