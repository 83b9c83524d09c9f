"""Drawings of the chapter on the encoder: the stream, the norm, the order of both.

`figures.show(*river())` in a notebook; every function returns a figure and alt text.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from vitedu.figures.schematic import arrow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIGHT, DARK, PALE, WHITE = "#ffd75e", "#202020", "#e9e9e9", "#ffffff"
BLUE = "#9db8d9"  # the stream
WIDTH = 4.8  # inches, so that 10 points stay legible on a phone
STYLES = (
    {"color": "black", "linestyle": "-", "marker": "o"},
    {"color": "0.45", "linestyle": "--", "marker": "s"},
    {"color": "0.65", "linestyle": ":", "marker": "^"},
)


def similarity(
    picture: Tensor, maps: "Mapping[int, Tensor]", marked: tuple[int, int]
) -> "tuple[Figure, str]":
    """A picture (h, w, 3) in 0..1 and maps (gh, gw) of likeness to one patch.

    `maps` are cosines, by the number of layers passed; `marked` is the patch's row
    and column.
    """
    figure = _figure(WIDTH, 4.1)
    panels = list(figure.subplots(2, 2).flat)
    next_panel = iter(panels)
    first = next(next_panel)
    first.imshow(picture.numpy())
    rows, columns = next(iter(maps.values())).shape
    side = (picture.shape[1] / columns, picture.shape[0] / rows)
    _frame(first, marked[1] * side[0], marked[0] * side[1], *side)
    first.set_title("196 patches", fontsize=11)
    for depth, values in maps.items():
        axes = next(next_panel)
        shown = axes.imshow(values.numpy(), cmap="cividis", vmin=-1, vmax=1)
        _frame(axes, marked[1] - 0.5, marked[0] - 0.5, 1, 1)
        words = {0: "no layer", 1: "1 layer"}.get(depth, f"{depth} layers")
        axes.set_title(words, fontsize=11)
    for axes in panels:
        axes.set(xticks=[], yticks=[])
    figure.colorbar(shown, ax=panels, label="cosine", shrink=0.7)
    lows = ", ".join(f"{v.min():.2f} after {k}" for k, v in maps.items())
    alt = (
        f"The picture with one patch framed, and {len(maps)} maps of how like it the "
        f"other patches' tokens are. Lowest cosine by layers: {lows}."
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
    _words(axes, 1.1, 5.65, r"$\mathbf{z}_{l-1}$")
    _words(axes, 5.15, 5.65, r"$\mathbf{z}'_l$")
    _words(axes, 9.3, 5.65, r"$\mathbf{z}_l$")
    for left, name in ((1.6, "attention"), (5.9, "MLP")):
        _box(axes, left, 3.1, 2.3, 0.8, PALE, "norm")
        _box(axes, left, 1.4, 2.3, 0.8, LIGHT, name)
        middle = left + 1.15
        arrow(axes, (middle, 5.2), (middle, 3.95))
        arrow(axes, (middle, 3.1), (middle, 2.25))
        axes.plot(
            [middle, middle, left + 2.8, left + 2.8],
            [1.4, 0.8, 0.8, 5.0],
            color=DARK,
            linewidth=1,
        )
        arrow(axes, (left + 2.8, 4.6), (left + 2.8, 5.35))
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
    axes.plot(
        *after.T.numpy(),
        "s",
        color="#c98a00",
        markersize=9,
        label="after LayerNorm",
    )
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
    """For each layer a matrix (t, t): does output token i depend on input token j?"""
    figure = _figure(WIDTH, 2.6)
    panels = figure.subplots(1, len(matrices), sharey=True)
    for axes, (name, matrix) in zip(panels, matrices.items(), strict=True):
        axes.imshow(
            (matrix / matrix.max()).numpy(), cmap="cividis", vmin=0, vmax=1
        )
        axes.set_title(name, fontsize=11)
        axes.set(xlabel="input token", xticks=[], yticks=[])
    panels[0].set_ylabel("output token")
    told = []
    for name, matrix in matrices.items():
        off = matrix - matrix.diag().diag()
        told.append(f"{name} {int((off > 0).sum())}")
    pairs = matrix.numel() - len(matrix)
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
                _box(axes, x - 2.75, y - 0.4, 1.9, 0.8, PALE, "norm")
            else:
                face = PALE if part == "norm" else LIGHT
                _box(axes, x - 0.75, y - 0.4, 2.3, 0.8, face, part)
                if branch is None:
                    axes.plot(
                        [x - 1.8, x + 0.35],
                        [y - 0.75] * 2,
                        color=DARK,
                        linewidth=1,
                    )
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
    sizes: "Sequence[float]", shares: "Mapping[str, Sequence[float]]"
) -> "tuple[Figure, str]":
    """Size of the stream before each block, and each write as a share of it."""
    figure = _figure(WIDTH, 4.4)
    upper, lower = figure.subplots(2, 1, sharex=True)
    blocks = range(1, len(sizes) + 1)
    upper.plot(blocks, sizes, color="black", marker="o", markersize=3)
    upper.set(ylabel="stream (rms)", ylim=(0, None))
    for style, (name, values) in zip(STYLES, shares.items(), strict=False):
        lower.plot(
            blocks, [100 * v for v in values], label=name, markersize=3, **style
        )
    lower.set(xlabel="block", ylabel="write / stream (%)", ylim=(0, None))
    lower.legend(fontsize=10)
    told = "; ".join(
        f"{name} from {100 * v[0]:.0f} to {100 * v[-1]:.0f} %"
        for name, v in shares.items()
    )
    alt = (
        f"Over {len(sizes)} blocks the stream grows from {sizes[0]:.2f} to "
        f"{sizes[-1]:.2f}, and what a block writes shrinks against it: {told}."
    )
    return figure, alt


def gradient_by_block(
    norms: "Mapping[str, Sequence[float]]",
) -> "tuple[Figure, str]":
    """Gradient norm of one matrix in each block, one line an order."""
    figure = _figure(WIDTH, 3.4)
    axes = figure.subplots()
    for style, (name, values) in zip(STYLES, norms.items(), strict=False):
        axes.semilogy(
            range(1, len(values) + 1),
            values,
            label=name,
            markersize=4,
            **style,
        )
    axes.minorticks_off()
    axes.set(xlabel="block", ylabel="gradient norm", ylim=(0.15, 7))
    _plain_ticks(axes)
    axes.legend(fontsize=10)
    told = "; ".join(
        f"{name} {v[0]:.1f} in the first, {v[-1]:.1f} in the last"
        for name, v in norms.items()
    )
    return figure, f"Gradient norm by block. {told}."


def by_depth(
    depths: "Sequence[int]",
    values: "Mapping[str, Sequence[float]]",
    label: str,
) -> "tuple[Figure, str]":
    """One number a depth, both axes logarithmic, one line an order."""
    figure = _figure(WIDTH, 3.4)
    axes = figure.subplots()
    for style, (name, line) in zip(STYLES, values.items(), strict=False):
        axes.loglog(depths, line, label=name, markersize=5, **style)
    axes.set(xlabel="blocks in the stack", ylabel=label)
    axes.minorticks_off()
    axes.set_xticks(list(depths), [str(depth) for depth in depths])
    _plain_ticks(axes)
    axes.legend(fontsize=10)
    told = "; ".join(
        f"{name} from {v[0]:.2f} to {v[-1]:.2f}" for name, v in values.items()
    )
    ends = f"{depths[0]} to {depths[-1]} blocks"
    return figure, f"{label.capitalize()} in stacks of {ends}: {told}."


def loss_lines(
    losses: "Mapping[str, Sequence[float]]", constant: float
) -> "tuple[Figure, str]":
    """Training loss over steps, and the loss of the constant answer."""
    figure = _figure(WIDTH, 3.6)
    axes = figure.subplots()
    for style, (name, values) in zip(STYLES, losses.items(), strict=False):
        axes.plot(values, label=name, markersize=4, **style)
    axes.axhline(constant, color="0.8", linewidth=4, zorder=0)
    last = len(next(iter(losses.values()))) - 1
    axes.text(last, constant + 0.1, "constant answer", ha="right", fontsize=10)
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
    axes: "Axes",
    x: float,
    y: float,
    width: float,
    height: float,
    face: str,
    words: str,
) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.15"
    axes.add_patch(
        FancyBboxPatch(
            (x, y), width, height, style, facecolor=face, edgecolor=DARK
        )
    )
    _words(axes, x + width / 2, y + height / 2, words)


def _frame(
    axes: "Axes", x: float, y: float, width: float, height: float
) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle(
            (x, y), width, height, fill=False, edgecolor="red", linewidth=2
        )
    )


def _words(
    axes: "Axes", x: float, y: float, words: str, size: int = 10
) -> None:
    axes.text(x, y, words, ha="center", va="center", fontsize=size)
