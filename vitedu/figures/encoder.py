"""Drawings of the chapter on the encoder: the stream, the norm, the order of both.

`figures.show(*river())` in a notebook; every function returns a figure and alt text.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from vitedu.figures.schematic import arrow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIGHT, DARK, PALE, WHITE = "#ffd75e", "#202020", "#e9e9e9", "#ffffff"
BLUE = "#9db8d9"  # the stream
WIDTH = 4.8  # inches, so that 10 points stay legible on a phone
ORANGE = "#c47a00"  # 3.4 : 1 on white
STYLES = (
    {"color": "black", "linestyle": "-", "marker": "o"},
    {"color": ORANGE, "linestyle": "--", "marker": "s"},
    {"color": "0.35", "linestyle": ":", "marker": "^"},
)


def similarity(
    picture: Tensor, maps: "Mapping[int, Tensor]", marked: tuple[int, int]
) -> "tuple[Figure, str]":
    """A picture (h, w, 3) in 0..1 and maps (gh, gw) of unlikeness to one patch.

    `maps` are 1 - cosine, by the number of layers passed; `marked` is the patch's
    row and column. Each map is divided by its largest number.
    """
    figure = _figure(WIDTH, 4.5)
    panels = list(figure.subplots(2, 2).flat)
    next_panel = iter(panels)
    first = next(next_panel)
    first.imshow(picture.numpy())
    rows, columns = next(iter(maps.values())).shape
    side = (picture.shape[1] / columns, picture.shape[0] / rows)
    _frame(first, marked[1] * side[0], marked[0] * side[1], *side)
    first.set_title("196 patches\n", fontsize=11)
    told = []
    for depth, values in maps.items():
        axes = next(next_panel)
        most = values.max().item()
        shares = (values / most).numpy()
        shown = axes.imshow(shares, cmap="cividis_r", vmin=0, vmax=1)
        _frame(axes, marked[1] - 0.5, marked[0] - 0.5, 1, 1)
        words = {0: "no layer", 1: "1 layer"}.get(depth, f"{depth} layers")
        lowest = _cosine(most)
        axes.set_title(f"{words}: lowest\ncosine {lowest}", fontsize=11)
        told.append(f"{lowest} after {depth}")
    for axes in panels:
        axes.set(xticks=[], yticks=[])
    bar = figure.colorbar(shown, ax=panels, label="cosine", shrink=0.7)
    bar.set_ticks([0, 1], labels=["1", "lowest"])
    alt = (
        f"The picture with one patch framed, and {len(maps)} maps of how unlike it the "
        "other patches' tokens are, each on a scale of its own. Lowest cosine by "
        f"layers: {', '.join(told)}."
    )
    return figure, alt


def spread_and_size(
    spreads: "Mapping[str, Sequence[float]]",
    sizes: "Mapping[str, Sequence[float]]",
) -> "tuple[Figure, str]":
    """Two panels over layers 0, 1, ...: how much tokens differ, how large they are."""
    figure = _figure(WIDTH, 4.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    for axes, values in ((upper, spreads), (lower, sizes)):
        for style, (name, line) in zip(STYLES, values.items(), strict=False):
            axes.semilogy(line, label=name, markersize=3, **style)
    upper.set(ylabel="spread of tokens", ylim=(1e-17, 30))
    lower.set(ylabel="size (rms)", xlabel="layers passed")
    upper.legend(loc="center right", fontsize=10)
    ends = "; ".join(
        f"{name}: spread {_small(line[-1])}, size {sizes[name][-1]:.2g}"
        for name, line in spreads.items()
    )
    last = len(next(iter(spreads.values()))) - 1
    return figure, f"Spread and size of the tokens after {last} layers. {ends}."


def river() -> "tuple[Figure, str]":
    """One block as a stream that attention and MLP read from and add to."""
    figure, axes = _canvas(3.5, (0, 10.4), (0, 7.0))
    from matplotlib.patches import Rectangle

    stream = Rectangle((0.1, 5.2), 9.7, 0.9, facecolor=BLUE, edgecolor=DARK)
    axes.add_patch(stream)
    arrow(axes, (9.8, 5.65), (10.4, 5.65))
    _words(axes, 1.1, 5.65, r"$\mathbf{z}_{\ell-1}$")
    _words(axes, 5.15, 5.65, r"$\mathbf{z}'_\ell$")
    _words(axes, 9.3, 5.65, r"$\mathbf{z}_\ell$")
    for left, name in ((1.6, "attention"), (5.9, "MLP")):
        _box(axes, left, 3.1, 2.3, PALE, "norm")
        _box(axes, left, 1.4, 2.3, LIGHT, name)
        middle = left + 1.15
        arrow(axes, (middle, 5.2), (middle, 3.95))
        arrow(axes, (middle, 3.1), (middle, 2.25))
        corner = [middle, middle, left + 2.8]
        axes.plot(corner, [1.4, 0.8, 0.8], color=DARK, linewidth=1)
        arrow(axes, (left + 2.8, 0.8), (left + 2.8, 5.35))
        _words(axes, left + 2.8, 5.65, "+", size=16)
    _words(axes, 1.95, 4.55, "reads")
    _words(axes, 6.25, 4.55, "reads")
    _words(axes, 4.4, 0.35, "writes")
    _words(axes, 8.7, 0.35, "writes")
    _words(axes, 5.1, 6.6, "the residual stream: (b, t, d) from end to end")
    alt = (
        "A stream of tokens runs from left to right through one block. Attention reads "
        "it through a norm and adds its result to it, then the MLP does the same. "
        "Nothing else touches the stream."
    )
    return figure, alt


def plane(before: Tensor, after: Tensor) -> "tuple[Figure, str]":
    """Tokens (t, 2) in the plane and where LayerNorm puts them."""
    figure = _figure(WIDTH, 4.6)
    axes = figure.subplots()
    axes.axline((0, 0), slope=1, color="0.6", linewidth=1, linestyle=":")
    axes.text(3.1, 3.55, "both numbers\nequal", ha="right", fontsize=10)
    for start, end in zip(before.tolist(), after.tolist(), strict=True):
        style = {"arrowstyle": "->", "color": "0.6", "shrinkA": 5, "shrinkB": 5}
        if start != end:
            axes.annotate("", end, start, arrowprops=style)
    axes.plot(*before.T.numpy(), "o", color="black", label="token")
    look = {"color": ORANGE, "markersize": 9, "label": "after LayerNorm"}
    axes.plot(*after.T.numpy(), "s", **look)
    axes.set(xlabel="first number", ylabel="second number", aspect="equal")
    axes.set(xlim=(-2.5, 5.4), ylim=(-2.5, 5.4))
    axes.legend(loc="lower right", fontsize=10)
    places = {tuple(round(x, 1) + 0.0 for x in end) for end in after.tolist()}
    alt = (
        f"{len(before)} tokens in the plane; LayerNorm leaves {len(places)} places: "
        "(1, -1) for those right of the diagonal, (-1, 1) for those left of it, "
        "(0, 0) for the one on it."
    )
    return figure, alt


def activations() -> "tuple[Figure, str]":
    """GELU beside ReLU, and what the tanh form differs from the exact one."""
    figure = _figure(WIDTH, 4.4)
    upper, lower = figure.subplots(2, 1, sharex=True)
    x = torch.linspace(-5, 5, 1001, dtype=torch.float64)
    exact = nn.functional.gelu(x)
    upper.plot(x, exact, color="black", label="GELU")
    upper.plot(x, x.relu(), color="0.55", linestyle="--", label="ReLU")
    upper.set(ylabel="output", ylim=(-0.5, 3.2))
    upper.legend(fontsize=10)
    difference = exact - nn.functional.gelu(x, approximate="tanh")
    lower.plot(x, 1e4 * difference, color="black")
    lower.axhline(0, color="0.7", linewidth=1)
    lower.set(xlabel="input", ylabel="exact $-$ tanh, in $10^{-4}$")
    alt = (
        f"GELU follows ReLU but dips to {exact.min():.2f} left of zero and is smooth. "
        "Below, its exact form minus its tanh form: two pairs of bumps, the larger "
        f"reaching {difference.abs().max():.2e}."
    )
    return figure, alt


def influence(matrices: "Mapping[str, Tensor]") -> "tuple[Figure, str]":
    """For each layer a matrix (t, t): does output token i depend on input token j?

    Each is divided by its largest number; exact zeros stay white.
    """
    figure = _figure(WIDTH, 2.4)
    panels = figure.subplots(1, len(matrices), sharey=True)
    told = []
    for axes, (name, matrix) in zip(panels, matrices.items(), strict=True):
        shares = (matrix / matrix.max()).numpy()
        shown = axes.imshow(
            np.ma.masked_equal(shares, 0), cmap="cividis_r", vmin=0, vmax=1
        )
        axes.set_facecolor(WHITE)
        touching = int((matrix - matrix.diag().diag() > 0).sum())
        pairs = matrix.numel() - len(matrix)
        axes.set_title(f"{name}\n{touching} of {pairs} pairs", fontsize=11)
        axes.set(xlabel="input token", xticks=[], yticks=[])
        told.append(f"{name} {touching}")
    panels[0].set_ylabel("output token")
    figure.colorbar(shown, ax=panels, label="largest = 1", shrink=0.8)
    alt = (
        f"How strongly each output token depends on each of {len(matrix)} input "
        f"tokens. Pairs of different tokens that touch, of {pairs}: "
        f"{', '.join(told)}."
    )
    return figure, alt


def two_orders() -> "tuple[Figure, str]":
    """The pre-norm block beside the post-norm block, from below upwards."""
    figure, axes = _canvas(5.2, (0, 10), (-0.5, 10.6))
    orders = {
        "pre-norm": ("norm", "attention", "+", "norm", "MLP", "+"),
        "post-norm": ("attention", "+", "norm", "MLP", "+", "norm"),
    }
    for x, (name, parts) in zip((2.6, 7.6), orders.items(), strict=True):
        _words(axes, x, 10.2, name, size=12)
        on_stream = name == "post-norm"
        axes.plot([x - 1.8] * 2, [0.0, 9.3], color=BLUE, linewidth=7, zorder=0)
        branch = None
        for place, part in enumerate(parts):
            y = 0.9 + 1.5 * place
            if part == "+":
                arrow(axes, (x + 0.35, branch + 0.4), (x + 0.35, y))
                arrow(axes, (x + 0.35, y), (x - 1.5, y))
                _words(axes, x - 1.8, y, "+", size=16)
                branch = None
            elif part == "norm" and on_stream:
                _box(axes, x - 2.75, y - 0.4, 1.9, PALE, "norm")
            else:
                face = PALE if part == "norm" else LIGHT
                _box(axes, x - 0.75, y - 0.4, 2.3, face, part)
                if branch is None:
                    ends = [x - 1.8, x + 0.35]
                    axes.plot(ends, [y - 0.75] * 2, color=DARK, linewidth=1)
                    arrow(axes, (x + 0.35, y - 0.75), (x + 0.35, y - 0.4))
                else:
                    arrow(axes, (x + 0.35, branch + 0.4), (x + 0.35, y - 0.4))
                branch = y
        arrow(axes, (x - 1.8, 9.2), (x - 1.8, 9.9))
    alt = (
        "Two blocks from below. Pre-norm: the norms stand on the branches, the stream "
        "passes two plus signs and nothing else. Post-norm: both norms stand on the "
        "stream itself, each after a plus sign."
    )
    return figure, alt


def writes(
    streams: "Sequence[float]",
    sizes: "Mapping[str, Sequence[float]]",
    shares: "Mapping[str, Sequence[float]]",
) -> "tuple[Figure, str]":
    """Stream before each block, each write, and a write as a share of the stream.

    The thin line is the growth of equal, unrelated writes: the square grows by the
    same number a block. It meets the stream at both ends.
    """
    figure = _figure(WIDTH, 5.0)
    upper, lower = figure.subplots(2, 1, sharex=True)
    blocks = range(1, len(streams) + 1)
    first, last = streams[0] ** 2, streams[-1] ** 2
    rise = (last - first) / (len(streams) - 1)
    root = [(first + rise * passed) ** 0.5 for passed in range(len(streams))]
    upper.plot(blocks, root, color="0.5", linewidth=0.8, label="square root")
    upper.plot(blocks, streams, color=BLUE, linewidth=3, label="stream")
    for style, (name, values) in zip(STYLES, sizes.items(), strict=False):
        upper.plot(blocks, values, label=name, markersize=3, **style)
        share = [100 * value for value in shares[name]]
        lower.plot(blocks, share, label=name, markersize=3, **style)
    upper.set(ylabel="size (rms)", ylim=(0, None))
    lower.set(xlabel="block", ylabel="write / stream (%)", ylim=(0, None))
    upper.legend(fontsize=10, loc="upper left")
    lower.legend(fontsize=10)
    told = "; ".join(
        f"{name} from {100 * v[0]:.0f} to {100 * v[-1]:.0f} %"
        for name, v in shares.items()
    )
    wrote = "; ".join(
        f"{name} between {min(v):.2f} and {max(v):.2f}"
        for name, v in sizes.items()
    )
    alt = (
        f"Over {len(streams)} blocks the stream grows from {streams[0]:.2f} to "
        f"{streams[-1]:.2f}, about as a square root does. A block writes: {wrote}. As "
        f"a share of the stream: {told}."
    )
    return figure, alt


def medians(
    places: "Sequence[int]",
    runs: "Mapping[str, Sequence[Sequence[float]]]",
    labels: tuple[str, str],
) -> "tuple[Figure, str]":
    """Medians over seeds as lines, the seeds as dots: one number a place and seed.

    `runs` holds for each name one list of seeds a place; `labels` are those of the
    axes. Few places are spaced as their logarithms.
    """
    figure = _figure(WIDTH, 3.4)
    axes = figure.subplots()
    axes.set(xlabel=labels[0], ylabel=labels[1], yscale="log")
    told = []
    for style, (name, values) in zip(STYLES, runs.items(), strict=False):
        middle = [median(seeds) for seeds in values]
        dots = {"color": style["color"], "alpha": 0.35, "markeredgewidth": 0}
        axes.plot(places, values, style["marker"], markersize=3.5, **dots)
        axes.plot(places, middle, label=name, markersize=5, **style)
        last = f"{min(values[-1]):.2f} to {max(values[-1]):.2f}"
        told.append(f"{name} {middle[0]:.2f}, {middle[-1]:.2f} (seeds {last})")
    axes.minorticks_off()
    if len(places) < 10:
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(list(places), [str(place) for place in places])
    _plain_ticks(axes)
    axes.legend(fontsize=10)
    ends = f"{labels[0]}: {places[0]} and {places[-1]}"
    several = f"median of {len(values[-1])} seeds"
    alt = f"{labels[1].capitalize()}, {several}; {ends}. {'; '.join(told)}."
    return figure, alt


def loss_lines(
    losses: "Mapping[str, Sequence[float]]", constant: float
) -> "tuple[Figure, str]":
    """Training loss over steps, and the loss of the constant answer."""
    figure = _figure(WIDTH, 3.6)
    axes = figure.subplots()
    axes.axhline(constant, color="0.8", linewidth=1.5, zorder=0)
    for style, (name, values) in zip(STYLES, losses.items(), strict=False):
        axes.plot(values, label=name, markersize=5, **style)
    last = len(next(iter(losses.values()))) - 1
    axes.text(last, constant + 0.13, "constant answer", ha="right", fontsize=10)
    axes.set(xlabel="step", ylabel="loss (nats)", ylim=(0, None))
    axes.legend(fontsize=10, loc="lower left")
    told = "; ".join(f"{name} {v[-1]:.1f}" for name, v in losses.items())
    alt = f"Loss after {last} steps, the constant answer being {constant:.1f}: {told}."
    return figure, alt


def _plain_ticks(axes: "Axes") -> None:
    """Write 0.5, 1, 2 beside a logarithmic axis instead of powers of ten."""
    low, high = axes.get_ylim()
    ticks = [n * 10.0**p for p in range(-3, 3) for n in (1, 2, 5)]
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown])


def _cosine(below_one: float) -> str:
    """A cosine from 1 - cosine, with its distance from 1 where that is small."""
    if below_one > 1e-3:
        return f"{1 - below_one:.2f}"
    return f"1 - {below_one:.0e}".replace("e-0", "e-")


def _small(value: float) -> str:
    """A number, or that it is rounding error of float64."""
    return f"{value:.0e}" if value > 1e-13 else "below 1e-13"


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _canvas(
    height: float, x: tuple[float, float], y: tuple[float, float]
) -> "tuple[Figure, Axes]":
    figure = _figure(WIDTH, height)
    axes = figure.subplots()
    axes.set(xlim=x, ylim=y)
    axes.axis("off")
    return figure, axes


def _box(
    axes: "Axes", x: float, y: float, width: float, face: str, words: str
) -> None:
    from matplotlib.patches import FancyBboxPatch

    look = {"facecolor": face, "edgecolor": DARK}
    style = "round,pad=0,rounding_size=0.15"
    axes.add_patch(FancyBboxPatch((x, y), width, 0.8, style, **look))
    _words(axes, x + width / 2, y + 0.4, words)


def _frame(
    axes: "Axes", x: float, y: float, width: float, height: float
) -> None:
    from matplotlib.patches import Rectangle

    look = {"fill": False, "edgecolor": "red", "linewidth": 2}
    axes.add_patch(Rectangle((x, y), width, height, **look))


def _words(
    axes: "Axes", x: float, y: float, words: str, size: int = 10
) -> None:
    axes.text(x, y, words, ha="center", va="center", fontsize=size)
