"""Chapter 1: a picture in pieces, and what becomes of the pieces."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.figures.charts import WIDTH, chart
from vitedu.figures.palette import DARK, MAP, PATCHES, STREAM, TINTS
from vitedu.figures.photos import LEVELS, draw_picture, frame_patch
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


def _draw_guesses(
    axes: "Axes", guesses: Sequence[tuple[str, float]], fontsize: float = 13
) -> str:
    """Classes as bars under their names; the same in words."""
    for row, (name, share) in enumerate(guesses):
        axes.barh(row + 0.22, share, height=0.4, color=PATCHES)
        middle = {"va": "center", "fontsize": fontsize}
        axes.text(share + 0.02, row + 0.22, f"{share:.0%}", **middle)
        axes.text(0, row - 0.08, name, va="bottom", fontsize=fontsize)
    # room for a percentage beside the longest bar
    axes.set(xlim=(0, 1.22 if fontsize > 11 else 1.4))
    axes.set(ylim=(len(guesses) - 0.5, -0.6))
    axes.axis("off")
    return ", ".join(f"{name} {share:.0%}" for name, share in guesses)


def numbered(image: Tensor, patch_size: int) -> "tuple[Figure, str]":
    """An image (c, h, w) of whole numbers, above its flat patches.

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
    label(axes, (0, h + 1.1), "flat patches", DARK, ha="left")
    for patch in range(n):
        y, x = patch // columns * p, patch % columns * p
        flat = image[:, y : y + p, x : x + p].permute(1, 2, 0).flatten()
        for place, number in enumerate(flat.tolist()):
            _cell(axes, (place, h + 1.5 + patch), int(number), patch)
    first = image[:, :p, :p].permute(1, 2, 0).flatten().tolist()
    alt = (
        f"Above, {c} channels of {h}x{w} numbers in {n} colours, one per "
        f"patch; below, each as a flat patch of {length} numbers. The first is "
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
    """From a picture (3, 224, 224) to its products with E (196, d).

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
    for y, words in ((48, "light: positive"), (32, "dark: negative")):
        label(axes, (227, y), words, fontsize=10.5, ha="left")
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
    for y, color, symbol, words, shape in (
        (445, DARK, r"$\mathbf{x}$", "x", "(1, 3, 224, 224)"),
        (
            313,
            PATCHES,
            r"$\mathbf{x}_p$",
            "flat =\npatchify(x, 16)",
            "(1, 196, 768)",
        ),
        (198, PATCHES, r"$\mathbf{E}$", "E", "(768, 192)"),
        (91, STREAM, r"$\mathbf{x}_p\mathbf{E}$", "flat @ E", "(1, 196, 192)"),
    ):
        label(axes, (24, y), symbol, color, 15)
        look = {"ha": "left", "family": "monospace"}
        look["va"] = "bottom"
        label(axes, (227, y + 1), words, color, 11, weight="bold", **look)
        look["va"] = "top"
        label(axes, (227, y - 2), shape, color, 10.5, **look)
    alt = (
        "From top to bottom: a photograph x; three of its 196 patches, each "
        "with the start of its flat list of pixels; the matrix E; and the same "
        "three as tokens, each a line of grey cells. Beside each is its "
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
    """Numbers of a token as a row of cells: dark grey (-1) to light (1)."""
    x, y = corner
    side = width / len(token)
    for place, value in enumerate(token.tolist()):
        shade = str(0.55 + 0.45 * max(-1.0, min(1.0, value)))
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
    rows: Mapping[str, tuple[Tensor, Tensor]],
    picture: Tensor,
    limit: float,
    alt: str,
) -> "tuple[Figure, str]":
    """A row for each question: who says yes and no, and what all say.

    A title's kernel (3, p, q) and its answers (gh, gw), one for each patch of
    `picture` (3, h, w). Beside the kernel are the patches with the highest and
    the lowest answer, one above the other, then the picture and all answers as
    a map, with these two patches framed. The maps share one scale, printed
    once, from -limit to limit; what is beyond is drawn as the limit.
    """
    from matplotlib.figure import Figure

    height = 1.72 * len(rows) + 0.75
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    grid = figure.add_gridspec(2 * len(rows), 4, width_ratios=(1, 0.42, 1, 1))
    figure.get_layout_engine().set(wspace=0.04)
    for row, (title, (kernel, answered)) in enumerate(rows.items()):
        top, bottom = 2 * row, 2 * row + 1
        both = slice(top, bottom + 1)
        question = figure.add_subplot(grid[both, 0])
        question.imshow(around_grey(kernel).permute(1, 2, 0).numpy())
        question.set_title(title, fontsize=11)
        whole = figure.add_subplot(grid[both, 2])
        draw_picture(whole, picture)
        everyone = figure.add_subplot(grid[both, 3])
        shown = everyone.imshow(
            answered.numpy(), cmap=MAP, vmin=-limit, vmax=limit
        )
        if row == 0:
            whole.set_title("the picture", fontsize=11)
            everyone.set_title("all answers", fontsize=11)
        p, columns = kernel.shape[-1], answered.shape[1]
        for line, word, place in (
            (top, "yes", answered.argmax()),
            (bottom, "no", answered.argmin()),
        ):
            y, x = divmod(int(place), columns)
            one = figure.add_subplot(grid[line, 1])
            draw_picture(one, picture[:, p * y :, p * x :][:, :p, :p])
            number = f"{answered[y, x]:+.1f}".replace("-", "\N{MINUS SIGN}")
            one.set_title(f"{word} {number}", fontsize=11)
            lines = (("black", 2.6), ("white", 1.3))
            frame_patch(whole, (y, x), p, lines)
            frame_patch(everyone, (y, x), 1, lines)
    for axes in figure.axes:
        axes.axis("off")
    figure.colorbar(
        shown,
        ax=figure.axes,
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
    filters: Tensor, order: Sequence[int], large: int, seen: str
) -> "tuple[Figure, str]":
    """All kernels (d, 3, p, q) in this order, in rows of 16.

    Each is drawn around grey, on its own scale. The first few are outlined, and
    drawn large above the others. `seen` begins the alt text.
    """
    tiles = [around_grey(filters[number]) for number in order]
    together = mosaic(tiles, columns=16, gap=2)
    p, (_, high, wide) = filters.shape[-1], together.shape
    width, side, gap = 100 * WIDTH, 112, 30
    scale = width / wide
    below = scale * high
    figure, axes = canvas(width, below + side + 38, opaque=True)
    axes.set_aspect("auto")
    limits = axes.axis()
    look = {"aspect": "auto", "interpolation": "nearest"}
    place = (0, width, 0, below)
    axes.imshow(together.permute(1, 2, 0).numpy(), extent=place, **look)
    start = (width - large * side - (large - 1) * gap) / 2
    for number, tile in enumerate(tiles[:large]):
        left = start + number * (side + gap)
        place = (left, left + side, below + 14, below + 14 + side)
        axes.imshow(tile.permute(1, 2, 0).numpy(), extent=place, **look)
        words = f"question {order[number]}"
        label(axes, (left + side / 2, below + side + 26), words, DARK, 11)
        corner = (number * (p + 2) * scale, below)
        opposite = (corner[0] + p * scale, below - p * scale)
        outline(axes, corner, opposite, PATCHES, 2.2)
    axes.axis(limits)
    named = ", ".join(str(number) for number in order[:large])
    return figure, f"{seen} The first are numbers {named}."


def captioned(
    panels: Mapping[str, tuple[Tensor, str, float]], columns: int, seen: str
) -> "tuple[Figure, str]":
    """Pictures (3, h, w), titled; under each a class and its share as a bar.

    `seen` begins the alt text: what the pictures show.
    """
    rows = math.ceil(len(panels) / columns)
    high = rows * (WIDTH / columns + 0.75)
    ratios = (1, 0.28) * rows
    figure, grid = chart(
        WIDTH, high, 2 * rows, columns, height_ratios=ratios, squeeze=False
    )
    for axes in grid.flat:
        axes.axis("off")
    said = []
    for place, (title, (picture, name, share)) in enumerate(panels.items()):
        row, column = divmod(place, columns)
        above, below = grid[2 * row : 2 * row + 2, column]
        draw_picture(above, picture)
        above.set_title(title, fontsize=11)
        listed = _draw_guesses(below, [(name, share)], fontsize=11)
        said.append(f"{title}, {listed}")
    return figure, f"{seen} Under them: {'; '.join(said)}."
