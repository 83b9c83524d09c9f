"""Chapter 13: pairs, recipe, accuracy by photographs, answers."""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import CLASS, DARK, NIGHT, PATCHES, STREAM
from vitedu.figures.photos import draw_picture
from vitedu.figures.schematic import canvas, column, rectangle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIVAL = "0.45"  # the grey of what is compared
KINDS = ("#ffd23f", "#4da3ff", "#7dff8a")  # on any picture, over black
LOW, HIGH = 0.1, 0.9  # of the draws in a band
# a first and a second number, invented: six of glass and six of paper
GLASS = (0.5, 1.7), (1, 1.1), (0.5, -0.8), (1, -1.4), (1.5, -2.2), (1.4, -0.5)
PAPER = (-1.4, 2.4), (-0.9, 2), (-0.7, 1.4), (-0.4, -1), (-0.7, -1.8), (-1.4, 1)
CLOSE = 1.25  # one number over the one before, where only one has a label


def shots(rows: Mapping[str, Sequence[Tensor]]) -> "tuple[Figure, str]":
    """A row of pictures (3, h, w) in -1..1 for each class."""
    columns = max(map(len, rows.values()))
    height = len(rows) * (WIDTH - 0.9) / columns
    figure, grid = chart(WIDTH, height, len(rows), columns, squeeze=False)
    for line, (name, pictures) in zip(grid, rows.items(), strict=True):
        for axes, picture in zip(line, pictures, strict=True):
            draw_picture(axes, picture / 2 + 0.5)
            axes.set(xticks=[], yticks=[])
        look = {"rotation": 0, "ha": "right", "va": "center", "fontsize": 11}
        line[0].set_ylabel(name, **look)
    return figure, (
        f"{len(rows) * columns} photographs of waste on white, {columns} each "
        f"of {', '.join(rows)}."
    )


def pairs(
    images: Sequence[Tensor],
    closest: Sequence[Tensor],
    names: Sequence[str],
    found: Sequence[str],
) -> "tuple[Figure, str]":
    """Pictures (3, h, w) in -1..1, and below each the one closest to it.

    Above is what it is, and below what the other one is: red if it differs.
    """
    columns = len(images)
    size = WIDTH, 2 * WIDTH / columns + 0.5
    figure, grid = chart(*size, 2, columns, squeeze=False)
    listed = []
    for upper, lower, *both, name, other in zip(
        *grid, images, closest, names, found, strict=True
    ):
        for axes, picture in zip((upper, lower), both, strict=True):
            draw_picture(axes, picture / 2 + 0.5)
            axes.set(xticks=[], yticks=[])
        look = {"color": DARK} if name == other else {"color": CLASS}
        weight = "normal" if name == other else "bold"
        upper.set_title(name, fontsize=10, color=DARK)
        lower.set_xlabel(other, fontsize=10, weight=weight, **look)
        listed.append(f"{name}, {other}")
    return figure, (
        f"{columns} photographs, and below each the one that is closest to it "
        f"for the network: {'; '.join(listed)}."
    )


def two_numbers() -> "tuple[Figure, str]":
    """Invented photographs, and two boundaries: by means, and by weights."""
    points = torch.tensor([*GLASS, *PAPER])
    sides = torch.tensor([1.0] * len(GLASS) + [-1.0] * len(PAPER))
    glass, paper = means = points.view(2, -1, 2).mean(dim=1)
    table = torch.cat([points, torch.ones(len(points), 1)], dim=1)
    fitted = torch.linalg.lstsq(table, sides[:, None]).solution[:, 0]
    apart = glass - paper
    figure, panels = chart(WIDTH, 3.5, 1, 2, sharey=True)
    counts = []
    for axes, title, weights, bias in (
        (panels[0], "nearest mean", apart, -means.mean(dim=0) @ apart),
        (panels[1], "formula's weights", fitted[:2], fitted[2]),
    ):
        wrong = (points @ weights + bias) * sides < 0
        for color, kind in ((PATCHES, "glass"), (RIVAL, "paper")):
            own = points[sides == (1 if kind == "glass" else -1)]
            axes.scatter(*own.T, 30, color=color, label=kind)
        axes.scatter(*points[wrong].T, 150, fc="none", ec=CLASS, lw=2)
        foot = -bias * weights / weights.square().sum()
        along = foot + weights.flip(0) * torch.tensor([-1, 1])
        axes.axline(foot.tolist(), along.tolist(), color=DARK, ls="--")
        counts.append(f"{title}: {wrong.sum()} wrong")
        axes.set_title(counts[-1], fontsize=11)
        axes.set(xlim=(-2, 2), ylim=(-2.8, 2.8), aspect=1)
        axes.set(xlabel="first number", xticks=(-1, 0, 1))
        bare(axes)
    look = {"color": [PATCHES, RIVAL], "marker": "X", "ec": "white"}
    panels[0].scatter(*means.T, 190, zorder=3, **look)
    panels[0].set_ylabel("second number")
    handles = panels[1].get_legend_handles_labels()
    look = {"frameon": False, "fontsize": 11, "ncol": 2}
    figure.legend(*handles, loc="outside lower center", **look)
    return figure, (
        f"Twice the same {len(points)} invented photographs of glass and paper "
        f"by two numbers, with a boundary. {'; '.join(counts)}. The first "
        "boundary, halfway between the means, tilts; the second is nearly "
        "upright."
    )


