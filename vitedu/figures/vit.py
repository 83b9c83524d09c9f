"""Drawings of the chapter on the whole network: its tokens, equations and answers.

`figures.show(*equations())` in a notebook; every function returns a figure and its
alt text.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    MAP,
    MLP,
    PATCHES,
    POSITIONS,
    STREAM,
    TINTS,
)
from vitedu.figures.photos import draw_picture, frame_patch
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

WIDTH = 4.8  # inches: 11 points stay legible on a phone
TIMES = "\N{MULTIPLICATION SIGN}"
# what happens, its colour, the symbols of the paper, the line of `ViT`
STATIONS = (
    (
        f"patches {TIMES} E",
        PATCHES,
        r"$\mathbf{x}_p^1\mathbf{E};\ \ldots;\ \mathbf{x}_p^N\mathbf{E}$",
        "x = self.patch_embed(images)",
    ),
    (
        "class token",
        CLASS,
        r"$[\mathbf{x}_\mathrm{class};\ \mathbf{x}_p^1\mathbf{E};\ \ldots]$",
        "x = torch.cat([cls_token, x], dim=1)",
    ),
    (
        "positions",
        POSITIONS,
        r"(1) $\mathbf{z}_0 = [\,\ldots\,] + \mathbf{E}_{pos}$",
        "x = x + self.pos_embed",
    ),
    (
        "attention",
        ATTENTION,
        r"(2) $\mathbf{z}'_\ell = \mathrm{MSA}(\mathrm{LN}(\mathbf{z}_{\ell-1}))"
        r" + \mathbf{z}_{\ell-1}$",
        "x = x + self.attn(self.norm1(x))",
    ),
    (
        "MLP",
        MLP,
        r"(3) $\mathbf{z}_\ell = \mathrm{MLP}(\mathrm{LN}(\mathbf{z}'_\ell))"
        r" + \mathbf{z}'_\ell$",
        "x = x + self.mlp(self.norm2(x))",
    ),
    (
        "norm, row 0",
        STREAM,
        r"(4) $\mathbf{y} = \mathrm{LN}(\mathbf{z}_L^0)$",
        "y = self.norm(x)[:, 0]",
    ),
    (
        "head",
        CLASS,
        r"logits $= \mathrm{head}(\mathbf{y})$",
        "return self.head(y)",
    ),
)
IN_A_BLOCK = (3, 4)  # places of the two stations that are repeated
OTHERS = "#c2c8d0"  # bars of the answers that are not the first
GROUPS = {
    "attention": ATTENTION,
    "MLP": MLP,
    "patch embedding": PATCHES,
    "class token, positions": POSITIONS,
    "head": CLASS,
    "norms": STREAM,
}


def tokens(batch: int = 3, patches: int = 4) -> "tuple[Figure, str]":
    """Equation (1) for a batch: one class token and one table of positions for all."""
    drawing, axes = figure(400, 290)
    small, step, first = (44, 34), 50, 176
    height = 45  # from one image to the next
    top = 240
    middle = top - height * (batch - 1) / 2
    box(axes, (62, middle), (120, 56), "class token\n(1, 1, d)", CLASS)
    for image in range(batch):
        y = top - height * image
        arrow(axes, (124, middle), (first - 25, y), color=GREY, width=1.6)
        box(axes, (first, y), small, "class", CLASS, fontsize=11)
        for patch in range(1, patches + 1):
            place = (first + step * patch, y)
            box(axes, place, small, str(patch), PATCHES)
    across = first + step * patches / 2
    words = f"{batch} images of {patches} patches"
    label(axes, (across, top + 34), words)
    below = top - height * batch + 2
    label(axes, (across, below), "+", fontsize=22, weight="bold")
    y = below - 48
    words = "positions\n(1, n + 1, d)"
    box(axes, (62, y), (120, 56), words, POSITIONS, fontsize=11)
    arrow(axes, (124, y), (first - 25, y), color=GREY, width=1.6)
    for row in range(patches + 1):
        box(axes, (first + step * row, y), small, str(row), POSITIONS)
    words = f"the same {patches + 1} rows for all"
    label(axes, (across, y - 34), words)
    alt = (
        f"A batch of {batch} images, each a row of {patches} patches. One class token "
        f"of shape (1, 1, d) goes in front of all {batch} rows, and one table of "
        f"{patches + 1} positions is added to each of them."
    )
    return drawing, alt


def equations() -> "tuple[Figure, str]":
    """The network from image to logits: symbols, and the line of code that is them."""
    wide, high, step = 400, 58, 78
    total = step * len(STATIONS) + 78
    drawing, axes = figure(wide + 40, total)
    drawing.patch.set_alpha(1)  # the words are dark
    middle = (wide + 40) / 2
    y = total - 18
    label(axes, (middle, y), "images (b, c, h, w)", DARK)
    places = [y - 60 - step * row for row in range(len(STATIONS))]
    for place, station in zip(places, STATIONS, strict=True):
        arrow(axes, (middle, place + 48), (middle, place + 31), color=STREAM)
        _station(axes, (middle, place), (wide, high), station)
    last = places[-1]
    arrow(axes, (middle, last - 31), (middle, last - 48), color=STREAM)
    label(axes, (middle, last - 58), "logits (b, classes)", DARK)
    upper, lower = (places[row] for row in IN_A_BLOCK)
    left, right = 10, wide + 30
    top, bottom = upper + 37, lower - 37
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    line(axes, [*corners, corners[0]], STREAM, 1.2, dashed=True)
    words = f"{TIMES} L"
    label(axes, (right - 34, (upper + lower) / 2), words, DARK, 11)
    alt = (
        "The network from top to bottom, each step with the paper's symbols and its "
        "line of code: "
        + "; ".join(f"{words}: {code}" for words, _, _, code in STATIONS)
        + ". Attention and MLP are in a frame that is repeated L times."
    )
    return drawing, alt


def losses(
    plain: Sequence[float], squashed: Sequence[float], floor: float
) -> "tuple[Figure, str]":
    """Training loss over steps, without and with a tanh behind the head.

    Each point is a mean over 20 steps; `floor` is what the second cannot pass.
    """

    drawing = chart(WIDTH, 3.2)
    axes = drawing.subplots()
    ends = []
    for words, values, color in (
        ("tanh on the logits", squashed, CLASS),
        ("logits as they are", plain, STREAM),
    ):
        means = [
            sum(values[i : i + 20]) / len(values[i : i + 20])
            for i in range(0, len(values), 20)
        ]
        steps = [20 * i + 10 for i in range(len(means))]
        axes.plot(steps, means, color=color, linewidth=2.5, label=words)
        ends.append(means[-1])
    axes.axhline(floor, color=CLASS, linestyle="--", linewidth=1.5)
    axes.text(0, floor - 0.03, "its floor", color=CLASS, fontsize=11, va="top")
    axes.set_xlabel("step", fontsize=11)
    axes.set_ylabel("training loss", fontsize=11)
    axes.set_ylim(0, None)
    axes.tick_params(labelsize=10)
    axes.legend(fontsize=11, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    alt = (
        f"Two training losses over {len(plain)} steps. With plain logits the loss "
        f"falls to {ends[1]:.1f}; with a tanh on the logits it ends at {ends[0]:.1f}, "
        f"above a dashed floor at {floor:.1f}."
    )
    return drawing, alt


def shares(counts: Mapping[str, Mapping[str, int]]) -> "tuple[Figure, str]":
    """Stacked bars of where the weights are, in percent of all.

    `counts` maps a model's name to {group: number of weights}; the groups are those
    of GROUPS.
    """

    drawing = chart(WIDTH, 2.9)
    axes = drawing.subplots()
    told = []
    for model, groups in counts.items():
        total, left = sum(groups.values()), 0.0
        for group, color in GROUPS.items():
            share = 100 * groups[group] / total
            bar = axes.barh(
                model,
                share,
                0.62,
                left=left,
                color=color,
                label=group if model == next(iter(counts)) else None,
            )
            if share > 15:
                axes.bar_label(
                    bar,
                    [f"{share:.0f} %"],
                    label_type="center",
                    color="white",
                    weight="bold",
                    fontsize=12,
                )
            left += share
        inside = [
            f"{100 * groups[group] / total:.0f} % {group}"
            for group in ("attention", "MLP")
        ]
        told.append(f"{model} {' and '.join(inside)}")
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of all weights (%)", fontsize=11)
    axes.tick_params(labelsize=11)
    axes.spines[["top", "right", "left"]].set_visible(False)
    drawing.legend(
        loc="outside upper center", ncols=2, fontsize=11, frameon=False
    )
    return drawing, f"Bars of where the weights are: {'; '.join(told)}."


def neighbours(rows: Tensor, patches: Sequence[int]) -> "tuple[Figure, str]":
    """How similar the position (n, d) of each of `patches` is to all n, as maps.

    Patches are counted from 1, row by row. The measure is the cosine, on one scale.
    """

    side = math.isqrt(len(rows))
    drawing = chart(WIDTH, 2.5)
    grid = drawing.subplots(1, len(patches), squeeze=False)[0]
    directions = F.normalize(rows.detach(), dim=1)
    alike = directions @ directions.T  # (n, n)
    for axes, patch in zip(grid, patches, strict=True):
        map_of_one = alike[patch - 1].reshape(side, side).float()
        shown = axes.imshow(map_of_one.numpy(), cmap=MAP, vmin=-1, vmax=1)
        axes.set_title(f"patch {patch}", fontsize=11)
        axes.axis("off")
        frame_patch(axes, divmod(patch - 1, side), 1)
    drawing.colorbar(
        shown,
        ax=list(grid),
        location="bottom",
        aspect=40,
        shrink=0.8,
        ticks=[-1, 0, 1],
        label="similarity of the position embeddings",
    )
    alt = (
        f"Maps of {side} by {side} places for the patches "
        f"{', '.join(map(str, patches))}: bright places, whose learned positions are "
        "like that of the patch, are those around it and those in its own line and "
        "column; far away it is dark."
    )
    return drawing, alt


def answers(
    pictures: Tensor, guesses: Sequence[Sequence[tuple[str, float]]]
) -> "tuple[Figure, str]":
    """Photographs (b, 3, h, w) in 0..1, and beside each what the network says.

    `guesses` holds for each picture (name, probability), the most probable first.
    """

    drawing = chart(WIDTH, 1.35 * len(pictures))
    grid = drawing.subplots(len(pictures), 2, width_ratios=(1, 2.6))
    told = []
    for (left, right), picture, names in zip(
        grid, pictures, guesses, strict=True
    ):
        draw_picture(left, picture)
        left.axis("off")
        for row, (name, probability) in enumerate(names):
            right.barh(row, 1, 0.8, color="#f3f4f6")
            color = TINTS[CLASS] if row == 0 else OTHERS
            right.barh(row, probability, 0.8, color=color)
            right.text(0.02, row, name, va="center", fontsize=12)
            percent = f"{probability:.0%}".replace("%", " %")
            right.text(0.98, row, percent, va="center", ha="right", fontsize=12)
        right.set(xlim=(0, 1), ylim=(len(names) - 0.4, -0.6))
        right.axis("off")
        told.append(f"{names[0][0]} {names[0][1]:.0%}".replace("%", " %"))
    alt = (
        f"{len(pictures)} photographs with bars of the network's first "
        f"{len(guesses[0])} answers. At the top of each: {', '.join(told)}."
    )
    return drawing, alt


def _station(
    axes: "Axes",
    middle: tuple[float, float],
    size: tuple[float, float],
    station: tuple[str, str, str, str],
) -> None:
    """A tinted box: what happens and its symbols, and below them the code."""
    from matplotlib.patches import FancyBboxPatch

    (x, y), (width, height) = middle, size
    words, color, symbols, code = station
    left, right = x - width / 2, x + width / 2
    axes.add_patch(
        FancyBboxPatch(
            (left, y - height / 2),
            width,
            height,
            "round,pad=0,rounding_size=7",
            facecolor=TINTS[color],
            edgecolor=color,
            linewidth=1.8,
        )
    )
    around = {"va": "center_baseline", "zorder": 4}
    upper, lower = y + 14, y - 14
    axes.text(
        left + 12,
        upper,
        words,
        color=color,
        weight="bold",
        fontsize=13,
        **around,
    )
    axes.text(right - 12, upper, symbols, fontsize=12, ha="right", **around)
    axes.text(
        left + 12,
        lower,
        code,
        family="monospace",
        fontsize=12,
        color=DARK,
        **around,
    )
