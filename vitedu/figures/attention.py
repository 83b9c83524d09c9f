"""Drawings of the chapter on attention: what the layer does.

`figures.show(*flow(...))` in a notebook; every function returns a figure and alt text.
Who looks at whom in a picture is drawn by `vitedu.figures.maps`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vitedu.figures.schematic import arrow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK, LIGHT, WHITE = "#202020", "#ffd75e", "#ffffff"
FACES = ("#ffd75e", "#9db8d9")  # one a head; they differ in grey too
STYLES = (
    {"color": "0.65", "linestyle": ":"},
    {"color": "0.4", "linestyle": "--"},
    {"color": "black", "linestyle": "-"},
)
WIDTH = 4.8  # inches, so that 10 points stay legible on a phone
CELL = (1.2, 0.7)  # of a matrix with numbers: width, height


def answers(
    directions: Tensor,
    lines: Mapping[str, Tensor],
    entries: Mapping[float, float],
) -> "tuple[Figure, str]":
    """What a soft dictionary answers (m,) to queries in these directions, in degrees.

    `entries` are the dictionary's own keys and values, at most three lines.
    """
    figure = _figure(WIDTH, 3.2)
    axes = figure.subplots()
    for (name, line), style in zip(lines.items(), STYLES, strict=False):
        axes.plot(directions.numpy(), line.numpy(), label=name, **style)
    axes.plot(
        list(entries), list(entries.values()), "o", color=DARK, label="entries"
    )
    axes.set(
        xlabel="direction of the query (degrees, from north over east)",
        ylabel="answer (°C)",
        xticks=range(0, 361, 90),
    )
    axes.legend(fontsize=10, loc="upper right")
    ranges = ", ".join(
        f"{name} from {line.min():.1f} to {line.max():.1f}"
        for name, line in lines.items()
    )
    alt = (
        "Answer against direction of the query, a wave that becomes a staircase "
        f"through the entries as queries get longer. In °C: {ranges}."
    )
    return figure, alt


def triangle(tokens: Tensor, outputs: Tensor) -> "tuple[Figure, str]":
    """Three tokens (3, 2) in the plane, and where attention moves each of them."""
    figure = _figure(3.6, 3.6)
    axes = figure.subplots()
    corners = torch.cat([tokens, tokens[:1]])
    axes.fill(*corners.T.numpy(), facecolor="#eeeeee", edgecolor="0.6")
    pairs = zip(tokens.tolist(), outputs.tolist(), strict=True)
    for number, (start, end) in enumerate(pairs, start=1):
        axes.annotate(
            "", end, start, arrowprops={"arrowstyle": "->", "color": "0.3"}
        )
        axes.plot(*start, "o", color=DARK)
        axes.plot(*end, "s", color=LIGHT, markeredgecolor=DARK)
        axes.annotate(
            f"$x_{number}$",
            start,
            xytext=(6, 6),
            textcoords="offset points",
            fontsize=13,
        )
    axes.set(xlim=(-0.1, 1.2), ylim=(-0.1, 1.2), aspect="equal")
    axes.set(xlabel="first number", ylabel="second number")
    places = "; ".join(
        f"x{number} to ({x:.2f}, {y:.2f})"
        for number, (x, y) in enumerate(outputs.tolist(), start=1)
    )
    alt = f"A triangle of three tokens; attention moves each inwards: {places}."
    return figure, alt


def flow(
    z: Tensor, q: Tensor, k: Tensor, v: Tensor, weights: Tensor, values: Tensor
) -> "tuple[Figure, str]":
    """Matrices of one head, from tokens (t, d) to values (t, hd), with numbers."""
    figure = _figure(4.6, 6.0)
    axes = _canvas(figure, (-0.7, 10.2), (0, 12.4))
    _matrix(axes, 3.8, 12.2, z, r"$\mathbf{z}$")
    for left, matrix, name in ((0.3, q, "q"), (3.8, k, "k"), (7.6, v, "v")):
        _matrix(axes, left, 8.9, matrix, rf"$\mathbf{{{name}}}$")
        arrow(axes, (5.0, 10.0), (left + 1.2, 9.0))
    axes.text(7.3, 9.7, r"times $\mathbf{U}_{qkv}$", fontsize=10)
    _matrix(axes, 1.4, 5.6, weights, "$A$")
    arrow(axes, (1.5, 6.7), (2.7, 5.7))
    arrow(axes, (5.0, 6.7), (3.7, 5.7))
    axes.text(2.6, 6.4, "compare", fontsize=10)
    _matrix(axes, 5.4, 2.3, values, r"$A\mathbf{v}$")
    arrow(axes, (3.7, 3.4), (6.1, 2.4))
    arrow(axes, (8.8, 6.7), (7.1, 2.4))
    axes.text(6.0, 2.8, "mix", fontsize=10)
    rows = "; ".join(
        ", ".join(f"{weight:.2f}" for weight in row) for row in weights.tolist()
    )
    alt = (
        "Tokens z go to q, k and v; q and k are compared and give the matrix A; "
        f"A mixes the rows of v. Rows of A: {rows}."
    )
    return figure, alt


def saturation(
    variances: Mapping[int, float], marks: Mapping[str, float]
) -> "tuple[Figure, str]":
    """Variance of products by their width, and the slope of a softmax over two.

    `marks` are differences between two scores to be pointed out on the slope
    w(1 - w), with their names.
    """
    figure = _figure(WIDTH, 5.4)
    upper, lower = figure.subplots(2, 1)
    widths = list(variances)
    upper.plot(widths, widths, color="0.6", label="variance = width")
    upper.plot(widths, list(variances.values()), "o", color=DARK)
    upper.set_xscale("log", base=2)
    upper.set_yscale("log", base=2)
    upper.set(
        **{"xticks": widths, "yticks": widths},
        **{"xticklabels": widths, "yticklabels": widths},
        xlabel=r"width $D_h$ of query and key",
        ylabel=r"variance of $\mathbf{q} \cdot \mathbf{k}$",
    )
    difference = torch.linspace(0, 12, 241)
    lower.plot(difference.numpy(), _slope(difference).numpy(), color=DARK)
    found = []
    for (name, place), shape in zip(marks.items(), "os^", strict=False):
        height = _slope(torch.tensor(place)).item()
        found.append(f"{name}: {height:.2g}")
        style = {"color": LIGHT, "markeredgecolor": DARK, "markersize": 9}
        lower.plot(place, height, shape, label=found[-1], **style)
    lower.set_yscale("log")
    lower.set(
        xlabel="difference of the two scores",
        ylabel=r"slope $w(1 - w)$",
        ylim=(1e-6, 1),
    )
    for axes in (upper, lower):
        axes.legend(fontsize=10)
    alt = (
        f"Above: variance against width, from {widths[0]} to {widths[-1]}, points on "
        "the line where they are equal. Below, on a logarithmic scale: the slope of a "
        "softmax falls from 0.25 at equal scores without end. "
        f"Marked: {', '.join(found)}."
    )
    return figure, alt


def split() -> "tuple[Figure, str]":
    """One token's way through two heads: 3d numbers, cut, mixed, joined, d numbers."""
    figure = _figure(WIDTH, 5.2)
    axes = _canvas(figure, (-0.1, 12.1), (0.2, 11.6))
    _box(axes, (4, 10.4), (4, 0.9), WHITE, "token, d")
    arrow(axes, (6, 10.3), (6, 9.6))
    axes.text(6.3, 9.9, r"times $\mathbf{U}_{qkv}$", fontsize=10, va="center")
    for place in range(6):
        name, head = "qkv"[place // 2], place % 2
        words = f"${name}_{head + 1}$"
        _box(axes, (2 * place, 8.6), (2, 0.9), FACES[head], words)
    for head in range(2):
        left, joined = 0.4 + 6.2 * head, 4.0 + 2 * head
        for place in range(3):
            start = 4 * place + 2 * head + 1.0
            arrow(axes, (start, 8.5), (left + 1.2 + 1.3 * place, 6.7))
        words = f"head {head + 1}\nattention, (6) and (7)"
        _box(axes, (left, 5.3), (5, 1.3), FACES[head], words)
        arrow(axes, (left + 2.5, 5.2), (joined + 1, 3.9))
        _box(axes, (joined, 2.9), (2, 0.9), FACES[head], f"from {head + 1}")
    arrow(axes, (6, 2.8), (6, 1.9))
    axes.text(6.3, 2.4, r"times $\mathbf{U}_{msa}$", fontsize=10, va="center")
    _box(axes, (4, 0.9), (4, 0.9), WHITE, "new token, d")
    words = "other tokens take part inside the heads only"
    axes.text(6, 0.4, words, fontsize=10, ha="center")
    alt = (
        "A token of d numbers becomes 3d: q, k and v, each cut into a part for head "
        "1 and one for head 2. Each head attends with its own parts; what they "
        "return is joined to d numbers and multiplied by U_msa."
    )
    return figure, alt


def hears(matrices: Mapping[tuple[str, str], Tensor]) -> "tuple[Figure, str]":
    """Who changes whose output: yes or no, as squares (m, m): row hears column.

    A key of `matrices` is (name of the layer, "image" or "token").
    """
    from matplotlib.patches import Patch

    figure = _figure(WIDTH, 6.0)
    figure.get_layout_engine().set(h_pad=0.08)
    panels = figure.subplots(2, 2)
    words = []
    for axes, ((title, thing), heard) in zip(
        panels.flat, matrices.items(), strict=True
    ):
        shown = axes.imshow(heard.numpy(), cmap="cividis", vmin=0, vmax=1)
        axes.set_title(f"{thing} hears {thing}\n({title})", fontsize=11)
        axes.set(xticks=[], yticks=[])
        axes.set_xlabel(f"{thing} that is changed", fontsize=10)
        axes.set_ylabel(f"{thing} that answers", fontsize=10)
        words.append(
            f"{thing} hears {thing} ({title}): {int(heard.sum())} of {heard.numel()}"
        )
    signs = {"moves": 1.0, "does not move": 0.0}
    figure.legend(
        handles=[
            Patch(facecolor=shown.cmap(place), edgecolor=DARK, label=name)
            for name, place in signs.items()
        ],
        loc="outside lower center",
        ncols=2,
        fontsize=10,
    )
    alt = (
        "Four squares of yes, yellow, and no: does the output of one move with "
        f"another? Yes for {'; '.join(words)}."
    )
    return figure, alt


def _slope(difference: Tensor) -> Tensor:
    weight = difference.sigmoid()
    return weight * (1 - weight)


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _canvas(
    figure: "Figure", across: tuple[float, float], up: tuple[float, float]
) -> "Axes":
    axes = figure.subplots()
    axes.set(xlim=across, ylim=up)
    axes.axis("off")
    return axes


def _matrix(
    axes: "Axes", left: float, top: float, matrix: Tensor, name: str
) -> None:
    """Numbers in cells, row 0 at the top, the name on the left."""
    for row, numbers in enumerate(matrix.tolist()):
        for column, number in enumerate(numbers):
            place = (left + column * CELL[0], top - (row + 1) * CELL[1])
            words = f"{number:.2f}".rstrip("0").rstrip(".")
            _box(axes, place, CELL, WHITE, words)
    middle = top - len(matrix) * CELL[1] / 2
    axes.text(left - 0.2, middle, name, fontsize=13, va="center", ha="right")


def _box(
    axes: "Axes",
    place: tuple[float, float],
    size: tuple[float, float],
    face: str,
    words: str,
) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle(place, *size, facecolor=face, edgecolor=DARK))
    middle = (place[0] + size[0] / 2, place[1] + size[1] / 2)
    axes.text(*middle, words, ha="center", va="center", fontsize=10)