def recipe() -> "tuple[Figure, str]":
    """From photographs to answers: each box with its line of code."""
    figure, axes = canvas(360, 432)
    steps = (
        (
            r"photographs, through the ViT:  $x$",
            PATCHES,
            "x, y = features(model, photographs)",
        ),
        (
            r"$X = (x - m)\,/\,s$  and a column of 100",
            STREAM,
            "x = whiten(x, mean, std)",
        ),
        (
            r"$W = (X^\top X + \lambda I)^{-1} X^\top Y$",
            CLASS,
            "weights = solve(square, x.mT @ targets)",
        ),
        (
            r"the largest of the scores  $X_{test}\,W$",
            NIGHT,
            "scores.argmax(dim=1)",
        ),
    )
    column(axes, 180, 350, steps, top=400, is_bold=True)
    alt = (
        "The classifier, four boxes from top to bottom, each with its line of "
        "code: photographs become features x in the frozen ViT; whitened, and "
        "with a column of 100, they are the table X; a formula gives the "
        "weights W; the largest score is the answer."
    )
    return figure, alt


def curves(
    accuracies: Mapping[str, Mapping[int, Sequence[float]]],
) -> "tuple[Figure, str]":
    """Shares (0..1) of many draws by shots: the means of two methods.

    The second has a band, which holds the draws but for the lowest and the
    highest tenth.
    """
    figure, axes = chart(WIDTH, 3.4)
    rival, _ = accuracies
    listed = []
    for (name, by_shots), color in zip(
        accuracies.items(), (RIVAL, CLASS), strict=True
    ):
        shots = list(by_shots)
        means = [100 * statistics.fmean(each) for each in by_shots.values()]
        axes.plot(shots, means, "o-", color=color, linewidth=2, label=name)
        points = [
            f"{mean:.0f}% from {k}"
            for k, mean in zip(shots, means, strict=True)
        ]
        listed.append(f"{name} {', '.join(points)}")
        look = {"color": color, "ha": "center", "weight": "bold"}
        offset = (0, -16) if name == rival else (0, 7)
        end = shots[-1], means[-1]
        note(axes, f"{means[-1]:.0f}%", end, offset, 11, **look)
    bands = [_band(each) for each in by_shots.values()]
    lows, highs = zip(*bands, strict=True)
    look = {"color": CLASS, "alpha": 0.18, "lw": 0}
    look["label"] = f"{name}, middle 8 of 10 draws"
    axes.fill_between(shots, lows, highs, **look)
    axes.set_xscale("log")
    # beside a label of nearly the same number there's no room for another
    pitches = [k / before for before, k in pairwise([shots[0] / 2, *shots])]
    labels = [
        str(k) if pitch > CLOSE else ""
        for k, pitch in zip(shots, pitches, strict=True)
    ]
    axes.set_xticks(shots, labels)
    axes.minorticks_off()
    axes.set(
        xlabel="photographs of each class (log scale)", ylabel="accuracy (%)"
    )
    axes.set(ylim=(None, min(101, axes.dataLim.ymax + 6)))
    axes.legend(frameon=False, fontsize=11, loc="lower right")
    bare(axes)
    spans = [
        f"{low:.0f} to {high:.0f}% from {k}"
        for k, low, high in zip(shots, lows, highs, strict=True)
    ]
    return figure, (
        "Mean accuracy over random draws by photographs of each class: "
        f"{'; '.join(listed)}. The band holds eight of ten draws of {name}: "
        f"{', '.join(spans)}."
    )


def answers(
    images: Sequence[Tensor],
    given: Sequence[str],
    truths: Sequence[str],
    words_of_rows: Sequence[str] = (),
) -> "tuple[Figure, str]":
    """Pictures (3, h, w) in 0..1 under the names they were given.

    A wrong name is red, and what it should have been is in brackets. What a
    row of five has in common may be written beside it.
    """
    columns = min(5, len(images))
    rows = math.ceil(len(images) / columns)
    size = WIDTH, rows * (WIDTH / columns + 0.36)
    figure, grid = chart(*size, rows, columns, squeeze=False)
    listed = []
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    for axes, image, name, truth in zip(
        grid.flat, images, given, truths, strict=False
    ):
        draw_picture(axes, image)
        right = name == truth
        words = name.replace("_", " ")
        wanted = truth.replace("_", " ")
        look = {"color": DARK} if right else {"color": CLASS, "weight": "bold"}
        title = words if right else f"{words}\n({wanted})"
        axes.set_title(title, fontsize=11, **look)
        listed.append(words if right else f"{words}, but it is a {wanted}")
    for axes, name in zip(grid[:, 0], words_of_rows, strict=False):
        axes.set_ylabel(name, fontsize=11)
    return figure, f"{len(images)} pictures and their names: " + (
        f"{'; '.join(listed)}."
    )


