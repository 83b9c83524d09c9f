"""Drawings of the chapter on the encoder: the block, its parts, the real stream.

`figures.show(*block())` in a notebook; every function returns a figure and alt text.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from vitedu.figures.palette import ATTENTION, CLASS, MLP, STREAM
from vitedu.figures.photos import draw_picture, maps
from vitedu.figures.schematic import (
    DARK,
    GREY,
    arrow,
    box,
    chart,
    figure,
    label,
    line,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.8  # inches, so that 10 points stay legible on a phone
TEXT = 11  # points of ticks and labels
PALE = "#9aa1aa"  # what is compared with, beside a colour of the book
COLUMNS = 14  # of patches in a photograph


def likeness(
    picture: Tensor, streams: Mapping[str, Tensor], patch: int
) -> "tuple[Figure, str]":
    """A picture (3, h, w) in 0..1 and how like one patch all others are.

    `streams` are tokens (t, d) under the titles of their maps; rows in front of the
    last 196 belong to no patch. The maps are cosines, all on one scale from 0 to 1.
    """
    drawn, told = {}, []
    for title, tokens in streams.items():
        drawn[title] = _cosines(tokens, patch)
        others = drawn[title].flatten()
        others = torch.cat([others[:patch], others[patch + 1 :]])
        told.append(f"{title}: {100 * others.mean():.0f} %")
    alt = (
        "A photograph with one patch framed, and maps of how like it every patch is, "
        "as cosines from 0, dark, to 1, bright. Mean over all other patches, "
        f"{'; '.join(told)}."
    )
    name = "cosine with the framed patch (dark: 0 or less)"
    columns = 2 if len(drawn) <= 3 else 3  # large panels if there are few
    return maps(picture, drawn, name, alt, divmod(patch, COLUMNS), columns)


def averages(steps: Sequence[Tensor]) -> "tuple[Figure, str]":
    """Tokens (t, 2) in the plane, before and after each layer of averaging."""
    drawing = chart(3.4, 3.0)
    axes = drawing.subplots()
    middle = steps[0].mean(dim=0)
    for before, after in pairwise(steps):
        for start, end in zip(before.tolist(), after.tolist(), strict=True):
            if start != end:
                arrow(axes, start, end, color=PALE)
    far = []
    for place, tokens in enumerate(steps):
        name = "tokens" if place == 0 else f"after {place}"
        shade = (DARK, ATTENTION, "#7cc292")[place]
        look = {"color": shade, "markersize": 9 - 2 * place, "label": name}
        axes.plot(*tokens.T.numpy(), "o", linestyle="none", **look)
        far.append((tokens - middle).norm(dim=1).max().item())
    axes.set(xlim=(-0.5, 4.5), ylim=(-0.5, 4.5), aspect="equal")
    axes.set(xticks=range(5), yticks=range(5))
    axes.legend(fontsize=10, loc="upper right")
    told = ", ".join(f"{distance:.2f}" for distance in far)
    alt = (
        f"{len(steps[0])} points in a plane move towards their mean; the farthest is "
        f"{told} away from it before and after each layer."
    )
    return drawing, alt


def block() -> "tuple[Figure, str]":
    """One block: boxes, equations (2) and (3) and the two lines of code, in colour."""
    drawing, axes = figure(400, 520)
    drawing.patch.set_alpha(1)  # coloured words need a white ground
    stream = 30  # where the stream runs down
    line(axes, [(stream, 492), (stream, 34)], STREAM, width=9)
    arrow(axes, (stream, 36), (stream, 14), color=STREAM, width=7)
    label(axes, (54, 504), r"$\mathbf{z}_{\ell-1}$", STREAM, 15, ha="left")
    label(axes, (110, 504), "the residual stream", STREAM, ha="left")
    parts = (
        (
            484,
            ATTENTION,
            "attention",
            (
                r"$\mathbf{z}'_\ell = $",
                r"$\mathrm{MSA}$",
                r"\mathbf{z}_{\ell-1}",
            ),
            ("x = x + ", "self.attn", "norm1"),
        ),
        (
            254,
            MLP,
            "MLP",
            (r"$\mathbf{z}_\ell = $", r"$\mathrm{MLP}$", r"\mathbf{z}'_\ell"),
            ("return x + ", "self.mlp", "norm2"),
        ),
    )
    for top, color, name, symbols, words in parts:
        _branch(axes, stream, top, name, color)
        out, function, read = symbols
        equation = (
            (out, STREAM),
            (f"{function}$($", color),
            (rf"$\mathrm{{LN}}({read})$", GREY),
            ("$)$", color),
            (rf"$\;+\;{read}$", STREAM),
        )
        _words_in_colors(axes, (62, top - 152), equation, 15)
        add, call, norm = words
        code = (
            (add, STREAM),
            (f"{call}(", color),
            (f"self.{norm}(x)", GREY),
            (")", color),
        )
        _words_in_colors(axes, (62, top - 184), code, 11.5, "monospace")
    label(axes, (54, 270), r"$\mathbf{z}'_\ell$", STREAM, 15, ha="left")
    label(axes, (54, 20), r"$\mathbf{z}_\ell$", STREAM, 15, ha="left")
    alt = (
        "One encoder block, from top to bottom. The residual stream passes it "
        "untouched. Attention reads it through a norm and adds its result to it: "
        "equation (2), x = x + self.attn(self.norm1(x)). The MLP does the same: "
        "equation (3), return x + self.mlp(self.norm2(x))."
    )
    return drawing, alt


def _branch(
    axes: "Axes", stream: float, top: float, name: str, color: str
) -> None:
    """A branch off the stream: read, norm, function, plus."""
    reads, writes = top - 36, top - 104
    right = 240  # the middle of its boxes
    arrow(axes, (stream, reads), (right - 108, reads), color=GREY, width=1.8)
    box(axes, (right, reads), (212, 40), "norm", GREY, lit=False)
    arrow(
        axes, (right, reads - 20), (right, writes + 22), color=GREY, width=1.8
    )
    box(axes, (right, writes), (212, 44), name, color, fontsize=14)
    arrow(
        axes, (right - 107, writes), (stream + 14, writes), color=color, width=2
    )
    axes.plot(
        stream,
        writes,
        marker="o",
        markersize=20,
        color="white",
        markeredgecolor=color,
        markeredgewidth=2,
        zorder=3,
    )
    label(axes, (stream, writes), "+", color, 16, zorder=4, weight="bold")
    label(axes, (stream + 52, reads + 12), "reads", GREY, 11)
    label(axes, (stream + 56, writes + 12), "adds", color, 11)


def _words_in_colors(
    axes: "Axes",
    place: Sequence[float],
    pieces: Sequence[tuple[str, str]],
    size: float,
    family: str | None = None,
) -> None:
    """Words one after the other, each in its colour, from `place` to the right."""
    from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea

    look = {"fontsize": size} | ({"family": family} if family else {})
    areas = [
        TextArea(text, textprops={"color": c, **look}) for text, c in pieces
    ]
    packed = HPacker(children=areas, align="baseline", pad=0, sep=0)
    axes.add_artist(
        AnnotationBbox(
            packed,
            place,
            box_alignment=(0, 0.5),
            frameon=False,
            pad=0,
        )
    )


def influence(matrices: Mapping[str, Tensor]) -> "tuple[Figure, str]":
    """For each part a matrix (t, t): does output token i depend on input token j?"""
    from matplotlib.colors import ListedColormap

    colors = {"attention": ATTENTION, "MLP": MLP}
    drawing = chart(WIDTH, 2.1)
    panels = drawing.subplots(1, len(matrices), sharey=True)
    told = []
    for axes, (name, matrix) in zip(panels, matrices.items(), strict=True):
        touched = ListedColormap(["white", colors.get(name, STREAM)])
        axes.imshow((matrix > 0).numpy(), cmap=touched, vmin=0, vmax=1)
        axes.set_title(name, fontsize=12)
        edges = torch.arange(len(matrix) + 1).numpy() - 0.5
        axes.set_xticks(edges, minor=True)
        axes.set_yticks(edges, minor=True)
        axes.grid(which="minor", color="#d0d4d9", linewidth=0.8)
        axes.tick_params(which="both", length=0)
        axes.set(xticks=[], yticks=[])
        axes.set_xlabel("input token", fontsize=TEXT)
        pairs = int((matrix - matrix.diag().diag() > 0).sum())
        told.append(f"{name} {pairs}")
    panels[0].set_ylabel("output token", fontsize=TEXT)
    several = len(matrix) * (len(matrix) - 1)
    alt = (
        f"Which of {len(matrix)} tokens each part lets talk to which. Of {several} "
        f"pairs of different tokens: {', '.join(told)}."
    )
    return drawing, alt


def activations() -> "tuple[Figure, str]":
    """GELU beside ReLU."""
    drawing = chart(3.4, 2.5)
    axes = drawing.subplots()
    x = torch.linspace(-3.5, 3.5, 701, dtype=torch.float64)
    gelu = nn.functional.gelu(x)
    axes.axhline(0, color="0.8", linewidth=1)
    axes.plot(x, x.relu(), color=PALE, linestyle="--", label="ReLU")
    axes.plot(x, gelu, color=MLP, linewidth=2.2, label="GELU")
    axes.set(xlabel="goes in", ylabel="comes out", ylim=(-0.6, 3.2))
    axes.legend(fontsize=TEXT)
    alt = (
        "ReLU is 0 left of zero and the diagonal right of it; GELU is the same with "
        f"the corner rounded, and dips to {gelu.min():.2f} left of zero."
    )
    return drawing, alt


def answers(
    pictures: Mapping[str, Tensor],
    guesses: Mapping[str, Sequence[tuple[str, float]]],
) -> "tuple[Figure, str]":
    """What the head would say after each block, for several photographs.

    `guesses` are (name, probability) after 0, 1, 2, ... blocks; `pictures` (3, h, w)
    in 0..1 under the same names.
    """
    rows = len(next(iter(guesses.values())))
    width, left, high, head = 500, 38, 30, 146
    wide = (width - left) / len(pictures)
    height = head + rows * high + 4
    drawing, axes = figure(width, height)
    drawing.patch.set_alpha(1)  # names in black, on white
    for column, (title, picture) in enumerate(pictures.items()):
        middle = left + (column + 0.5) * wide
        x, y = (middle - 58) / width, (height - 122) / height
        photo = drawing.add_axes((x, y, 116 / width, 116 / height))
        photo.axis("off")
        draw_picture(photo, picture)
        for row, (name, share) in enumerate(guesses[title]):
            y = height - head - (row + 0.5) * high
            place = (left + column * wide + 2, y - high / 2 + 2)
            _bar(axes, place, (wide - 6, high - 4), share)
            words = f"{name} {100 * share:.0f}"
            axes.text(middle, y, words, ha="center", va="center", fontsize=10)
    for row in range(rows):
        y = height - head - (row + 0.5) * high
        axes.text(left - 8, y, f"{row}", ha="right", va="center", fontsize=TEXT)
    y = height - head + 2
    axes.text(2, y, "after\nblock", ha="left", va="bottom", fontsize=10)
    told = "; ".join(
        f"{title} begins with {line[0][0]} and ends with {line[-1][0]}, "
        f"{100 * line[-1][1]:.0f} %"
        for title, line in guesses.items()
    )
    alt = f"The likeliest class after each of {rows - 1} blocks: {told}."
    return drawing, alt


def _bar(
    axes: "Axes",
    corner: Sequence[float],
    size: Sequence[float],
    share: float,
) -> None:
    """A box of the class token's colour, filled from the left by a share."""
    from matplotlib.patches import Rectangle

    (x, y), (width, height) = corner, size
    ground = {"facecolor": "#f6f6f7", "linewidth": 0}
    filled = {"facecolor": "#eca9ad", "linewidth": 0}
    axes.add_patch(Rectangle((x, y), width, height, **ground))
    axes.add_patch(Rectangle((x, y), width * share, height, **filled))


