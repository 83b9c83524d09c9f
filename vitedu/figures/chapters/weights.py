"""Chapter 9: answers, one matrix in many dialects, and mistakes."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    DARK,
    MLP,
    PALE,
    PATCHES,
    POSITIONS,
    STREAM,
    TINTS,
)
from vitedu.figures.photos import draw_picture
from vitedu.figures.schematic import canvas, label, line, rectangle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE, GAP, ROW = 27, 7, 122  # of a matrix of 192x192, between two, of a row
# what a mistake is about, by the end of its name in `imagenet-sample`
PARTS = {
    PATCHES: ("bgr", "mean_std", "0_1", "squash", "bilinear", "256", "kernel"),
    POSITIONS: ("positions",),
    ATTENTION: ("qk", "heads", "out", "qkv"),
    MLP: ("gelu",),
    STREAM: ("eps",),
}
PART_NAMES = {
    ATTENTION: "attention",
    POSITIONS: "positions",
    PATCHES: "pixels",
    MLP: "MLP",
    STREAM: "norms",
}


class Dialect(NamedTuple):
    """How somebody keeps the value matrix of a block."""

    owner: str
    name: Sequence[str]  # in lines of at most 36 letters
    shape: Sequence[int]
    code: Sequence[str]  # how it becomes ours, in lines as long
    form: str  # "joint", "three" or "heads"


class Cost(NamedTuple):
    """What a mistake does to the answers on many pictures."""

    key: str  # as in `imagenet-sample`
    words: str
    right: int
    change: float  # the largest, of a logit


def answers(
    pictures: Mapping[str, Tensor],
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> "tuple[Figure, str]":
    """Pictures (3, h, w) in 0..1, each with its answer before and after.

    An answer is a name and a percentage; what has another name is red.
    """
    # a single picture isn't lost in the middle of a wide page
    size = (WIDTH, 2.3) if len(pictures) > 1 else (WIDTH / 2, 2.8)
    figure, panels = chart(*size, 1, len(pictures), squeeze=False)
    told = []
    for axes, (name, picture) in zip(panels[0], pictures.items(), strict=True):
        draw_picture(axes, picture)
        axes.axis("off")
        axes.set_title(before[name], fontsize=11, color=DARK)
        old, new = (each[name].rpartition(" ")[0] for each in (before, after))
        changed = old != new
        axes.text(
            0.5,
            -0.05,
            after[name],
            transform=axes.transAxes,
            ha="center",
            va="top",
            fontsize=11,
            color=CLASS if changed else DARK,
            weight="bold" if changed else "normal",
        )
        told.append(f"{name}: first {before[name]}, then {after[name]}")
    alt = "Photographs with the answers above and below. " + "; ".join(told)
    return figure, f"{alt}."


def dialects(rows: Sequence[Dialect]) -> "tuple[Figure, str]":
    """One matrix in everybody's form: its name, its shape, the way to ours.

    Beside the matrix is written which of its axes are the inputs.
    """
    height = ROW * len(rows) + 8
    figure, axes = canvas(440, height, opaque=True)
    start = {"ha": "left", "va": "center_baseline"}
    told = []
    for number, row in enumerate(rows):
        top = height - 4 - ROW * number
        if number:
            line(axes, [(8, top), (432, top)], PALE, 0.8)
        _form(axes, (46, top - ROW / 2 + 7), row.form)
        shape = ", ".join(map(str, row.shape))
        y = top - 17
        heading = {"weight": "bold", **start}
        label(axes, (112, y), row.owner, ATTENTION, 12, **heading)
        right = {**start, "ha": "right"}
        label(axes, (432, y), f"({shape})", DARK, 11, **right)
        y -= 4
        for part in row.name:
            y -= 16
            label(axes, (112, y), part, DARK, 10.5, family="monospace", **start)
        y -= 19
        code = {"family": "monospace", "weight": "bold", **start}
        for part in row.code:
            label(axes, (112, y), part, ATTENTION, 10.5, **code)
            y -= 16
        told.append(
            f"{row.owner}, {''.join(row.name)} of shape ({shape}), "
            f"{' by '.join(_axes(row.form))}, becomes ours by "
            f"{' '.join(map(str.strip, row.code))}"
        )
    alt = "The value matrix of the first block in "
    return figure, f"{alt}{len(rows)} dialects: {'; '.join(told)}."


def _form(axes: "Axes", middle: Sequence[float], form: str) -> None:
    """Query, key and value, of which the value is filled."""
    x, y = middle
    gap = 0 if form == "joint" else GAP
    for part in range(3):
        below = y + (1.5 - part) * SIDE + (1 - part) * gap
        corner = (x - SIDE / 2, below - SIDE)
        face = ATTENTION if part == 2 else TINTS[ATTENTION]
        look = {"facecolor": face, "edgecolor": ATTENTION, "linewidth": 1.4}
        rectangle(axes, corner, (SIDE, SIDE), **look)
        edge = "white" if part == 2 else ATTENTION
        for cut in (1, 2) if form == "heads" else ():
            across = corner[0] + cut * SIDE / 3
            ends = [(across, corner[1]), (across, corner[1] + SIDE)]
            line(axes, ends, edge, 1.2)
        side = (x - SIDE / 2 - 11, below - SIDE / 2)
        label(axes, side, "qkv"[part], ATTENTION, 11, va="center_baseline")
    of_rows, of_columns = _axes(form)
    down = f"\N{DOWNWARDS ARROW}{of_rows}"
    right = f"\N{RIGHTWARDS ARROW}{of_columns}"
    start = {"ha": "left", "va": "center_baseline"}
    label(axes, (x + SIDE / 2 + 5, below - SIDE / 2), down, DARK, 11, **start)
    under = (x, below - SIDE - 10)
    label(axes, under, right, DARK, 11, va="center_baseline")


def _axes(form: str) -> tuple[str, str]:
    """What the matrix counts down its rows, and what across its columns."""
    return ("in", "out") if form == "heads" else ("out", "in")


def costs(rows: Sequence[Cost], total: int, right: int) -> "tuple[Figure, str]":
    """Right answers of `total`, and how far a logit moved, a row a mistake.

    `right` are those without a mistake. The fewer are right, the higher is the
    row; below, where none is lost, the smaller changes.
    """
    rows = sorted(rows, key=lambda row: (min(row.right, right), -row.change))
    height = 0.33 * len(rows) + 1.3
    figure, (left, far) = chart(
        WIDTH, height, 1, 2, sharey=True, width_ratios=(1.25, 1)
    )
    places = range(len(rows))
    colors = [color_of(row.key) for row in rows]
    counts = [row.right for row in rows]
    left.barh(places, counts, color=colors, height=0.66)
    left.axvline(right, color=DARK, linewidth=1, linestyle="--")
    for place, row in zip(places, rows, strict=True):
        inside = row.right > total / 4
        left.text(
            row.right - 30 if inside else row.right + 12,
            place,
            str(row.right),
            ha="right" if inside else "left",
            va="center_baseline",
            color="white" if inside else DARK,
            fontsize=11,
        )
    left.set_yticks(places, [row.words for row in rows], fontsize=11)
    left.set(xlim=(0, total), ylim=(len(rows) - 0.4, -0.6))
    left.set_xticks([0, right], ["0", f"{right}\nno mistake"])
    left.set_xlabel(f"right of {total:,}", fontsize=11)
    _legend(figure, colors)
    far.scatter([row.change for row in rows], places, c=colors, s=42, zorder=3)
    far.set(xscale="log")
    low, high = min(row.change for row in rows), max(r.change for r in rows)
    for place, row in zip(places, rows, strict=True):
        is_far = row.change > math.sqrt(low * high)
        note(
            far,
            rounded(row.change),
            (row.change, place),
            (-6 if is_far else 6, 0),
            10,
            ha="right" if is_far else "left",
            va="center_baseline",
            color=DARK,
        )
    powers = [
        power for power in range(-7, 4, 2) if low / 3 < 10.0**power < 3 * high
    ]
    ticks = {10.0**power: f"$10^{{{power}}}$" for power in powers}
    far.set_xticks([*ticks], [*ticks.values()], fontsize=10)
    far.set_xlim(low / 3, high * 3)
    far.minorticks_off()
    far.grid(axis="x", alpha=0.3)
    far.set_xlabel(
        f"largest change\nof a logit, over\n{total:,} photographs", fontsize=11
    )
    far.tick_params(left=False)
    for axes in (left, far):
        bare(axes)
    told = "; ".join(
        f"{row.words} {row.right}, by {rounded(row.change)}" for row in rows
    )
    alt = (
        f"Of {total:,} photographs {right} are right without a mistake. With "
        f"each mistake, how many, and by how much a logit moved at most: {told}"
    )
    return figure, f"{alt}."


def _legend(figure: "Figure", colors: Sequence[str]) -> None:
    """The parts of these colours, in a line above the plots."""
    from matplotlib.patches import Patch

    names = {c: name for c, name in PART_NAMES.items() if c in colors}
    figure.legend(
        [Patch(color=color) for color in names],
        [*names.values()],
        loc="outside upper center",
        ncols=len(names),
        labelcolor=[*names],
        prop={"size": 10, "weight": "bold"},
        handlelength=0.8,
        handletextpad=0.4,
        columnspacing=1.2,
        frameon=False,
    )


def rounded(change: float) -> str:
    """One digit of a small number, all before the point of a large one."""
    return f"{change:.0f}" if change >= 1 else f"{change:.1g}"


def color_of(key: str) -> str:
    """The book's colour of the part that a mistake is in."""
    for color, words in PARTS.items():
        if any(word in key for word in words):
            return color
    return DARK
