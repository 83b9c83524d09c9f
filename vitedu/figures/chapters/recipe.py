"""Chapter 6: curves that part, the step, switches, error bars."""

import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import (
    CLASS,
    DARK,
    NIGHT,
    PALE,
    PATCHES,
    POSITIONS,
    STREAM,
)
from vitedu.figures.schematic import arrow, canvas, column, label, line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LETTERS = 17  # of a row's name, before it is broken
# what a switch changes, and its colour
PICTURES, STEPS, LABELS = "pictures", "steps", "labels"
NETWORK, WHOLE = "network", "several things"
COLORS = {
    PICTURES: PATCHES,
    STEPS: STREAM,
    LABELS: CLASS,
    NETWORK: POSITIONS,
    WHOLE: DARK,
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
        r"the loss  $-\sum_k \tilde{y}_k \ln p_k$",
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
    """What the runs of one recipe came to, in percent."""

    words: str
    held_out: Sequence[float]  # a number per seed; none: not measured
    learned: Sequence[float] = ()
    kind: str = WHOLE

    @property
    def mean(self) -> float:
        """Of the seeds, on the pictures that were held out."""
        return statistics.mean(self.held_out)


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
        spread = max(0.0, 9 - (learned[-1] - held[-1])) / 2
        for words, value, up, color in (
            ("learned from", learned[-1], spread, STREAM),
            ("held out", held[-1], -spread, PATCHES),
        ):
            look = {"color": color, "va": "center", "weight": "bold"}
            point = (epochs[-1], value + up)
            note(axes, f"{value:.0f}% {words}", point, (8, 0), 11, **look)
        if name:
            axes.set_title(name, fontsize=12)
        axes.set(ylabel="right (%)", ylim=(0, 100), xlim=(0, 1.65 * epochs[-1]))
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


def switches(
    rows: Sequence[Row],
    error: float,
    standard: str | None = None,
    others: Sequence[Row] = (),
) -> "tuple[Figure, str]":
    """Held-out accuracy of each row with its seeds, and its gap.

    `error` is the standard error of a mean of seeds; a row of one seed is a
    ring without a bar. The row called `standard` has a band of two errors of a
    difference either way. Rows are drawn in the order given; `others` follow
    below a line, were judged on other pictures, and make the scale end at 100,
    where a bar would be smaller than its dot.
    """
    has_gap = any(row.learned for row in rows)
    num_rows, rows = len(rows), [*rows, *others]
    figure, panels = chart(
        WIDTH,
        0.47 * len(rows) + 1.0,
        1,
        2 if has_gap else 1,
        sharey=True,
        squeeze=False,
        width_ratios=(2.1, 1) if has_gap else (1,),
    )
    left = panels[0, 0]
    for row in rows:
        if row.words == standard:
            band = 2 * math.sqrt(2) * error
            left.axvspan(
                row.mean - band, row.mean + band, color=PALE, alpha=0.3
            )
    for place, row in enumerate(rows):
        _held_out(left, place, row, 0 if others else error)
        if has_gap:
            _learned(panels[0, 1], place, row)
    names = [textwrap.fill(row.words, LETTERS) for row in rows]
    left.set_yticks(range(len(rows)), names, fontsize=11)
    for tick, row in zip(left.get_yticklabels(), rows, strict=True):
        tick.set_color(COLORS[row.kind])
    left.set_ylim(len(rows) - 0.5, -0.6)
    reached = [value for row in rows for value in row.held_out]
    lowest, highest = min(reached), max(reached)
    room = 0.04 * (highest - lowest) + 0.2
    left.set_xlim(lowest - room, highest + room + 0.32 * (highest - lowest))
    left.set_xlabel("held out (%)", fontsize=11)
    if others:
        left.axhline(num_rows - 0.5, color=DARK, linewidth=1)
        left.set_xlim(lowest - room, 100)
        left.set_xlabel("right (%)", fontsize=11)
    left.grid(axis="x", alpha=0.3)
    left.tick_params(labelsize=11)
    bare(left)
    if has_gap:
        _finish_gap(panels[0, 1])
    told = "; ".join(_told(row, error) for row in rows[:num_rows])
    alt = f"Accuracy on held-out pictures in percent: {told}."
    if others:
        told = "; ".join(_told(row, error) for row in others)
        alt += f" Below a line, judged on pictures of the test part: {told}."
    return figure, alt


def turning(
    brings: Mapping[str, tuple[float, float]],
    kinds: Mapping[str, str],
    lengths: tuple[str, str],
    band: float,
) -> "tuple[Figure, str]":
    """What each ingredient brings early and late, in points.

    The arrow leads from the ring to the dot; `lengths` say when these were.
    Within `band` of zero nothing is said. The rows come in the order given.
    """
    figure, axes = chart(WIDTH, 0.47 * len(brings) + 1.5)
    axes.axvspan(-band, band, color=PALE, alpha=0.3)
    axes.axvline(0, color=DARK, linewidth=1)
    told = []
    for place, (name, (short, long)) in enumerate(brings.items()):
        color = COLORS[kinds[name]]
        look = {"color": color, "markersize": 8, "markeredgewidth": 2}
        if abs(long - short) > band:
            ends = {"arrowstyle": "-|>", "color": color, "shrinkB": 4}
            axes.annotate("", (long, place), (short, place), arrowprops=ends)
        axes.plot([short], [place], "o", markerfacecolor="white", **look)
        axes.plot([long], [place], "o", **look)
        told.append(f"{name} {short:+.1f} and {long:+.1f}")
    names = [textwrap.fill(name, LETTERS) for name in brings]
    axes.set_yticks(range(len(brings)), names, fontsize=11)
    for tick, name in zip(axes.get_yticklabels(), brings, strict=True):
        tick.set_color(COLORS[kinds[name]])
    axes.set_ylim(len(brings) - 0.5, -0.6)
    axes.set_xlabel("points that it brings", fontsize=11)
    handles = [
        axes.plot([], [], "o", color=STREAM, markerfacecolor=face)[0]
        for face in ("white", STREAM)
    ]
    axes.legend(
        handles,
        lengths,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=2,
        frameon=False,
        fontsize=11,
    )
    axes.grid(axis="x", alpha=0.3)
    axes.tick_params(labelsize=11)
    bare(axes)
    return figure, (
        f"Points that each ingredient brings after {lengths[0]} and after "
        f"{lengths[1]}: {'; '.join(told)}. Less than {band:.1f} either "
        "way is called nothing."
    )


def _held_out(axes: "Axes", place: int, row: Row, error: float) -> None:
    """The seeds of a row as pale dots, their mean and its error, its number."""
    color = COLORS[row.kind]
    if not row.held_out:
        look = {"va": "center", "fontsize": 11, "color": color}
        beside = axes.get_yaxis_transform()
        axes.text(0.05, place, "not measured here", transform=beside, **look)
        return
    if len(row.held_out) > 1:
        below = [place + 0.22] * len(row.held_out)
        axes.plot(row.held_out, below, "o", color="0.65", markersize=4.5)
        look: dict[str, Any] = {"color": color, "linewidth": 2.2, "capsize": 4}
        if error:
            look["xerr"] = [error]
        axes.errorbar([row.mean], [place - 0.08], fmt="o", **look)
        end = max(row.mean + error, *row.held_out)
    else:
        look = {"color": color, "markerfacecolor": "white", "markersize": 8}
        axes.plot([row.mean], [place], "o", markeredgewidth=2, **look)
        end = row.mean
    look = {"va": "center", "color": color, "weight": "bold"}
    note(axes, f"{row.mean:.1f}", (end, place), (7, 0), 11, **look)


def _learned(axes: "Axes", place: int, row: Row) -> None:
    """The gap between what it learned from and what was held out, as a bar."""
    if not row.learned:
        return
    learned = statistics.mean(row.learned)
    gap = learned - row.mean
    axes.barh(place, gap, height=0.5, color=COLORS[row.kind])
    look = {"va": "center_baseline", "color": DARK}
    note(axes, f"{gap:.0f}", (gap, place), (4, 0), 11, **look)


def _finish_gap(axes: "Axes") -> None:
    axes.set_xlabel("gap (points)", fontsize=11)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high + 0.3 * (high - low))
    axes.tick_params(left=False, labelsize=11)
    axes.grid(axis="x", alpha=0.3)
    bare(axes, "top", "right", "left")


def _told(row: Row, error: float) -> str:
    """A row in words."""
    if not row.held_out:
        return f"{row.words}, not measured here"
    if len(row.held_out) == 1:
        return f"{row.words} {row.mean:.1f}, one run"
    words = f"{row.words} {row.mean:.1f} ± {error:.1f}"
    if not row.learned:
        return words
    return f"{words}, {statistics.mean(row.learned):.0f} on what it learned"
