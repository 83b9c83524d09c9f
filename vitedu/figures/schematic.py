"""What drawings without data are made of: a ground, boxes, arrows, words.

A schematic's ground is transparent. What stands in a box is white on the part's
colour; what stands outside is a grey that is legible on a white page and on a
dark one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK = "#202020"  # on an opaque white ground
GREY = "#7a808a"  # words and lines on a ground that may be white or dark
UNITS = 100  # to an inch, in the axes of `figure`
TEXT = 12  # points


def figure(width: float, height: float) -> "tuple[Figure, Axes]":
    """A transparent ground from (0, 0) to (width, height), y upwards.

    100 units are one inch, so a drawing 320 wide is 384 pixels wide on a page;
    keep it under 480, and its words stay legible on a phone.
    """
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(width / UNITS, height / UNITS))
    drawing.patch.set_alpha(0)
    axes = drawing.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return drawing, axes


def chart(width: float, height: float) -> "Figure":
    """An empty figure for plots and pictures, on white; sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def box(
    axes: "Axes",
    middle: Sequence[float],
    size: Sequence[float],
    words: str,
    color: str,
    lit: bool = True,
    fontsize: float = TEXT,
) -> None:
    """A rounded box of this color around `middle`, (width, height) large.

    Lit, its words are white and bold; else it is an outline with grey words.
    """
    from matplotlib.patches import FancyBboxPatch

    (x, y), (width, height) = middle, size
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            "round,pad=0,rounding_size=7",
            facecolor=color if lit else "none",
            edgecolor=color,
            linewidth=1.6,
            zorder=3,
        )
    )
    axes.text(
        x,
        y,
        words,
        ha="center",
        va="center_baseline",
        color="white" if lit else GREY,
        fontsize=fontsize,
        weight="bold" if lit else "normal",
        zorder=4,
    )


def label(
    axes: "Axes",
    place: Sequence[float],
    words: str,
    color: str = GREY,
    fontsize: float = TEXT,
    **options: object,
) -> None:
    """Words outside of any box, centred at `place` unless `options` say else."""
    around = {"ha": "center", "va": "center", **options}
    axes.text(*place, words, color=color, fontsize=fontsize, **around)


def arrow(
    axes: "Axes",
    start: Sequence[float],
    end: Sequence[float],
    dashed: bool = False,
    color: str = DARK,
    width: float = 1,
) -> None:
    """An arrow between two points (x, y) of `axes`."""
    style = {
        "arrowstyle": "->",
        "color": color,
        "linewidth": width,
        "shrinkA": 0,
        "shrinkB": 0,
        "linestyle": "--" if dashed else "-",
    }
    axes.annotate("", tuple(end), tuple(start), arrowprops=style)


def line(
    axes: "Axes",
    points: Sequence[Sequence[float]],
    color: str = GREY,
    width: float = 1.6,
    dashed: bool = False,
) -> None:
    """A line through these points (x, y)."""
    axes.plot(
        *zip(*points, strict=True),
        color=color,
        linewidth=width,
        linestyle="--" if dashed else "-",
        solid_capstyle="round",
    )


def squares(
    axes: "Axes",
    corner: Sequence[float],
    side: float,
    colors: Sequence[str],
    columns: int | None = None,
    gap: float = 3,
) -> None:
    """Small squares from `corner` (left, lower) to the right, in rows upwards.

    `columns` of them stand in a row; all of them unless it is said.
    """
    from matplotlib.patches import Rectangle

    columns = columns or len(colors)
    for place, color in enumerate(colors):
        row, column = divmod(place, columns)
        left = corner[0] + column * (side + gap)
        lower = corner[1] + row * (side + gap)
        axes.add_patch(
            Rectangle((left, lower), side, side, color=color, linewidth=0)
        )
