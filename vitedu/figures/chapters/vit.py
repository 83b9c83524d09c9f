"""Chapter 4: the network's tokens, equations and answers."""

import math
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from vitedu.figures.charts import bare, chart
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    DARK,
    MAP,
    MLP,
    PATCHES,
    POSITIONS,
    STREAM,
    TINTS,
)
from vitedu.figures.photos import draw_picture, frame_patch
from vitedu.figures.schematic import (
    TIMES,
    arrow,
    box,
    canvas,
    label,
    outline,
    rounded,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.8  # inches: 11 points stay legible on a phone
ATTENDED = r"\mathrm{MSA}(\mathrm{LN}(\mathbf{z}_{\ell-1}))"
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
        rf"(2) $\mathbf{{z}}'_\ell = {ATTENDED} + \mathbf{{z}}_{{\ell-1}}$",
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
    """Equation (1) for a batch: all share the class token and the positions."""
    figure, axes = canvas(410, 290)
    small, step, first = (44, 34), 50, 176
    height = 45  # from one image to the next
    top = 240
    middle = top - height * (batch - 1) / 2
    box(axes, (62, middle), (120, 56), "class token\n(1, 1, d)", CLASS)
    for image in range(batch):
        y = top - height * image
        arrow(axes, (124, middle), (first - 25, y))
        box(axes, (first, y), small, "class", CLASS, fontsize=11)
        for patch in range(1, patches + 1):
            place = (first + step * patch, y)
            words = f"{ascii_lowercase[image]}{patch}"  # each has its own
            box(axes, place, small, words, PATCHES)
    across = first + step * patches / 2
    label(axes, (across, top + 34), f"{batch} images of {patches} patches")
    below = top - height * batch + 2
    corner, opposite = (first - 28, below + 20), (405, top + 23)
    outline(axes, corner, opposite, STREAM, 1.2, dashed=True)
    label(axes, (across, below), "+", fontsize=22, weight="bold")
    y = below - 48
    words = "positions\n(1, n + 1, d)"
    box(axes, (62, y), (120, 56), words, POSITIONS, fontsize=11)
    arrow(axes, (124, y), (first - 25, y))
    for row in range(patches + 1):
        box(axes, (first + step * row, y), small, str(row), POSITIONS)
    label(axes, (across, y - 34), f"the same {patches + 1} rows for all")
    alt = (
        f"A batch of {batch} images, each a row of its own {patches} "
        "patches. One class token of shape (1, 1, d) goes in front of all "
        f"{batch} rows, and one table of {patches + 1} positions is added to "
        "each of them."
    )
    return figure, alt


def equations() -> "tuple[Figure, str]":
    """The network from image to logits: symbols, and the same as code."""
    wide, high, step = 400, 58, 78
    total = step * len(STATIONS) + 78
    figure, axes = canvas(wide + 40, total, opaque=True)
    middle = (wide + 40) / 2
    y = total - 18
    label(axes, (middle, y), "images (b, c, h, w)", DARK)
    places = [y - 60 - step * row for row in range(len(STATIONS))]
    for place, station in zip(places, STATIONS, strict=True):
        arrow(axes, (middle, place + 48), (middle, place + 31), STREAM, 1)
        _station(axes, (middle, place), (wide, high), station)
    last = places[-1]
    arrow(axes, (middle, last - 31), (middle, last - 48), STREAM, 1)
    label(axes, (middle, last - 58), "logits (b, classes)", DARK)
    upper, lower = (places[row] for row in IN_A_BLOCK)
    left, right = 10, wide + 30
    corner, opposite = (left, upper + 37), (right, lower - 37)
    outline(axes, corner, opposite, STREAM, 1.2, dashed=True)
    times = {"fontsize": 12, "weight": "bold"}
    label(axes, (right - 34, (upper + lower) / 2), f"{TIMES} L", DARK, **times)
    alt = (
        "The network from top to bottom, each step with the paper's symbols "
        "and its line of code: "
        + "; ".join(f"{words}: {code}" for words, _, _, code in STATIONS)
        + ". Attention and MLP are in a frame that is repeated L times."
    )
    return figure, alt


def _station(
    axes: "Axes",
    middle: tuple[float, float],
    size: tuple[float, float],
    station: tuple[str, str, str, str],
) -> None:
    """A tinted box: what happens and its symbols, and below them the code."""
    x, y = middle
    words, color, symbols, code = station
    look = {"facecolor": TINTS[color], "edgecolor": color, "linewidth": 1.8}
    rounded(axes, middle, size, **look)
    left, right = x - size[0] / 2 + 9, x + size[0] / 2 - 9
    look = {"va": "center_baseline", "zorder": 4}
    start = {"ha": "left", **look}
    label(axes, (left, y + 14), words, color, 13, weight="bold", **start)
    label(axes, (right, y + 14), symbols, "black", 13, ha="right", **look)
    label(axes, (left, y - 14), code, DARK, family="monospace", **start)


def shares(counts: Mapping[str, Mapping[str, int]]) -> "tuple[Figure, str]":
    """Stacked bars of where the weights are, in percent of all.

    `counts` maps a model's name to {group: number of weights}; the groups are
    those of GROUPS.
    """
    figure, axes = chart(WIDTH, 2.9)
    words = {"color": "white", "weight": "bold", "fontsize": 12}
    listed = []
    for model, groups in counts.items():
        total, left = sum(groups.values()), 0.0
        percent = {name: 100 * groups[name] / total for name in GROUPS}
        for group, color in GROUPS.items():
            share = percent[group]
            bar = axes.barh(model, share, 0.62, left=left, color=color)
            if share > 15:
                number = [f"{share:.0f}%"]
                axes.bar_label(bar, number, label_type="center", **words)
            if model == next(iter(counts)):
                bar.set_label(group)
            left += share
        listed.append(
            f"{model} {percent['attention']:.0f}% attention and "
            f"{percent['MLP']:.0f}% MLP"
        )
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of all weights (%)", fontsize=11)
    axes.tick_params(labelsize=11)
    bare(axes, "top", "right", "left")
    figure.legend(
        loc="outside upper center", ncols=2, fontsize=11, frameon=False
    )
    return figure, f"Bars of where the weights are: {'; '.join(listed)}."


def neighbours(rows: Tensor, tokens: Sequence[int]) -> "tuple[Figure, str]":
    """Maps of how similar the position (n, d) of each of `tokens` is to all n.

    Token 1 is the first patch. The measure is the cosine, on one scale.
    """
    side = math.isqrt(len(rows))
    figure, panels = chart(WIDTH, 2.5, 1, len(tokens), squeeze=False)
    directions = F.normalize(rows.detach(), dim=1)
    cosines = directions @ directions.T  # (n, n)
    for axes, token in zip(panels[0], tokens, strict=True):
        each = cosines[token - 1].reshape(side, side).float()
        shown = axes.imshow(each.numpy(), cmap=MAP, vmin=-1, vmax=1)
        axes.set_title(f"token {token}", fontsize=11)
        axes.axis("off")
        thin = (("black", 3.0), ("white", 1.5))
        frame_patch(axes, divmod(token - 1, side), 1, thin)
        for frame in axes.patches:  # whole at the edge of the map, too
            frame.set_clip_on(False)
    figure.colorbar(
        shown,
        ax=panels,
        location="bottom",
        aspect=40,
        shrink=0.8,
        ticks=[-1, 0, 1],
        label="similarity of the position embeddings",
    )
    alt = (
        f"Maps of {side} by {side} places for the tokens "
        f"{', '.join(map(str, tokens))}: bright places, whose learned "
        "positions are like that of the token, are those around it, those in "
        "its own row and, in places only faintly, in its own column; further "
        "away dark bands and paler ones take turns."
    )
    return figure, alt


def answers(
    pictures: Tensor, guesses: Sequence[Sequence[tuple[str, float]]]
) -> "tuple[Figure, str]":
    """Photographs (b, 3, h, w) in 0..1, and beside each what the network says.

    `guesses` are (name, probability) for each picture, the most probable first.
    """
    rows = len(pictures)
    height, ratio = (1.35, 2.6) if rows > 1 else (1.9, 1.5)  # alone: larger
    shape = {"width_ratios": (1, ratio), "squeeze": False}
    figure, grid = chart(WIDTH, height * rows, rows, 2, **shape)
    best = []
    look = {"va": "center", "fontsize": 12}
    for (left, right), picture, named in zip(
        grid, pictures, guesses, strict=True
    ):
        draw_picture(left, picture)
        left.axis("off")
        percents = [
            f"{100 * share:.0f}%" if share >= 0.005 else "<1%"
            for _, share in named
        ]
        best.append(f"{named[0][0]} {percents[0]}")
        for row, (name, share) in enumerate(named):
            right.barh(row, 1, 0.8, color="#f3f4f6")
            color = OTHERS if row else TINTS[CLASS]
            right.barh(row, share, 0.8, color=color)
            right.text(0.02, row, name, **look)
            right.text(0.98, row, percents[row], ha="right", **look)
        right.set(xlim=(0, 1), ylim=(len(named) - 0.4, -0.6))
        right.axis("off")
    shown = f"{rows} photographs" if rows > 1 else "A photograph"
    alt = (
        f"{shown} with bars of the network's first "
        f"{len(guesses[0])} answers. At the top of each: {', '.join(best)}."
    )
    return figure, alt
