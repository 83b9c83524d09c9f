"""Chapter 2: a soft dictionary, the root, the layer, maps over a photograph."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import ATTENTION, DARK, MAP, STREAM, TINTS
from vitedu.figures.photos import draw_picture, frame_patch
from vitedu.figures.schematic import (
    arrow,
    box,
    canvas,
    label,
    line,
    rectangle,
    squares,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy import ndarray

# steps of the layer, (5) to (8), each in its own green; white is legible on all
GREENS = ("#1d7a72", "#2b7d43", "#4c7a1e", "#35684c")
LIGHTER = ("#8cc9c3", "#95cfa6", "#b7d68f", "#84b398")  # for the second head
MOST = 0.06  # share of attention from which on a map is as bright as can be
GHOST = 0.55  # of the photograph, where a map over it is dark
LIT = 0.1  # of the photograph, where a map over it is bright
GREYS = 8  # of the photograph below a map: few keep the PNG small


def answers(
    directions: Tensor,
    lines: Mapping[str, Tensor],
    entries: Mapping[float, float],
) -> "tuple[Figure, str]":
    """What a soft dictionary answers (m,) to queries in `directions` (degrees).

    `entries` are the dictionary's own keys and values; at most three lines.
    """
    figure, axes = chart(WIDTH, 3.2)
    looks = ((GREENS[0], ":"), (ATTENTION, "--"), (DARK, "-"))
    for (name, each), (color, dash) in zip(lines.items(), looks, strict=False):
        axes.plot(
            directions.numpy(), each.numpy(), dash, color=color, label=name
        )
    values = list(entries.values())
    axes.plot(list(entries), values, "o", color=DARK, label="entries")
    axes.set(
        ylabel="answer in °C",
        yticks=sorted(set(values)),
        xticks=(0, 90, 180, 270, 360),
        xticklabels=("north", "east", "south", "west", "north"),
        xlabel="where the query points",
    )
    axes.legend(fontsize=10, loc="upper right")
    axes.tick_params(labelsize=11)
    ranges = ", ".join(
        f"{name} from {each.min():.0f} to {each.max():.0f}"
        for name, each in lines.items()
    )
    alt = (
        "The answer against the direction of the query: a gentle wave for a "
        "short query, which turns into a staircase through the four entries as "
        f"the query gets longer. In °C: {ranges}."
    )
    return figure, alt


def triangle(tokens: Tensor, outputs: Tensor) -> "tuple[Figure, str]":
    """Three tokens (3, 2) in the plane, and where attention moves each."""
    figure, axes = chart(3.4, 3.0)
    corners = torch.cat([tokens, tokens[:1]])
    axes.fill(*corners.T.numpy(), facecolor=TINTS[ATTENTION], edgecolor="0.6")
    offsets = ((0, -13), (-13, 0), (13, 13))
    moves = zip(tokens.tolist(), outputs.tolist(), offsets, strict=True)
    for number, (start, end, offset) in enumerate(moves, start=1):
        arrow(axes, start, end, ATTENTION, 2)
        axes.plot(*start, "o", color=DARK, markersize=8)
        axes.plot(*end, "s", color=ATTENTION, markersize=8)
        name = rf"$\mathbf{{x}}_{number}$"
        note(axes, name, start, offset, 14, ha="center", va="center")
    axes.set(xlim=(-0.2, 1.25), ylim=(-0.2, 1.25), aspect="equal")
    axes.set(xticks=(0, 1), yticks=(0, 1))
    axes.set(xlabel="first number", ylabel="second number")
    places = "; ".join(
        f"x{number} to ({x:.2f}, {y:.2f})"
        for number, (x, y) in enumerate(outputs.tolist(), start=1)
    )
    alt = f"A triangle of three tokens; attention moves each inwards: {places}."
    return figure, alt


def steepness(gaps: Mapping[str, float]) -> "tuple[Figure, str]":
    """The share of the better of two keys by the gap between their scores.

    `gaps` are names to gaps: each is marked, with its slope as a short line.
    """
    figure, axes = chart(WIDTH, 3.2)
    gap = torch.linspace(0, 12, 241)
    axes.plot(gap.numpy(), gap.sigmoid().numpy(), color=DARK)
    slopes = []
    colors = (ATTENTION, STREAM)
    for (name, place), color in zip(gaps.items(), colors, strict=False):
        weight = torch.tensor(place).sigmoid().item()
        slope = weight * (1 - weight)
        slopes.append(f"{name} {_one_digit(slope)}")
        reach = 0.9 / math.hypot(1, 12 * slope)
        across = (place - reach, place + reach)
        up = (weight - slope * reach, weight + slope * reach)
        axes.plot(across, up, color=color, linewidth=5, solid_capstyle="round")
        axes.plot(place, weight, "o", color="white", markeredgecolor=DARK)
        words = f"{name}\nslope {_one_digit(slope)}"
        note(axes, words, (place, weight), (18, -14), color=color, va="top")
    axes.set(ylim=(0.45, 1.05), xlim=(0, 12))
    axes.set(xlabel="how far apart two scores are")
    axes.set_ylabel("share of the better key")
    axes.tick_params(labelsize=11)
    alt = (
        "The share of the better of two keys against the gap between their "
        "scores: it rises from a half and is flat beyond a gap of 6. Slopes at "
        f"two marks: {', '.join(slopes)}."
    )
    return figure, alt


def puzzle(picture: Tensor, asks: int, twin: int) -> "tuple[Figure, str]":
    """Glyphs (3, 32, 32) in 0..1; the patch that asks is framed, and its twin.

    Patches of 8 x 8 pixels are numbered row by row.
    """
    figure, axes = chart(3.2, 3.2)
    draw_picture(axes, picture)
    axes.axis("off")
    _frame_twins(axes, asks, twin)
    alt = (
        "Sixteen patches with coloured glyphs, such as crosses, rings and "
        "letters. Every glyph is there twice, in two colours. One patch is "
        "framed, and its twin has a dashed frame."
    )
    return figure, alt


def _frame_twins(axes: "Axes", asks: int, twin: int) -> None:
    """A frame around a patch of 8 x 8 pixels, a dashed one around its twin."""
    for number, style in ((asks, "-"), (twin, (0, (2, 1.5)))):
        row, column = divmod(number, 4)
        corner = (8 * column + 0.2, 8 * row + 0.2)  # within the picture's edge
        frame = {"fill": False, "ec": "white", "lw": 2.5, "ls": style}
        rectangle(axes, corner, (6.6, 6.6), **frame)


def learned(
    picture: Tensor, asks: int, twin: int, frames: Mapping[str, Tensor]
) -> "tuple[Figure, str]":
    """The puzzle and its maps (16, 16) while they are learned, on one scale.

    Triangles mark the row of the patch that `asks` and the column of its twin,
    a dotted line what patches give themselves.
    """
    figure, grid = chart(WIDTH, 4.9, 2, 3)
    first, *others = grid.flat
    draw_picture(first, picture)
    first.set_title("the puzzle", fontsize=11)
    first.axis("off")
    _frame_twins(first, asks, twin)
    for axes, (name, each) in zip(others, frames.items(), strict=True):
        shown = axes.imshow(each.numpy(), cmap=MAP, vmin=0, vmax=1)
        axes.set_title(name, fontsize=11, pad=13)
        axes.plot((-0.5, 15.5), (-0.5, 15.5), ":", color="white", lw=1)
        axes.plot(-1.1, asks, ">", color=DARK, clip_on=False, markersize=6)
        axes.plot(twin, -1.1, "v", color=DARK, clip_on=False, markersize=6)
        axes.set(xticks=[], yticks=[], xlim=(-0.5, 15.5), ylim=(15.5, -0.5))
    look = {"color": "white", "fontsize": 10, "rotation": -45}
    others[0].text(9, 6.2, "itself", ha="center", va="center", **look)
    for axes in (others[0], others[2]):
        axes.set_ylabel("asks", fontsize=11, labelpad=10)
    for axes in others[2:]:
        axes.set_xlabel("answers", fontsize=11)
    figure.colorbar(
        shown,
        ax=grid,
        location="bottom",
        aspect=40,
        shrink=0.8,
        label="share of attention",
    )
    alt = (
        "The puzzle, and five maps of 16 by 16 shares. At first all shares are "
        "alike. At step 40 most rows have a bright square, and some squares on "
        "the diagonal glow. After 300 steps the map equals the right one."
    )
    return figure, alt


def layer() -> "tuple[Figure, str]":
    """Equations (5) to (8), a colour a step: symbol, box, code, matrices.

    Four tokens of six numbers, two heads.
    """
    figure, axes = canvas(440, 824)
    left, middle, wide = 22, 205, 366
    # where the values pass by the boxes
    bypass = 420
    split = (
        r"$[\mathbf{q}, \mathbf{k}, \mathbf{v}] = \mathbf{z}\,\mathbf{U}_{qkv}$"
    )
    share = r"$A = \mathrm{softmax}(\mathbf{q}\mathbf{k}^\top / \sqrt{D_h}\,)$"
    join = r"$\mathrm{MSA} = [\mathrm{SA}_1; \mathrm{SA}_2]\,\mathbf{U}_{msa}$"
    steps = (
        # (y, symbols, code)
        (690, f"{split}   (5)", "q, k, v = rearrange(self.qkv(x), parts)"),
        (
            508,
            f"{share}   (6)",
            "scores = q @ k.mT / sqrt(hd)\nweights = scores.softmax(dim=-1)",
        ),
        (316, r"$\mathrm{SA} = A\,\mathbf{v}$   (7)", "weights @ v"),
        (152, f"{join}   (8)", "self.proj(rearrange(values, ...))"),
    )
    for (y, symbols, code), color in zip(steps, GREENS, strict=True):
        x, breaks = left + wide / 2, code.count("\n")
        box(axes, (x, y), (wide, 62 + 16 * breaks), "", color)
        above, below = (x, y + 13 + 4 * breaks), (x, y - 15 - 2 * breaks)
        label(axes, above, symbols, "white", 13.5, zorder=5)
        label(axes, below, code, "white", 10.5, zorder=5, family="monospace")
    # z, then q, k, v: four rows of six numbers, three a head
    _cells(axes, (middle - 41, 752), [STREAM] * 6)
    label(axes, (middle - 62, 774), r"$\mathbf{z}$", fontsize=15)
    label(axes, (middle + 50, 774), "4 tokens, one per row", ha="left")
    arrow(axes, (middle, 748), (middle, 724))
    for name, place in (("q", 62), ("k", 190), ("v", 318)):
        _cells(axes, (place, 560), [GREENS[0]] * 3 + [LIGHTER[0]] * 3)
        label(axes, (place - 15, 582), rf"$\mathbf{{{name}}}$", fontsize=15)
        for words, across in (("1", 19), ("2", 63), ("head", -11)):
            label(axes, (place + across, 628), words, fontsize=11)
        arrow(axes, (place + 41, 657), (place + 41, 637))
        if name != "v":
            arrow(axes, (place + 41, 558), (place + 41, 547))
    line(axes, [(402, 582), (bypass, 582), (bypass, 316)])
    arrow(axes, (bypass, 316), (left + wide + 2, 316))
    # A of each head, four rows of four
    _cells(axes, (122, 388), [GREENS[1]] * 4)
    _cells(axes, (234, 388), [LIGHTER[1]] * 4)
    label(axes, (102, 410), "$A$", fontsize=15)
    label(axes, (290, 410), r"4 $\times$ 4", ha="left")
    for place, name in ((149, "head 1"), (261, "head 2")):
        arrow(axes, (place, 466), (place, 441))
        arrow(axes, (place, 384), (place, 350))
        label(axes, (place + 10, 366), name, ha="left")
    # what the heads return, side by side
    _cells(axes, (129, 205), [GREENS[2]] * 3)
    _cells(axes, (241, 205), [LIGHTER[2]] * 3)
    for place, end in ((149, 185), (261, 225)):
        arrow(axes, (place, 283), (place, 261))
        arrow(axes, (place, 202), (end, 184))
    arrow(axes, (middle, 120), (middle, 92))
    _cells(axes, (middle - 41, 40), [GREENS[3]] * 6)
    label(axes, (middle, 20), "4 new tokens, one per row")
    alt = (
        "The layer from top to bottom, each step with its equation and its "
        "line of code in one green. Tokens z times U_qkv give q, k and v, each "
        "cut into two heads; q and k give one matrix A per head; A mixes the "
        "rows of v, which pass by at the side; what the 2 heads return is "
        "joined and multiplied by U_msa."
    )
    return figure, alt


def moved(
    panels: Mapping[str, Tensor], changed: tuple[int, int]
) -> "tuple[Figure, str]":
    """Booleans (b, t): which outputs change with one picture's token."""
    from matplotlib.patches import Patch

    figure, grid = chart(WIDTH, 3.3, len(panels), 1, squeeze=False)
    figure.get_layout_engine().set(h_pad=0.06)
    listed = []
    for axes, (title, each) in zip(grid.flat, panels.items(), strict=True):
        shown = axes.imshow(each.numpy(), cmap=MAP, vmin=0, vmax=1)
        axes.set_title(title, fontsize=12)
        axes.set_ylabel("picture", fontsize=11)
        rows, tokens = each.shape
        columns = range(0, tokens, 5)
        axes.set_xticks(columns, [column + 1 for column in columns])
        axes.set_yticks(range(rows), range(1, rows + 1))
        between = [row + 0.5 for row in range(rows - 1)]
        axes.hlines(between, -0.5, tokens - 0.5, color="white")
        frame_patch(axes, changed, 1)
        pictures = int(each.any(dim=1).sum())
        listed.append(
            f"{title}: {int(each.sum())} tokens, in {pictures} "
            + ("pictures" if pictures > 1 else "picture")
        )
    axes.set_xlabel("token (the framed one is changed)", fontsize=11)
    figure.legend(
        handles=[
            Patch(facecolor=shown.cmap(share), edgecolor=DARK, label=name)
            for name, share in (("changes", 1.0), ("stays", 0.0))
        ],
        loc="outside lower center",
        ncols=2,
        fontsize=11,
    )
    alt = (
        "Two tables, a picture a row and a token a column, with the outputs "
        f"that change. {'; '.join(listed)}."
    )
    return figure, alt


