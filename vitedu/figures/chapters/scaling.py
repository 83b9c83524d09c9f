"""Chapter 18: errors over compute, and how many times more."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vitedu.figures.chapters.resnets import NETWORKS
from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import ATTENTION, CLASS, DARK, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Mapping[str, tuple[Tensor, Tensor]]
PAPER = (2, 4)  # times, as the paper says
TICKS = (50, 100, 200, 500, 1000, 2000, 5000)


def table(
    points: Points, named: Mapping[float, str] | None = None
) -> "tuple[Figure, str]":
    """Accuracies over exaFLOPs, a point per network: {family: (n,), (n,)}.

    `named` are the names of some of them, by what they cost. A name goes
    above, or to the side where it has a blank: " right", "left ".
    """
    figure, axes = chart(WIDTH, 3.3)
    told = []
    for family, (cost, accuracy) in points.items():
        name, color, marker = NETWORKS[family]
        look = {"color": color, "linestyle": "none", "markersize": 8}
        axes.plot(cost, accuracy, marker, label=name, **look)
        told.append(
            f"{len(cost)} {name}s from {accuracy.min():.1f} to "
            f"{accuracy.max():.1f}%"
        )
        for x, y in zip(cost.tolist(), accuracy.tolist(), strict=True):
            if named and x in named:
                offset, side = (-3, 8), "center"
                if named[x].startswith(" "):
                    offset, side = (5, -4), "left"
                elif named[x].endswith(" "):
                    offset, side = (-5, -4), "right"
                note(axes, named[x], (x, y), offset, 11, ha=side)
    _costs(axes)
    axes.set_ylabel("accuracy, mean of five (%)", fontsize=12)
    axes.legend(fontsize=11, frameon=False, loc="lower right")
    alt = (
        "Accuracy after transfer over the compute of pretraining, from 50 to "
        f"4,262 exaFLOPs: {', '.join(told)}. At equal compute, ResNets are "
        "the lowest."
    )
    return figure, alt


def laws(
    points: Points,
    laws: Mapping[str, tuple[Tensor, Tensor]],
    budget: float,
) -> "tuple[Figure, str]":
    """Errors (n,) over costs (n,) with lines (a, b), both axes in logarithms.

    An arrow leads from the ViTs' line at `budget` to the ResNets'.
    """
    figure, axes = chart(WIDTH, 4)
    axes.set_yscale("log")
    told = []
    for family, (cost, error) in points.items():
        name, color, marker = NETWORKS[family]
        a, b = (number.item() for number in laws[family])
        axes.plot(cost, error, marker, color=color, markersize=8)
        ends = torch.stack([cost.min(), cost.max()])
        axes.plot(ends, a * ends**b, color=color, linewidth=2)
        words = rf"{name}: $E = {a:.0f}\,C^{{{b:.2f}}}$"
        axes.plot([], [], marker, color=color, label=words)
        told.append(f"{name} {a:.1f} times C to the power {b:.3f}")
    times, start = _arrow(axes, laws, budget)
    note(axes, times, start, (0, 8), 11, color=CLASS, weight="bold")
    _costs(axes)
    axes.set_yticks([4, 5, 6, 8, 10], ["4", "5", "6", "8", "10"])
    axes.minorticks_off()
    axes.set_ylabel("error $E$, mean of five (%)", fontsize=12)
    axes.legend(fontsize=11, frameon=False, loc="upper right")
    alt = (
        "Error over compute, both in logarithms, and a falling line for each "
        f"family: {'; '.join(told)}. An arrow to the right, at the error that "
        f"a ViT has for {budget:.0f} exaFLOPs, says that a ResNet needs "
        f"{times} as much."
    )
    return figure, alt


def invented(
    tables: Sequence[Points],
    fit: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    budget: float,
    truth: float | None = None,
) -> "tuple[Figure, str]":
    """Made-up tables of ViTs and ResNets side by side, as `laws` draws them.

    A dotted line is where an arrow of `truth` times ends.
    """
    figure, panels = chart(WIDTH, 2.3, columns=len(tables), sharey=True)
    told = []
    for axes, points in zip(panels, tables, strict=True):
        lines = {}
        for family, (cost, error) in points.items():
            _, color, marker = NETWORKS[family]
            axes.plot(cost, error, marker, color=color, markersize=5)
            a, b = lines[family] = fit(cost, error)
            ends = torch.stack([cost.min(), cost.max()])
            axes.plot(ends, a * ends**b, color=color, linewidth=1.5)
        axes.set(xscale="log", yscale="log", xlim=(40, 5500))
        told.append(_arrow(axes, lines, budget)[0])
        if truth:
            look = {"color": DARK, "linestyle": ":", "linewidth": 1.5}
            axes.axvline(budget * truth, **look)
            note(axes, "truth", (budget * truth, 9.3), (4, 0), 11)
        look = {"color": CLASS, "weight": "bold", "fontsize": 11}
        axes.set_title(told[-1], **look)
        axes.minorticks_off()
        axes.set_xticks([50, 200, 1000], ["50", "200", "1,000"])
        axes.set_yticks([4, 5, 6, 8, 10], ["4", "5", "6", "8", "10"])
        axes.tick_params(labelsize=11)
        bare(axes)
    panels[0].set_ylabel("error $E$ (%)", fontsize=12)
    figure.supxlabel("compute $C$ (exaFLOPs)", fontsize=12)
    alt = (
        "Invented errors over compute, with a line each for ViTs and ResNets "
        f"and an arrow between them at {budget:.0f} exaFLOPs: "
        f"{', '.join(told)}."
    )
    return figure, alt


def times(
    budgets: Tensor,
    ratio: Tensor,
    wide: Tensor,
    ends: Tensor,
    real: Mapping[str, tuple[float, float]],
) -> "tuple[Figure, str]":
    """How many times more, over a ViT's budget (n,), with two intervals (2, n).

    `ends` are those of the draws, and `wide` is around them. `real` is, for
    single ViTs, what they took and how many times that a ResNet took.
    """
    figure, axes = chart(WIDTH, 3.3)
    axes.set_yscale("log")
    for low, high in (wide, ends):
        look = {"alpha": 0.22, "color": ATTENTION, "linewidth": 0}
        axes.fill_between(budgets.numpy(), low.numpy(), high.numpy(), **look)
    for edge in PAPER:
        axes.axhline(edge, color=DARK, linestyle=":", linewidth=1.5)
    axes.plot(budgets, ratio, color=ATTENTION, linewidth=2.5)
    for name, place in real.items():
        axes.plot(*place, "s", color=DARK, markersize=8)
        note(axes, name, place, (8, -4), 11, color=DARK)
    said = "the paper: 2 to 4"
    note(axes, said, (budgets[0].item(), 2), (6, 5), 11, color=DARK)
    left = len(budgets) // 12  # where the bands are wide enough for words
    bands = ("dark: bootstrap", ends, -18), ("light: stretched", wide, 4)
    for words, high, drop in bands:
        edge = budgets[left].item(), high[1, left].item()
        note(axes, words, edge, (0, drop), 11, color=ATTENTION)
    _costs(axes)
    axes.set(xlim=budgets[[0, -1]].tolist(), ylim=(0.9, 12))
    axes.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    axes.minorticks_off()
    axes.set_xlabel("a ViT's compute $C$ (exaFLOPs)", fontsize=12)
    axes.set_ylabel("a ResNet needs (times)", fontsize=12)
    first, last = (
        f"{ratio[i]:.1f} times ({ends[0, i]:.1f} to {ends[1, i]:.1f}, "
        f"stretched {wide[0, i]:.1f} to {wide[1, i]:.1f})"
        for i in (0, -1)
    )
    alt = (
        "How many times a ViT's compute a ResNet needs for the same error, "
        f"with a dark band around it and a wider light one: {first} at "
        f"{budgets[0]:.0f} exaFLOPs, falling to {last} at {budgets[-1]:,.0f}. "
        "Dotted lines at 2 and 4 are the paper's sentence. Points are single "
        "pairs: a ResNet took "
        + ", ".join(f"{at[1]:.1f} times {name}" for name, at in real.items())
        + "."
    )
    return figure, alt


def sets(
    found: Mapping[str, Sequence[float]], reach: float
) -> "tuple[Figure, str]":
    """Each data set's number of times: its value, low and high end.

    A point beyond `reach`, where no network is any more, is hollow.
    """
    figure, axes = chart(WIDTH, 2.9)
    axes.axvspan(*PAPER, color=PALE, alpha=0.35, linewidth=0)
    place = (PAPER[0] * PAPER[1]) ** 0.5, 1 - len(found)
    note(axes, "the\npaper", place, (0, 5), 11, color=DARK, ha="center")
    told = []
    for place, (name, (value, low, high)) in enumerate(found.items()):
        color = DARK if place else CLASS
        axes.plot([low, high], [-place] * 2, color=color, linewidth=2)
        look = {"color": color, "markersize": 7, "markeredgewidth": 1.5}
        look["markerfacecolor"] = "white" if value > reach else color
        axes.plot(value, -place, "o", **look)
        told.append(f"{name} {value:.1f} ({low:.1f} to {high:.1f})")
        if value > reach:
            beyond = (value, -place), (0, 9)
            note(axes, "beyond all points", *beyond, 11, ha="center")
            told[-1] += ", hollow since it's beyond all points"
    axes.set_yticks([-place for place in range(len(found))], [*found])
    axes.set(xscale="log", xlim=(1, 120))
    axes.set_xticks([1, 2, 4, 10, 40, 100], ["1", "2", "4", "10", "40", "100"])
    axes.minorticks_off()
    axes.set_xlabel("a ResNet needs (times, at 200 exaFLOPs)", fontsize=12)
    axes.tick_params(labelsize=11)
    bare(axes)
    alt = (
        "How many times a ViT's compute a ResNet needs, for each data set "
        f"with its interval: {'; '.join(told)}. A grey band from "
        "2 to 4 is the paper's sentence."
    )
    return figure, alt


def ours(sizes: Mapping[str, Points]) -> "tuple[Figure, str]":
    """Losses (seeds, n) while networks learn, over their teraFLOPs (n,).

    A panel for each size, two in a row, on the same axes. Its arrow leads from
    a ViT's end, at the mean of its runs, back to where a ResNet was as good, as
    far as all pairs of runs say in the mean.
    """
    options = {"sharex": True, "sharey": True, "squeeze": False}
    figure, panels = chart(WIDTH, 5, -(-len(sizes) // 2), 2, **options)
    told = []
    for axes, (size, curves) in zip(panels.flat, sizes.items(), strict=True):
        ends = []
        for family, (cost, losses) in curves.items():
            name, color, marker = NETWORKS[family]
            look = {"color": color, "linewidth": 1.2, "alpha": 0.7}
            look["zorder"] = 1 if family == "hybrid" else 2  # behind the others
            for loss in losses:
                axes.plot(cost, loss, **look)
                end = look | {"marker": marker, "markersize": 5, "alpha": 1}
                axes.plot(cost[-1], loss[-1], **end)
            axes.plot([], [], f"{marker}-", color=color, label=name)
            ends.append(f"{name} {losses[:, -1].mean():.3f}")
        start, there, height = _back(curves["vit"], curves["resnet"])
        look = {"arrowstyle": "-|>", "color": CLASS, "linewidth": 2}
        look |= {"shrinkA": 0, "shrinkB": 0, "mutation_scale": 13}
        places = (there, height), (start, height)
        axes.annotate("", *places, arrowprops=look, zorder=3)
        times = f"{start / there:.1f} times"
        axes.set_title(size, fontsize=11, color=DARK)
        look = {"color": CLASS, "weight": "bold", "ha": "right"}
        look |= {"xycoords": "axes fraction"}
        note(axes, times, (1, 1), (0, -12), 11, **look)
        axes.set(xscale="log", yscale="log", xlim=(0.75, 150), ylim=(1e-3, 5))
        axes.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
        axes.minorticks_off()
        axes.tick_params(labelsize=11)
        bare(axes)
        told.append(f"{size}: {', '.join(ends)}, the arrow {times}")
    ticks = [2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    figure.supylabel("loss on new shapes", fontsize=12)
    look = {"handlelength": 1, "borderpad": 0, "handletextpad": 0.5}
    panels[0, 0].legend(fontsize=11, frameon=False, loc="lower left", **look)
    figure.supxlabel("compute so far (teraFLOPs)", fontsize=12)
    alt = (
        "Loss on new shapes over the compute so far, both in logarithms, with "
        "three runs of each family, for networks of different sizes, in "
        "multiply-adds per picture. Mean losses at the end, and how many times "
        "less compute a ResNet took for that of a ViT: "
        f"{'; '.join(told)}."
    )
    return figure, alt


def _back(
    vit: tuple[Tensor, Tensor], resnet: tuple[Tensor, Tensor]
) -> tuple[float, float, float]:
    """An arrow's start, the place where it ends, and its height."""
    (cost, losses), (other_cost, others) = vit, resnet
    start, ends = cost[-1].item(), losses[:, -1]
    pairs = [
        start / other_cost[(loss <= end).nonzero()[0, 0]].item()
        for end in ends
        for loss in others
    ]
    return start, start * len(pairs) / sum(pairs), ends.mean().item()


def _arrow(
    axes: "Axes", laws: Mapping[str, tuple[Tensor, Tensor]], budget: float
) -> tuple[str, tuple[float, float]]:
    """An arrow from the ViTs' line to the ResNets': what it says, its start."""
    (a, b), (c, d) = laws["vit"], laws["resnet"]
    height = (a * budget**b).item()
    there = ((height / c) ** (1 / d)).item()
    look = {"arrowstyle": "-|>", "color": CLASS, "linewidth": 2}
    look |= {"shrinkA": 0, "shrinkB": 0, "mutation_scale": 15}
    axes.annotate("", (there, height), (budget, height), arrowprops=look)
    return f"{there / budget:.1f} times", (budget, height)


def _costs(axes: "Axes") -> None:
    """A logarithmic axis of exaFLOPs."""
    axes.set(xscale="log", xlim=(40, 5500))
    axes.set_xticks(TICKS, [f"{tick:,}" for tick in TICKS])
    axes.minorticks_off()
    axes.set_xlabel("compute $C$ (exaFLOPs)", fontsize=12)
    axes.tick_params(labelsize=11)
    bare(axes)
