"""Drawings of a training: its steps, its curves, its mistakes, what it looks at."""

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

LINES = (("black", "-"), ("0.55", "-"), ("#b3541e", "--"), ("#33658a", ":"))
LIGHT, PALE, DARK = "#ffd75e", "#e9e9e9", "#202020"


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
            _arrow(axes, (x, start), (x, below + 0.55))
        _arrow(axes, (x, 3.4), (5 + (x - 5) * 0.6, 2.95))
    _box(axes, 5, 2.4, 8.4, "backward: the gradients add up", PALE)
    _arrow(axes, (5, 1.85), (5, 1.55))
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


def bounded_loss(num_classes: int, bound: float) -> "tuple[Figure, str]":
    """The lowest cross-entropy that logits in [-a, a] allow, over a."""
    from matplotlib.figure import Figure

    def lowest(a: float) -> float:
        return math.log1p((num_classes - 1) * math.exp(-2 * a))

    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    bounds = [0.05 * i for i in range(101)]
    axes.plot(bounds, [lowest(a) for a in bounds], color="black", linewidth=2)
    floor = lowest(bound)
    axes.plot([bound], [floor], "o", color="#b3541e", markersize=8)
    axes.annotate(
        f"tanh: {floor:.4f}",
        (bound, floor),
        (bound + 0.35, floor + 0.25),
        fontsize=12,
        arrowprops={"arrowstyle": "->"},
    )
    axes.set(
        xlabel="largest logit a that is allowed",
        ylabel="lowest loss (nats)",
        ylim=(0, None),
    )
    alt = (
        f"The lowest loss falls from {lowest(0):.2f} nats at a = 0 towards 0; at "
        f"a = {bound:g}, where tanh ends, it is {floor:.4f}."
    )
    return figure, alt


def losses(
    histories: dict[str, list[dict[str, Any]]], *, floor: float | None = None
) -> "tuple[Figure, str]":
    """Training loss (log axis) over steps, a line a run; `floor` is drawn across."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.3), layout="constrained")
    axes = figure.subplots()
    for (name, lines), style in zip(histories.items(), LINES, strict=False):
        color, dashes = style
        steps = [line["step"] for line in lines]
        values = [line["loss"] for line in lines]
        axes.plot(steps, values, dashes, color=color, label=name)
    if floor is not None:
        axes.axhline(floor, color="#b3541e", linestyle="-.", linewidth=1)
        across = axes.get_yaxis_transform()  # x as a share of the panel
        axes.text(0.02, floor, f"{floor:.4f}", va="top", transform=across)
    axes.set(xlabel="step", ylabel="training loss (nats)", yscale="log")
    ticks = [t for t in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2) if _seen(axes, t)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend()
    ends = "; ".join(
        f"{name} from {lines[0]['loss']:.2f} to {lines[-1]['loss']:.2f}"
        for name, lines in histories.items()
    )
    line = f" A line marks {floor:.4f}." if floor is not None else ""
    return figure, f"Training loss in nats over steps: {ends}.{line}"


def rates(
    accuracies: dict[float, float], chosen: float
) -> "tuple[Figure, str]":
    """Accuracy in percent over learning rate (log axis); `chosen` is ringed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    axes.semilogx(
        list(accuracies), list(accuracies.values()), "o-", color="black"
    )
    axes.plot(
        [chosen],
        [accuracies[chosen]],
        "o",
        markersize=14,
        fillstyle="none",
        color="#b3541e",
    )
    axes.set(xlabel="highest learning rate", ylabel="held-out accuracy (%)")
    axes.grid(alpha=0.3)
    points = ", ".join(f"{a:.1f} % at {r:g}" for r, a in accuracies.items())
    return figure, f"Held-out accuracy over the learning rate: {points}."


