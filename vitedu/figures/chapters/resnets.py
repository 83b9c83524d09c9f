"""Chapter 14: what a convolution knows, ResNets, hybrids, charts of places."""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart
from vitedu.figures.palette import (
    ATTENTION,
    DARK,
    GREY,
    MAP,
    PALE,
    PATCHES,
    POSITIONS,
    STREAM,
    TINTS,
)
from vitedu.figures.photos import draw_picture
from vitedu.figures.schematic import (
    TIMES,
    arrow,
    box,
    canvas,
    column,
    label,
    line,
    plus,
    rectangle,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETWORKS = {  # in a race: its name on the page, colour, marker
    "resnet": ("ResNet", PATCHES, "s"),
    "hybrid": ("hybrid", POSITIONS, "D"),
    "vit": ("ViT", ATTENTION, "o"),
}
GUIDE = 0.575  # of the width: where the moved maps have their line
NARROW, LOOK, WIDEN = f"1{TIMES}1 narrow", f"3{TIMES}3 look", f"1{TIMES}1 widen"
# a unit's name, what it computes beside its stream, top to bottom, and on it
UNITS = {
    "v1": (
        "the ViT authors' (v1)",
        (NARROW, "norm, ReLU", LOOK, "norm, ReLU", WIDEN, "norm"),
        "ReLU",
    ),
    "v2": (
        "BiT's (v2)",
        ("norm, ReLU", NARROW, "norm, ReLU", LOOK, "norm, ReLU", WIDEN),
        "",
    ),
}


def moved(
    rows: Mapping[str, tuple[Tensor, Tensor]], step: int
) -> "tuple[Figure, str]":
    """A photograph and a convolution's map of it; then both moved.

    A row is its name and (3, h, w) in 0..1, (h, w); the maps share one scale.
    A line marks the same place of them all.
    """
    figure, grid = chart(WIDTH, 5.6, len(rows), 2, squeeze=False)
    most = max(found.abs().max().item() for _, found in rows.values())
    for axes, (name, (picture, found)) in zip(grid, rows.items(), strict=True):
        draw_picture(axes[0], picture)
        axes[0].set_ylabel(name, fontsize=12)
        axes[1].imshow(found.numpy(), cmap=MAP, vmin=-most, vmax=most)
        for panel in axes:
            left, right = panel.get_xlim()
            place = left + GUIDE * (right - left)
            panel.axvline(place, color="white", linewidth=1.5)
            panel.set(xticks=[], yticks=[])
            bare(panel, "top", "right", "bottom", "left")
    for axes, title in zip(grid[0], ("photograph", "edges"), strict=True):
        axes.set_title(title, fontsize=12)
    alt = (
        "A photograph and the map of its edges by a convolution; below, both "
        f"after a move by {step} pixels: the edges are the same, and a white "
        "line at the same place of each picture shows that they have moved "
        "along."
    )
    return figure, alt


def matrices(layers: Mapping[str, tuple[Tensor, str]]) -> "tuple[Figure, str]":
    """The matrix (n, n) of each layer by its name, with words below it.

    Zeros are white. Each has a scale of its own: the pattern counts.
    """
    from matplotlib import colormaps

    figure, panels = chart(WIDTH, 2.55, 1, len(layers))
    colors = colormaps[MAP].with_extremes(bad="white")
    told = []
    for axes, (name, (matrix, words)) in zip(
        panels, layers.items(), strict=True
    ):
        shown = torch.where(matrix == 0, math.nan, matrix)
        axes.imshow(shown.numpy(), cmap=colors, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.set_title(name, fontsize=12, weight="bold")
        axes.set_xlabel(f"pixel in\n{words}", fontsize=11)
        filled = int((matrix != 0).sum())
        told.append(
            f"{name}, {filled:,} of {matrix.numel():,} entries are not zero, "
            f"{words}"
        )
    panels[0].set_ylabel("pixel out", fontsize=11)
    alt = "Three layers as matrices, a row for each pixel that comes out: "
    listed = "; ".join(told).replace("\n", " ")
    return figure, f"{alt}{listed}."


def reach(maps: Mapping[str, Tensor]) -> "tuple[Figure, str]":
    """Which pixels change (h, w) if the one in the middle does, by layers."""
    from matplotlib.colors import ListedColormap

    figure, panels = chart(WIDTH, 1.85, 1, len(maps))
    told = []
    for axes, (name, changed) in zip(panels, maps.items(), strict=True):
        color = ATTENTION if "attention" in name else PATCHES
        look = ListedColormap(["white", color])
        axes.imshow(changed.numpy(), cmap=look, vmin=0, vmax=1)
        middle = [side // 2 for side in reversed(changed.shape)]
        axes.plot(*middle, "s", color="white", markersize=2.5)
        axes.set(xticks=[], yticks=[])
        axes.set_title(name, fontsize=11)
        many = int(changed.sum())
        axes.set_xlabel(f"{many} pixels", fontsize=11)
        told.append(f"{name.replace(chr(10), ' ')}: {many}")
    alt = (
        "How many pixels notice a change of the one in the middle, which has a "
        "white dot. "
        f"{'; '.join(told)}."
    )
    return figure, alt


def windows() -> "tuple[Figure, str]":
    """Windows of 3 at stride 2 over 8 pixels, with either padding."""
    figure, axes = canvas(400, 236, opaque=True)
    side, left = 34, 48
    rows = (("padding=1", 0, 190), ("SAME", 1, 78))
    for name, first, y in rows:
        words = {"ha": "left", "weight": "bold"}
        label(axes, (10, y + 34), name, DARK, 12, **words)
        for pixel in range(-1, 9):
            is_border = pixel in (-1, 8)
            if pixel == -1 and first == 1:
                continue  # SAME has no zero there
            is_unused = pixel == 8 and first == 0
            corner = (left + (pixel + 0.5) * side, y - side / 2)
            face = "white" if is_border else TINTS[PATCHES]
            look = {"facecolor": face, "edgecolor": PALE, "linewidth": 1}
            rectangle(axes, corner, (side, side), **look)
            middle = (corner[0] + side / 2, y)
            shown = "0" if is_border else "abcdefgh"[pixel]
            color = PALE if is_unused else DARK
            label(axes, middle, shown, color, 12, va="center_baseline")
            if is_unused:
                told = "unused"
                label(axes, (middle[0] + 13, y - 30), told, GREY, 11)
        for number in range(4):
            start = left + (2 * number + first - 0.5) * side
            low = y - side / 2 - 7 - 8 * (number % 2)
            ends = [(start + 4, low), (start + 3 * side - 4, low)]
            line(axes, ends, PATCHES, 3)
            at = (start + 1.5 * side, y - side / 2 - 28)
            what = "abcdefgh"[2 * number + first]
            label(axes, at, what, PATCHES, 12, weight="bold")
    alt = (
        "Eight pixels, a to h, and four windows of three pixels, two apart. "
        "With padding=1 there is a zero before a and one after h, which no "
        "window reaches; the windows are centred on a, c, e and g. With SAME "
        "the only zero comes after h, and they are centred on b, d, f and h."
    )
    return figure, alt


def units(*families: str) -> "tuple[Figure, str]":
    """A bottleneck of each family ("v1", "v2"), beside its stream."""
    figure, axes = canvas(210 * len(families), 430, opaque=True)
    told = []
    for place, family in enumerate(families):
        x = 28 + 210 * place
        title, steps, last = UNITS[family]
        name = title if len(families) > 1 else "a bottleneck"
        label(axes, (x + 76, 414), name, DARK, 12.5, weight="bold")
        line(axes, [(x, 388), (x, 16)], STREAM, 7)
        axes.plot(x, 12, "v", color=STREAM, markersize=14)
        branch = x + 100
        line(axes, [(x, 376), (branch, 376), (branch, 362)], GREY)
        heights = [344 - 47 * number for number in range(len(steps))]
        for y, words in zip(heights, steps, strict=True):
            is_norm = "norm" in words
            color = STREAM if is_norm else PATCHES
            box(axes, (branch, y), (116, 34), words, color, lit=not is_norm)
            if y != heights[-1]:
                arrow(axes, (branch, y - 18), (branch, y - 30))
        foot = heights[-1] - 18
        line(axes, [(branch, foot), (branch, 66), (x + 12, 66)], GREY)
        plus(axes, (x, 66), STREAM)
        if last:
            # on the stream itself
            box(axes, (x + 6, 39), (64, 24), last, STREAM)
        ending = f", then {last} on the stream" if last else ""
        told.append(f"{name}: {' then '.join(steps)}, plus the input{ending}")
    alt = f"A branch leaves the stream and comes back to it. {'; '.join(told)}."
    return figure, alt


def stem() -> "tuple[Figure, str]":
    """From a photograph to tokens: each box with its line of code."""
    figure, axes = canvas(400, 430, opaque=True)
    steps = (
        (
            r"a photograph,  224$\times$224",
            STREAM,
            "images  # (b, 3, 224, 224)",
        ),
        (
            r"ResNet:  14$\times$14$\times$1024",
            PATCHES,
            "maps = self.backbone(images)",
        ),
        (
            r"196 patches  $\mathbf{x}_p^1\, \ldots\, \mathbf{x}_p^{196}$",
            PATCHES,
            'rearrange(maps, "b c h w -> b (h w) c")',
        ),
        (
            r"196 tokens  $\mathbf{x}_p^i\,\mathbf{E}$",
            PATCHES,
            "self.proj(...)",
        ),
    )
    column(axes, 200, 300, steps, top=398, is_bold=True)
    alt = (
        "The hybrid stem, four boxes from top to bottom, each with its line of "
        "code: a photograph of 224 by 224 pixels; the ResNet's feature map, 14 "
        "by 14 places of 1024 channels; 196 patches, one for each place; 196 "
        "tokens, each a patch times E."
    )
    return figure, alt


def standard_error(values: Sequence[float]) -> float:
    """Of their mean; 0 for a single one."""
    if len(values) < 2:
        return 0.0
    return statistics.stdev(values) / math.sqrt(len(values))


def sheets(
    sample: Tensor | None,
    read: Mapping[str, Tensor],
    apart: int,
    *,
    framed: Collection[str] = (),
) -> "tuple[Figure, str]":
    """Where networks read a digit, in percent, by its row and column.

    Charts have `apart` pixels from one place to the next. All of them with a
    digit on its sheet (h, w) as `sample`, else those `framed`, learned in a
    corner, which has a frame. Numbers tell the shares at rows and columns 2
    and 14.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    number = len(read) + (sample is not None)
    columns = 2 if number in (2, 4) else 3
    rows = number // columns
    height = (WIDTH / columns + 0.4) * rows + 0.8  # inches
    figure, grid = chart(WIDTH, height, rows, columns, squeeze=False)
    panels = [*grid.flat]
    if sample is not None:
        first = panels.pop(0)
        first.imshow(sample.numpy(force=True), cmap="gray_r", vmin=0, vmax=1)
        first.set(xticks=[], yticks=[])
        first.set_title("a sheet in training", fontsize=11)
    told = []
    for axes, (name, shares) in zip(panels, read.items(), strict=True):
        axes.imshow(shares.numpy(force=True), cmap=MAP, vmin=0, vmax=100)
        if sample is not None or name in framed:
            learned = 3.5 / apart  # rows and columns 0 to 3
            size = (min(learned + 0.25, len(shares)),) * 2
            look = {"fill": False, "edgecolor": "white", "linewidth": 2}
            rectangle(axes, (-0.48, -0.48), size, **look)
        near, far = (place // apart for place in (2, 14))
        for end in (near, far):
            share, corner = shares[end, end], (end + 0.45, end + 0.45)
            look = {"ha": "right", "va": "bottom"}
            label(axes, corner, f"{share:.0f}", _ink(share), 9, **look)
        axes.set_title(name, fontsize=10.5, weight="bold")
        ticks = [i for i in range(len(shares)) if apart * i % 4 == 0 or i == 0]
        shown = [str(apart * i) for i in ticks]
        axes.set_xticks(ticks, shown, fontsize=10)
        axes.set_yticks(ticks, shown, fontsize=10)
        told.append(
            f"{' '.join(name.split())}: {shares.mean():.0f}% on average, "
            f"{shares[near, near]:.0f}% at rows and columns 2, "
            f"{shares[far, far]:.0f}% at 14"
        )
    for axes in {*panels} & {*grid[-1]}:
        axes.set_xlabel("moved right", fontsize=11)
    for axes in {*panels} & {panels[0], *grid[:, 0]}:
        axes.set_ylabel("moved down", fontsize=11)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 100), MAP),
        ax=grid,
        ticks=(0, 50, 100),
        location="bottom",
        aspect=40,
        shrink=0.8,
    )
    bar.set_label("digits read (%)", fontsize=11)
    alt = "How many digits are read, in charts by where they are put. "
    return figure, f"{alt}{'; '.join(told)}."


def _ink(share: Tensor) -> str:
    """What can be read on the chart's colour."""
    return "black" if share > 50 else "white"
