"""Drawings of a training: its steps, its curves, its mistakes.

What the trained network looks at is drawn by `vitedu.figures.trained`, and can be had
from here as well.
"""

import math
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from vitedu.figures.schematic import DARK, arrow
from vitedu.figures.trained import (
    attention_maps,
    cosines,
    neighbours,
    position_table,
    two_maps,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

__all__ = [
    "attention_maps",
    "confusion",
    "cosines",
    "digit_grid",
    "epoch_means",
    "ladder",
    "losses",
    "neighbours",
    "one_step",
    "position_table",
    "rates",
    "schedules",
    "standard_error",
    "two_maps",
]
LINES = (("black", "-"), ("0.55", "-"), ("#b3541e", "--"), ("#33658a", ":"))
LIGHT, PALE = "#ffd75e", "#e9e9e9"


def digit_grid(
    images: "Tensor",
    titles: "Sequence[str]",
    *,
    columns: int = 5,
    patch_size: int | None = None,
) -> "tuple[Figure, str]":
    """Images (n, 1, h, w), any range, each under its title; lines cut the patches."""
    from matplotlib.figure import Figure

    rows = math.ceil(len(images) / columns)
    figure = Figure(figsize=(5, 1.3 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels:
        axes.axis("off")
    for axes, image, title in zip(panels, images, titles, strict=False):
        axes.imshow(image[0].numpy(), cmap="gray_r")
        axes.set_title(title, fontsize=11)
        size = image.shape[-1]
        for edge in range(patch_size or size, size, patch_size or size):
            axes.axhline(edge - 0.5, color="#33658a", linewidth=0.8)
            axes.axvline(edge - 0.5, color="#33658a", linewidth=0.8)
    cut = f", cut into patches of {patch_size} pixels" if patch_size else ""
    return figure, f"{len(images)} digits{cut}: {'; '.join(titles)}."


def one_step(parts: "Sequence[int]") -> "tuple[Figure, str]":
    """The way of one batch, cut into micro-batches of `parts` images, to one update."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0, 10), ylim=(0.3, 9.4))
    axes.axis("off")
    total = sum(parts)
    _box(axes, 5, 8.8, 8.4, f"a batch: {total} images and their labels", PALE)
    lefts = [10 * (i + 0.5) / len(parts) for i in range(len(parts))]
    for x, part in zip(lefts, parts, strict=True):
        wide = 10 / len(parts) - 0.5
        words = (
            (7.2, f"{part} images", PALE),
            (5.6, "model: logits", PALE),
            (4.0, f"sum of {part} losses\nover {total}", LIGHT),
        )
        for y, text, face in words:
            _box(axes, x, y, wide, text, face)
        for above, below in pairwise((8.3, *(y for y, _, _ in words))):
            start = above if above == 8.3 else above - 0.55
            arrow(axes, (x, start), (x, below + 0.55))
        arrow(axes, (x, 3.4), (5 + (x - 5) * 0.6, 2.95))
    _box(axes, 5, 2.4, 8.4, "backward: the gradients add up", PALE)
    arrow(axes, (5, 1.85), (5, 1.55))
    _box(axes, 5, 1.0, 8.4, "update: one step, rate of the schedule", LIGHT)
    words = " and ".join(str(part) for part in parts)
    alt = (
        f"One step: a batch of {total} images is cut into parts of {words}; each goes "
        f"through the model, its losses are summed and divided by {total}; the "
        "gradients add up; one update follows."
    )
    return figure, alt


def schedules(
    rates: "dict[str, Sequence[float]]",
) -> "tuple[Figure, str]":
    """Learning rates over the steps of a run, one line a schedule."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    for (name, values), style in zip(rates.items(), LINES, strict=False):
        color, dashes = style
        axes.plot(values, dashes, color=color, label=name, linewidth=2)
    axes.set(xlabel="step", ylabel="learning rate", ylim=(0, None))
    axes.legend(loc="lower center")
    ends = ", ".join(f"{name} {v[-1]:.2g}" for name, v in rates.items())
    top = max(max(values) for values in rates.values())
    peak = next(iter(rates.values()))
    peak = max(range(len(peak)), key=lambda step: peak[step])
    alt = (
        f"Learning rate over {len(next(iter(rates.values()))) - 1} steps: all rise in "
        f"a line to {top:.2g} at step {peak}; at the last step they are: {ends}."
    )
    return figure, alt


def losses(
    histories: dict[str, list[dict[str, Any]]], *, per_epoch: int
) -> "tuple[Figure, str]":
    """Training loss (log axis) over epochs of `per_epoch` steps, two lines a run.

    Thin: as written down; thick: the mean of each epoch.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.3), layout="constrained")
    axes = figure.subplots()
    ends = []
    for (name, lines), style in zip(histories.items(), LINES, strict=False):
        color, dashes = style
        epochs = [line["step"] / per_epoch for line in lines]
        values = [line["loss"] for line in lines]
        axes.plot(epochs, values, color=color, linewidth=0.6, alpha=0.4)
        means = epoch_means(lines, per_epoch)
        middles = [epoch - 0.5 for epoch in range(1, len(means) + 1)]
        axes.plot(
            middles, means, "o" + dashes, color=color, linewidth=2, label=name
        )
        ends.append(f"{name} from {means[0]:.2f} to {means[-1]:.2f}")
    axes.set(xlabel="epoch", ylabel="training loss (nats)", yscale="log")
    ticks = [t for t in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2) if _seen(axes, t)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend()
    words = "; ".join(ends)
    return figure, f"Training loss in nats, mean of each epoch: {words}."


def epoch_means(lines: list[dict[str, Any]], per_epoch: int) -> list[float]:
    """Mean loss of the lines of each epoch; an epoch without a line is left out."""
    epochs: dict[int, list[float]] = {}
    for line in lines:
        epochs.setdefault((line["step"] - 1) // per_epoch, []).append(
            line["loss"]
        )
    return [sum(values) / len(values) for values in epochs.values()]


def rates(accuracies: dict[float, float], taken: float) -> "tuple[Figure, str]":
    """Mistakes in percent over learning rate, both logarithmic; `taken` is marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.subplots()
    errors = {rate: 100 - percent for rate, percent in accuracies.items()}
    axes.loglog(list(errors), list(errors.values()), "o-", color="black")
    for rate, error in errors.items():
        axes.annotate(
            f"{error:.1f}",
            (rate, error),
            (0, -17 if error == min(errors.values()) else 8),
            textcoords="offset points",
            ha="center",
            fontsize=12,
        )
    axes.axvline(taken, color="#b3541e", linestyle="--")
    across = axes.get_xaxis_transform()  # y as a share of the panel
    axes.text(
        0.94 * taken,
        0.97,
        f"mnist-tiny\n{taken:g}",
        color="#b3541e",
        ha="right",
        va="top",
        transform=across,
    )
    low, high = min(errors.values()), max(errors.values())
    axes.set(
        xlabel="highest learning rate",
        ylabel="held-out mistakes (%)",
        ylim=(0.7 * low, 1.6 * high),
    )
    ticks = [t for t in (1, 2, 5, 10, 20, 50, 100) if _seen(axes, t)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks(list(errors), [f"{rate:g}" for rate in errors])
    axes.minorticks_off()
    points = ", ".join(f"{e:.1f} % at {r:g}" for r, e in errors.items())
    return figure, f"Held-out mistakes over the learning rate: {points}."


def ladder(rungs: "dict[str, Sequence[float]]") -> "tuple[Figure, str]":
    """Accuracies in percent, a row a rung: every seed, their mean, its error.

    The axis holds all rungs but the first, which is an arrow where it lies outside.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 0.55 * len(rungs) + 0.9), layout="constrained")
    axes = figure.subplots()
    names = [textwrap.fill(name, 12, break_on_hyphens=False) for name in rungs]
    axes.set_yticks(range(len(rungs)), names, fontsize=11)
    axes.set(ylim=(len(rungs) - 0.4, -0.6), xlabel="held-out accuracy (%)")
    axes.grid(axis="x", alpha=0.3)
    inside = [value for values in [*rungs.values()][1:] for value in values]
    low, high = min(inside, default=0.0), max(inside, default=100.0)
    room = 0.06 * (high - low) + 0.01
    axes.set_xlim(low - room, high + room)
    words = []
    for row, (name, values) in enumerate(rungs.items()):
        mean, error = sum(values) / len(values), standard_error(values)
        number = f"{mean:.2f} ± {error:.2f}"
        words.append(f"{name} {number}")
        axes.text(
            1.02,
            row,
            number,
            va="center",
            fontsize=11,
            transform=axes.get_yaxis_transform(),
        )
        if not low - room <= mean <= high + room:
            axes.text(
                0.02,
                row,
                "← far outside",
                va="center",
                fontsize=11,
                transform=axes.get_yaxis_transform(),
            )
            continue
        below = [row + 0.22] * len(values)
        axes.plot(values, below, "o", color="0.55", markersize=5)
        axes.errorbar(
            [mean],
            [row - 0.12],
            xerr=[error],
            fmt="|",
            color="black",
            linewidth=2,
            capsize=4,
            markersize=12,
        )
    return figure, f"Held-out accuracy in percent: {'; '.join(words)}."


def standard_error(values: "Sequence[float]") -> float:
    """Of the mean of at least two values: their deviation over the root of n."""
    mean = sum(values) / len(values)
    variance = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))


def confusion(
    counts: "Tensor", class_names: "Sequence[str]"
) -> "tuple[Figure, str]":
    """Mistakes (classes, classes), rows true, columns answered; no diagonal."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    counts = counts.clone().fill_diagonal_(0)
    figure = Figure(figsize=(5, 4.4), layout="constrained")
    axes = figure.subplots()
    most = int(counts.max())
    blank = counts.double()
    blank[counts == 0] = math.nan  # drawn as white
    cividis = colormaps["cividis"].with_extremes(bad="white")
    shown = axes.imshow(blank.numpy(), cmap=cividis, vmin=0, vmax=most)
    for true, row in enumerate(counts.tolist()):
        for answered, count in enumerate(row):
            if count:
                color = "black" if count > most / 2 else "white"
                middle = {"ha": "center", "va": "center"}
                axes.text(answered, true, count, color=color, **middle)
    places = range(len(class_names))
    axes.set_xticks(places, class_names)
    axes.set_yticks(places, class_names)
    ends = [-0.5, len(class_names) - 0.5]
    axes.plot(ends, ends, color="0.7", linewidth=0.8)
    axes.set(xlabel="answered", ylabel="true")
    figure.colorbar(shown, ax=axes, label="images")
    tied = [
        f"a {class_names[true]} for a {class_names[answered]}"
        for true, answered in (counts == most).nonzero().tolist()
    ]
    alt = (
        f"{int(counts.sum())} mistakes by true and answered class, in "
        f"{int((counts > 0).sum())} cells. Most often ({most} times) is taken "
        f"{', '.join(tied)}."
    )
    return figure, alt


def _seen(axes: "Axes", tick: float) -> bool:
    low, high = axes.get_ylim()
    return low <= tick <= high


def _box(
    axes: "Axes", x: float, y: float, width: float, words: str, face: str
) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.15"
    corner = (x - width / 2, y - 0.55)
    axes.add_patch(
        FancyBboxPatch(
            corner, width, 1.1, style, facecolor=face, edgecolor=DARK
        )
    )
    axes.text(x, y, words, ha="center", va="center", fontsize=11)
