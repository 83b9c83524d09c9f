"""Chapter 12: losses, what a block keeps, a second look, and six tasks."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import ATTENTION, CLASS, DARK, MLP, PALE, STREAM
from vitedu.figures.schematic import TIMES, label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIGHEST = 4.0  # of a loss that is drawn
# what a block keeps of a token: words, numbers of its width, bytes each
KEPT = (
    ("norm", 1, 4, STREAM),
    ("attention:\ninput, q, k, v, output", 5, 2, ATTENTION),
    ("norm", 1, 4, STREAM),
    ("MLP: input 1,\nhidden 4, GELU 4", 9, 2, MLP),
)
TASKS = {  # by what the pictures are, and in the order of what tuning buys
    "photographs and digits: what is it?": {
        "trashnet": "waste",
        "mnist": "MNIST",
        "cifar10": "CIFAR-10",
    },
    "the same drawings, three questions": {
        "form": "which form?",
        "count": "how many?",
        "place": "which ninth?",
    },
}
STUDENTS = {
    "frozen": ("frozen features", ATTENTION),
    "tuned": ("all weights learn", CLASS),
}


def losses(
    curves: Mapping[str, Sequence[float]], start: float
) -> "tuple[Figure, str]":
    """A panel for each run; a dashed line at the loss of knowing nothing."""
    rows = (len(curves) + 1) // 2
    size = WIDTH, 1.7 * rows + 0.3
    look = {"sharex": True, "sharey": True, "squeeze": False}
    figure, panels = chart(*size, rows, 2, **look)
    listed = []
    for axes, (name, values) in zip(panels.flat, curves.items(), strict=True):
        steps = range(1, len(values) + 1)
        axes.axhline(start, color=STREAM, linewidth=1, linestyle="--")
        axes.plot(steps, values, color=DARK, linewidth=1.8)
        axes.set_title(name, fontsize=12)
        axes.set_ylim(0, HIGHEST)
        axes.tick_params(labelsize=11)
        bare(axes)
        words = f"{name}: from {values[0]:.2f} to {values[-1]:.2f}"
        if max(values) > HIGHEST:
            words += f", {max(values):.0f} in between, out of the picture"
            beyond = next(i for i in steps if values[i - 1] > HIGHEST)
            high = f"up to {max(values):,.0f}"
            note(axes, high, (beyond, HIGHEST), (6, -12), color=DARK)
        listed.append(words)
    for axes in panels[-1]:
        axes.set_xlabel("step", fontsize=12)
    for axes in panels[:, 0]:
        axes.set_ylabel("loss", fontsize=12)
    look = {"loc": "upper right", "fontsize": 11, "frameon": False}
    panels[-1, -1].legend(panels[-1, -1].lines[:1], ["knowing nothing"], **look)
    return figure, (
        f"Losses of the first {len(values)} steps, with a dashed line at "
        f"{start:.2f}. {'; '.join(listed)}."
    )


def rehearsal(losses: Sequence[float], start: float) -> "tuple[Figure, str]":
    """One run's loss, and the three steps at which one looks at it.

    Half of the run is its warm-up, which takes 500 steps in a real one. The
    later looks are at the mean of the ten steps that end there.
    """
    figure, axes = chart(WIDTH, 3.3)
    steps = range(1, len(losses) + 1)
    axes.axhline(start, color=STREAM, linewidth=1, linestyle="--")
    axes.plot(steps, losses, color=DARK, linewidth=1.8)
    warm = len(losses) // 2
    looks = {1: "the first step", warm // 2: "half-way through the warm-up"}
    looks |= {warm: "the warm-up ends"}
    listed = []
    for row, (step, words) in enumerate(looks.items()):
        begin, top = max(step - 10, 0), 3.8 - 0.5 * row
        mean = sum(losses[begin:step]) / (step - begin)
        axes.plot([step, step], [mean, top], color=CLASS, linewidth=1)
        if row:
            ends = [begin + 1, step]
            axes.plot(ends, [mean] * 2, color=CLASS, linewidth=4, zorder=3)
        else:
            axes.scatter(step, mean, s=36, color=CLASS, zorder=3)
        note(axes, f"  {words}", (step, top), (0, 0), color=CLASS, va="center")
        listed.append(f"{words}, at {step}: {mean:.2f}")
    end = len(losses), start
    note(axes, "knowing nothing", end, (0, 5), ha="right")
    axes.set_ylim(0, HIGHEST)
    axes.set_xlabel("step", fontsize=12)
    axes.set_ylabel("loss", fontsize=12)
    axes.tick_params(labelsize=11)
    bare(axes)
    return figure, (
        f"The loss of {len(losses)} steps, with a dashed line at {start:.2f}, "
        "and the means of the ten steps before each look. "
        f"{'; '.join(listed)}. It ends at {losses[-1]:.2f}."
    )


def epochs(
    losses: Sequence[float], start: float, steps: int
) -> "tuple[Figure, str]":
    """One run's loss, smoothed over a fifth of an epoch, which has `steps`.

    The first epoch is shown again below, enlarged.
    """
    figure, (whole, first) = chart(WIDTH, 5.2, 2, 1)
    width = steps // 5
    pieces = [losses[i : i + width] for i in range(0, len(losses), width)]
    means = [sum(piece) / len(piece) for piece in pieces]
    middles = [width * i + (width + 1) / 2 for i in range(len(pieces))]
    for axes, last in ((whole, len(losses)), (first, steps)):
        axes.axhline(start, color=STREAM, linewidth=1, linestyle="--")
        each = range(1, last + 1)
        size, color = (7, PALE) if axes is whole else (14, DARK)
        axes.scatter(each, losses[:last], s=size, color=color)
        axes.set_ylabel("loss", fontsize=12)
        axes.tick_params(labelsize=11)
        bare(axes)
    for i in range(0, len(means), 5):  # each epoch has a line of its own
        own = slice(i, i + 5)
        whole.plot(middles[own], means[own], color=DARK, linewidth=1.8)
    whole.axvspan(1, steps, color=CLASS, alpha=0.12, linewidth=0)
    whole.set_ylim(0, 1.15 * start)
    whole.set_xticks(range(0, len(losses) + 1, steps))
    whole.grid(axis="x", color=PALE, alpha=0.4)
    right = {"ha": "right", "va": "bottom"}
    note(whole, "knowing nothing", (len(losses), start), (0, 3), **right)
    how = f"dots: steps\nline: mean of {width} steps"
    note(whole, how, (len(losses), 0.55 * start), (0, 0), **right)
    first.set_title(
        "the first epoch, enlarged: each photograph is new",
        **{"fontsize": 11, "color": CLASS},
    )
    first.set_xlabel(f"step (an epoch is {steps})", fontsize=12)
    ends = [means[steps // width * (i + 1) - 1] for i in (0, 1)]
    return figure, (
        f"The loss of {len(losses)} steps, with a dashed line at {start:.2f}. "
        f"Its mean over {width} steps is {ends[0]:.2f} at the end of the first "
        f"epoch, after {steps} steps, {ends[1]:.2f} after the second, and "
        f"{means[-1]:.2f} at the end."
    )


def second_look(account: Mapping[str, Sequence[int]]) -> "tuple[Figure, str]":
    """Answers by one label, and what a second look makes of them.

    `account` has two numbers for each verdict of the second look (right, wrong,
    no class fits): of the answers that agree with the label, and of the others.
    The upper bar is the one label's; each of its parts is a bar further down.
    """
    figure, axes = chart(WIDTH, 4.2)
    right, wrong, unfit = account.values()
    agreed, other = map(sum, zip(right, wrong, unfit, strict=True))
    part = agreed / (agreed + other)
    verdicts = ATTENTION, STREAM, CLASS
    bars = (
        (0, 1, (agreed, other), (ATTENTION, CLASS)),
        (1.5, part, (right[0], unfit[0], wrong[0]), verdicts),
        (3, 1, (right[1], unfit[1], wrong[1]), verdicts),
    )
    white = {"ha": "center", "va": "center", "weight": "bold"}
    for y, width, counts, colors in bars:
        left = 0.0
        for count, color in zip(counts, colors, strict=True):
            share = width * count / sum(counts)
            axes.barh(y, share, 0.55, left=left, color=color)
            if share > 0.05:
                middle = left + share / 2, y
                label(axes, middle, f"{count:,}", "white", 12, **white)
            left += share
    axes.plot([part, part, 0], [0.28, 1.78, 2.72], color=CLASS, linewidth=1)
    axes.plot([1, 1], [0.28, 2.72], color=CLASS, linewidth=1)
    axes.plot([0, 0], [0.28, 1.22], color=ATTENTION, linewidth=1)
    above, below = {"va": "bottom"}, {"va": "top"}
    first, second = right[1] / other, unfit[1] / other
    # the slivers at the end of the middle bar: a line from each to its words
    narrow = part * wrong[0] / agreed
    slivers = part - narrow / 2, part - narrow - part * unfit[0] / agreed / 2
    for x, y in zip(slivers, (0.6, 0.97), strict=True):
        axes.plot([x, x], [y, 1.22], color=DARK, linewidth=1)
    for x, y, words, ha, va in (
        (0, -0.36, "one label: right", "left", above),
        (1, -0.36, "wrong", "right", above),
        (0.01, 1.15, "ReaL: still right", "left", above),
        (slivers[0] - 0.01, 0.74, f"wrong now: {wrong[0]}", "right", above),
        (slivers[1] - 0.01, 1.11, f"no class fits: {unfit[0]}", "right", above),
        (0.99, 2.65, f"ReaL: the {other}, enlarged", "right", above),
        (first / 2, 3.35, "right\nafter all", "center", below),
        (first + second / 2, 3.35, "no class\nfits", "center", below),
        ((1 + first + second) / 2, 3.35, "still wrong", "center", below),
    ):
        label(axes, (x, y), words, DARK, 11, ha=ha, **va)
    axes.set_xlim(0, 1)
    axes.set_ylim(4.1, -0.8)
    axes.set_axis_off()
    return figure, (
        f"Of {agreed + other:,} answers {agreed:,} are right by the one label "
        f"and {other} wrong. Of the right ones, {right[0]:,} are right at the "
        f"second look and {wrong[0]} wrong, and for {unfit[0]} no class fits. "
        f"Of the wrong ones, {right[1]} are right after all, {wrong[1]} still "
        f"wrong, and for {unfit[1]} no class fits."
    )


def kept() -> "tuple[Figure, str]":
    """Bytes that a block keeps for each number of a token's width."""
    figure, axes = chart(WIDTH, 2.8)
    listed, left = [], 0
    for row, (words, numbers, each, color) in enumerate(KEPT):
        total = numbers * each
        axes.barh(row, total, 0.6, left=left, color=color)
        sum_of = f"{numbers} {TIMES} {each} = {total}"
        look = {"ha": "center", "va": "center", "weight": "bold"}
        if total > 10:
            label(axes, (left + total / 2, row), sum_of, "white", 11, **look)
        else:
            look |= {"ha": "left"}
            point = left + total + 0.5, row
            label(axes, point, sum_of, color, 11, **look)
        listed.append(f"{words.replace(chr(10), ' ')} {sum_of}")
        left += total
    axes.set_yticks(
        range(len(KEPT)), [words for words, *_ in KEPT], fontsize=11
    )
    axes.set_ylim(len(KEPT) - 0.5, -0.5)
    axes.set_xlim(0, left)
    axes.set_xticks([0, *range(4, left + 1, 4)])
    axes.set_title(f"how many are kept {TIMES} bytes each", fontsize=12)
    axes.set_xlabel("bytes for each number, added up", fontsize=12)
    axes.tick_params("x", labelsize=11)
    bare(axes)
    return figure, (
        "What a block keeps of a token, in bytes for each number of its "
        f"width, one after the other: {'; '.join(listed)}. Together {left}."
    )


