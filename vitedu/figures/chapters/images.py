"""Chapter 1: a picture in pieces, and what becomes of the pieces."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.figures.charts import WIDTH, chart
from vitedu.figures.palette import DARK, MAP, PATCHES, STREAM, TINTS
from vitedu.figures.photos import LEVELS, draw_picture
from vitedu.figures.schematic import (
    TIMES,
    arrow,
    box,
    canvas,
    label,
    outline,
    rectangle,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# a colour for each of four patches; they differ in grey too
FACES = ("#ffffff", TINTS[PATCHES], "#9dbfe0", "#6b9ccc")


def mosaic(tiles: Sequence[Tensor], columns: int, gap: int = 0) -> Tensor:
    """Tiles (c, p, q), row by row, as one picture with white gaps in pixels."""
    c, p, q = tiles[0].shape
    rows = len(tiles) // columns
    height, width = rows * (p + gap) - gap, columns * (q + gap) - gap
    picture = torch.ones(c, height, width)
    for number, tile in enumerate(tiles):
        row, column = divmod(number, columns)
        top, left = row * (p + gap), column * (q + gap)
        picture[:, top : top + p, left : left + q] = tile
    return picture


def shuffled(tiles: Sequence[Tensor], seed: int) -> Tensor:
    """A square picture of the same square tiles in random order."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(tiles), generator=generator).tolist()
    return mosaic([tiles[i] for i in order], columns=round(len(tiles) ** 0.5))


def answers(
    picture: Tensor, guesses: Sequence[tuple[str, float]], seen: str
) -> "tuple[Figure, str]":
    """A picture (3, h, w), and beside it its classes as bars in whole percents.

    `seen` begins the alt text: what the picture shows.
    """
    figure, (left, right) = chart(WIDTH, 2.5, 1, 2, width_ratios=(1, 1.35))
    draw_picture(left, picture)
    left.axis("off")
    listed = _draw_guesses(right, guesses)
    return figure, f"{seen} The model's answers as bars: {listed}."


def _draw_guesses(axes: "Axes", guesses: Sequence[tuple[str, float]]) -> str:
    """Classes as bars under their names; the same in words."""
    for row, (name, share) in enumerate(guesses):
        axes.barh(row + 0.22, share, height=0.4, color=PATCHES)
        middle = {"va": "center", "fontsize": 13}
        axes.text(share + 0.02, row + 0.22, f"{share:.0%}", **middle)
        axes.text(0, row - 0.08, name, va="bottom", fontsize=13)
    axes.set(xlim=(0, 1.22), ylim=(len(guesses) - 0.5, -0.6))
    axes.axis("off")
    return ", ".join(f"{name} {share:.0%}" for name, share in guesses)


