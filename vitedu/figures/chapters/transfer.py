"""Chapter 11: the fine-tuning step, its parts, runs, crops, answers."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import ATTENTION, CLASS, DARK, NIGHT, PALE, STREAM
from vitedu.figures.photos import draw_picture
from vitedu.figures.schematic import (
    TIMES,
    arrow,
    canvas,
    column,
    label,
    line,
    rectangle,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# the step's own colours: none of them is a part of the network's
CLIP = "#2d6f73"  # teal
VELOCITY = "#7a5c3e"  # brown
LIMIT = 10  # of the velocity: 1 / (1 - 0.9)
FRAMES = ("#ff4d4d", "#4da3ff", "#ffd23f")  # on any photograph, over black
STEP = (
    ("the gradient  $g$  of the loss", STREAM, "loss.backward()"),
    (
        rf"clip  $g \leftarrow g$ {TIMES} $\min(1,\ 1/\Vert g\Vert)$",
        CLIP,
        "g = w.grad * shrink",
    ),
    (
        r"the velocity  $v \leftarrow 0.9\,v + g$",
        VELOCITY,
        "v.mul_(0.9).add_(g)",
    ),
    (r"the step  $w \leftarrow w - \eta\,v$", NIGHT, "w.sub_(rate * v)"),
)


def step() -> "tuple[Figure, str]":
    """The fine-tuning step: each box with its symbol, and its line of code."""
    figure, axes = canvas(340, 456, opaque=True)
    tops = column(axes, 188, 290, STEP, top=424, pitch=114, is_bold=True)
    line(axes, [(41, tops[-1]), (20, tops[-1]), (20, tops[0])])
    arrow(axes, (20, tops[0]), (43, tops[0]))
    label(axes, (9, 253), "next batch", rotation=90)
    alt = (
        "The fine-tuning step, four boxes from top to bottom, each with its "
        "line of code: the gradient, by loss.backward(); clipping, which "
        "shrinks gradients longer than 1 to length 1; the velocity, 0.9 times "
        "what it was plus the gradient; the step, the weight minus the rate "
        "times the velocity. An arrow leads back to the next batch."
    )
    return figure, alt


def momentum(
    gradients: Mapping[str, Sequence[float]],
    velocities: Mapping[str, Sequence[float]],
) -> "tuple[Figure, str]":
    """A panel per name: a gradient a step as bars, the velocity as a line.

    The dashed line is what the velocity approaches if all gradients are 1.
    """
    figure, panels = chart(
        WIDTH, 3.6, len(gradients), 1, sharex=True, sharey=True
    )
    listed = []
    for axes, (name, values) in zip(panels, gradients.items(), strict=True):
        steps, found = range(1, len(values) + 1), velocities[name]
        axes.bar(steps, values, 0.55, color=PALE)
        look = {"color": VELOCITY, "linewidth": 2.5, "markersize": 5}
        axes.plot(steps, found, "o-", **look)
        axes.axhline(0, color="0.4", linewidth=0.8)
        axes.axhline(LIMIT, color=VELOCITY, linewidth=1, linestyle="--")
        axes.set_title(name, fontsize=12)
        axes.set_ylabel("$g$, $v$", fontsize=12)
        axes.tick_params(labelsize=11)
        bare(axes)
        largest = max(map(abs, found))
        listed.append(f"{name}, a velocity of {largest:.1f} at most")
    number = len(next(iter(gradients.values())))
    look = {"ha": "left", "va": "top"}
    for place, words, color in (
        ((0.5, LIMIT - 0.3), f"limit {LIMIT}", VELOCITY),
        ((0.67 * number, 4.6), "velocity $v$", VELOCITY),
        ((0.67 * number, 2.6), "gradient $g$", STREAM),
    ):
        label(panels[0], place, words, color, 11, **look)
    panels[-1].set_xlabel("step", fontsize=12)
    return figure, (
        f"Gradients of size 1 and the velocity they add up to in {number} "
        f"steps: {'; '.join(listed)}. A dashed line marks the limit, {LIMIT}."
    )


def clipping(lengths: Sequence[float]) -> "tuple[Figure, str]":
    """Gradients as arrows of these lengths, and what clipping leaves of each.

    The circle has the radius 1; the part of an arrow that is cut off is pale.
    """
    figure, axes = chart(WIDTH, 2.6)
    turns = [math.radians(12 + 38 * i) for i in range(len(lengths))]
    for length, turn in zip(sorted(lengths, reverse=True), turns, strict=True):
        way = math.cos(turn), math.sin(turn)
        whole, kept = (
            tuple(part * x for x in way) for part in (length, min(1, length))
        )
        if length > 1:
            arrow(axes, (0, 0), whole, PALE, 2)
        arrow(axes, (0, 0), kept, CLIP, 3.5)
        words = f"{length:g}" + (" becomes 1" if length > 1 else " stays")
        side = "left" if length > 1 else "right"  # away from the circle
        label(axes, whole, f" {words} ", DARK, 12, ha=side, va="bottom")
    circle = [math.radians(degree) for degree in range(361)]
    points = [(math.cos(x), math.sin(x)) for x in circle]
    line(axes, points, STREAM, 1, dashed=True)
    label(axes, (0, -1.08), "length 1", STREAM, 11, va="top")
    most = max(lengths)
    top = max(most * math.sin(turns[0]), 1) + 0.35
    axes.set(xlim=(-1.15, most + 1), ylim=(-1.4, top), aspect="equal")
    axes.axis("off")
    words = ", ".join(
        f"{x:g} " + ("becomes 1" if x > 1 else "stays") for x in lengths
    )
    return figure, (
        "Gradients as arrows from the middle of a circle of radius 1: those "
        "that reach out of it are cut off at the circle and keep their "
        f"direction. Lengths: {words}."
    )


def run(
    losses: Sequence[float], lengths: Sequence[float]
) -> "tuple[Figure, str]":
    """Loss and gradient length of every step; a dashed line at length 1."""
    figure, (upper, lower) = chart(WIDTH, 3.6, 2, 1, sharex=True)
    steps = range(1, len(losses) + 1)
    upper.plot(steps, losses, color=DARK, linewidth=2)
    upper.set_ylabel("loss", fontsize=12)
    upper.set_ylim(0, 1.1 * max(losses))
    lower.plot(steps, lengths, "o-", color=CLIP, linewidth=1, markersize=4)
    lower.axhline(1, color=STREAM, linewidth=1, linestyle="--")
    note(lower, "longest push", (1, 1), (0, -14))
    lower.set_yscale("log")
    lower.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    lower.minorticks_off()
    lower.set_ylabel("gradient's length\n(logarithmic)", fontsize=12)
    lower.set_xlabel("step", fontsize=12)
    for axes in (upper, lower):
        axes.tick_params(labelsize=11)
        bare(axes)
    longer = sum(length > 1 for length in lengths)
    return figure, (
        f"Two curves over {len(losses)} steps. The loss, from {losses[0]:.2f} "
        f"to {losses[-1]:.2f}; the gradient's length, {min(lengths):.2f} to "
        f"{max(lengths):.2f}, in {longer} steps above the dashed line at 1."
    )


def crops(
    cuts: Mapping[
        str,
        tuple[Tensor, Sequence[Sequence[float]], Tensor, Sequence[bool]],
    ],
) -> "tuple[Figure, str]":
    """Photographs with the boxes that are cut out of them, and the cuts.

    By name: the photograph (3, h, w) in 0..1, a box (left, top, width, height)
    in shares of it for each epoch, what was cut out, (epochs, 3, h, w), and
    whether it was mirrored.
    """
    columns = 1 + max(len(boxes) for _, boxes, *_ in cuts.values())
    height = len(cuts) * (WIDTH / columns + 0.3)
    figure, grid = chart(WIDTH, height, len(cuts), columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    sizes = []
    for row, (name, (picture, boxes, views, mirrored)) in zip(
        grid, cuts.items(), strict=True
    ):
        draw_picture(row[0], picture)
        row[0].set_title(name, fontsize=11)
        high, wide = picture.shape[1:]
        for (left, top, width, tall), color in zip(boxes, FRAMES, strict=False):
            corner = left * wide - 0.5, top * high - 0.5
            sizes.append(width * tall)
            for shade, thick in (("black", 3.5), (color, 1.8)):
                look = {"fill": False, "ec": shade, "lw": thick}
                rectangle(row[0], corner, (width * wide, tall * high), **look)
        for axes, view, color, is_mirrored in zip(
            row[1:], views, FRAMES, mirrored, strict=False
        ):
            draw_picture(axes, view)
            if is_mirrored:
                place = 0.94, 0.94
                look = {"ha": "right", "va": "top", "weight": "bold"}
                look |= {"transform": axes.transAxes, "backgroundcolor": DARK}
                label(axes, place, "M", "white", 10, **look)
            side = view.shape[-1]
            for shade, thick in (("black", 5), (color, 3)):
                look = {"fill": False, "ec": shade, "lw": thick}
                rectangle(axes, (-0.5, -0.5), (side, side), **look)
    for number, axes in enumerate(grid[0, 1:], start=1):
        axes.set_title(f"epoch {number}", fontsize=11)
    return figure, (
        f"{', '.join(cuts).capitalize()}: each with {columns - 1} boxes, of "
        f"{min(sizes):.0%} to {max(sizes):.0%} of the area, and what was cut "
        "out by them, enlarged to one size; some are mirrored."
    )


def compared(ways: Mapping[str, Sequence[float]]) -> "tuple[Figure, str]":
    """A row per way, with a dot per seed (in percent) and their mean.

    The first way has the colour of the step.
    """
    figure, axes = chart(WIDTH, 0.5 * len(ways) + 0.7)
    listed = []
    for row, (name, values) in enumerate(ways.items()):
        color = STREAM if row else VELOCITY
        look = {"color": color, "alpha": 0.7, "linewidths": 0}
        axes.scatter(values, [row] * len(values), 80, **look)
        mean = sum(values) / len(values)
        place = max(values) + 0.6, row
        look = {"ha": "left", "va": "center", "weight": "bold"}
        label(axes, place, f"{mean:.1f}", color, 13, **look)
        axes.axhline(row, color="0.85", linewidth=0.8, zorder=0)
        listed.append(f"{name} {mean:.1f}")
    axes.set_yticks(range(len(ways)), list(ways), fontsize=13)
    axes.set_ylim(len(ways) - 0.5, -0.5)
    most = max(map(max, ways.values()))
    axes.set_xlim(min(map(min, ways.values())) - 1, most + 3)
    axes.set_xlabel("% right of 431 test photographs", fontsize=13)
    axes.tick_params(axis="x", labelsize=13)
    axes.tick_params(axis="y", length=0)
    bare(axes, "top", "right", "left")
    return figure, (
        "A row of dots for each way to train, one per seed; the means, in "
        f"percent right: {', '.join(listed)}."
    )


def changed(
    before: Tensor, after: Tensor, labels: Tensor
) -> dict[str, list[int]]:
    """Rows by what became of their answers, the surest new answer first."""
    was, now = (logits.argmax(dim=1) == labels for logits in (before, after))
    surest = after.softmax(dim=1).amax(dim=1).argsort(descending=True)
    return {
        name: [row for row in surest.tolist() if among[row]]
        for name, among in {
            "mended": ~was & now,
            "spoiled": was & ~now,
            "wrong both times": ~was & ~now,
        }.items()
    }


def told(
    logits: Tensor, labels: Tensor, names: Sequence[str]
) -> list[tuple[str, bool]]:
    """Each answer with its share, and whether it's right."""
    shares, found = logits.softmax(dim=1).max(dim=1)
    return [
        (f"{names[answer]} {share:.0%}", answer == label)
        for share, answer, label in zip(
            shares.tolist(), found.tolist(), labels.tolist(), strict=True
        )
    ]


def answers(
    pictures: Tensor,
    titles: Sequence[str],
    said: Mapping[str, Sequence[tuple[str, bool]]],
) -> "tuple[Figure, str]":
    """Photographs (n, 3, h, w) in 0..1, and below each what networks say.

    `said` has each network's answers, and whether they are right: green, or
    red.
    """
    columns = 3
    rows = math.ceil(len(titles) / columns)
    height = rows * (WIDTH / columns + 0.75)
    figure, grid = chart(WIDTH, height, rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    listed = []
    for number, title in enumerate(titles):
        axes = grid.flat[number]
        draw_picture(axes, pictures[number])
        axes.set_title(title, fontsize=12, weight="bold")
        words = []
        for row, (name, given) in enumerate(said.items()):
            answer, is_right = given[number]
            words.append(f"{name}: {answer}")
            color = ATTENTION if is_right else CLASS
            place = 0.5, -0.09 - 0.15 * row
            look = {"transform": axes.transAxes}
            label(axes, place, words[-1], color, 10.5, **look)
        listed.append(f"{title} ({', '.join(words)})")
    return figure, f"Photographs and what is said of each: {'; '.join(listed)}."