def named(
    picture: Tensor, places: Mapping[str, tuple[int, int]], patch_size: int
) -> "tuple[Figure, str]":
    """A picture (3, h, w) in 0..1; patches (row, column) framed and named."""
    from matplotlib.patheffects import withStroke

    figure, axes = chart(3.2, 3.2)
    draw_picture(axes, picture)
    axes.axis("off")
    for name, (row, column) in places.items():
        frame_patch(axes, (row, column), patch_size)
        axes.text(
            (column + 1.4) * patch_size,
            (row + 0.5) * patch_size,
            name,
            color="white",
            fontsize=13,
            weight="bold",
            va="center_baseline",
            path_effects=[withStroke(linewidth=2.5, foreground="black")],
        )
    listed = ", ".join(
        f"the {name} at row {row}, column {column}"
        for name, (row, column) in places.items()
    )
    return figure, f"The photograph with frames around two patches: {listed}."


def heads(
    picture: Tensor,
    maps: Mapping[str, tuple[Tensor, tuple[int, int]]],
    alt: str,
    across: int = 1,
) -> "tuple[Figure, str]":
    """What a patch looks at, head by head, over a photograph (3, h, w).

    `maps` is name to (maps (heads, gh, gw), row and column of the patch that
    asks). A name fills a row, or `across` names share one. All are on one
    scale.
    """
    many = len(next(iter(maps.values()))[0])
    columns, lines = many * across, math.ceil(len(maps) / across)
    side = (WIDTH - 0.3) / columns
    height = lines * (side + 0.06 + 0.2 * (across > 1)) + 1.0
    figure, grid = chart(WIDTH, height, lines, columns, squeeze=False)
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02)
    ghost = F.avg_pool2d(picture.mean(dim=0)[None], 2)[0]  # (h / 2, w / 2)
    for number, (name, (each, place)) in enumerate(maps.items()):
        row, column = divmod(number, across)
        for head, shares in enumerate(each):
            axes = grid[row, column * many + head]
            axes.imshow(_over(ghost, shares / MOST), interpolation="nearest")
            patch_side = len(ghost) / len(shares)
            frame_patch(axes, place, patch_side, [("white", 1.2)])
            axes.set(xticks=[], yticks=[])
            bare(axes, "top", "right", "bottom", "left")
            if across > 1:
                axes.set_title(f"{name}.{head + 1}", fontsize=11, pad=3)
            elif not row:
                axes.set_title(f"head {head + 1}", fontsize=12)
            if across == 1 and not head:
                axes.set_ylabel(name, fontsize=12)
    for axes in grid.flat[many * len(maps) :]:
        axes.axis("off")
    _scale(figure, grid)
    return figure, alt