def numbered(image: Tensor, patch_size: int) -> "tuple[Figure, str]":
    """An image (c, h, w) of whole numbers, above its flat patches as rows.

    Each patch has one colour, above and below. Channels are drawn side by side.
    """
    c, h, w = image.shape
    p, columns = patch_size, w // patch_size
    n, length = (h // p) * columns, c * p * p
    right = max(c * (w + 1) - 1, length)
    width, height = 46 * (right + 0.4), 40 * (h + n + 2.4)
    figure, axes = canvas(width, height, opaque=True)
    axes.set(xlim=(-0.2, right + 0.2), ylim=(h + n + 1.6, -0.8))
    for channel in range(c):
        left = channel * (w + 1)
        label(axes, (left, -0.35), f"channel {channel}", DARK, ha="left")
        for y in range(h):
            for x in range(w):
                number = int(image[channel, y, x])
                _cell(axes, (left + x, y), number, y // p * columns + x // p)
    label(axes, (0, h + 1.1), "one row per patch", DARK, ha="left")
    for patch in range(n):
        y, x = patch // columns * p, patch % columns * p
        flat = image[:, y : y + p, x : x + p].permute(1, 2, 0).flatten()
        for place, number in enumerate(flat.tolist()):
            _cell(axes, (place, h + 1.5 + patch), int(number), patch)
    first = image[:, :p, :p].permute(1, 2, 0).flatten().tolist()
    alt = (
        f"Above, {c} channels of {h}x{w} numbers in {n} colours, one per "
        f"patch; below, each patch as a row of {length}. The first row is "
        f"{', '.join(str(int(number)) for number in first)}."
    )
    return figure, alt


def _cell(
    axes: "Axes", corner: tuple[float, float], number: int, patch: int
) -> None:
    """A number in a square of its patch's colour."""
    face = FACES[patch % len(FACES)]
    rectangle(axes, corner, (1, 1), facecolor=face, edgecolor=DARK)
    label(axes, (corner[0] + 0.5, corner[1] + 0.5), str(number), DARK)


def embedding(picture: Tensor, tokens: Tensor) -> "tuple[Figure, str]":
    """From a picture (3, 224, 224) to its tokens (196, d): the whole chapter.

    A symbol, its picture and its line of code are side by side, in one colour.
    """
    figure, axes = canvas(400, 506, opaque=True)
    # the patches that are drawn: over the glasses
    first, shown, row = 5, 3, 4
    middle, left, right, side, step = 128, 50, 206, 24, 29
    _thumbnail(axes, picture, (73, 390, 183, 500))
    for place in range(shown):
        column = first + place
        piece = picture[:, 16 * row :, 16 * column :][:, :16, :16]
        y = 330 - place * step
        _thumbnail(axes, piece, (left, y, left + side, y + side))
        pixels = piece.flatten(1)[:, None, :20]
        _thumbnail(axes, pixels, (left + 34, y, right, y + side))
        token = tokens[14 * row + column]
        _cells(axes, token[:12], (left, 108 - place * step), right - left, side)
    for y in (261, 41):
        label(axes, (middle, y), "\N{VERTICAL ELLIPSIS}")
    label(axes, (middle, 16), "light: negative, dark: positive", fontsize=10.5)
    for place in range(shown):
        for y in (330, 108):
            dots = (right + 7, y + side / 2 - place * step)
            label(axes, dots, "\N{HORIZONTAL ELLIPSIS}")
    patch = 110 / 14
    corner = 73 + first * patch, 500 - row * patch
    opposite = corner[0] + shown * patch, corner[1] - patch
    outline(axes, corner, opposite, "white", 2.4)
    outline(axes, corner, opposite, PATCHES, 1.2)
    box(axes, (middle, 198), (156, 40), f"{TIMES} E", PATCHES)
    for start, end in ((386, 359), (250, 222), (174, 138)):
        arrow(axes, (middle, start), (middle, end))
    code = "patchify(x, 16)"
    for y, color, symbol, words, shape in (
        (445, DARK, r"$\mathbf{x}$", "x", "(1, 3, 224, 224)"),
        (313, PATCHES, r"$\mathbf{x}_p$", code, "(1, 196, 768)"),
        (198, PATCHES, r"$\mathbf{E}$", "E", "(768, 192)"),
        (
            91,
            STREAM,
            r"$\mathbf{x}_p\mathbf{E}$",
            f"{code} @ E",
            "(1, 196, 192)",
        ),
    ):
        label(axes, (24, y), symbol, color, 15)
        look = {"ha": "left", "family": "monospace"}
        label(axes, (227, y + 9), words, color, 11, weight="bold", **look)
        label(axes, (227, y - 10), shape, color, 10.5, **look)
    alt = (
        "From top to bottom: a photograph x; three of its 196 patches, each "
        "with the start of its flat row of pixels; the matrix E; and the same "
        "three as tokens, each a flat row of grey cells. Beside each is its "
        "symbol, its code and its shape: (1, 3, 224, 224), (1, 196, 768), "
        "(768, 192), (1, 196, 192)."
    )
    return figure, alt


def _thumbnail(axes: "Axes", picture: Tensor, place: Sequence[float]) -> None:
    """A picture (3, h, w) drawn into (left, lower, right, upper)."""
    limits = axes.axis()
    left, lower, right, upper = place
    # no finer than it is drawn
    if picture.shape[1] > 112:
        picture = F.avg_pool2d(picture, 2)
    picture = (picture.clamp(0, 1) * LEVELS).round() / LEVELS
    axes.imshow(
        picture.permute(1, 2, 0).numpy(),
        extent=(left, right, lower, upper),
        interpolation="nearest",
    )
    axes.set_aspect("auto")
    axes.axis(limits)
    axes.axis("off")


def _cells(
    axes: "Axes",
    token: Tensor,
    corner: tuple[float, float],
    width: float,
    height: float,
) -> None:
    """Numbers of a token as a row of cells: light (-1) to dark grey (1)."""
    x, y = corner
    side = width / len(token)
    for place, value in enumerate(token.tolist()):
        shade = str(0.55 - 0.45 * max(-1.0, min(1.0, value)))
        look = {"facecolor": shade, "edgecolor": STREAM, "linewidth": 0.8}
        rectangle(axes, (x + place * side, y), (side, height), **look)


def digits(
    rows: Mapping[str, Tensor],
    alt: str,
    outlines: Sequence[Sequence[tuple[int, int]]] = (),
) -> "tuple[Figure, str]":
    """Grey images (b, 1, h, w), ink dark, a row under each title.

    `outlines` are the corners (x, y), in pixels, of one polygon for each row;
    it is drawn on the first image.
    """
    from matplotlib.patches import Polygon

    columns = max(len(images) for images in rows.values())
    height = len(rows) * (WIDTH / columns + 0.3)
    figure, grid = chart(WIDTH, height, len(rows), columns, squeeze=False)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color(TINTS[STREAM])
    for panels, (title, images) in zip(grid, rows.items(), strict=True):
        panels[0].set_title(title, fontsize=12, loc="left")
        for axes, image in zip(panels, images, strict=False):
            axes.imshow(image[0].numpy(), cmap="gray_r")
    for panels, corners in zip(grid, outlines, strict=False):
        edges = [(x - 0.5, y - 0.5) for x, y in corners]
        panels[0].add_patch(Polygon(edges, fill=False, ec=PATCHES, lw=2.2))
    return figure, alt


def questions(
    kernels: Mapping[str, Tensor],
    maps: Sequence[Tensor],
    limit: float,
    alt: str,
) -> "tuple[Figure, str]":
    """Kernels (3, p, q) with titles, above maps (gh, gw) of their answers.

    Each kernel is drawn around grey; the maps share one scale, printed once,
    from -limit to limit. Answers beyond it are drawn as the limit.
    """
    figure, grid = chart(WIDTH, 3.9, 2, len(kernels), squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, (title, kernel) in zip(grid[0], kernels.items(), strict=True):
        axes.imshow(around_grey(kernel).permute(1, 2, 0).numpy())
        axes.set_title(title, fontsize=11)
    for axes, each in zip(grid[1], maps, strict=True):
        shown = axes.imshow(each.numpy(), cmap=MAP, vmin=-limit, vmax=limit)
    figure.colorbar(
        shown,
        ax=grid,
        location="bottom",
        aspect=40,
        shrink=0.8,
        extend="both",
        label="answer of each patch",
    )
    return figure, alt


def around_grey(kernel: Tensor) -> Tensor:
    """A kernel as a picture: 0 is grey, the largest black or full colour."""
    return 0.5 + 0.5 * kernel / kernel.abs().max()


def kernels(
    filters: Tensor, groups: Mapping[str, Sequence[int]], seen: str
) -> "tuple[Figure, str]":
    """Some of the kernels (d, 3, p, q) under their numbers, in titled groups.

    Each is drawn around grey, on its own scale. `seen` begins the alt text.
    """
    from matplotlib.figure import Figure

    columns, side, head, title = 8, WIDTH / 8, 0.17, 0.3
    rows = [math.ceil(len(numbers) / columns) for numbers in groups.values()]
    height = sum(rows) * (side + head) + len(rows) * title
    figure = Figure(figsize=(WIDTH, height))
    top = height
    for (name, numbers), many in zip(groups.items(), rows, strict=True):
        place = (0.06 / WIDTH, (top - 0.7 * title) / height)
        figure.text(*place, name, fontsize=12)
        top -= title
        for place, number in enumerate(numbers):
            row, column = divmod(place, columns)
            left = column * side + 0.04
            lower = top - (row + 1) * (side + head) + 0.04
            size = side - 0.08
            axes = figure.add_axes(
                (left / WIDTH, lower / height, size / WIDTH, size / height)
            )
            axes.axis("off")
            tile = around_grey(filters[number]).permute(1, 2, 0)
            axes.imshow(tile.numpy(), interpolation="nearest")
            axes.set_title(str(number), fontsize=10, pad=1.5)
        top -= many * (side + head)
    listed = "; ".join(
        f"{name}, {', '.join(map(str, numbers))}"
        for name, numbers in groups.items()
    )
    return figure, f"{seen} Their numbers: {listed}."


def reading(
    picture: Tensor,
    maps: Tensor,
    guesses: Sequence[tuple[str, float]],
    limit: float,
    seen: str,
) -> "tuple[Figure, str]":
    """What you see, what the network reads, what it says.

    That is a picture (3, h, w); maps (k, gh, gw) of k answers on one scale from
    -limit to limit, in a square or a column; what it says as bars.
    """
    from matplotlib.figure import Figure

    high = 3.0 + 0.62 * len(guesses)
    figure = Figure(figsize=(WIDTH, high), layout="constrained")
    ratios = (2.9, 0.6 * len(guesses))
    panels = figure.subplot_mosaic("sr;bb", height_ratios=ratios)
    left, right, below = panels.values()
    draw_picture(left, picture)
    left.set_title("what you see", fontsize=13)
    # a hair of white between maps: numbers that are none are not drawn
    padded = F.pad(maps, (0, 1, 0, 1), value=math.nan)
    columns = math.isqrt(len(maps))
    joined = mosaic(list(padded[:, None]), columns)[0, :-1, :-1]
    scale = {"cmap": MAP, "vmin": -limit, "vmax": limit}
    right.imshow(joined.numpy(), interpolation="nearest", **scale)
    right.set_title("what it reads", fontsize=13)
    for axes in (left, right):
        axes.axis("off")
    below.set_title("what it says", fontsize=13)
    listed = _draw_guesses(below, guesses)
    alt = f"{seen} Below, the model's answers as bars: {listed}."
    return figure, alt
