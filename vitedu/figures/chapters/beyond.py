"""Chapter 20: outlines, components, boxes, and counted cells."""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import ATTENTION, CLASS, DARK, MAP, PALE, PATCHES
from vitedu.figures.photos import draw_picture, frame_patch
from vitedu.figures.schematic import rectangle
from vitedu.interpret.tokens import giants

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# red cells, white cells, platelets: their colour and width of line
LOOKS = ((CLASS, 1.4), (ATTENTION, 2.4), (PATCHES, 2.0))
KIN_SIZES = 24  # numbers of a token that the page is sent
KIN_SIDE = 256  # pixels of its picture
OUTLINES = PATCHES, CLASS, ATTENTION  # of named patches, in this order
LINES = ((10, PALE, "o"), (40, PATCHES, "s"), (1000, CLASS, "^"))


def _grid(rows: int, columns: int, more: float = 0.0) -> "tuple[Any, Any]":
    size = WIDTH, rows * (WIDTH / columns + more)
    figure, grid = chart(*size, rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    return figure, grid


def _outline(
    axes: Any, mask: Tensor, looks: Sequence[tuple[str, float]]
) -> None:
    """Lines round what is above one half: (colour, width), one on another."""
    for color, width in looks:
        look = {"colors": color, "linewidths": width}
        axes.contour(mask.float().numpy(), levels=[0.5], **look)


def outlines(
    pictures: Tensor, drawn: Tensor, true: Tensor, iou: float
) -> "tuple[Figure, str]":
    """Pictures (b, 3, h, w) in 0..1, and masks (b, h, w) as outlines.

    The `true` ones are black, and below.
    """
    figure, grid = _grid(2, (len(pictures) + 1) // 2)
    for axes, picture, mask, truth in zip(
        grid.flat, pictures, drawn, true, strict=False
    ):
        draw_picture(axes, picture)
        _outline(axes, truth, [("0.6", 2.4), ("black", 1.2)])
        _outline(axes, mask, [("white", 2.0)])
    alt = (
        f"{len(pictures)} new drawn pictures, each with one shape on textured "
        f"ground, the outline that was found round it, and the true one: mean "
        f"IoU {iou:.0f}%."
    )
    return figure, alt


def patches_of(picture: Tensor, shares: Tensor) -> "tuple[Figure, str]":
    """A picture (3, h, w) beside the share (gh, gw) of each patch."""
    figure, grid = _grid(1, 2)
    left, right = grid.flat
    draw_picture(left, picture)
    side = picture.shape[1] // len(shares)
    for edge in range(side, picture.shape[1], side):
        left.axvline(edge - 0.5, color="white", linewidth=0.5)
        left.axhline(edge - 0.5, color="white", linewidth=0.5)
    right.imshow(shares.numpy(), cmap=MAP, vmin=0, vmax=1)
    part = ((shares > 0) & (shares < 1)).sum().item()
    alt = (
        f"A drawn picture in {shares.numel()} patches, and how much of each "
        f"the shape covers: {int((shares == 1).sum())} patches wholly, {part} "
        f"in part, the others not at all."
    )
    return figure, alt


def by_block(
    iou: Mapping[str, Mapping[str, Any]], guess: float
) -> "tuple[Figure, str]":
    """IoU by block for a few numbers of pictures; every seed is a pale dot.

    `guess` is the IoU of calling everything shape.
    """
    figure, axes = chart(WIDTH, 3.5)
    listed = []
    for count, color, marker in LINES:
        found = [iou[f"iou/{block}/{count}"] for block in range(1, 13)]
        values = [each["value"] for each in found]
        look = {"color": color, "linewidth": 2, "markersize": 5}
        words = f"{count:,} pictures"
        axes.plot(range(1, 13), values, marker=marker, label=words, **look)
        for block, each in enumerate(found, 1):
            dots = {"s": 8, "color": color, "alpha": 0.45, "linewidths": 0}
            axes.scatter(
                [block] * len(each["per_seed"]), each["per_seed"], **dots
            )
        best = values.index(max(values)) + 1
        listed.append(
            f"from {count:,} pictures {values[0]:.0f}% after block 1, at best "
            f"{max(values):.0f}% after block {best}, {values[-1]:.0f}% after "
            "block 12"
        )
    axes.axhline(guess, color="0.6", linestyle="--", linewidth=1)
    note(axes, "all is shape", (12, guess), (0, 4), 10, ha="right")
    axes.set(xlabel="tokens after block", ylabel="IoU on new pictures (%)")
    axes.set(xticks=range(1, 13), xlim=(0.6, 12.4), ylim=(10, 90))
    lines, names = axes.get_legend_handles_labels()
    look = {"frameon": False, "fontsize": 11, "loc": (0.45, 0.27)}
    axes.legend(lines[::-1], names[::-1], **look)
    bare(axes)
    return figure, f"IoU on new pictures: {'; '.join(listed)}."


def first_component(picture: Tensor, values: Tensor) -> "tuple[Figure, str]":
    """A photograph (3, h, w), and its first component (gh, gw).

    The four corners of 4 by 4 patches have frames.
    """
    figure, grid = _grid(1, 2)
    left, right = grid.flat
    draw_picture(left, picture)
    right.imshow(values.numpy(), cmap=MAP)
    far_end = len(values) - 4.5
    for at in product((-0.5, far_end), repeat=2):
        look = {"fill": False, "ec": CLASS, "lw": 2.5, "clip_on": False}
        rectangle(right, at, (4, 4), **look)
    far = (values - values.median()).abs()
    marked = (far > far.max() / 3).nonzero().tolist()
    ends = (0, 1, len(values) - 2, len(values) - 1)
    edge = [row in ends and column in ends for row, column in marked]
    alt = (
        "A photograph, and one number for each of its patches: all patches are "
        f"alike but for {len(marked)}, "
        f"{'all' if all(edge) else 'most'} of them in the corners."
    )
    return figure, alt


def colours(
    pictures: Mapping[str, Tensor], maps: Sequence[Tensor]
) -> "tuple[Figure, str]":
    """Photographs (3, h, w) over their components (gh, gw, 3)."""
    figure, grid = _grid(2, len(pictures))
    for axes, below, picture, colors in zip(
        *grid, pictures.values(), maps, strict=True
    ):
        draw_picture(axes, picture)
        below.imshow((colors * 15).round().numpy() / 15)
    alt = (
        f"Photographs ({', '.join(pictures)}), and with each its patches as "
        "colours: patches that show the same thing have nearly one colour."
    )
    return figure, alt


def pointed(
    picture: Tensor,
    patches: Mapping[str, tuple[int, int]],
    maps: Sequence[Tensor],
) -> "tuple[Figure, str]":
    """A photograph (3, h, w), outlined where it is like named patches.

    `maps` (gh, gw) say how similar.
    """
    figure, grid = _grid(1, 1)
    axes = grid[0, 0]
    draw_picture(axes, picture)
    shares = []
    for color, (name, patch), each in zip(
        OUTLINES, patches.items(), maps, strict=False
    ):
        size = tuple(picture.shape[1:])
        fine = F.interpolate(each[None, None], size=size, mode="bilinear")[0, 0]
        _outline(axes, fine, [("white", 5.5), (color, 3)])
        side = picture.shape[1] / len(each)
        frame_patch(axes, patch, side, (("white", 5.5), (color, 3)))
        shares.append(f"{name} {(each > 0.5).double().mean().item():.0%}")
    alt = (
        f"A photograph with {len(patches)} framed patches, and outlines of "
        f"what is like them: {', '.join(shares)} of the patches."
    )
    return figure, alt


class Kin:
    """What the page needs to show a patch's kin: a `div` with numbers.

    `photographs` are, by name, a picture (3, h, w) in 0..1 and unit vectors
    (gh, gw, d), which are sent as their KIN_SIZES largest components.
    """

    def __init__(
        self, photographs: Mapping[str, tuple[Tensor, Tensor]]
    ) -> None:
        self.told = {name: _told(*x) for name, x in photographs.items()}

    def _repr_html_(self) -> str:
        told = json.dumps(self.told).replace('"', "&quot;")
        return f'<div class="try" data-part="kin" data-told="{told}"></div>'

    def __repr__(self) -> str:
        return "(on the site, the photographs can be clicked)"


def unit_tokens(tokens: Tensor) -> Tensor:
    """Tokens (n, d) less the mean of the usual ones, at length 1.

    As `interpret.similar_to` compares them.
    """
    usual = ~giants(tokens[None])[0]
    unit = F.normalize(tokens, dim=-1)
    return F.normalize(unit - unit[usual].mean(dim=0), dim=-1)


def _told(picture: Tensor, unit: Tensor) -> dict[str, Any]:
    rows, columns, _ = unit.shape
    flat = unit.flatten(0, 1).double()
    axes = torch.linalg.svd(flat, full_matrices=False).Vh[:KIN_SIZES]
    short = F.normalize(flat @ axes.T, dim=1)
    numbers = (127 * short).round().to(torch.int8).numpy()
    pixels = (255 * picture.permute(1, 2, 0)).round().byte().numpy()
    small = Image.fromarray(np.ascontiguousarray(pixels))
    file = io.BytesIO()
    small.resize((KIN_SIDE, KIN_SIDE)).save(file, "JPEG", quality=75)
    return {
        "grid": [rows, columns],
        "tokens": base64.b64encode(numpy_bytes(numbers)).decode(),
        "picture": base64.b64encode(file.getvalue()).decode(),
    }


def numpy_bytes(numbers: Any) -> bytes:
    return np.ascontiguousarray(numbers).tobytes()


def cells(
    picture: Tensor,
    boxes: Sequence[Tensor],
    names: Sequence[str],
    what: str,
    right: Sequence[Tensor] | None = None,
    missed: Sequence[Tensor] = (),
) -> "tuple[Figure, str]":
    """A picture (3, h, w) with the boxes (n, 4) of each class.

    Those that aren't `right`, (n,) of bool for each class, are dashed, and true
    ones that nobody found, `missed`, dotted.
    """
    height, width = picture.shape[1:]
    more = 0.4 if right is None else 0.8
    figure, axes = chart(WIDTH, WIDTH * height / width + more)
    axes.axis("off")
    draw_picture(axes, picture)
    thin = 0.4 if sum(map(len, boxes)) > 100 else 1.0
    for k, (name, some) in enumerate(zip(names, boxes, strict=True)):
        color, width = LOOKS[k]
        look = {"transform": axes.transAxes, "color": color}
        for number, (x, y, x2, y2) in enumerate(some.tolist()):
            box = {"fill": False, "ec": color, "lw": thin * width}
            if right is not None and not right[k][number]:
                box |= {"ls": (0, (8, 3)), "lw": 0.8 * width}
            rectangle(axes, (x, y), (x2 - x, y2 - y), **box)
        words = f"{name} {len(some)}"
        axes.text(
            0.02 + 0.34 * k, -0.07, words, fontsize=12, weight="bold", **look
        )
    for (color, _), some in zip(LOOKS, missed, strict=False):
        for x, y, x2, y2 in some.tolist():
            box = {"fill": False, "ec": color, "lw": 2, "ls": (0, (1, 2.5))}
            rectangle(axes, (x, y), (x2 - x, y2 - y), **box)
    if right is not None:
        words = "dashed: fits no true box   dotted: missed"
        axes.set_anchor("N")  # room for the words
        figure.text(0.02, 0.02, words, fontsize=11)
    counted = ", ".join(
        f"{len(some)} {name}"
        + (f" ({int(right[k].sum())} right)" if right is not None else "")
        for k, (name, some) in enumerate(zip(names, boxes, strict=True))
    )
    lost = sum(map(len, missed))
    dashed = "" if right is None else f" Wrong ones are dashed; {lost} missed."
    return (
        figure,
        f"A microscope picture of blood with boxes, {what}: {counted}.{dashed}",
    )


def counted(
    pairs: Sequence[Sequence[Sequence[int]]],
    always: Sequence[float],
    names: Sequence[str],
) -> "tuple[Figure, str]":
    """Cells counted and true, (pictures, classes) each.

    A dot is as large as there are pictures with these two numbers. The rival,
    who `always` gives the same number, is a dashed line.
    """
    found, true = (torch.tensor(each) for each in pairs)
    figure, grid = chart(WIDTH, 2.3, 1, len(names))
    listed = []
    for k, (axes, name) in enumerate(zip(grid, names, strict=True)):
        both = torch.stack([true[:, k], found[:, k]], dim=1)
        places, times = both.unique(dim=0, return_counts=True)
        most = int(both.max()) + 1
        axes.plot([0, most], [0, most], color=DARK, linewidth=1)
        axes.axhline(always[k], color="0.5", linestyle="--", linewidth=1)
        look = {"color": LOOKS[k][0], "alpha": 0.6, "lw": 0, "zorder": 3}
        axes.scatter(*places.T, s=7 * times + 5, **look)
        axes.set_title(name, fontsize=11)
        axes.set(xlim=(-0.6, most + 0.6), ylim=(-0.6, most + 0.6))
        step = 5 if most > 10 else 1
        ticks = range(0, most + 1, step)
        axes.set(xticks=ticks, yticks=ticks, aspect="equal")
        axes.set_xlabel("true", fontsize=11)
        bare(axes)
        off = (found[:, k] - true[:, k]).double().abs().mean().item()
        listed.append(f"{name} {off:.1f}")
    grid[0].set_ylabel("counted by the MLP", fontsize=11)
    note(grid[0], "rival", (0, always[0]), (2, 3))
    alt = (
        f"Cells counted in {len(found)} pictures against the true numbers, a "
        f"panel for each kind with its diagonal. "
        f"Off by, per picture: {', '.join(listed)}."
    )
    return figure, alt
