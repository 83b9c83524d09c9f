"""Drawings of chapter 1: a picture in pieces, and what becomes of the pieces.

Every function returns a figure and its alt text, for `figures.show(*...)`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.figures.palette import MAP, PATCHES, STREAM, TINTS
from vitedu.figures.photos import LEVELS, WIDTH, draw_picture
from vitedu.figures.schematic import DARK, GREY, arrow, box, chart, label, line
from vitedu.figures.schematic import figure as schematic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# a colour for each of four patches; they differ in grey too
FACES = ("#ffffff", TINTS[PATCHES], "#9dbfe0", "#6b9ccc")
MONO = {"family": "monospace"}


def mosaic(tiles: Sequence[Tensor], columns: int, gap: int = 0) -> Tensor:
    """Tiles (c, p, q), row by row, as one picture with `gap` white pixels between."""
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

    figure = chart(WIDTH, 2.5)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
    draw_picture(left, picture)
    left.axis("off")
    words = _bars(right, guesses)
    return figure, f"{seen} The model's answers as bars: {words}."


def _bars(axes: "Axes", guesses: Sequence[tuple[str, float]]) -> str:
    """Classes as bars under their names; the same in words."""
    for place, (name, share) in enumerate(guesses):
        axes.barh(place + 0.22, share, height=0.4, color=PATCHES)
        words = f"{share:.0%}"
        axes.text(share + 0.02, place + 0.22, words, va="center", fontsize=13)
        axes.text(0, place - 0.08, name, va="bottom", fontsize=13)
    axes.set(xlim=(0, 1.22), ylim=(len(guesses) - 0.5, -0.6))
    axes.axis("off")
    return ", ".join(f"{name} {share:.0%}" for name, share in guesses)


def numbered(image: Tensor, patch_size: int) -> "tuple[Figure, str]":
    """An image (c, h, w) of whole numbers, and below it its flat patches as rows.

    Each patch has one colour, above and below. Channels are drawn side by side.
    """
    c, h, w = image.shape
    p, columns = patch_size, w // patch_size
    n, length = (h // p) * columns, c * p * p
    right = max(c * (w + 1) - 1, length)
    drawing, axes = schematic(46 * (right + 0.4), 40 * (h + n + 2.4))
    drawing.patch.set_alpha(1)
    axes.set(xlim=(-0.2, right + 0.2), ylim=(h + n + 1.6, -0.8))
    for channel in range(c):
        left = channel * (w + 1)
        words = f"channel {channel}"
        label(axes, (left, -0.35), words, color=DARK, ha="left")
        for y in range(h):
            for x in range(w):
                number = int(image[channel, y, x])
                _cell(axes, left + x, y, number, y // p * columns + x // p)
    words = "one row per patch"
    label(axes, (0, h + 1.1), words, color=DARK, ha="left")
    for patch in range(n):
        y, x = patch // columns * p, patch % columns * p
        flat = image[:, y : y + p, x : x + p].permute(1, 2, 0).flatten()
        for place, number in enumerate(flat.tolist()):
            _cell(axes, place, h + 1.5 + patch, int(number), patch)
    first = image[:, :p, :p].permute(1, 2, 0).flatten().tolist()
    alt = (
        f"Above, {c} channels of {h}x{w} numbers in {n} colours, one per patch; "
        f"below, each patch as a row of {length}. The first row is "
        f"{', '.join(str(int(number)) for number in first)}."
    )
    return drawing, alt


def _cell(axes: "Axes", x: float, y: float, number: int, patch: int) -> None:
    from matplotlib.patches import Rectangle

    face = FACES[patch % len(FACES)]
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=face, edgecolor=DARK))
    label(axes, (x + 0.5, y + 0.5), str(number), color=DARK)


def embedding(picture: Tensor, tokens: Tensor) -> "tuple[Figure, str]":
    """From a picture (3, 224, 224) to its tokens (196, d): the chapter in one drawing.

    A symbol, what it looks like and its line of code are side by side, in one colour.
    """
    drawing, axes = schematic(400, 506)
    drawing.patch.set_alpha(1)
    first, shown, row = 5, 3, 4  # the patches that are drawn: over the glasses
    middle, left, right, side, step = 128, 50, 206, 24, 29
    _thumbnail(axes, picture, (73, 390, 183, 500))
    for place in range(shown):
        column = first + place
        piece = picture[:, 16 * row :, 16 * column :][:, :16, :16]
        y = 330 - place * step
        _thumbnail(axes, piece, (left, y, left + side, y + side))
        line_of_pixels = piece.flatten(1)[:, None, :20]
        _thumbnail(axes, line_of_pixels, (left + 34, y, right, y + side))
        token = tokens[14 * row + column]
        _bar(axes, token[:12], (left, 108 - place * step), (right - left, side))
    for y in (261, 39):
        label(axes, (middle, y), "\N{VERTICAL ELLIPSIS}")
    frame_left = 73 + first * 110 / 14
    frame_top = 500 - row * 110 / 14
    corners = [
        (frame_left, frame_top),
        (frame_left + shown * 110 / 14, frame_top),
        (frame_left + shown * 110 / 14, frame_top - 110 / 14),
        (frame_left, frame_top - 110 / 14),
        (frame_left, frame_top),
    ]
    line(axes, corners, color="white", width=2.4)
    line(axes, corners, color=PATCHES, width=1.2)
    box(axes, (middle, 198), (156, 40), "\N{MULTIPLICATION SIGN} E", PATCHES)
    for start, end in ((386, 359), (250, 222), (174, 138)):
        arrow(axes, (middle, start), (middle, end), color=GREY, width=1.6)
    for y, color, symbol, code, shape in (
        (445, DARK, r"$\mathbf{x}$", "x", "(1, 3, 224, 224)"),
        (313, PATCHES, r"$\mathbf{x}_p$", "patchify(x, 16)", "(1, 196, 768)"),
        (198, PATCHES, r"$\mathbf{E}$", "E", "(768, 192)"),
        (91, STREAM, r"$\mathbf{x}_p\mathbf{E}$", "", "(1, 196, 192)"),
    ):
        label(axes, (24, y), symbol, color=color, fontsize=15)
        code = code or "patchify(x, 16) @ E"
        options = {"ha": "left", "color": color, **MONO}
        label(axes, (222, y + 9), code, fontsize=11, weight="bold", **options)
        label(axes, (222, y - 10), shape, fontsize=10.5, **options)
    alt = (
        "From top to bottom: a photograph x; three of its 196 patches, each with the "
        "start of its flat row of pixels; the matrix E; and the same three as "
        "tokens, each a flat row of grey cells. Beside each is its symbol, its code "
        "and its shape: (1, 3, 224, 224), (1, 196, 768), (768, 192), (1, 196, 192)."
    )
    return drawing, alt


def _thumbnail(axes: "Axes", picture: Tensor, place: Sequence[float]) -> None:
    """A picture (3, h, w) drawn into (left, lower, right, upper)."""
    limits = axes.axis()
    left, lower, right, upper = place
    if picture.shape[1] > 112:  # no finer than it is drawn
        picture = F.avg_pool2d(picture, 2)
    picture = (picture.clamp(0, 1) * LEVELS).round() / LEVELS
    pixels = picture.permute(1, 2, 0).numpy()
    axes.imshow(
        pixels, extent=(left, right, lower, upper), interpolation="nearest"
    )
    axes.set_aspect("auto")
    axes.axis(limits)
    axes.axis("off")


def _bar(
    axes: "Axes", token: Tensor, corner: Sequence[float], size: Sequence[float]
) -> None:
    """Some numbers of a token as a row of cells, light (-1) to dark grey (1)."""
    from matplotlib.patches import Rectangle

    (x, y), (width, height) = corner, size
    cell = width / len(token)
    for place, value in enumerate(token.tolist()):
        shade = 0.55 - 0.45 * max(-1.0, min(1.0, value))
        axes.add_patch(
            Rectangle(
                (x + place * cell, y),
                cell,
                height,
                facecolor=str(shade),
                edgecolor=STREAM,
                linewidth=0.8,
            )
        )


def digits(
    rows: Mapping[str, Tensor],
    alt: str,
    outlines: Sequence[Sequence[tuple[int, int]]] = (),
) -> "tuple[Figure, str]":
    """Grey images (b, 1, h, w), ink dark, a row under each title.

    `outlines` are corners (x, y), in pixels, of one polygon for each row; it is drawn
    on the first image.
    """
    from matplotlib.patches import Polygon

    most = max(len(images) for images in rows.values())
    size = WIDTH / most
    figure = chart(WIDTH, len(rows) * (size + 0.3))
    grid = figure.subplots(len(rows), most, squeeze=False)
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
    """Kernels (3, p, q) under their titles, above maps (gh, gw) of their answers.

    Each kernel is drawn around grey; the maps share one scale, printed once, from
    -limit to limit. Answers beyond it are drawn as the limit.
    """

    figure = chart(WIDTH, 3.9)
    grid = figure.subplots(2, len(kernels), squeeze=False)
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
    """A kernel as a picture: 0 is grey, its largest number black or full colour."""
    return 0.5 + 0.5 * kernel / kernel.abs().max()


def kernels(
    filters: Tensor, groups: Mapping[str, Sequence[int]], seen: str
) -> "tuple[Figure, str]":
    """Some of the kernels (d, 3, p, q) under their numbers, in groups with a title.

    Each is drawn around grey, on its own scale. `seen` begins the alt text.
    """
    from matplotlib.figure import Figure

    columns, side, head, title = 8, WIDTH / 8, 0.17, 0.3
    rows = [math.ceil(len(numbers) / columns) for numbers in groups.values()]
    tall = sum(rows) * (side + head) + len(rows) * title
    figure = Figure(figsize=(WIDTH, tall))
    top = tall
    for (words, numbers), many in zip(groups.items(), rows, strict=True):
        where = (0.06 / WIDTH, (top - 0.7 * title) / tall)
        figure.text(*where, words, fontsize=12)
        top -= title
        for place, number in enumerate(numbers):
            row, column = divmod(place, columns)
            left = column * side + 0.04
            lower = top - (row + 1) * (side + head) + 0.04
            size = side - 0.08
            axes = figure.add_axes(
                (left / WIDTH, lower / tall, size / WIDTH, size / tall)
            )
            axes.axis("off")
            tile = around_grey(filters[number]).permute(1, 2, 0)
            axes.imshow(tile.numpy(), interpolation="nearest")
            axes.set_title(str(number), fontsize=10, pad=1.5)
        top -= many * (side + head)
    words = "; ".join(
        f"{words}, {', '.join(map(str, numbers))}"
        for words, numbers in groups.items()
    )
    return figure, f"{seen} Their numbers: {words}."


def reading(
    picture: Tensor,
    maps: Tensor,
    guesses: Sequence[tuple[str, float]],
    limit: float,
    seen: str,
) -> "tuple[Figure, str]":
    """What you see, what the network reads, what it says.

    That is a picture (3, h, w); maps (k, gh, gw) of k answers on one scale from -limit
    to limit, in rows of four; classes as bars.
    """

    figure = chart(WIDTH, 4.7)
    grid = figure.add_gridspec(2, 2, height_ratios=(1.6, 1))
    left, right = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
    draw_picture(left, picture)
    left.set_title("what you see", fontsize=13)
    # a hair of white between maps: numbers that are none are not drawn
    padded = F.pad(maps, (0, 2, 0, 2), value=math.nan)
    joined = mosaic(list(padded[:, None]), columns=4)[0, :-2, :-2]
    scale = {"cmap": MAP, "vmin": -limit, "vmax": limit}
    right.imshow(joined.numpy(), interpolation="nearest", **scale)
    right.set_title("what it reads", fontsize=13)
    for axes in (left, right):
        axes.axis("off")
    below = figure.add_subplot(grid[1, :])
    below.set_title("what it says", fontsize=13)
    words = _bars(below, guesses)
    alt = f"{seen} Below, the model's answers as bars: {words}."
    return figure, alt
