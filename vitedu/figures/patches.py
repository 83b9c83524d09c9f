"""Drawings of pictures cut into patches, and of what the cut costs."""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vitedu.figures.schematic import DARK, arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALE, LIGHT, KERNEL = "#e9e9e9", "#ffd75e", "#2f5597"
# one a patch; they differ in grey too
FACES = ("#ffffff", "#ffd75e", "#c4cfdd", "#8ea3bd")
WIDTH = 5  # inches
LEVELS = 15  # of a colour as drawn, so that a photograph stays a small PNG


def mosaic(tiles: "Sequence[Tensor]", columns: int, gap: int = 0) -> Tensor:
    """Tiles, each (c, p, q), row by row as one picture (c, h, w).

    `gap` pixels of white, 1, lie between the tiles.
    ValueError: the tiles do not fill their rows.
    """
    if not tiles or len(tiles) % columns:
        raise ValueError(f"{len(tiles)} tiles do not fill rows of {columns}")
    c, p, q = tiles[0].shape
    rows = len(tiles) // columns
    height, width = rows * (p + gap) - gap, columns * (q + gap) - gap
    picture = torch.ones(c, height, width)
    for number, tile in enumerate(tiles):
        top, left = divmod(number, columns)
        top, left = top * (p + gap), left * (q + gap)
        picture[:, top : top + p, left : left + q] = tile
    return picture


def pictures(
    panels: "dict[str, Tensor]", seen: str, equally_tall: bool = False
) -> "tuple[Figure, str]":
    """Pictures (3, h, w) in 0..1 side by side, each under its title.

    They are drawn at one scale, or `equally_tall`.
    The alt text is the titles and then `seen`: what there is to see.
    """
    from matplotlib.figure import Figure

    shapes = [picture.shape[1:] for picture in panels.values()]
    if equally_tall:
        shapes = [(1, w / h) for h, w in shapes]
    widths = [w for _, w in shapes]
    tallest = max(h for h, _ in shapes)
    width = 0.9 * WIDTH  # photographs are heavy
    height = width * tallest / sum(widths) + 0.25
    figure = Figure(figsize=(width, height), layout="constrained")
    row = figure.subplots(1, len(panels), width_ratios=widths, squeeze=False)
    for axes, (title, picture) in zip(row[0], panels.items(), strict=True):
        shown = (picture.clamp(0, 1) * LEVELS).round() / LEVELS
        axes.imshow(shown.permute(1, 2, 0).numpy(), interpolation="nearest")
        axes.set_title(title, fontsize=11)
        axes.set_anchor("N")
        axes.axis("off")
    return figure, f"From the left: {'; '.join(panels)}. {seen}"


def plain(images: Tensor, seen: str) -> "tuple[Figure, str]":
    """Grey images (b, 1, h, w) side by side without a word; `seen` is the alt text."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 1.0), layout="constrained")
    row = figure.subplots(1, len(images), squeeze=False)[0]
    for axes, image in zip(row, images, strict=True):
        _digit(axes, image)
    return figure, seen


def guessed(
    images: Tensor, guesses: Tensor, labels: Tensor, columns: int = 6
) -> "tuple[Figure, str]":
    """Grey images (b, 1, h, w): a row of right guesses above a row of wrong ones.

    Under each stands the guess, and where it is wrong the label.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
    panels = figure.subplots(2, columns)
    right = guesses == labels
    for row, chosen, name in zip(
        panels, (right, ~right), ("right", "wrong"), strict=True
    ):
        row[0].set_ylabel(name, fontsize=12)
        places = chosen.nonzero().flatten().tolist()[:columns]
        for axes in row:
            _bare(axes)
        for axes, place in zip(row, places, strict=False):
            _digit(axes, images[place])
            words = f"says {int(guesses[place])}"
            if not right[place]:
                words += f"\nis {int(labels[place])}"
            axes.set_xlabel(words, fontsize=11)
    wrong = int((~right).sum())
    alt = (
        f"Above, {columns} digits that the network names as they are labelled; "
        f"below, the first {min(columns, wrong)} of the {wrong} in {len(labels)} "
        "that it names otherwise."
    )
    return figure, alt


