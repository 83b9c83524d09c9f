"""Schematics, drawings without data: a canvas, boxes, arrows, words.

The background is transparent by default. Words in a box are white on the part's
colour; other words are a grey that is legible on light and dark pages.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from vitedu.figures.palette import GREY

UNITS = 100  # to an inch, in the axes of `canvas`
TEXT = 12  # points
TIMES = "\N{MULTIPLICATION SIGN}"


def canvas(
    width: float, height: float, *, opaque: bool = False
) -> tuple[Figure, Axes]:
    """Axes from (0, 0) to (width, height), y upwards, 100 units per inch.

    A drawing 320 wide is 384 pixels wide on a page; below 480, words stay
    legible on a phone. Dark or coloured words outside boxes need `opaque`
    (white).
    """
    figure = Figure(figsize=(width / UNITS, height / UNITS))
    figure.patch.set_alpha(1 if opaque else 0)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def rectangle(
    axes: Axes, corner: Sequence[float], size: Sequence[float], **options: Any
) -> None:
    """`corner` is (x, y), lower left; `size` is (width, height)."""
    axes.add_patch(Rectangle(corner, *size, **options))


def rounded(
    axes: Axes, middle: Sequence[float], size: Sequence[float], **options: Any
) -> None:
    (x, y), (width, height) = middle, size
    corner = (x - width / 2, y - height / 2)
    shape = "round,pad=0,rounding_size=7"
    axes.add_patch(FancyBboxPatch(corner, width, height, shape, **options))


def box(
    axes: Axes,
    middle: Sequence[float],
    size: Sequence[float],
    words: str,
    color: str,
    lit: bool = True,
    fontsize: float = TEXT,
) -> None:
    face = color if lit else "none"
    look = {"edgecolor": color, "linewidth": 1.6, "zorder": 3}
    rounded(axes, middle, size, facecolor=face, **look)
    label(
        axes,
        middle,
        words,
        "white" if lit else GREY,
        fontsize,
        va="center_baseline",
        weight="bold" if lit else "normal",
        zorder=4,
    )


def label(
    axes: Axes,
    place: Sequence[float],
    words: str,
    color: str = GREY,
    fontsize: float = TEXT,
    **options: Any,
) -> None:
    """Words, centred at `place` unless `options` say otherwise."""
    look = {"ha": "center", "va": "center", **options}
    axes.text(*place, words, color=color, fontsize=fontsize, **look)


def arrow(
    axes: Axes,
    start: Sequence[float],
    end: Sequence[float],
    color: str = GREY,
    width: float = 1.6,
) -> None:
    look = {"arrowstyle": "->", "color": color, "linewidth": width}
    look |= {"shrinkA": 0, "shrinkB": 0}
    axes.annotate("", tuple(end), tuple(start), arrowprops=look)


def column(
    axes: Axes,
    x: float,
    width: float,
    steps: Sequence[tuple[str, str, str]],
    *,
    top: float = 420,
    pitch: float = 112,
    is_bold: bool = False,
) -> list[float]:
    """Boxes from top to bottom, joined by arrows, with code beside each.

    A step is (words, colour, code); `is_bold` sets the code in the box's
    colour. Returns the heights of the boxes' middles.
    """
    tops = [top - pitch * number for number in range(len(steps))]
    for middle, (words, color, code) in zip(tops, steps, strict=True):
        box(axes, (x, middle), (width, 50), words, color)
        look: dict[str, Any] = {"fontsize": 10, "family": "monospace"}
        if is_bold:
            look |= {"fontsize": 11, "weight": "bold", "color": color}
        label(axes, (x, middle - 40), code, **look)
    for above, below in pairwise(tops):
        arrow(axes, (x, above - (pitch - 8) / 2), (x, below + 26))
    return tops


def line(
    axes: Axes,
    points: Sequence[Sequence[float]],
    color: str = GREY,
    width: float = 1.6,
    dashed: bool = False,
) -> None:
    axes.plot(
        *zip(*points, strict=True),
        color=color,
        linewidth=width,
        linestyle="--" if dashed else "-",
        solid_capstyle="round",
    )


def outline(
    axes: Axes,
    corner: Sequence[float],
    opposite: Sequence[float],
    color: str = GREY,
    width: float = 1,
    dashed: bool = False,
) -> None:
    (left, top), (right, bottom) = corner, opposite
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    line(axes, [*corners, corners[0]], color, width, dashed)


def plus(
    axes: Axes,
    place: Sequence[float],
    color: str = GREY,
    diameter: float = 15,
    edge: float = 1.6,
    fontsize: float = TEXT,
) -> None:
    """A plus in a circle, where something is added to the stream."""
    axes.plot(
        *place,
        marker="o",
        markersize=diameter,
        color="white",
        markeredgecolor=color,
        markeredgewidth=edge,
        zorder=3,
    )
    label(axes, place, "+", color, fontsize, zorder=4, weight="bold")


def squares(
    axes: Axes,
    corner: Sequence[float],
    side: float,
    colors: Sequence[str],
    columns: int | None = None,
    gap: float = 3,
) -> None:
    """Small squares from `corner` (lower left), rightwards, then upwards."""
    columns = columns or len(colors)
    for number, color in enumerate(colors):
        row, column = divmod(number, columns)
        left = corner[0] + column * (side + gap)
        lower = corner[1] + row * (side + gap)
        rectangle(axes, (left, lower), (side, side), color=color, linewidth=0)