def slide(
    picture: Tensor,
    boxes: Sequence[Sequence[float]],
    given: Sequence[str],
    truths: Sequence[str],
) -> "tuple[Figure, str]":
    """A picture (3, h, w) in 0..1, with a box (x, y, x, y) around each thing.

    Its colour is that of the name it was given; a wrong one is in red.
    """
    _, height, width = picture.shape
    figure, axes = chart(WIDTH, WIDTH * height / width + 0.95)
    draw_picture(axes, picture)
    axes.axis("off")
    names = list(dict.fromkeys(sorted(truths, key=truths.count, reverse=True)))
    colors = dict(zip(names, KINDS, strict=False))
    for (left, top, right, bottom), name, truth in zip(
        boxes, given, truths, strict=True
    ):
        size = right - left, bottom - top
        wide = ("black", 2.4) if name == truth else (CLASS, 8)
        for shade, thick in (wide, (colors[name], 1.4)):
            look = {"fill": False, "ec": shade, "lw": thick}
            look["zorder"] = 2 if name == truth else 5
            rectangle(axes, (left, top), size, **look)
        if name != truth:
            words = f"framed in red: a {truth}, named {name}"
            axes.set_title(words, fontsize=11, color=CLASS)
    from matplotlib.patches import Patch

    handles = [Patch(color=colors[name], label=name) for name in names]
    look = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "ncol": 3}
    look["title"] = "named by the network"
    axes.legend(handles=handles, frameon=False, fontsize=11, **look)
    right = sum(x == y for x, y in zip(given, truths, strict=True))
    listed = ", ".join(f"{given.count(name)} {name}s" for name in names)
    return figure, (
        f"A picture with {len(truths)} boxes, named {listed}; {right} of the "
        "names are right."
    )


def dip(
    accuracies: Mapping[str, Mapping[int, float]],
    num_columns: int,
    num_classes: int = 1,
) -> "tuple[Figure, str]":
    """Shares (0..1) by number of photographs: a small lambda, and the usual."""
    figure, axes = chart(WIDTH, 3.1)
    listed = []
    for (name, by_number), color in zip(
        reversed(list(accuracies.items())), (CLASS, DARK), strict=True
    ):
        percents = [100 * each for each in by_number.values()]
        numbers = list(by_number)
        look = {"color": color, "linewidth": 2, "markersize": 4}
        axes.plot(numbers, percents, "o-", label=name, **look)
        falls = [each - min(percents[i:]) for i, each in enumerate(percents)]
        peak = falls.index(max(falls)) if max(falls) > 1 else len(falls) - 1
        lowest = min(percents[peak:])
        words = f"{percents[peak]:.0f}% from {numbers[peak]}"
        if lowest < percents[peak]:
            where = numbers[percents.index(lowest, peak)]
            words += f", then down to {lowest:.0f}% from {where}"
        if peak < len(falls) - 1:
            words += f", and {percents[-1]:.0f}% from {numbers[-1]}"
        listed.append(f"{name}: {words}")
    if num_columns < max(numbers):
        axes.axvline(num_columns, color=DARK, linestyle=":", linewidth=1.2)
        look = {"ha": "right", "va": "bottom"}
        place = num_columns, axes.get_ylim()[0]
        words = f"{num_columns} columns"
        if num_classes > 1:
            words += f"\n{num_columns // num_classes} per class"
        note(axes, words, place, (-6, 4), 10, **look)
    if num_classes > 1:
        room = max(numbers) / 12
        ticks = [x for x in numbers if min(x, abs(x - num_columns)) > room]
        axes.set_xticks(ticks, [f"{x}\n({x // num_classes})" for x in ticks])
    words = " (per class)" if num_classes > 1 else ""
    axes.set(xlabel=f"training photographs{words}", ylabel="accuracy (%)")
    axes.set(ylim=(None, min(101, max(axes.dataLim.ymax + 8, 60))))
    axes.legend(frameon=False, fontsize=11, loc="lower right")
    bare(axes)
    return (
        figure,
        f"Mean accuracy by number of photographs. {'; '.join(listed)}.",
    )


def _band(shares: Sequence[float]) -> tuple[float, float]:
    """From the lowest tenth to the highest, in percent."""
    ordered = sorted(shares)
    last = len(ordered) - 1
    low, high = (100 * ordered[round(part * last)] for part in (LOW, HIGH))
    return low, high