def _digit(axes: "Axes", image: Tensor) -> None:
    _bare(axes)
    axes.imshow(image[0].numpy(), cmap="gray_r")


def _bare(axes: "Axes") -> None:
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def numbered(image: Tensor, patch_size: int) -> "tuple[Figure, str]":
    """An image (c, h, w) of whole numbers, and under it its flat patches as rows.

    A patch has one colour above and below. Channels stand side by side.
    """
    from matplotlib.figure import Figure

    channels, height, width = (int(side) for side in image.shape)
    grid = (height // patch_size, width // patch_size)
    length = channels * patch_size**2
    right = max(channels * (width + 1) - 1, length)
    bottom = height + 2 + math.prod(grid)
    figure = Figure(
        figsize=(WIDTH, WIDTH * (bottom + 1) / (right + 1)),
        layout="constrained",
    )
    axes = figure.subplots()
    axes.set(xlim=(-0.2, right + 0.2), ylim=(bottom + 0.2, -0.8))
    axes.axis("off")
    for channel in range(channels):
        left = channel * (width + 1)
        axes.text(left, -0.35, f"channel {channel}", fontsize=11)
        for row in range(height):
            for column in range(width):
                number = int(image[channel, row, column])
                patch = row // patch_size * grid[1] + column // patch_size
                _cell(axes, left + column, row, number, patch)
    axes.text(0, height + 1.5, "one row a patch", fontsize=11)
    for patch in range(math.prod(grid)):
        row, column = divmod(patch, grid[1])
        rows = slice(row * patch_size, (row + 1) * patch_size)
        columns = slice(column * patch_size, (column + 1) * patch_size)
        flat = image[:, rows, columns].permute(1, 2, 0).flatten().tolist()
        for place, number in enumerate(flat):
            _cell(axes, place, height + 2 + patch, int(number), patch)
    first = image[:, :patch_size, :patch_size].permute(1, 2, 0).flatten()
    alt = (
        f"Above, {channels} channels of {height}x{width} numbers, one colour a patch; "
        f"below, {math.prod(grid)} rows of {length}. The first row is "
        f"{', '.join(str(int(number)) for number in first)}."
    )
    return figure, alt


def _cell(axes: "Axes", x: float, y: float, number: int, patch: int) -> None:
    from matplotlib.patches import Rectangle

    face = FACES[patch % len(FACES)]
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=face, edgecolor=DARK))
    axes.text(x + 0.5, y + 0.5, number, ha="center", va="center", fontsize=11)