def losses(
    lines: Mapping[str, Sequence[float]], constant: float
) -> "tuple[Figure, str]":
    """Training loss over steps, and the loss of the best constant answer."""
    drawing = chart(WIDTH, 3.6)
    axes = drawing.subplots()
    axes.axhline(constant, color=PALE, linewidth=1.5, linestyle=":", zorder=0)
    looks = (ATTENTION, "-"), (CLASS, "--"), (CLASS, ":")
    for (color, dash), (name, values) in zip(
        looks, lines.items(), strict=False
    ):
        axes.plot(values, color=color, linestyle=dash, linewidth=2, label=name)
    last = len(next(iter(lines.values()))) - 1
    words = {"ha": "right", "va": "bottom", "fontsize": 10, "color": "0.35"}
    axes.text(last, constant + 0.04, "the best constant answer", **words)
    axes.set(ylim=(0, None), xticks=range(0, last + 1, 5))
    axes.set_xlabel("step", fontsize=TEXT)
    axes.set_ylabel("loss", fontsize=TEXT)
    drawing.legend(fontsize=10, loc="outside upper left")  # off the curves
    told = "; ".join(f"{name} {v[-1]:.1f}" for name, v in lines.items())
    alt = (
        f"Loss over {last} steps; the best constant answer has {constant:.1f}. "
        f"At the end: {told}."
    )
    return drawing, alt


