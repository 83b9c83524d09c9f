"""Drawings of the chapter on attention: a soft dictionary, the root, the layer.

`figures.show(*layer())` in a notebook; every function returns a figure and alt text.
What a patch looks at in a photograph is drawn by `vitedu.figures.photos`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vitedu.figures.palette import ATTENTION, MAP, STREAM, TINTS
from vitedu.figures.photos import WIDTH, frame_patch
from vitedu.figures.schematic import (
    DARK,
    GREY,
    arrow,
    box,
    chart,
    figure,
    label,
    line,
    squares,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# steps of the layer, (5) to (8), each in its own green; white is legible on all
GREENS = ("#1d7a72", "#2b7d43", "#4c7a1e", "#35684c")
LIGHTER = ("#8cc9c3", "#95cfa6", "#b7d68f", "#84b398")  # for the second head


def answers(
    directions: Tensor,
    lines: Mapping[str, Tensor],
    entries: Mapping[float, float],
) -> "tuple[Figure, str]":
    """What a soft dictionary answers (m,) to queries in these directions, in degrees.

    `entries` are the dictionary's own keys and values; at most three lines.
    """
    drawing = chart(WIDTH, 3.2)
    axes = drawing.subplots()
    styles = ((GREENS[0], ":"), (ATTENTION, "--"), (DARK, "-"))
    for (name, each), (color, style) in zip(
        lines.items(), styles, strict=False
    ):
        axes.plot(
            directions.numpy(), each.numpy(), style, color=color, label=name
        )
    axes.plot(
        list(entries), list(entries.values()), "o", color=DARK, label="entries"
    )
    axes.set(
        ylabel="answer in °C",
        yticks=sorted(set(entries.values())),
        xticks=(0, 90, 180, 270, 360),
        xticklabels=("north", "east", "south", "west", "north"),
    )
    axes.set_xlabel("where the query points")
    axes.legend(fontsize=10, loc="upper right")
    axes.tick_params(labelsize=11)
    ranges = ", ".join(
        f"{name} from {each.min():.0f} to {each.max():.0f}"
        for name, each in lines.items()
    )
    alt = (
        "The answer against the direction of the query: a gentle wave for a short "
        "query, which turns into a staircase through the four entries as the query "
        f"gets longer. In °C: {ranges}."
    )
    return drawing, alt


def triangle(tokens: Tensor, outputs: Tensor) -> "tuple[Figure, str]":
    """Three tokens (3, 2) in the plane, and where attention moves each of them."""
    drawing = chart(3.4, 3.0)
    axes = drawing.subplots()
    corners = torch.cat([tokens, tokens[:1]])
    axes.fill(*corners.T.numpy(), facecolor=TINTS[ATTENTION], edgecolor="0.6")
    sides = ((0, -1), (-1, 0), (1, 1))
    pairs = zip(tokens.tolist(), outputs.tolist(), strict=True)
    for number, (start, end) in enumerate(pairs, start=1):
        arrow(axes, start, end, color=ATTENTION, width=2)
        axes.plot(*start, "o", color=DARK, markersize=8)
        axes.plot(*end, "s", color=ATTENTION, markersize=8)
        away = [13 * step for step in sides[number - 1]]
        axes.annotate(
            rf"$\mathbf{{x}}_{number}$",
            start,
            xytext=away,
            **{"textcoords": "offset points", "fontsize": 14},
            **{"ha": "center", "va": "center"},
        )
    axes.set(xlim=(-0.2, 1.25), ylim=(-0.2, 1.25), aspect="equal")
    axes.set(xticks=(0, 1), yticks=(0, 1))
    places = "; ".join(
        f"x{number} to ({x:.2f}, {y:.2f})"
        for number, (x, y) in enumerate(outputs.tolist(), start=1)
    )
    alt = f"A triangle of three tokens; attention moves each inwards: {places}."
    return drawing, alt


def steepness(gaps: Mapping[str, float]) -> "tuple[Figure, str]":
    """The share of the better of two keys by the gap between their scores.

    `gaps` are names to gaps: each is marked, with its slope as a short line.
    """
    drawing = chart(WIDTH, 3.2)
    axes = drawing.subplots()
    gap = torch.linspace(0, 12, 241)
    axes.plot(gap.numpy(), gap.sigmoid().numpy(), color=DARK)
    words = []
    for (name, place), color in zip(
        gaps.items(), (ATTENTION, STREAM), strict=False
    ):
        weight = torch.tensor(place).sigmoid().item()
        slope = weight * (1 - weight)
        words.append(f"{name} {_one_digit(slope)}")
        reach = 0.9 / math.hypot(1, 12 * slope)
        across = (place - reach, place + reach)
        up = (weight - slope * reach, weight + slope * reach)
        axes.plot(across, up, color=color, linewidth=5, solid_capstyle="round")
        axes.plot(place, weight, "o", color="white", markeredgecolor=DARK)
        axes.annotate(
            f"{name}\nslope {_one_digit(slope)}",
            (place, weight),
            xytext=(18, -14),
            **{"textcoords": "offset points", "fontsize": 11, "color": color},
            va="top",
        )
    axes.set(ylim=(0.45, 1.05), xlim=(0, 12))
    axes.set(xlabel="how far apart two scores are")
    axes.set_ylabel("share of the better key")
    axes.tick_params(labelsize=11)
    alt = (
        "The share of the better of two keys against the gap between their scores: "
        "it rises from a half and is flat beyond a gap of 6. Slopes at two marks: "
        f"{', '.join(words)}."
    )
    return drawing, alt


def deal(
    query: Tensor, cards: Tensor, rows: Mapping[str, Tensor], right: int
) -> "tuple[Figure, str]":
    """A query (h, w), ten cards (10, h, w), and a bar under each card per row.

    `rows` are at most two, name to weights (10,): a bar as wide as its card is 1, and
    the largest of a row has its weight beside it. The right card is framed.
    """
    from matplotlib.patches import Rectangle

    drawing = chart(WIDTH, 3.0)
    axes = drawing.subplots()
    axes.set(xlim=(-1.7, 5.05), ylim=(3.45, -0.25), aspect="equal")
    axes.axis("off")
    _digit(axes, query, -1.5, 0.35, 1.1)
    axes.text(-0.95, 0.12, "query", fontsize=12, ha="center")
    chosen = []
    colors = (STREAM, ATTENTION)
    for number, (name, weights) in enumerate(rows.items()):
        color, y = colors[number], 2.1 + 0.42 * number
        axes.add_patch(Rectangle((-1.6, y - 0.1), 0.2, 0.2, color=color))
        axes.text(-1.32, y, name, fontsize=11, va="center_baseline")
        best = int(weights.argmax())
        chosen.append(f"{name} give most to the {best}, {weights[best]:.0%}")
        for place, weight in enumerate(weights.tolist()):
            left, top = place % 5, 1.75 * (place // 5)
            bar = (left + 0.07, top + 1.0 + 0.24 * number)
            axes.add_patch(Rectangle(bar, 0.86 * weight, 0.18, color=color))
            if place != best:
                continue
            inside = weight > 0.6
            axes.text(
                bar[0] + (0.43 if inside else 0.86 * weight + 0.05),
                bar[1] + 0.09,
                f"{weight:.0%}",
                **{"fontsize": 9, "color": "white" if inside else color},
                **{"ha": "center" if inside else "left"},
                va="center_baseline",
            )
    for place, card in enumerate(cards):
        left, top = place % 5, 1.75 * (place // 5)
        _digit(axes, card, left + 0.07, top, 0.86)
        if place == right:
            axes.add_patch(
                Rectangle(
                    (left + 0.01, top - 0.06),
                    **{"width": 0.98, "height": 1.54, "fill": False},
                    **{"edgecolor": ATTENTION, "linewidth": 3},
                )
            )
    alt = (
        f"A handwritten {right} as the query, ten cards from 0 to 9, and bars under "
        f"them: {', '.join(chosen)}; the right card is the {right}."
    )
    return drawing, alt


def layer() -> "tuple[Figure, str]":
    """Equations (5) to (8), one colour a step: symbol, box, line of code, matrices.

    Four tokens of six numbers, two heads.
    """
    drawing, axes = figure(440, 824)
    left, middle = 22, 205
    wide, bypass = 366, 420  # of a box; where the values pass by
    steps = (
        # (y, symbols, code)
        (
            690,
            r"$[\mathbf{q}, \mathbf{k}, \mathbf{v}]"
            r" = \mathbf{z}\,\mathbf{U}_{qkv}$   (5)",
            "q, k, v = rearrange(self.qkv(x), parts)",
        ),
        (
            508,
            r"$A = \mathrm{softmax}"
            r"(\mathbf{q}\mathbf{k}^\top / \sqrt{D_h}\,)$   (6)",
            "scores = q @ k.mT / sqrt(hd)\nweights = scores.softmax(dim=-1)",
        ),
        (316, r"$\mathrm{SA} = A\,\mathbf{v}$   (7)", "weights @ v"),
        (
            152,
            r"$\mathrm{MSA} = [\mathrm{SA}_1; \mathrm{SA}_2]"
            r"\,\mathbf{U}_{msa}$   (8)",
            "self.proj(rearrange(values, ...))",
        ),
    )
    for (y, symbols, code), color in zip(steps, GREENS, strict=True):
        high = 78 if "\n" in code else 62
        box(axes, (left + wide / 2, y), (wide, high), "", color)
        rows = code.count("\n")
        label(
            axes,
            (left + wide / 2, y + 13 + 4 * rows),
            symbols,
            color="white",
            **{"fontsize": 13.5, "zorder": 5},
        )
        label(
            axes,
            (left + wide / 2, y - 15 - 2 * rows),
            code,
            color="white",
            **{"fontsize": 10.5, "zorder": 5, "family": "monospace"},
        )
    down = {"color": GREY, "width": 1.6}
    # z, then q, k, v: four rows of six numbers, three a head
    _cells(axes, (middle - 41, 752), [STREAM] * 6)
    label(axes, (middle - 62, 774), r"$\mathbf{z}$", fontsize=15)
    label(axes, (middle + 54, 774), "4 tokens, one a row", ha="left")
    arrow(axes, (middle, 748), (middle, 724), **down)
    for name, place in (("q", 62), ("k", 190), ("v", 318)):
        _cells(axes, (place, 560), [GREENS[0]] * 3 + [LIGHTER[0]] * 3)
        label(axes, (place - 15, 582), rf"$\mathbf{{{name}}}$", fontsize=15)
        for head, across in (("1", 19), ("2", 63)):
            label(axes, (place + across, 628), head, fontsize=11)
        label(axes, (place - 11, 628), "head", fontsize=11)
        arrow(axes, (place + 41, 657), (place + 41, 637), **down)
        if name != "v":
            arrow(axes, (place + 41, 558), (place + 41, 547), **down)
    line(axes, [(402, 582), (bypass, 582), (bypass, 316)], GREY)
    arrow(axes, (bypass, 316), (left + wide + 2, 316), **down)
    # A of each head, four rows of four
    _cells(axes, (122, 388), [GREENS[1]] * 4)
    _cells(axes, (234, 388), [LIGHTER[1]] * 4)
    label(axes, (102, 410), "$A$", fontsize=15)
    for place, name in ((149, "head 1"), (261, "head 2")):
        arrow(axes, (place, 466), (place, 441), **down)
        arrow(axes, (place, 384), (place, 350), **down)
        label(axes, (place + 10, 366), name, ha="left")
    # what the heads return, side by side
    _cells(axes, (129, 205), [GREENS[2]] * 3)
    _cells(axes, (241, 205), [LIGHTER[2]] * 3)
    for place, end in ((149, 185), (261, 225)):
        arrow(axes, (place, 283), (place, 261), **down)
        arrow(axes, (place, 202), (end, 184), **down)
    arrow(axes, (middle, 120), (middle, 92), **down)
    _cells(axes, (middle - 41, 40), [GREENS[3]] * 6)
    label(axes, (middle, 20), "4 new tokens, one a row")
    alt = (
        "The layer from top to bottom, each step with its equation and its line of "
        "code in one green. Tokens z times U_qkv give q, k and v, each cut into two "
        "heads; q and k give one matrix A per head; A mixes the rows of v, which "
        "pass by at the side; what the 2 heads return is joined and multiplied by "
        "U_msa."
    )
    return drawing, alt


def moved(
    panels: Mapping[str, Tensor], changed: tuple[int, int]
) -> "tuple[Figure, str]":
    """Which outputs move when one token of one picture changes: booleans (b, t)."""
    from matplotlib.patches import Patch

    drawing = chart(WIDTH, 3.3)
    drawing.get_layout_engine().set(h_pad=0.06)
    words = []
    for axes, (title, each) in zip(
        drawing.subplots(len(panels), 1), panels.items(), strict=True
    ):
        shown = axes.imshow(each.numpy(), cmap=MAP, vmin=0, vmax=1)
        axes.set_title(title, fontsize=12)
        axes.set_ylabel("picture", fontsize=11)
        columns = range(0, each.shape[1], 5)
        axes.set(xticks=columns, yticks=range(len(each)))
        axes.set_xticklabels([column + 1 for column in columns])
        axes.set_yticklabels(range(1, len(each) + 1))
        axes.hlines(
            [row + 0.5 for row in range(len(each) - 1)],
            *(-0.5, each.shape[1] - 0.5),
            color="white",
        )
        frame_patch(axes, changed, 1)
        pictures = int(each.any(dim=1).sum())
        words.append(
            f"{title}: {int(each.sum())} tokens move, in {pictures} pictures"
        )
    axes.set_xlabel("token (the framed one is changed)", fontsize=11)
    drawing.legend(
        handles=[
            Patch(facecolor=shown.cmap(place), edgecolor=DARK, label=name)
            for name, place in (("moves", 1.0), ("does not move", 0.0))
        ],
        loc="outside lower center",
        ncols=2,
        fontsize=11,
    )
    alt = (
        "Two tables, a picture a row and a token a column, with the outputs that "
        f"move. {'; '.join(words)}."
    )
    return drawing, alt


def _cells(
    axes: "Axes", corner: tuple[float, float], colors: Sequence[str]
) -> None:
    """Four rows of small squares, a colour a column."""
    squares(axes, corner, 11, list(colors) * 4, columns=len(colors))


def _digit(
    axes: "Axes", pixels: Tensor, left: float, top: float, side: float
) -> None:
    """A grey picture (h, w), dark on white, in a square of `axes`."""
    axes.imshow(
        pixels.numpy(),
        cmap="gray_r",
        vmin=0,
        extent=(left, left + side, top + side, top),
        zorder=1,
    )


def _one_digit(number: float) -> str:
    """A number with one digit that is not 0: 0.2, 0.0005."""
    digits = max(1, -math.floor(math.log10(number)))
    return f"{number:.{digits}f}"
