"""Chapter 6: curves that part, the step, what ingredients bring, the map."""

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    DARK,
    GREY,
    NIGHT,
    PALE,
    PATCHES,
    POSITIONS,
    STREAM,
)
from vitedu.figures.photos import draw_picture
from vitedu.figures.schematic import arrow, canvas, column, label, line

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

LETTERS = 17  # of a row's name, before it is broken
# what an ingredient changes, and its colour
PICTURES, STEPS, LABELS, NETWORK = "pictures", "steps", "labels", "network"
COLORS = {
    PICTURES: PATCHES,
    STEPS: STREAM,
    LABELS: CLASS,
    NETWORK: POSITIONS,
}
STEP = (
    (
        r"the rate  $\eta$",
        STREAM,
        "warmup_cosine(step, ...)",
    ),
    (
        "shift and mirror the pictures",
        PATCHES,
        "x = jiggle(x_learn[batch])",
    ),
    (
        r"labels become rows  $y$",
        CLASS,
        "y = F.one_hot(y_learn[batch], 10)",
    ),
    (
        r"mix, if asked  $\lambda x + (1 - \lambda)\,x'$",
        PATCHES,
        "x, y = mixup(x, y, draw(alpha))",
    ),
    (
        r"the loss  $-\sum\,\tilde{y}_k \ln p_k$",
        CLASS,
        "F.cross_entropy(model(x), y)",
    ),
    (
        r"the step  $w \leftarrow w - \eta\,(s + \delta\,w)$",
        NIGHT,
        "optimizer.step()  # AdamW",
    ),
)


class Row(NamedTuple):
    """What an ingredient brings, in points: a number for each seed."""

    words: str
    points: Sequence[float]
    kind: str
    early: Sequence[float] = ()  # what it brought to a shorter run

    @property
    def mean(self) -> float:
        """Of the seeds."""
        return statistics.mean(self.points)

    @property
    def told(self) -> str:
        """In words."""
        before = "".join(f"{value:+.1f} and then " for value in self.early)
        return f"{self.words} {before}{self.mean:+.1f}"


class Move(NamedTuple):
    """From run to run on the map, each (learned from, held out) in percent."""

    words: str
    start: tuple[float, float]
    end: tuple[float, float]
    kind: str = PICTURES
    shift: tuple[float, float] = (0, 8)  # of the words from the middle, points
    bend: float = 0  # to the left of its way, as a share of its length
    error: float = 0  # of the height of its end


def parting(
    runs: Mapping[str, Mapping[int, tuple[float, float]]],
) -> "tuple[Figure, str]":
    """Accuracies over the epochs, a panel per run, on one scale.

    A run is epoch to (on what it learned from, on what was held out). The
    ground between the two is filled.
    """
    many = len(runs)
    figure, panels = chart(
        WIDTH, 2.6 * many, many, 1, sharex=True, sharey=True, squeeze=False
    )
    told = []
    for axes, (name, seen) in zip(panels[:, 0], runs.items(), strict=True):
        epochs = list(seen)
        learned, held = zip(*seen.values(), strict=True)
        axes.fill_between(epochs, held, learned, color=PALE, alpha=0.25)
        axes.plot(epochs, learned, "o--", color=STREAM, linewidth=2)
        axes.plot(epochs, held, "o-", color=PATCHES, linewidth=2.5)
        for words, value, up, side, color in (
            ("learned from", learned[-1], 7, "bottom", STREAM),
            ("held out", held[-1], -9, "top", PATCHES),
        ):
            look = {"color": color, "weight": "bold", "ha": "right", "va": side}
            point = (epochs[-1], value)
            note(axes, f"{value:.0f}% {words}", point, (4, up), 11, **look)
        if name:
            axes.set_title(name, fontsize=12)
        axes.set(ylabel="right (%)", ylim=(0, 104), xlim=(0, 1.04 * epochs[-1]))
        axes.set_xticks(epochs)
        axes.tick_params(labelsize=11)
        axes.grid(axis="y", alpha=0.3)
        bare(axes)
        told.append(
            f"{name or 'a run'}, at the end {learned[-1]:.0f}% on the "
            f"pictures it learned from and {held[-1]:.0f}% on others"
        )
    panels[-1, 0].set_xlabel("epoch", fontsize=12, loc="left")
    return figure, f"Two accuracies by epoch: {'; '.join(told)}."