def strides() -> "tuple[Figure, str]":
    """A kernel as large as a patch, moved a patch at a time: maps, then tokens.

    For an image of 2 x 3 patches of 2 x 2 pixels, and 4 kernels.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(WIDTH, 2.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(-0.3, 15.4), ylim=(5.8, -0.9))
    axes.axis("off")
    rows, columns, maps = 2, 3, 4
    lit = 1  # the second patch of the first row
    side = 1.5  # of a patch
    _grid(axes, (0, 1.2), (2 * rows, 2 * columns), side / 2)
    for patch in range(rows * columns):
        row, column = divmod(patch, columns)
        corner = (side * column, 1.2 + side * row)
        face = LIGHT if patch == lit else "none"
        axes.add_patch(
            Rectangle(corner, side, side, fc=face, ec=DARK, lw=1.6, alpha=0.8)
        )
    for patch, style in ((lit + 1, "--"), (lit, "-")):  # after a step, and now
        corner = (side * patch, 1.2)
        frame = Rectangle(corner, side, side, ls=style)
        frame.set(fill=False, ec=KERNEL, lw=3)
        axes.add_patch(frame)
    arrow(axes, (side * (lit + 0.5), 0.8), (side * (lit + 1.5), 0.8))
    axes.text(side * lit, -0.3, "kernel (p, q)", fontsize=11, color=KERNEL)
    axes.text(0, 5.2, "image (h, w)", fontsize=11)
    for number in reversed(range(maps)):
        x, y = 6.6 + 0.5 * number, 2.6 - 0.5 * number
        _grid(axes, (x, y), (rows, columns), 0.75, face="white")
        cell = (x + 0.75 * (lit % columns), y + 0.75 * (lit // columns))
        axes.add_patch(Rectangle(cell, 0.75, 0.75, fc=LIGHT, ec=DARK))
    axes.text(6.6, -0.3, "d maps (gh, gw)", fontsize=11)
    for patch in range(rows * columns):
        face = LIGHT if patch == lit else "white"
        _grid(axes, (12, 0.6 + 0.75 * patch), (1, maps), 0.75, face=face)
    axes.text(11.9, -0.3, "tokens (n, d)", fontsize=11)
    for start, end in (((4.9, 3.3), (6.3, 3.3)), ((10.7, 2.9), (11.8, 2.9))):
        arrow(axes, start, end)
    alt = (
        "An image of 2 rows and 3 columns of patches becomes 4 maps of 2x3 numbers "
        "and then 6 tokens of 4 numbers. A kernel lies on the second patch and "
        "moves right by a whole patch; the patch, its cell in each map, and its token, "
        "the second, share a colour."
    )
    return figure, alt


def _grid(
    axes: "Axes",
    corner: tuple[float, float],
    shape: tuple[int, int],
    side: float,
    face: str = "white",
) -> None:
    from matplotlib.patches import Rectangle

    left, top = corner
    for row in range(shape[0]):
        for column in range(shape[1]):
            place = (left + side * column, top + side * row)
            axes.add_patch(
                Rectangle(place, side, side, fc=face, ec=DARK, lw=0.8)
            )


def filters(
    rows: "dict[str, Tensor]", under: "Sequence[str]" = ()
) -> "tuple[Figure, str]":
    """Kernels (k, 1, p, q) as grey tiles, a row under each title.

    Grey is 0, white positive, black negative; each row has its own scale. `under` are
    words for the tiles of the last row.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 1.12 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
    for axes, (title, kernels) in zip(panels, rows.items(), strict=True):
        kernels = kernels.detach()
        tiles = [*(kernels / kernels.abs().max() / 2 + 0.5)]
        picture = mosaic(tiles, columns=len(tiles), gap=1)[0].numpy()
        axes.imshow(
            picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest"
        )
        axes.set_title(title, fontsize=11, loc="left")
        axes.axis("off")
    _, _, p, q = next(iter(rows.values())).shape
    for number, words in enumerate(under):
        middle = number * (q + 1) + (q - 1) / 2
        axes.text(middle, p - 0.2, words, ha="center", va="top", fontsize=11)
    counts = [f"{title}: {len(kernels)}" for title, kernels in rows.items()]
    alt = f"Rows of kernels of {p}x{q} numbers, grey is 0. {'; '.join(counts)}."
    if under:
        alt += f" Under the last row: {', '.join(under)}."
    return figure, alt


def cost(
    patch_sizes: "Sequence[int]",
    quadratic: "Sequence[float]",
    rest: "Sequence[float]",
) -> "tuple[Figure, str]":
    """Billions of multiply-adds over the patch size: pairs of tokens, and the rest."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(patch_sizes, rest, "o-", color="0.55", label="all the rest")
    axes.plot(patch_sizes, quadratic, "s--", color=DARK, label="pairs")
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(patch_sizes, [str(size) for size in patch_sizes])
    axes.minorticks_off()
    axes.invert_xaxis()
    axes.tick_params(labelsize=11)
    axes.set_xlabel("patch size P (pixels)", fontsize=12)
    axes.set_ylabel("billions of\nmultiply-adds", fontsize=12)
    axes.legend(fontsize=11, loc="upper left")
    axes.grid(color=PALE)
    pairs = list(zip(patch_sizes, quadratic, rest, strict=True))
    dearer = [size for size, square, others in pairs if square > others]
    size, square, others = pairs[-1]
    alt = (
        "Multiply-adds of one image over the patch size, both axes logarithmic. At "
        f"P = {size}, {square:,.0f} billion for pairs of tokens and "
        f"{others:,.0f} billion for the rest; the first is the larger from "
        f"P = {max(dearer, default=0)} down."
    )
    return figure, alt