def medians(
    depths: Sequence[int],
    panels: Mapping[str, Mapping[str, Sequence[Sequence[float]]]],
) -> "tuple[Figure, str]":
    """A panel a quantity over the depth: medians as lines, seeds as dots."""
    drawing = chart(WIDTH, 2.4 * len(panels) + 0.3)
    grid = drawing.subplots(len(panels), 1, sharex=True, squeeze=False)
    looks = (ATTENTION, "-", "o"), (CLASS, "--", "s")
    told = []
    for axes, (title, runs) in zip(grid.flat, panels.items(), strict=True):
        for (color, dash, dot), (name, seeds) in zip(
            looks, runs.items(), strict=True
        ):
            middle = [median(each) for each in seeds]
            dots = {"color": color, "alpha": 0.35, "markeredgewidth": 0}
            axes.plot(depths, seeds, dot, markersize=4, **dots)
            look = {"color": color, "linestyle": dash, "marker": dot}
            axes.plot(depths, middle, label=name, markersize=5, **look)
            ends = f"{middle[0]:.2g} to {middle[-1]:.2g}"
            told.append(f"{title}, {name}: {ends}")
        axes.set(xscale="log", yscale="log")
        axes.minorticks_off()
        axes.set_title(title, fontsize=TEXT)
        _plain_ticks(axes)
    axes.set_xticks(list(depths), [str(depth) for depth in depths])
    axes.set_xlabel("blocks", fontsize=TEXT)
    grid[0, 0].legend(fontsize=10)
    alt = (
        f"Medians of {len(seeds[0])} seeds, from {depths[0]} block to {depths[-1]}. "
        f"{'; '.join(told)}."
    )
    return drawing, alt


def _plain_ticks(axes: "Axes") -> None:
    """Write 0.5, 1, 2 beside a logarithmic axis instead of powers of ten."""
    low, high = axes.get_ylim()
    ticks = [n * 10.0**p for p in range(-3, 3) for n in (1, 2, 5)]
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown])


def _cosines(tokens: Tensor, patch: int) -> Tensor:
    """The cosine of every patch's token (t, d) with that of one patch: (14, 14)."""
    patches = tokens[-(COLUMNS**2) :]
    unit = nn.functional.normalize(patches, dim=-1)
    return (unit @ unit[patch]).view(COLUMNS, COLUMNS)
