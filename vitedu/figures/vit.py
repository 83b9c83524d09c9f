"""Drawings of the chapter on the whole network: its tokens, its head, its numbers.

`figures.show(*tokens())` in a notebook; every function returns a figure and alt text.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from vitedu.figures.schematic import arrow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIGHT, DARK, PALE, WHITE = "#ffd75e", "#202020", "#e9e9e9", "#ffffff"
RUST = "#b3541e"  # the one line that a figure is about; mid-grey in grey
WIDTH = 4.8  # inches, so that 10 points stay legible on a phone


def tokens(batch: int = 3, patches: int = 4) -> "tuple[Figure, str]":
    """Equation (1) for a batch: one class token and one table of positions for all."""
    figure, axes = _canvas(4.4, (-0.2, 10.2), (-0.3, 8.0))
    first, step = (
        3.1,
        1.25,
    )  # where the tokens begin, and how far apart they stand
    _box(axes, 0.0, 5.0, 1.7, 1.0, LIGHT, "class\n(1, 1, d)")
    for image in range(batch):
        y = 7.0 - 1.6 * image
        arrow(axes, (1.75, 5.5), (first - 0.1, y + 0.4))
        _box(axes, first, y, 1.05, 0.8, LIGHT, "class")
        for patch in range(patches):
            x = first + step * (patch + 1)
            _box(axes, x, y, 1.05, 0.8, PALE, f"patch\n{patch + 1}")
        axes.text(
            first + step * (patches + 1) + 0.1,
            y + 0.4,
            f"image {image + 1}",
            rotation=90,
            ha="center",
            va="center",
            fontsize=10,
        )
    middle = first + step * (patches + 1) / 2 - 0.1
    axes.text(middle, 2.65, "+", ha="center", va="center", fontsize=20)
    _box(axes, 0.0, 1.0, 2.2, 1.0, LIGHT, "positions\n(1, n+1, d)")
    arrow(axes, (2.25, 1.5), (first - 0.1, 1.5))
    for row in range(patches + 1):
        _box(axes, first + step * row, 1.1, 1.05, 0.8, LIGHT, f"row {row}")
    axes.text(
        middle,
        0.1,
        "the same n+1 rows are added to every image",
        ha="center",
        va="center",
        fontsize=10,
    )
    alt = (
        f"A batch of {batch} images, each a row of {patches} patch tokens. One class "
        f"token of shape (1, 1, d) is put in front of all {batch} rows, and one table "
        f"of {patches + 1} positions is added to each of them."
    )
    return figure, alt


def readout() -> "tuple[Figure, str]":
    """From the tokens after the last norm to the loss, and where a tanh may stand."""
    figure, axes = _canvas(5.6, (0, 10), (-0.4, 9.9))
    for place in range(5):
        words = "row 0" if place == 0 else f"row {place}"
        face = LIGHT if place == 0 else PALE
        _box(axes, 0.6 + 1.8 * place, 0.0, 1.5, 0.8, face, words)
    left, middle, wide = 2.8, 4.4, 3.2
    arrow(axes, (1.35, 0.85), (3.2, 1.95))
    axes.text(0.1, 1.8, 'pool="token"', va="center", fontsize=10)
    axes.plot([2.4, 2.4, 9.3, 9.3], [0.95, 1.15, 1.15, 0.95], color=DARK, lw=1)
    arrow(axes, (5.9, 1.15), (5.3, 1.95), dashed=True)
    axes.text(6.0, 1.6, 'or pool="mean"', va="center", fontsize=10)
    _box(axes, left, 2.0, wide, 0.8, WHITE, "y, (b, d)")
    arrow(axes, (middle, 2.85), (middle, 3.35))
    words = "pre_logits:\nlinear, tanh"
    _box(axes, left, 3.4, wide, 1.2, PALE, words, dashed=True)
    words = "only when asked\nfor; the tanh\nbelongs here"
    axes.text(6.3, 4.0, words, va="center", fontsize=10)
    arrow(axes, (middle, 4.65), (middle, 5.15))
    _box(axes, left, 5.2, wide, 0.8, PALE, "head: linear")
    arrow(axes, (middle, 6.05), (middle, 6.55))
    _box(axes, left, 6.6, wide, 0.8, WHITE, "logits, (b, K)")
    arrow(axes, (middle, 7.45), (middle, 8.55))
    _box(axes, 6.2, 7.6, 1.4, 0.8, WHITE, "tanh")
    arrow(axes, (6.15, 8.0), (middle + 0.1, 8.0))
    for ends in ([7.75, 8.25], [8.25, 7.75]):
        axes.plot([5.05, 5.55], ends, color=RUST, lw=2)
    axes.text(7.8, 8.0, "never here", va="center", fontsize=10)
    _box(axes, left, 8.6, wide, 0.8, WHITE, "cross-entropy")
    alt = (
        "From five token rows upwards: row 0, or the mean of the others, is y; an "
        "optional layer pre_logits of linear and tanh; the linear head; logits; "
        "cross-entropy. An arrow from a tanh to the way between logits and "
        "cross-entropy is crossed out."
    )
    return figure, alt


def pictures(
    left: Tensor, right: Tensor, titles: tuple[str, str], seen: str
) -> "tuple[Figure, str]":
    """Two images (3, h, w) in 0..1 side by side, each with a title; `seen` in words."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2, 2.4), layout="constrained")
    for axes, image, title in zip(
        figure.subplots(1, 2), (left, right), titles, strict=True
    ):
        axes.imshow(image.permute(1, 2, 0).numpy(), interpolation="nearest")
        axes.set_title(title, fontsize=11)
        axes.axis("off")
    both = f"{titles[0]}; {titles[1]}"
    return figure, f"{both[0].upper()}{both[1:]}. {seen}"


