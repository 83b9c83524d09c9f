"""Photographs, and maps beside them, for several chapters."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from torch import Tensor

from vitedu.figures.charts import WIDTH, chart
from vitedu.figures.palette import MAP
from vitedu.figures.schematic import rectangle

LEVELS = 15  # of a colour as drawn, so that a photograph stays a small PNG


def pictures(
    panels: Mapping[str, Tensor], alt: str, columns: int | None = None
) -> tuple[Figure, str]:
    """Pictures (3, h, w) in 0..1, titled, in rows of `columns`."""
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
    colors: str | Colormap = MAP,
) -> tuple[Figure, str]:
    """A picture (3, h, w), then maps (gh, gw) with titles, on one scale.

    The scale runs from 0 to the largest weight of all and is printed once, as
    `label`. `marked` is the (row, column) of the querying patch, framed in
    every panel.
    """
    columns = columns or min(len(weights) + 1, 3)
    figure, grid = _panels(len(weights) + 1, columns, below=0.6)
    draw_picture(grid[0], picture)
    rows, _ = next(iter(weights.values())).shape
    highest = max(each.max().item() for each in weights.values())
    for axes, (title, each) in zip(grid[1:], weights.items(), strict=False):
        shown = axes.imshow(each.numpy(), cmap=colors, vmin=0, vmax=highest)
        axes.set_title(title, fontsize=11)
    if marked is not None:
        frame_patch(grid[0], marked, picture.shape[1] / rows)
        for axes in grid[1 : len(weights) + 1]:
            frame_patch(axes, marked, 1)
    figure.colorbar(
        shown, ax=grid, location="bottom", aspect=40, shrink=0.8, label=label
    )
    return figure, alt


def draw_picture(axes: Axes, picture: Tensor) -> None:
    """Draw (3, h, w) in 0..1, or grey (1, h, w)."""
    shown = (picture.clamp(0, 1) * LEVELS).round() / LEVELS
    if shown.shape[0] == 1:
        axes.imshow(shown[0].numpy(), cmap="gray", vmin=0, vmax=1)
    else:
        axes.imshow(shown.permute(1, 2, 0).numpy(), interpolation="nearest")


def frame_patch(
    axes: Axes,
    place: tuple[int, int],
    side: float,
    lines: Sequence[tuple[str, float]] = (("black", 4), ("white", 2)),
) -> None:
    """Frame the patch at (row, column), `side` pixels wide."""
    row, column = place
    corner = (column * side - 0.5, row * side - 0.5)
    for color, width in lines:
        rectangle(axes, corner, (side, side), fill=False, ec=color, lw=width)


def _panels(
    number: int, columns: int, below: float = 0.0
) -> tuple[Figure, list[Axes]]:
    """Bare panels in rows; `below` is room under the last row, in inches."""
    rows = math.ceil(number / columns)
    height = rows * (WIDTH / columns + 0.27) + below
    figure, grid = chart(WIDTH, height, rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    return figure, list(grid.flat)
