"""Chapter 10: finer patches, positions as pictures, and what pays."""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import (
    CLASS,
    DARK,
    MAP,
    PATCHES,
    POSITIONS,
    STREAM,
    TINTS,
)
from vitedu.figures.photos import draw_picture
from vitedu.figures.schematic import (
    TIMES,
    arrow,
    canvas,
    label,
    line,
    rectangle,
    squares,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PATCH = 16  # pixels
MUCH = 0.8  # of a patch's answer: as bright as all
PART = ((0.375, 0.625), (0.25, 0.5))  # of width and height: shown enlarged
# a small hill, whose middles between neighbours are whole numbers again
HILL = ((0, 4, 0), (4, 8, 4), (0, 4, 0))
LARGER_HILL = (
    (0, 2, 4, 2, 0),
    (2, 4, 6, 4, 2),
    (4, 6, 8, 6, 4),
    (2, 4, 6, 4, 2),
    (0, 2, 4, 2, 0),
)


def cuts(
    pictures: Sequence[Tensor], answers: Sequence[str]
) -> "tuple[Figure, str]":
    """One photograph in several sizes (3, h, w); below each its answer.

    Below each photograph is the framed part of it, enlarged and cut: the lines
    are the patches' edges. All panels show the same part of the scene, so the
    patches of a larger picture look smaller.
    """
    aspect = max(picture.shape[1] / picture.shape[2] for picture in pictures)
    height = 2 * WIDTH / len(pictures) * aspect + 0.85  # the rest is words
    figure, panels = chart(WIDTH, height, 2, len(pictures), squeeze=False)
    figure.set_layout_engine("compressed")
    told = []
    for (whole, part), picture, answer in zip(
        panels.T, pictures, answers, strict=True
    ):
        draw_picture(whole, picture)
        draw_picture(part, picture)
        whole.axis("off")
        _, height, width = picture.shape
        (left, right), (top, bottom) = (
            (low * side - 0.5, high * side - 0.5)
            for (low, high), side in zip(PART, (width, height), strict=True)
        )
        frame = {"color": TINTS[PATCHES], "linewidth": 1.5}
        across, down = [left, right, right, left], [top, top, bottom, bottom]
        whole.fill(across, down, fill=False, **frame)
        look = {"color": TINTS[PATCHES], "linewidth": 0.8}
        for edge in range(PATCH, width, PATCH):
            part.axvline(edge - 0.5, **look)
        for edge in range(PATCH, height, PATCH):
            part.axhline(edge - 0.5, **look)
        part.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[])
        size = f"{height}{TIMES}{width} pixels"
        number = f"{height // PATCH * (width // PATCH)} patches"
        whole.set_title(f"{size}\n{number}", fontsize=11, color=PATCHES)
        below = {"ha": "center", "va": "top", "transform": part.transAxes}
        part.text(0.5, -0.04, answer, fontsize=11, weight="bold", **below)
        told.append(f"at {size}, {number}: {' '.join(answer.split())}")
    alt = (
        "One photograph in several sizes, and below each the same part of it, "
        "enlarged and cut into patches of 16 pixels: the larger the size, the "
        "less of the scene a patch covers. "
    )
    return figure, f"{alt}{'; '.join(told)}."


class Sizes:
    """What the page needs for a slider of sizes: a `div` with answers.

    `picture` is (3, side, side) in 0..1; the answers at a size are names and
    their probabilities, best first.
    """

    def __init__(
        self,
        picture: Tensor,
        answers: Mapping[int, Sequence[tuple[str, float]]],
    ) -> None:
        pixels = (255 * picture.permute(1, 2, 0)).round().byte().numpy()
        file = io.BytesIO()
        image = Image.fromarray(np.ascontiguousarray(pixels))
        image.save(file, "JPEG", quality=75)
        self.told = {
            "picture": base64.b64encode(file.getvalue()).decode(),
            "answers": {
                side: [[name, round(100 * share)] for name, share in said]
                for side, said in answers.items()
            },
        }

    def _repr_html_(self) -> str:
        told = json.dumps(self.told).replace('"', "&quot;")
        return f'<div class="try" data-part="sizes" data-told="{told}"></div>'

    def __repr__(self) -> str:
        return "(on the site, the size can be moved)"