def losses(
    plain: Sequence[float], squashed: Sequence[float], floor: float
) -> "tuple[Figure, str]":
    """Training loss in nats over steps, without and with a tanh behind the head.

    Each line is a mean over ten steps; `floor` is what the second cannot pass.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = figure.subplots()
    lines = [
        ("logits as they are", plain, DARK),
        ("tanh(logits)", squashed, RUST),
    ]
    ends = []
    for words, values, color in lines:
        means = [
            sum(values[i : i + 10]) / len(values[i : i + 10])
            for i in range(0, len(values), 10)
        ]
        steps = [10 * i + 5 for i in range(len(means))]
        axes.plot(steps, means, color=color, label=words, linewidth=2)
        ends.append(means[-1])
        axes.annotate(
            f"{means[-1]:.2f}",
            (steps[-1], means[-1]),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=10,
        )
    axes.axhline(floor, color="0.5", linestyle="--", label=f"floor {floor:.4f}")
    axes.set_xlabel("step", fontsize=10)
    axes.set_ylabel("training loss (nats),\nmean of ten steps", fontsize=10)
    axes.set_ylim(0, None)
    axes.set_xlim(0, 1.14 * len(plain))  # room for the values at the ends
    axes.legend(fontsize=10)
    alt = (
        f"Two training losses over {len(plain)} steps, both from {plain[0]:.1f}: with "
        f"plain logits it falls to {ends[0]:.2f}, with tanh on the logits to "
        f"{ends[1]:.2f}, above a dashed floor at {floor:.4f}."
    )
    return figure, alt


def gradients(steps: dict[str, dict[str, float]]) -> "tuple[Figure, str]":
    """Bars of the gradient's norm, part by part, for each of a few moments.

    `steps` maps a moment ("step 0") to {part of the model: norm of its gradient}.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
    axes = figure.subplots()
    parts = list(next(iter(steps.values())))
    height = 0.8 / len(steps)
    greys = ["0.15", "0.6", "0.8"]
    for row, (moment, norms) in enumerate(steps.items()):
        places = [
            i + (row - (len(steps) - 1) / 2) * height for i in range(len(parts))
        ]
        bars = axes.barh(
            places,
            [norms[part] for part in parts],
            height,
            color=greys[row],
            edgecolor=DARK,
            label=moment,
        )
        words = [f"{norms[part]:.2g}" if norms[part] else "0" for part in parts]
        axes.bar_label(bars, words, fontsize=10, padding=3)
    axes.set_yticks(range(len(parts)), parts, fontsize=10)
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.set_xlabel("norm of the gradient", fontsize=10)
    axes.legend(fontsize=10, loc="upper right")
    first, *_, last = steps
    silent = [part for part in parts if steps[first][part] == 0]
    alt = (
        f"Norm of the gradient part by part. At {first} it is exactly 0 in "
        f"{len(silent)} of {len(parts)} parts, all but "
        f"{' and '.join(part for part in parts if part not in silent)}; at {last} no "
        "part is silent."
    )
    return figure, alt


def parameter_shares(
    counts: dict[str, dict[str, int]],
) -> "tuple[Figure, str]":
    """Stacked bars of where a model's weights are, in percent of all.

    `counts` maps a model's name to {group of weights: how many}. The last two groups,
    too thin to be seen, are written beside the bars as well.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = figure.subplots()
    groups = list(next(iter(counts.values())))
    faces = ["#00224e", "#7c7b78", "#e0e0e0", "#fde737"]
    hatches = ["", "", "//", ""]
    lefts = dict.fromkeys(counts, 0.0)
    shares = {}
    for group, face, hatch in zip(groups, faces, hatches, strict=False):
        for name, parts in counts.items():
            share = 100 * parts[group] / sum(parts.values())
            axes.barh(
                name,
                share,
                left=lefts[name],
                color=face,
                hatch=hatch,
                edgecolor=DARK,
                label=group if name == next(iter(counts)) else None,
            )
            lefts[name] += share
            shares[name, group] = share
    for name in counts:
        words = " + ".join(
            f"{shares[name, group]:.1f}" for group in groups[-2:]
        )
        axes.text(102, name, words, va="center", fontsize=10)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    beside = " + ".join(f"({group})" for group in groups[-2:])
    axes.set_xlabel(
        f"share of all weights (%); in figures:\n{beside}", fontsize=10
    )
    figure.legend(loc="outside upper center", ncols=2, fontsize=10)
    last = list(counts)[-1]
    alt = (
        f"Stacked bars for {', '.join(counts)}. In {last} "
        + ", ".join(f"{shares[last, g]:.1f} % are in {g}" for g in groups)
        + "."
    )
    return figure, alt


def _canvas(
    height: float, x: tuple[float, float], y: tuple[float, float]
) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=x, ylim=y)
    axes.axis("off")
    return figure, axes


def _box(
    axes: "Axes",
    x: float,
    y: float,
    width: float,
    height: float,
    face: str,
    words: str,
    dashed: bool = False,
) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.12"
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            style,
            facecolor=face,
            edgecolor=DARK,
            linestyle="--" if dashed else "-",
        )
    )
    axes.text(
        x + width / 2,
        y + height / 2,
        words,
        ha="center",
        va="center",
        fontsize=10,
    )
