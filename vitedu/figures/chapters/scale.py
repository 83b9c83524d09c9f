"""Chapter 8: slices, a ring, what was left out, and many lives."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    DARK,
    GREY,
    MAP,
    NIGHT,
    PATCHES,
    STREAM,
)
from vitedu.figures.schematic import arrow, canvas, column, label, line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Omission(NamedTuple):
    """What a run comes to that goes on without a part of its state."""

    words: str
    distances: Sequence[float]  # percent of the whole way, one a seed
    accuracies: Sequence[float]  # percent, one a seed


class Life(NamedTuple):
    """One start of a program: its first and its last step."""

    first: int
    last: int
    is_killed: bool


def slices() -> "tuple[Figure, str]":
    """A step in slices: each box with its symbol and its line of code."""
    figure, axes = canvas(372, 414, opaque=True)
    steps = (
        (r"a slice $S$ of the batch", PATCHES, "for part, truth in zip(…):"),
        (
            r"its loss  $\ell_S = \Sigma_{i \in S}\; \ell_i$",
            CLASS,
            'F.cross_entropy(…, reduction="sum")',
        ),
        (
            r"add  $\nabla\, \ell_S \,/\, n$  to  $g$",
            STREAM,
            "(loss / len(images)).backward()",
        ),
        ("one step", NIGHT, "optimizer.step()"),
    )
    tops = column(axes, 208, 300, steps, top=387)
    line(axes, [(54, tops[2]), (28, tops[2]), (28, tops[0])])
    arrow(axes, (28, tops[0]), (56, tops[0]))
    label(axes, (16, (tops[0] + tops[2]) / 2), "next slice", rotation=90)
    alt = (
        "One step in slices, four boxes from top to bottom, each with its line "
        "of code: a slice of the batch; its loss, the sum over the slice; its "
        "gradient, divided by the size n of the whole batch and added to g, by "
        "backward(); one step, by optimizer.step(). An arrow leads from the "
        "third box back to the next slice, so the step is taken only once."
    )
    return figure, alt


def ring(history: Tensor) -> "tuple[Figure, str]":
    """What each process holds after each round: (rounds + 1, p, p) numbers.

    Rows are processes and columns are chunks of the gradient; a frame is round
    what changed. The ring is drawn where there is room.
    """
    rounds, count = len(history) - 1, history.shape[1]
    columns = rounds // 2 + 1
    figure, grid = chart(WIDTH, 3.4, 2, columns, squeeze=False)
    panels = [*grid[0], *grid[1][1:]]
    for number, (axes, held) in enumerate(zip(panels, history, strict=True)):
        axes.imshow(held.numpy(), cmap=MAP, vmin=0, vmax=count)
        for y, row in enumerate(held.tolist()):
            for x, value in enumerate(row):
                color = "black" if value > 0.6 * count else "white"
                words = f"{value:g}"
                look = {"va": "center_baseline", "weight": "bold"}
                label(axes, (x, y), words, color, 11, **look)
        if number:
            for y, x in (held != history[number - 1]).nonzero().tolist():
                _frame(axes, x, y)
        axes.set(xticks=range(count), yticks=range(count))
        axes.tick_params(length=0, labelsize=11, labelcolor=GREY, pad=2)
        axes.tick_params(labelleft=number in (0, columns))
        bare(axes, "top", "right", "left", "bottom")
        axes.set_title(f"round {number}" if number else "start", fontsize=11)
    grid[0][0].set_ylabel("process", fontsize=11)
    grid[0][0].set_xlabel("chunk", fontsize=11)
    _circle(grid[1][0], count)
    most = [int(held.max()) for held in history]
    full = int((history[rounds // 2] == count).sum())
    alt = (
        f"{count} processes in a ring, each with {count} chunks of a gradient "
        f"that are 1 at the start. The highest number after each round is "
        f"{', '.join(map(str, most))}. After {rounds // 2} rounds each process "
        f"has one of the {full} finished chunks, {count}, and after {rounds} "
        "rounds all of them."
    )
    return figure, alt


def _frame(axes: "Axes", x: int, y: int) -> None:
    """A red frame round a cell."""
    left, right, low, high = x - 0.44, x + 0.44, y - 0.44, y + 0.44
    corners = [(left, low), (right, low), (right, high), (left, high)]
    line(axes, [*corners, corners[0]], CLASS, 2)


def _circle(axes: "Axes", count: int) -> None:
    """Processes in a ring, each with an arrow to the next one."""
    places = [
        (math.sin(turn), math.cos(turn))
        for turn in (2 * math.pi * number / count for number in range(count))
    ]
    for number, (x, y) in enumerate(places):
        axes.plot(x, y, "o", color=NIGHT, markersize=17, zorder=3)
        look = {"va": "center_baseline", "weight": "bold", "zorder": 4}
        label(axes, (x, y), str(number), "white", 11, **look)
        to_x, to_y = places[(number + 1) % count]
        start = (0.68 * x + 0.32 * to_x, 0.68 * y + 0.32 * to_y)
        end = (0.3 * x + 0.7 * to_x, 0.3 * y + 0.7 * to_y)
        arrow(axes, start, end, STREAM, 2)
    axes.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal")
    axes.axis("off")


def omissions(rows: Sequence[Omission]) -> "tuple[Figure, str]":
    """How far from the undisturbed run each ends, and its accuracy."""
    figure, axes = chart(WIDTH, 0.46 * len(rows) + 1.0)
    # at the right edge of the axes, whatever their width
    beside: dict[str, Any] = {
        "xycoords": axes.get_yaxis_transform(),
        "ha": "right",
    }
    told = []
    for place, row in enumerate(rows):
        far, right = _mean(row.distances), _mean(row.accuracies)
        color = CLASS if far else ATTENTION
        axes.barh(place, far, color=color, height=0.62)
        axes.plot(
            row.distances,
            [place] * len(row.distances),
            "o",
            color="0.6",
            mec="white",
            ms=6,
        )
        words = f"{far:.0f}%" if far >= 1 or not far else f"{far:.1f}%"
        look: dict[str, Any] = {"ha": "left", "va": "center_baseline"}
        label(axes, (far + 2.5, place), words, DARK, 11, **look)
        look = {**beside, "va": "center_baseline", "color": DARK}
        note(axes, f"{right:.0f}%", (1, place), (44, 0), **look)
        told.append(f"{row.words}: {words} away, accuracy {right:.0f}%")
    axes.set_yticks(range(len(rows)), [row.words for row in rows], fontsize=11)
    axes.set(xlim=(0, 105), ylim=(len(rows) - 0.5, -0.6))
    axes.set_xticks([0, 50, 100], ["0", "50%", "100%"], fontsize=11)
    axes.set_xlabel(
        "from the undisturbed run, in % of its own distance", fontsize=11
    )
    look = {**beside, "va": "bottom", "color": DARK}
    note(axes, "digits\nread", (1, -0.6), (44, 0), **look)
    bare(axes)
    alt = (
        "How far a run ends from the undisturbed one, in percent of the "
        "distance that this one went, and how many test digits it gets right: "
    )
    return figure, f"{alt}{'; '.join(told)}."


def _mean(values: Sequence[float]) -> float:
    """The mean of the seeds."""
    return sum(values) / len(values)


def lives(
    starts: Sequence[Life], steps: int, saves: int = 0
) -> "tuple[Figure, str]":
    """A line for each start of a program, from its first step to its last.

    Grey lines mark every `saves` steps; what's done again is light red.
    """
    figure, axes = chart(WIDTH, 0.3 * len(starts) + 1.0)
    for number, life in enumerate(starts, start=1):
        look: dict[str, Any] = {"lw": 3, "solid_capstyle": "butt"}
        axes.plot([life.first, life.last], [number] * 2, color=NIGHT, **look)
        style, color = ("X", CLASS) if life.is_killed else ("o", ATTENTION)
        axes.plot(life.last, number, style, color=color, ms=11, zorder=3)
        for after in starts[number : number + 1]:  # the next one, if any
            again = {"lw": 19, "color": CLASS, "alpha": 0.35}
            axes.hlines(number, after.first, life.last, **again)
    places = range(1, len(starts) + 1)
    axes.set_yticks(places, [f"start {place}" for place in places])
    axes.set(xlim=(0, 1.04 * steps), ylim=(len(starts) + 0.6, 0.4))
    axes.set_xlabel("step", fontsize=11)
    axes.set_xticks(range(0, steps + 1, 20))
    axes.tick_params(labelsize=11)
    bare(axes)
    kills = [life.last for life in starts if life.is_killed]
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    look = {"color": DARK, "bbox": ground, "va": "center_baseline"}
    if kills:
        place = [life.is_killed for life in starts].index(True)
        note(axes, "killed", (kills[0], place + 1), (10, 0), **look)
    if not starts[-1].is_killed:
        over = {**look, "ha": "center", "va": "bottom"}
        note(axes, "done", (starts[-1].last, len(starts)), (-4, 9), **over)
    if saves:
        axes.set_xticks(range(saves, steps + 1, saves), minor=True)
        axes.grid(axis="x", which="both", alpha=0.5)
        look |= {"ha": "right"}
        note(axes, "grey lines: saves", (0.98 * steps, 1), (0, 0), **look)
        words = "light red: done again"
        note(axes, words, (0.98 * steps, 2), (0, 0), **look)
    alt = (
        f"{len(starts)} starts of one program. It was killed after step "
        f"{', '.join(map(str, kills))}; each new start begins at the last "
        f"checkpoint before, and the last one gets to step {starts[-1].last}."
    )
    return figure, alt