def tasks(metrics: Mapping[str, Any]) -> "tuple[Figure, str]":
    """Test accuracy of six tasks: frozen and tuned, an arrow from one to other.

    The pale bar is a classifier of few pixels, and a black mark says how often
    the most frequent answer is right.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, axes = chart(WIDTH, 4.6)
    row, ticks, listed = 0.0, [], []
    for group, titles in TASKS.items():
        look = {"va": "center", "weight": "bold"}
        label(axes, (1, row), group, DARK, 11, ha="left", **look)
        for task, title in titles.items():
            row += 1
            ticks.append((row, title))
            floor, *ends = (
                metrics[f"test/{task}/{name}"] for name in ("pixels", *STUDENTS)
            )
            guess = metrics[f"most_frequent/{task}"]["value"]
            axes.barh(row, floor["value"], 0.55, color=PALE, alpha=0.6)
            axes.plot([guess] * 2, [row - 0.4, row + 0.4], color=DARK, lw=2)
            means = [each["value"] for each in ends]
            # an arrow would be all head where the dots are close
            style = "-|>" if means[1] - means[0] > 9 else "-"
            look = {"arrowstyle": style, "color": DARK, "linewidth": 1.5}
            look |= {"shrinkA": 0, "shrinkB": 4}
            tail, head = ((mean, row) for mean in means)
            axes.annotate("", head, tail, arrowprops=look)
            words = [f"{floor['value']:.1f} from 16 {TIMES} 16 pixels"]
            for each, (name, color) in zip(
                ends, STUDENTS.values(), strict=True
            ):
                look = {"color": color, "linewidths": 0, "zorder": 3}
                axes.scatter(each["value"], row, s=64, **look)
                words.append(f"{name} {each['value']:.1f}")
            gain = f"+{means[1] - means[0]:.0f}"
            right = means[1], row
            look = {"va": "center", "weight": "bold", "color": CLASS}
            note(axes, gain, right, (8, 0), **look)
            words.append(f"always the most frequent answer {guess:.0f}")
            listed.append(f"{title} {', '.join(words)}")
        row += 1.3
    axes.set_yticks(*zip(*ticks, strict=True), fontsize=12)
    axes.set_ylim(row - 0.8, -0.5)
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("right answers on the test images (%)", fontsize=12)
    axes.tick_params("x", labelsize=11)
    axes.tick_params("y", length=0)
    dot = {"marker": "o", "linestyle": "", "markersize": 8}
    axes.legend(
        handles=[
            Patch(color=PALE, alpha=0.6, label=f"linear, 16 {TIMES} 16 pixels"),
            Line2D([], [], color=DARK, lw=2, label="most frequent answer"),
            *(
                Line2D([], [], color=color, label=name, **dot)
                for name, color in STUDENTS.values()
            ),
        ],
        **{"loc": "lower center", "bbox_to_anchor": (0.38, 1), "ncol": 2},
        **{"frameon": False, "fontsize": 11},
    )
    bare(axes)
    return figure, f"Right answers in percent. {'; '.join(listed)}."