def step() -> "tuple[Figure, str]":
    """One step of your recipe: boxes with their symbols and lines of code."""
    figure, axes = canvas(360, 652, opaque=True)
    tops = column(axes, 198, 304, STEP, top=620, is_bold=True)
    line(axes, [(44, tops[-1]), (20, tops[-1]), (20, tops[0])])
    arrow(axes, (20, tops[0]), (46, tops[0]))
    label(axes, (9, 340), "next batch", rotation=90)
    return figure, (
        "One step of your recipe, six boxes from top to bottom, each with its "
        "line of code: the rate; shift and mirror the pictures; turn labels "
        "into rows of zeros and a one; if asked, mix each picture with its "
        "neighbour, and the labels likewise; the loss, minus the sum over the "
        "classes of label times logarithm of the probability; the step, "
        "which also shrinks the kernels. An arrow leads back to the next batch."
    )


def brings(
    rows: Sequence[Row], band: float, label: str = "that it brings, held out"
) -> "tuple[Figure, str]":
    """Points that each ingredient brings: the mean of its seeds, and these.

    Within `band` of zero nothing is said. The rows come in the order given. A
    ring is what it brought to a shorter run.
    """
    figure, axes = chart(WIDTH, 0.44 * len(rows) + 0.8)
    axes.axvspan(-band, band, color=PALE, alpha=0.3)
    axes.axvline(0, color=DARK, linewidth=1)
    for place, row in enumerate(rows):
        color = COLORS[row.kind]
        if len(row.points) > 1:
            below = [place + 0.24] * len(row.points)
            axes.plot(row.points, below, "o", color="0.65", markersize=4.5)
        axes.plot([0, row.mean], [place] * 2, color=color, linewidth=2.2)
        axes.plot([row.mean], [place], "o", color=color, markersize=8)
        ring = {"markersize": 11, "fillstyle": "none"}
        axes.plot(row.early, [place] * len(row.early), "o", color=color, **ring)
        is_left = row.mean < 0
        far = (min if is_left else max)(*row.points, *row.early, row.mean)
        look = {"va": "center", "color": color, "weight": "bold"}
        look["ha"] = "right" if is_left else "left"
        offset = (-9 if is_left else 9, 0)
        words = f"{row.mean:+.1f}".replace("-", "\N{MINUS SIGN}")
        note(axes, words, (far, place), offset, 11, **look)
    names = [textwrap.fill(row.words, LETTERS) for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=11)
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_color(COLORS[row.kind])
    axes.set_ylim(len(rows) - 0.5, -0.6)
    look = {"color": DARK, "ha": "center", "va": "bottom"}
    note(axes, "two errors", (0, -0.6), (0, 2), 11, **look)
    reached = [x for row in rows for x in (*row.points, *row.early)]
    axes.set_xlim(min(0, *reached) - 8, max(0, *reached) + 5)
    axes.set_xlabel(f"points {label}", fontsize=11)
    axes.grid(axis="x", alpha=0.3)
    axes.tick_params(labelsize=11)
    bare(axes)
    told = "; ".join(row.told for row in rows)
    return figure, (
        f"Points on held-out pictures that each ingredient brings: {told}. "
        f"The band is two errors, {band:.1f} either way."
    )