def ladder(rungs: "dict[str, Sequence[float]]") -> "tuple[Figure, str]":
    """Accuracies in percent, a row a rung: every seed, their mean, its error."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 0.55 * len(rungs) + 0.9), layout="constrained")
    axes = figure.subplots()
    words = []
    for row, (name, values) in enumerate(rungs.items()):
        mean = sum(values) / len(values)
        error = standard_error(values)
        axes.plot(values, [row] * len(values), "o", color="0.65", markersize=5)
        axes.errorbar([mean], [row], xerr=[error], fmt="|", color="black")
        axes.plot([mean], [row], "|", color="black", markersize=14)
        words.append(f"{name} {mean:.2f} ± {error:.2f}")
    axes.set_yticks(range(len(rungs)), list(rungs))
    axes.invert_yaxis()
    axes.set(xlabel="held-out accuracy (%)")
    axes.grid(axis="x", alpha=0.3)
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
    from matplotlib.figure import Figure

    counts = counts.clone().fill_diagonal_(0)
    figure = Figure(figsize=(5, 4.4), layout="constrained")
    axes = figure.subplots()
    shown = axes.imshow(counts.numpy(), cmap="cividis")
    most = int(counts.max())
    for true, row in enumerate(counts.tolist()):
        for answered, count in enumerate(row):
            if count:
                dark = count > most / 2
                axes.text(
                    answered,
                    true,
                    count,
                    ha="center",
                    va="center",
                    color="black" if dark else "white",
                )
    places = range(len(class_names))
    axes.set_xticks(places, class_names)
    axes.set_yticks(places, class_names)
    axes.set(xlabel="answered", ylabel="true")
    figure.colorbar(shown, ax=axes, label="images")
    true, answered = divmod(int(counts.argmax()), len(class_names))
    alt = (
        f"{int(counts.sum())} mistakes by true and answered class. Most often "
        f"({most} times) a {class_names[true]} is taken for a {class_names[answered]}."
    )
    return figure, alt


def attention_maps(
    images: "Tensor", received: "Tensor", names: "Sequence[str]"
) -> "tuple[Figure, str]":
    """Images (n, 1, h, w), each beside its maps (n, maps, gh, gw), named by `names`."""
    from matplotlib.figure import Figure

    n, num_maps = received.shape[:2]
    figure = Figure(figsize=(5, 1.08 * n + 0.3), layout="constrained")
    panels = figure.subplots(n, num_maps + 1, squeeze=False)
    highest = received.max().item()
    for row, image, maps in zip(panels, images, received, strict=True):
        row[0].imshow(image[0].numpy(), cmap="gray_r")
        for axes, weights in zip(row[1:], maps, strict=True):
            shown = axes.imshow(
                weights.numpy(), cmap="cividis", vmin=0, vmax=highest
            )
        for axes in row:
            axes.set(xticks=[], yticks=[])
    for axes, name in zip(panels[0], ["image", *names], strict=True):
        axes.set_title(name, fontsize=10)
    figure.colorbar(shown, ax=panels, label="share of attention", shrink=0.7)
    alt = (
        f"{n} digits, each beside {num_maps} maps of the attention that its "
        f"{received[0, 0].numel()} patches receive; the highest share is {highest:.2f}."
    )
    return figure, alt


def two_maps(
    left: "Tensor", right: "Tensor", names: "Sequence[str]"
) -> "tuple[Figure, str]":
    """Two maps (gh, gw) side by side with their values, named by `names`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 2.8), layout="constrained")
    words = []
    for axes, values, name in zip(
        figure.subplots(1, 2), (left, right), names, strict=True
    ):
        axes.imshow(values.numpy(), cmap="cividis")
        middle = (values.max() + values.min()) / 2
        places = 1 if values.max() >= 10 else 2
        for y, row in enumerate(values.tolist()):
            for x, value in enumerate(row):
                color = "black" if value > middle else "white"
                text = f"{round(value, places) + 0.0:.{places}f}"  # no "-0.0"
                axes.text(x, y, text, ha="center", va="center", color=color)
        axes.set(xticks=[], yticks=[])
        axes.set_title(name, fontsize=10)
        y, x = divmod(int(values.argmax()), values.shape[1])
        words.append(
            f"{name}: highest {values.max():.{places}f} in row {y + 1}, "
            f"column {x + 1}"
        )
    return figure, "Two maps of the patches. " + "; ".join(words) + "."


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


def _arrow(
    axes: "Axes", start: tuple[float, float], end: tuple[float, float]
) -> None:
    style = {"arrowstyle": "->", "color": DARK, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=style)
