"""Chapter 5: digits, the training loop, rates, runs and mistakes."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    DARK,
    MAP,
    NIGHT,
    PALE,
    PATCHES,
    POSITIONS,
    STREAM,
    TINTS,
)
from vitedu.figures.schematic import (
    arrow,
    canvas,
    column,
    label,
    line,
    rectangle,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def digit_grid(
    images: Tensor,
    titles: Sequence[str],
    *,
    columns: int = 5,
    patch_size: int | None = None,
) -> "tuple[Figure, str]":
    """Images (n, 1, h, w), any range, under their titles; lines cut patches."""
    rows = math.ceil(len(images) / columns)
    figure, grid = chart(WIDTH, 1.3 * rows, rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, image, title in zip(grid.flat, images, titles, strict=False):
        axes.imshow(image[0].numpy(force=True), cmap="gray_r")
        axes.set_title(title, fontsize=12)
        size = image.shape[-1]
        for edge in range(patch_size or size, size, patch_size or size):
            axes.axhline(edge - 0.5, color=PATCHES, linewidth=0.8)
            axes.axvline(edge - 0.5, color=PATCHES, linewidth=0.8)
        if patch_size:
            frame = {"fill": False, "ec": PATCHES, "lw": 1.6}
            rectangle(axes, (-0.5, -0.5), (size, size), **frame)
    cut = f", cut into patches of {patch_size} pixels" if patch_size else ""
    return figure, f"{len(images)} digits{cut}: {'; '.join(titles)}."


def training_loop() -> "tuple[Figure, str]":
    """One step: each box with its symbol, and the line of code that does it."""
    figure, axes = canvas(360, 430)
    gradient = r"the gradient  $g = \partial\ell / \partial w$"
    turns = (
        ("a batch of images", PATCHES, "x, y = images[batch], labels[batch]"),
        (
            r"the loss  $\ell = -\ln p_y$",
            CLASS,
            "loss = F.cross_entropy(model(x), y)",
        ),
        (gradient, STREAM, "loss.backward()"),
        ("the step", NIGHT, "optimizer.step()"),
    )
    tops = column(axes, 198, 300, turns, top=400)
    line(axes, [(44, tops[-1]), (20, tops[-1]), (20, tops[0])])
    arrow(axes, (20, tops[0]), (46, tops[0]))
    label(axes, (9, 232), "next batch", rotation=90)
    alt = (
        "One turn of the training loop, four boxes from top to bottom, each "
        "with its line of code: a batch of images; the loss, minus the "
        "logarithm of the true class's probability; the gradient, by "
        "loss.backward(); the step, by optimizer.step(). An arrow leads back "
        "to the next batch."
    )
    return figure, alt


def schedule(values: Sequence[float]) -> "tuple[Figure, str]":
    """The learning rate of every step of a run."""
    figure, axes = chart(WIDTH, 2.3)
    axes.plot(values, color=DARK, linewidth=2.5)
    top = max(range(len(values)), key=lambda step: values[step])
    axes.plot([top] * 2, [0, values[top]], "--", color="0.7", linewidth=1)
    places = {"warm-up": 0, "decay": (top + len(values)) / 2}
    for words, place in places.items():
        axes.text(place, 1.1 * values[top], f" {words}", fontsize=12)
    bare(axes)
    axes.set(xlabel="step", ylabel="learning rate")
    axes.set(xlim=(0, len(values) - 1), ylim=(0, 1.24 * values[top]))
    alt = (
        f"Learning rate over {len(values) - 1} steps: a straight line up to "
        f"{values[top]:g} at step {top}, then half a cosine down to "
        f"{values[-1]:g}."
    )
    return figure, alt


def rates(
    mistakes: Mapping[float, float], *, linear: float
) -> "tuple[Figure, str]":
    """Mistakes in percent over the highest learning rate, both logarithmic.

    A dashed line shows the mistakes of the linear layer.
    """
    figure, axes = chart(WIDTH, 2.9)
    percents = list(mistakes.values())
    axes.loglog(list(mistakes), percents, "o-", color=DARK, linewidth=2)
    axes.axhline(linear, color=STREAM, linestyle="--", linewidth=1.5)
    low, high = min(percents), max(percents)
    for rate, percent in mistakes.items():
        if percent == low:
            offset, align = (0, -19), "center"
        elif rate in (min(mistakes), max(mistakes)):
            offset, align = (0, 8), "center"
        else:  # the curve comes down from the left, or goes up to the right
            falls = rate < min(mistakes, key=mistakes.__getitem__)
            offset = (-4 if falls else 4, -19)
            align = "right" if falls else "left"
        note(axes, f"{percent:.1f}%", (rate, percent), offset, 12, ha=align)
    middle = (list(mistakes)[len(mistakes) // 2], linear)
    words = f"linear layer: {linear:g}%"
    note(axes, words, middle, (0, 6), 12, ha="center")
    ticks = [t for t in (2, 5, 10, 20, 50, 100) if low / 2 < t < 2 * high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks(list(mistakes), [f"{rate:g}" for rate in mistakes])
    axes.minorticks_off()
    axes.set(xlim=(0.6 * min(mistakes), max(mistakes) / 0.6))
    axes.set(ylim=(0.6 * min(low, linear), 1.5 * high))
    axes.set(xlabel="highest learning rate (both axes logarithmic)")
    axes.set(ylabel="mistakes (%)")
    bare(axes)
    points = ", ".join(f"{m:.1f}% at {rate:g}" for rate, m in mistakes.items())
    return figure, (
        f"Mistakes on held-out digits by learning rate: {points}. A dashed "
        f"line shows the linear layer's {linear:g}%."
    )


def ladder(
    rungs: Mapping[str, Sequence[float]],
    means: Mapping[str, tuple[float, float]],
) -> "tuple[Figure, str]":
    """Mistakes in percent, a row per rung: seeds, their mean and its error."""
    figure, axes = chart(WIDTH, 0.62 * len(rungs) + 0.7)
    names = [textwrap.fill(name, 18) for name in rungs]
    axes.set_yticks(range(len(rungs)), names, fontsize=12)
    axes.set(ylim=(len(rungs) - 0.5, -0.5), xlabel="mistakes (%)")
    beside = axes.get_yaxis_transform()
    listed = []
    for row, (name, values) in enumerate(rungs.items()):
        mean, error = means[name]
        number = f"{mean:.1f} ± {error:.1f}"
        listed.append(f"{name} {number}")
        below = [row + 0.2] * len(values)
        axes.plot(values, below, "o", color="0.6", markersize=5)
        look = {"color": DARK, "linewidth": 2, "capsize": 4, "markersize": 12}
        axes.errorbar([mean], [row - 0.12], xerr=[error], fmt="|", **look)
        look = {"va": "center", "fontsize": 12, "transform": beside}
        axes.text(1.02, row, number, **look)
    axes.grid(axis="x", alpha=0.3)
    bare(axes)
    return figure, f"Mistakes on held-out digits, percent: {'; '.join(listed)}."


def toss(a: int, b: int, name: str) -> "tuple[Figure, str]":
    """The lead b - a of the network `name`, over what coin tosses would give.

    Each of the a + b images counts for one of two networks. The bell is the
    lead by coin tosses, its ground reaches two errors to both sides.
    """
    total, lead = a + b, b - a
    error = math.sqrt(total)
    far = min(total, max(4 * error, abs(lead) + error))
    leads = [n for n in range(-total, total + 1, 2) if abs(n) <= far]
    chances = [math.comb(total, (total + n) // 2) / 2**total for n in leads]
    top = max(chances)
    figure, axes = chart(WIDTH, 2.4)
    look = {"color": TINTS[POSITIONS], "linewidth": 0}
    axes.axvspan(-2 * error, 2 * error, **look)
    axes.fill_between(leads, chances, color=PALE, linewidth=0)
    axes.plot([lead, lead], [0, 0.8 * top], color=DARK, linewidth=3)
    label(axes, (0, 1.16 * top), "two errors to each side", DARK, 12)
    label(axes, (0, 0.3 * top), "coin tosses", DARK, 12)
    label(axes, (lead, 0.9 * top), f"yours: {lead}", DARK, 13)
    axes.set(xlim=(-far, far), ylim=(0, 1.3 * top), yticks=[])
    axes.set_xlabel(f"images by which {name} leads")
    bare(axes, "top", "right", "left")
    return figure, (
        f"A bell around 0: the lead by {total} coin tosses, nearly always "
        f"between {-2 * error:.0f} and {2 * error:.0f}. The measured lead of "
        f"{name} is {lead}."
    )


def duel(
    mistakes: Mapping[str, int], notes: Mapping[str, str] | None = None
) -> "tuple[Figure, str]":
    """Misread digits, a bar for each network, with a note beside some."""
    figure, axes = chart(WIDTH, 0.6 * len(mistakes) + 0.7)
    counts = list(mistakes.values())
    names = [textwrap.fill(name, 16) for name in mistakes]
    colors = [DARK if name.startswith("your") else PALE for name in names]
    axes.barh(names, counts, color=colors, height=0.6)
    for row, count in enumerate(counts):
        note(axes, str(count), (count, row), (6, 0), 13, va="center")
    for name, words in (notes or {}).items():
        place = (mistakes[name], [*mistakes].index(name))
        note(axes, words, place, (38, 0), 12, va="center")
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=13)
    axes.set(
        xlim=(0, 1.12 * max(counts)), xlabel="misread, of 10,000 test digits"
    )
    bare(axes)
    listed = ", ".join(f"{name} {count}" for name, count in mistakes.items())
    return figure, f"Bars of misread test digits: {listed}."


def ruler(
    ratios: Mapping[str, Mapping[str, float]],
) -> "tuple[Figure, str]":
    """Gains in units of their errors, a row per change, a mark per measurement.

    Up to 2 the ground says "no result", from 2 to 3 "hint", beyond "result".
    """
    changes = list(next(iter(ratios.values())))
    every = [value for each in ratios.values() for value in each.values()]
    low, high = min(-1.0, *every) - 0.5, max(5.0, *every) + 0.5
    figure, axes = chart(WIDTH, 0.5 * len(changes) + 1)
    zones = {"no result": (low, 2), "hint": (2, 3), "result": (3, high)}
    tints = (TINTS[STREAM], TINTS[POSITIONS], TINTS[ATTENTION])
    for (name, (start, end)), tint in zip(zones.items(), tints, strict=True):
        axes.axvspan(start, end, color=tint, linewidth=0)
        place = ((start + end) / 2, -0.75)
        label(axes, place, name, DARK, 11)
    looks = ({"markerfacecolor": "white"}, {})
    for (name, each), look in zip(ratios.items(), looks, strict=False):
        rows = range(len(changes))
        axes.plot(
            [each[change] for change in changes],
            rows,
            "o",
            color=DARK,
            markersize=8,
            label=name,
            **look,
        )
    axes.set_yticks(range(len(changes)), changes, fontsize=12)
    axes.set(ylim=(len(changes) - 0.5, -1.1), xlim=(low, high))
    axes.set(xlabel="gain, divided by its error", ylabel="gain from")
    axes.legend(loc="lower right", fontsize=12)
    bare(axes, "top", "right", "left")
    listed = [
        f"with {name}: "
        + ", ".join(f"{change} {value:.1f}" for change, value in each.items())
        for name, each in ratios.items()
    ]
    return figure, f"Gains in units of their errors {'; '.join(listed)}."


def runs(
    losses: Mapping[str, Tensor],
    rates: Mapping[str, Sequence[float]],
    per_epoch: int,
) -> "tuple[Figure, str]":
    """Losses (steps,) and rates of two runs, over their epochs.

    The losses are above, each drawn as the mean of every fifth of an epoch; the
    rates are below, under the same names.
    """
    figure, (upper, lower) = chart(
        WIDTH, 3.8, 2, 1, sharex=True, height_ratios=(2, 1)
    )
    part = max(1, per_epoch // 5)
    listed, lowest = [], math.inf
    colors = ("0.55", CLASS)
    for (name, values), color in zip(losses.items(), colors, strict=True):
        means = [chunk.mean().item() for chunk in values.split(part)]
        middles = [(i + 0.5) * part / per_epoch for i in range(len(means))]
        upper.plot(middles, means, color=color, linewidth=2, label=name)
        epochs = [step / per_epoch for step in range(len(rates[name]))]
        lower.plot(epochs, rates[name], color=color, linewidth=2.5)
        lowest = min(lowest, *means)
        by_epoch = [chunk.mean().item() for chunk in values.split(per_epoch)]
        listed.append(
            f"{name}, from {by_epoch[0]:.2f} in the first epoch over "
            f"{by_epoch[len(by_epoch) // 2]:.2f} halfway to {by_epoch[-1]:.2f} "
            "in the last"
        )
    upper.set(ylabel="training loss", yscale="log")
    ticks = [t for t in (0.05, 0.1, 0.2, 0.5, 1, 2) if t > 0.8 * lowest]
    upper.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    upper.minorticks_off()
    upper.legend(frameon=False, fontsize=12)
    lower.set(xlabel="epoch", ylabel="rate", ylim=(0, None))
    for axes in (upper, lower):
        bare(axes)
    return figure, f"Training losses above learning rates: {'; '.join(listed)}."


def paths(walks: Mapping[str, Tensor]) -> "tuple[Figure, str]":
    """Walks (steps, weights), a panel each, stacked, on one scale."""
    shared = {"sharex": True, "sharey": True}
    figure, panels = chart(WIDTH, 3.6, len(walks), 1, **shared)
    listed = []
    for axes, (name, walk) in zip(panels, walks.items(), strict=True):
        axes.plot(walk.numpy(force=True), color=DARK, linewidth=0.4, alpha=0.15)
        axes.axhline(0, color=CLASS, linewidth=1.2)
        axes.set_title(f"rate: {name}", fontsize=12)
        axes.set_ylabel("weight")
        bare(axes)
        end = walk[-1].abs().mean().item()
        words = f"average distance at the end: {end:.2f}"
        axes.text(len(walk) - 1, 0.8, words, ha="right", fontsize=12)
        listed.append(f"{name}, on average {end:.2f} from 0 at the end")
    panels[-1].set_xlabel("step")
    number = next(iter(walks.values())).shape[1]
    return figure, f"Paths of {number} weights towards 0: {'; '.join(listed)}."


def confusion(
    counts: Tensor, class_names: Sequence[str]
) -> "tuple[Figure, str]":
    """Mistakes (classes, classes), rows true, columns answered; no diagonal."""
    from matplotlib import colormaps

    counts = counts.clone().fill_diagonal_(0)
    figure, axes = chart(WIDTH, 5)
    most = int(counts.max())
    # nan is drawn as white
    without_diagonal = counts.double().fill_diagonal_(math.nan)
    colors = colormaps[MAP].with_extremes(bad="white")
    axes.imshow(
        without_diagonal.numpy(force=True), cmap=colors, vmin=0, vmax=most
    )
    for true, answered in counts.nonzero().tolist():
        count = int(counts[true, answered])
        color = "black" if count > most / 2 else "white"
        label(axes, (answered, true), str(count), color, 13)
    places = range(len(class_names))
    axes.set_xticks(places, class_names)
    axes.set_yticks(places, class_names)
    axes.set(xlabel="read", ylabel="written")
    tied = [
        f"a {class_names[true]} read as a {class_names[answered]}"
        for true, answered in (counts == most).nonzero().tolist()
    ]
    alt = (
        f"{int(counts.sum())} mistakes by digit written and digit read, in "
        f"{int((counts > 0).sum())} cells. Most frequent ({most} times): "
        f"{', '.join(tied)}."
    )
    return figure, alt


def two_maps(
    left: Tensor, right: Tensor, names: Sequence[str]
) -> "tuple[Figure, str]":
    """Two maps (gh, gw) side by side with their values, named by `names`.

    They are of different kinds, so each has a scale of its own.
    """
    figure, panels = chart(WIDTH, 3.2, 1, 2)
    listed = []
    for axes, values, name in zip(panels, (left, right), names, strict=True):
        axes.imshow(values.numpy(force=True), cmap=MAP)
        middle = (values.max() + values.min()) / 2
        places = 0 if values.max() >= 10 else 2
        for y, row in enumerate(values.tolist()):
            for x, value in enumerate(row):
                color = "black" if value > middle else "white"
                # + 0.0, so that no "-0.0" is printed
                words = f"{round(value, places) + 0.0:.{places}f}"
                label(axes, (x, y), words, color, 12)
        axes.set(xticks=[], yticks=[])
        axes.set_title(name, fontsize=11)
        y, x = divmod(int(values.argmax()), values.shape[1])
        title = name.replace("\n", " ")
        highest = f"{values.max():.{places}f}"
        listed.append(
            f"{title}: highest {highest} in row {y + 1}, column {x + 1}"
        )
    return figure, f"Two maps of the patches. {'; '.join(listed)}."