def plane(
    paths: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    moves: Sequence[Move] = (),
    places: Mapping[str, tuple[float, float]] | None = None,
    marks: Mapping[str, float] | None = None,
    kinds: Mapping[str, str] | None = None,
    *,
    low: float = 20,
    right: float = 100,
    high: float = 100,
) -> "tuple[Figure, str]":
    """The map: what runs know of their own pictures, and of others, in percent.

    `paths` are live runs from epoch to epoch, named at their ends, or at the
    only point (red); `moves` lead
    from run to run, and end in their colour; `places` are words that name a
    region; `marks` have no gap to show, only a height; `kinds` say what the
    colours of moves mean.
    """
    ratio = (high - low) / (right - low)
    figure, axes = chart(WIDTH, ratio * (WIDTH - 0.75) + 0.6)
    axes.plot([low, 100], [low, 100], "--", color=STREAM, linewidth=1.5)
    look = {"color": STREAM, "rotation": 45, "ha": "center", "va": "center"}
    middle = low + 0.36 * (right - low)
    note(axes, "no gap", (middle, middle), (-9, 9), 11, **look)
    axes.fill_between([low, 100], low, [low, 100], color=PALE, alpha=0.15)
    told = []
    looks = (
        {"color": STREAM, "ha": "right", "va": "top"},
        {"color": PATCHES, "ha": "left", "va": "center"},
    )
    for (name, path), look in zip((paths or {}).items(), looks, strict=False):
        if len(path) == 1:
            look = looks[1] | {"color": CLASS}
        offset = (8, 0) if look["va"] == "center" else (4, -9)
        axes.plot(*zip(*path, strict=True), "o-", color=look["color"], lw=2)
        note(axes, name, path[-1], offset, 11, weight="bold", **look)
        told.append(f"{name} ends at {_at(path[-1])}")
    for move in moves:
        color = COLORS[move.kind]
        ends = {"arrowstyle": "-|>", "color": color, "linewidth": 2}
        ends |= {"shrinkA": 3, "shrinkB": 3, "mutation_scale": 15}
        ends["connectionstyle"] = f"arc3,rad={-move.bend}"
        axes.annotate("", move.end, move.start, arrowprops=ends)
        axes.plot(*move.start, "o", color=DARK, markersize=6, zorder=4)
        axes.plot(*move.end, "o", color=color, markersize=6, zorder=3)
        both = zip(move.start, move.end, strict=True)
        middle = [sum(pair) / 2 for pair in both]
        look = {"color": color, "weight": "bold", "ha": "center"}
        note(axes, move.words, middle, move.shift, 11, **look)
        told.append(
            f"{move.words} leads from {_at(move.start)} to {_at(move.end)}"
        )
        if move.error:
            look = {"color": STREAM, "capsize": 5, "linewidth": 1.5}
            axes.errorbar(*move.end, move.error, **look)
            told.append(f"the bar at its end: {move.error:.1f} either way")
    for words, point in (places or {}).items():
        look = {"color": DARK, "ha": "center", "va": "center"}
        note(axes, words, point, (0, 0), 11, **look)
    for words, height in (marks or {}).items():
        axes.axhline(height, color=DARK, linewidth=1.5, linestyle=":")
        look = {"color": DARK, "va": "bottom"}
        note(axes, f"{height:.0f}% {words}", (low, height), (5, 1), 11, **look)
        told.append(f"a line at {height:.1f}%, {words}")
    for row, (kind, words) in enumerate((kinds or {}).items()):
        look = {"color": COLORS[kind], "va": "top", "weight": "bold"}
        point = (low, high - 0.22 * (high - low))
        note(axes, words, point, (8, -16 * row), 11, **look)
    axes.set(xlim=(low, right), ylim=(low, high), aspect="equal")
    axes.set_xlabel("learned from (% right)", fontsize=11)
    axes.set_ylabel("held out (% right)", fontsize=11)
    axes.tick_params(labelsize=11)
    axes.grid(alpha=0.3)
    bare(axes)
    return figure, (
        "A map: percent right of the pictures that a run learned from, to the "
        "right, and of held-out ones, upwards; on the diagonal they are equal. "
        f"{'; '.join(told)}."
    )


def answered(
    pictures: "Mapping[str, Tensor]", answers: Sequence[Sequence[str]]
) -> "tuple[Figure, str]":
    """Pictures (3, h, w) by class, five in a row; above, what runs answered."""
    rows = -(-len(pictures) // 5)
    figure, grid = chart(WIDTH, 1.75 * rows, rows, 5, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    told = []
    for axes, (name, picture), said in zip(
        grid.flat, pictures.items(), answers, strict=False
    ):
        draw_picture(axes, picture)
        marked = [f"{'✓' if one == name else '✗'} {one}" for one in said]
        look = {"ha": "center", "va": "bottom"}
        for line_up, words in enumerate(reversed((name.upper(), *marked))):
            color = ATTENTION if words.startswith("✓") else GREY
            bold = "bold" if words.startswith("✓") else "normal"
            if words == name.upper():
                color = DARK
            point = (picture.shape[-1] / 2 - 0.5, -0.5)
            up = (0, 3 + 13 * line_up)
            note(axes, words, point, up, 10, color=color, weight=bold, **look)
        told.append(", ".join((name.upper(), *marked)))
    return figure, (
        "A picture of each class, with what the first run and the last say. "
        f"{'; '.join(told)}."
    )


def _at(point: tuple[float, float]) -> str:
    """A place on the map, in words."""
    return f"{point[0]:.0f} and {point[1]:.0f}%"