def numbers(
    grids: Mapping[str, Tensor], which: Sequence[int], columns: int = 4
) -> "tuple[Figure, str]":
    """Some of a table's d channels as pictures; a table is (gh, gw, d).

    With one table its pictures fill rows of `columns`; with several, each has a
    row and its name. A picture is drawn over its own spread, since only the
    pattern matters: dark is low, bright is high. One table's pictures have
    their standard deviations below them.
    """
    alone = len(grids) == 1
    columns = columns if alone else len(which)
    rows = -(-len(which) // columns) if alone else len(grids)
    height = rows * (WIDTH / columns + (0.46 if alone else 0.22))
    figure, panels = chart(WIDTH, height, rows, columns, squeeze=False)
    places = iter(panels.flat)
    for row, (name, grid) in enumerate(grids.items()):
        for number in which:
            axes = next(places)
            axes.imshow(grid[..., number].detach().numpy(), cmap=MAP)
            axes.set(xticks=[], yticks=[])
            if alone or row == 0:
                axes.set_title(f"channel {number}", fontsize=11)
            if alone:
                spread = grid[..., number].std().item()
                axes.set_xlabel(f"std {spread:.2f}", fontsize=11)
        if not alone:
            panels[row, 0].set_ylabel(name, fontsize=11)
    listed = ", ".join(map(str, which))
    sizes = " and ".join(
        f"{g.shape[0]} by {g.shape[1]}" for g in grids.values()
    )
    alt = (
        f"The learned channels {listed} of the table of positions, each as a "
        f"picture of {sizes} places, dark for low and bright for high."
    )
    return figure, alt


def ways() -> "tuple[Figure, str]":
    """Three old places and five new ones: corner to corner, and cell by cell.

    Old places are dots above, new ones below, on the same ruler.
    """
    figure, axes = canvas(440, 356, opaque=True)
    _ruler(axes, 278, "corner to corner", "the authors, torchvision", False)
    _ruler(axes, 96, "cell by cell", "timm, Hugging Face, PyTorch", True)
    alt = (
        "Three old places above five new ones, twice. Corner to corner: the "
        "first and last new places are at the first and last old ones, and two "
        "of the others are halfway between. Cell by cell: three old cells and "
        "five narrower new ones span the same length, so the first new middle "
        "is left of the first old one."
    )
    return figure, alt


def _ruler(
    axes: "Axes", y: float, words: str, owners: str, is_cells: bool
) -> None:
    """Old dots at `y` and new ones below it, with lines from new to old."""
    left, right = 76, 424
    start = {"ha": "left", "va": "center_baseline"}
    heading = {"weight": "bold", **start}
    label(axes, (12, y + 56), words, POSITIONS, 12, **heading)
    label(axes, (432, y + 56), owners, DARK, 11, **{**start, "ha": "right"})
    for count, height, name, color in (
        (3, y, "old", STREAM),
        (5, y - 66, "new", POSITIONS),
    ):
        label(axes, (12, height), name, color, 12, **start)
        places = _places(count, left, right, is_cells)
        if is_cells:
            width = (right - left) / count
            for place in places:
                corner = (place - width / 2, height - 17)
                look = {"facecolor": TINTS[color], "edgecolor": color}
                rectangle(axes, corner, (width, 34), linewidth=1.2, **look)
        else:
            line(axes, [(left, height), (right, height)], color, 1.2)
        heights = [height] * count
        axes.plot(places, heights, "o", color=color, markersize=12, zorder=4)
    for place in _places(5, left, right, is_cells):
        ends = [(place, y - 66), (place, y)]
        line(axes, ends, POSITIONS, 1, dashed=True)


def _places(
    count: int, left: float, right: float, is_cells: bool
) -> list[float]:
    """`count` places between two ends: on them, or the middles of cells."""
    if is_cells:
        return [
            left + (right - left) * (place + 0.5) / count
            for place in range(count)
        ]
    return [
        left + (right - left) * place / (count - 1) for place in range(count)
    ]


def stages() -> "tuple[Figure, str]":
    """The way of a small table: lines, picture, larger picture, lines.

    From top to bottom; beside each arrow, the code that makes the step.
    """
    figure, axes = canvas(440, 590, opaque=True)
    _strip(axes, 568, HILL, 16)
    _step(
        axes,
        514,
        "token, table = pos_embed.split(...)",
        'P = rearrange(table, "1 (gh gw) d ...")',
    )
    _grid(axes, (156, 382), 28, HILL)
    rectangle(axes, (66, 411), (26, 26), color=CLASS, linewidth=0)
    label(axes, (79, 396), "stays", CLASS, 11)
    label(axes, (300, 424), r"$P$", POSITIONS, 17)
    _step(axes, 336, "larger = W_h @ P @ W_w.mT")
    _grid(axes, (128, 142), 28, LARGER_HILL)
    rectangle(axes, (66, 205), (26, 26), color=CLASS, linewidth=0)
    label(axes, (79, 190), "stays", CLASS, 11)
    label(axes, (358, 216), r"$W_h P W_w^{\mathsf{T}}$", POSITIONS, 17)
    _step(
        axes,
        92,
        'table = rearrange(larger, "d gh gw ...")',
        "torch.cat([token, table], dim=1)",
    )
    _strip(axes, 40, LARGER_HILL, 12)
    label(axes, (220, 14), "red: the row of the class token", CLASS, 11)
    alt = (
        "A table of positions on its way to a larger grid, drawn for 3 by 3 "
        "and 5 by 5 places. The class token's row is set aside, nine lines "
        "become a picture P, the picture is multiplied with a matrix from each "
        "side, its 25 places become lines again, and the class token's row, "
        "unchanged, goes in front."
    )
    return figure, alt


def _shade(value: int) -> str:
    """Orange for a value from 0 to 8, the higher the darker."""
    from matplotlib.colors import to_hex, to_rgb

    share = 0.15 + 0.85 * value / 8
    red, green, blue = (1 - share * (1 - part) for part in to_rgb(POSITIONS))
    return to_hex((red, green, blue))


def _strip(
    axes: "Axes", y: float, hill: Sequence[Sequence[int]], side: float
) -> None:
    """Class token and patches in a line, in the middle of the drawing."""
    values = [value for row in hill for value in row]
    colors = [CLASS, *map(_shade, values)]
    width = len(colors) * (side + 3) - 3
    squares(axes, (220 - width / 2, y - side / 2), side, colors)


def _grid(
    axes: "Axes",
    corner: Sequence[float],
    side: float,
    hill: Sequence[Sequence[int]],
) -> None:
    """The patches as a picture with their values, the first row on top."""
    rows = len(hill)
    for row, values in enumerate(hill):
        lower = corner[1] + (rows - 1 - row) * (side + 3)
        squares(axes, (corner[0], lower), side, [*map(_shade, values)])
        for column, value in enumerate(values):
            middle = corner[0] + column * (side + 3) + side / 2
            color = "white" if value > 4 else DARK
            look = {"va": "center_baseline", "zorder": 4}
            place = (middle, lower + side / 2)
            label(axes, place, str(value), color, 11, **look)


def _step(axes: "Axes", y: float, *code: str) -> None:
    """An arrow downwards, its middle at `y`, and its code to the right."""
    arrow(axes, (22, y + 22), (22, y - 22))
    for place, words in enumerate(code):
        height = y + 20 * ((len(code) - 1) / 2 - place)
        look = {"family": "monospace", "ha": "left", "va": "center"}
        label(axes, (40, height), words, DARK, 11.5, **look)


def where(
    pictures: Tensor,
    chances: Mapping[str, Tensor],
    marked: Mapping[str, tuple[slice, slice]],
) -> "tuple[Figure, str]":
    """Photographs, and beside each its patches' chance of some classes.

    The pictures are (n, 3, h, w) in 0..1, the chances (gh, gw) each, on one
    scale from 0 to `MUCH`. The rows and columns `marked` for a map have an
    outline, there and in its photograph.
    """
    rows, _, height, width = pictures.shape
    inches = rows * (WIDTH / 2 * height / width + 0.3) + 0.6
    figure, panels = chart(WIDTH, inches, rows, 2, squeeze=False)
    for axes in panels.flat:
        axes.axis("off")
    for (left, right), picture, (name, each) in zip(
        panels, pictures, chances.items(), strict=True
    ):
        draw_picture(left, picture)
        shown = right.imshow(each.numpy(), cmap=MAP, vmin=0, vmax=MUCH)
        right.set_title(name, fontsize=11)
        if name in marked:
            down, across = marked[name]
            for axes, side in (left, PATCH), (right, 1):
                corner = [part.start * side - 0.5 for part in (across, down)]
                size = [(p.stop - p.start) * side for p in (across, down)]
                look = {"facecolor": "none", "edgecolor": "white"}
                rectangle(axes, corner, size, linewidth=1.5, **look)
    bar = figure.colorbar(
        shown,
        ax=panels,
        extend="max",
        location="bottom",
        aspect=40,
        shrink=0.8,
    )
    ticks = [MUCH * quarter / 4 for quarter in range(5)]
    bar.set_ticks(ticks, labels=[f"{tick:.0%}" for tick in ticks])
    bar.set_label("probability of these names, added up", fontsize=11)
    listed = "; ".join(
        f"{name} (with an outline around some patches)"
        if name in marked
        else name
        for name in chances
    )
    return figure, f"Photographs and maps of their patches' answers: {listed}."


def curve(
    right: Mapping[int, int],
    costs: Mapping[int, float],
    errors: Mapping[int, float],
    trained: int,
) -> "tuple[Figure, str]":
    """Right answers of 1,000 over the side of the image, above its cost.

    `costs` are in multiples of the cost at the side `trained`; `errors` are the
    standard errors of the difference from it, 0 at `trained`. The band is two
    errors to each side of the count at `trained`: what is inside differs by too
    little.
    """
    sides = sorted(right)
    figure, (upper, lower) = chart(
        WIDTH, 4.5, 2, 1, sharex=True, height_ratios=(1.9, 1)
    )
    counts = [right[side] for side in sides]
    low = [right[trained] - 2 * errors[side] for side in sides]
    high = [right[trained] + 2 * errors[side] for side in sides]
    upper.fill_between(sides, low, high, color=TINTS[STREAM], linewidth=0)
    upper.plot(sides, counts, "o-", color=DARK, linewidth=2)
    for side in sides:
        point, words = (side, right[side]), str(right[side])
        look, offset = {"ha": "center", "va": "bottom"}, (0, 7)
        if side == sides[0]:
            look, offset = {"ha": "left", "va": "center"}, (9, -2)
        elif side == trained:
            look, offset = {"ha": "left", "va": "top"}, (5, -5)
        elif side > trained and right[side] < right[trained]:
            look, offset = {"ha": "right", "va": "top"}, (-3, -6)
        note(upper, words, point, offset, 11, color=DARK, **look)
    upper.axvline(trained, color=DARK, linewidth=1, linestyle="--", zorder=0)
    span = max(*counts, *high) - min(counts)
    bottom = min(counts) - 0.4 * span
    upper.set(ylim=(bottom, max(*counts, *high) + 0.45 * span))
    upper.set_ylabel("right of 1,000", fontsize=11)
    words = f"trained at {trained} pixels"
    note(upper, words, (trained, bottom), (7, 8), 11, color=DARK)
    words = f"grey: within 2 standard\nerrors of {trained}"
    look = {"ha": "right", "va": "bottom", "color": DARK}
    note(upper, words, (sides[-1], max(high)), (0, 8), 11, **look)
    multiples = [costs[side] for side in sides]
    lower.bar(sides, multiples, width=18, color=STREAM)
    for side in sides:
        look = {"ha": "center", "color": DARK}
        words = f"{costs[side]:.1f}"
        note(lower, words, (side, costs[side]), (0, 3), 11, **look)
    lower.set(ylim=(0, 1.25 * max(multiples)))
    lower.set_ylabel(f"cost ({trained} = 1)", fontsize=11)
    lower.set_xlabel("side of the image (pixels)", fontsize=11)
    lower.set_xlim(sides[0] - 22, sides[-1] + 30)
    lower.set_xticks(sides, [str(side) for side in sides], fontsize=11)
    for axes in (upper, lower):
        bare(axes)
    told = "; ".join(
        f"{side} pixels {right[side]} at {costs[side]:.1f} times the cost"
        for side in sides
    )
    outside = [
        str(side)
        for side in sides
        if abs(right[side] - right[trained]) > 2 * errors[side]
    ]
    alt = (
        f"Right answers of 1,000 by the side of the image: {told}. More than "
        f"two standard errors from {trained} pixels: {', '.join(outside)}."
    )
    return figure, alt


def practice(
    found: Mapping[tuple[int, int], Sequence[float]],
) -> "tuple[Figure, str]":
    """Right answers in percent, a dot a seed, and their mean as a bar.

    Keys are the sides that a network was fine-tuned at and then tested at.
    """
    figure, axes = chart(WIDTH, 2.9)
    listed, ticks = [], []
    for row, ((learned, tested), seeds) in enumerate(found.items()):
        mean = sum(seeds) / len(seeds)
        look = {"color": STREAM, "linewidth": 4}
        axes.plot([mean] * 2, [row - 0.3, row + 0.3], **look)
        dots = {"s": 26, "color": DARK, "zorder": 3, "linewidths": 0}
        heights = [row + 0.16 * (i - 1) for i in range(len(seeds))]
        axes.scatter(seeds, heights, **dots)
        look = {"ha": "left", "va": "center", "color": DARK}
        words, point = f"{mean:.1f}%", (max(*seeds, mean), row)
        if row == 0:
            words = f"mean {words}"
        if learned != tested:
            words += f", no practice at {tested}"
        note(axes, words, point, (9, 0), 12, **look)
        ticks.append(f"fine-tuned at {learned},\ntested at {tested}")
        listed.append(
            f"trained at {learned} pixels and tested at {tested} {mean:.1f} "
            f"({', '.join(f'{seed:.1f}' for seed in seeds)})"
        )
    axes.set_yticks(range(len(found)), ticks, fontsize=11)
    axes.set_ylim(len(found) - 0.5, -0.5)
    everything = [each for seeds in found.values() for each in seeds]
    low, high = min(everything), max(everything)
    axes.set_xlim(low - 0.8, high + 0.25 * (high - low) + 1.6)
    axes.set_xlabel("right of 431 photographs (%)", fontsize=11)
    bare(axes)
    return figure, f"Right answers in percent, by seed: {'; '.join(listed)}."