def _scale(figure: "Figure", grid: "ndarray") -> None:
    """The colours of shares up to `MOST`, in percent, below some axes."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    bar = figure.colorbar(
        ScalarMappable(Normalize(0, MOST), MAP),
        ax=grid,
        location="bottom",
        pad=0.02,
        ticks=(0, MOST / 2, MOST),
        format=lambda tick, _: "≥ " * int(tick == MOST) + f"{100 * tick:g}%",
        aspect=40,
        shrink=0.8,
    )
    bar.ax.tick_params(labelsize=11)
    bar.set_label("share of attention", fontsize=11)


def _over(ghost: Tensor, shares: Tensor) -> "ndarray":
    """Colours (h, w, 3) of a map (gh, gw) over a grey picture (h, w).

    A share of 1 or more is as bright as can be.
    """
    from matplotlib import colormaps

    pixels = len(ghost) // len(shares)  # of a patch
    bright = shares.clamp(max=1)
    bright = bright.repeat_interleave(pixels, 0).repeat_interleave(pixels, 1)
    color = torch.tensor(colormaps[MAP](bright.numpy())[..., :3])
    through = (LIT + (GHOST - LIT) * (1 - bright) ** 6)[..., None]
    lighter = ghost.clamp(min=0).sqrt()[..., None]  # dark cloth has folds, too
    grey = (lighter * GREYS).round() / GREYS  # rounded here: colours stay MAP's
    return ((1 - through) * color + through * grey).numpy()


def _cells(
    axes: "Axes", corner: tuple[float, float], colors: Sequence[str]
) -> None:
    """Four rows of small squares, a colour a column."""
    squares(axes, corner, 11, list(colors) * 4, columns=len(colors))


def _one_digit(number: float) -> str:
    """A number with one digit that is not 0: 0.2, 0.0005."""
    digits = max(1, -math.floor(math.log10(number)))
    return f"{number:.{digits}f}"
