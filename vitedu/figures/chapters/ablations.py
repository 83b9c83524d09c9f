"""Chapter 16: two glyphs, and every run as a point."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from vitedu.data import glyphs
from vitedu.figures.charts import WIDTH, bare, chart
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    DARK,
    MAP,
    MLP,
    PATCHES,
    POSITIONS,
)
from vitedu.figures.schematic import rectangle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE = glyphs.SIDE
GRID = 6  # patches along a side of the puzzle
LETTERS = (("A", PATCHES), ("B", CLASS))
LOOKS = ((PATCHES, "o"), (POSITIONS, "D"), (MLP, "s"), (CLASS, "^"))
GROWN = (*LOOKS[:3], (ATTENTION, "^"), (CLASS, "v"))


def places(images: Tensor) -> Tensor:
    """Puzzles (n, 1, 24, 24) -> the patches of A and B, (n, 2) row by row."""
    patches = images[:, 0].float().unfold(1, SIDE, SIDE).unfold(2, SIDE, SIDE)
    patches = patches.flatten(3).flatten(1, 2)  # (n, 36, 16)
    lit = torch.from_numpy(glyphs.kinds()[:2]).flatten(1)
    wanted = torch.where(lit == 1, glyphs.BRIGHT, glyphs.DARK).float()
    far = (patches[:, :, None] - wanted).abs().sum(dim=-1)  # (n, 36, 2)
    return far.argmin(dim=1)


def puzzles(images: Tensor, labels: Tensor) -> "tuple[Figure, str]":
    """Pictures (n, 1, 24, 24) with their two glyphs named, and the answers.

    Both glyphs are on the left once more, enlarged.
    """
    ratios = [0.5, *[1] * len(images)]
    figure, (large, *grid) = chart(
        WIDTH, 1.7, 1, len(ratios), width_ratios=ratios
    )
    large.axis("off")
    large.set(xlim=(-0.5, 5.5), ylim=(8.5, -0.5))
    for number, (letter, color) in enumerate(LETTERS):
        glyph, top = glyphs.kinds()[number], 5 * number - 0.5
        look = {"cmap": "gray", "extent": (-0.5, 3.5, top + SIDE, top)}
        large.imshow(glyph, vmin=-0.5, vmax=1.25, **look)
        words = {"color": color, "weight": "bold", "fontsize": 15}
        large.text(4, top + SIDE / 2, letter, va="center", **words)
    for axes, image, label, pair in zip(
        grid, images, labels, places(images), strict=True
    ):
        axes.imshow(image[0].numpy(), cmap="gray", vmin=32, vmax=224)
        axes.set(xticks=[], yticks=[])
        axes.axhline(11.5, color="white", linewidth=0.8, linestyle=":")
        for (letter, color), cell in zip(LETTERS, pair.tolist(), strict=True):
            top, left = (SIDE * x - 0.5 for x in divmod(cell, GRID))
            look = {"fill": False, "ec": color, "lw": 2.5}
            look["transform"] = axes.transData
            rectangle(axes, (left, top), (SIDE, SIDE), **look)
            words = {"color": color, "weight": "bold", "fontsize": 15}
            words |= {"ha": "center", "va": "top"}  # below the picture
            axes.text(left + SIDE / 2, 24, letter, **words)
        axes.set_title("yes" if label else "no", fontsize=13, weight="bold")
    said = ", ".join("yes" if x else "no" for x in labels)
    alt = (
        f"{len(images)} grey pictures with two small glyphs, A and B, both in "
        f"the upper half; is A left of B? {said}."
    )
    return figure, alt


def two_columns() -> Tensor:
    """Cells (n, 2) of A and B, never in one: A's row by row, B's within."""
    cells = torch.cartesian_prod(*[torch.arange(GRID**2)] * 2)
    return cells[cells[:, 0] % GRID != cells[:, 1] % GRID]


def tenths(model: Callable[[Tensor], Tensor]) -> str:
    """What a network says of every pair in two columns, for `answers`."""
    cells = two_columns().numpy()
    images = glyphs.Words(len(cells), 24 * 24, seed=77).ground(24)
    for glyph in (0, 1):
        corners = SIDE * np.stack(divmod(cells[:, glyph], GRID), axis=1)
        glyphs.stamp(images, glyphs.kinds()[[glyph]], corners)
    with torch.no_grad():
        grey = (torch.from_numpy(images[:, None]).float() - 128) / 64
        left = model(grey).softmax(dim=1)[:, 1]
    return "".join(map(str, (10 * left).long().clamp(max=9).tolist()))


class Pairs:
    """What the page needs to ask networks about two places: a `div`.

    `tenths` are, by name, what each says of every pair, as `answers` reads it.
    """

    def __init__(self, tenths: Mapping[str, str]) -> None:
        lit = glyphs.kinds()[:2].reshape(2, -1).tolist()
        names = ["".join(map(str, each)) for each in lit]
        self.told = {"tenths": dict(tenths), "glyphs": names}

    def _repr_html_(self) -> str:
        told = json.dumps(self.told).replace('"', "&quot;")
        return f'<div class="try" data-part="pairs" data-told="{told}"></div>'

    def __repr__(self) -> str:
        return "(on the site, A and B can be dragged)"


def answers(tenths: str) -> tuple[Tensor, Tensor, Tensor]:
    """`two_columns`, tenths of "left" for each pair, and the truth."""
    cells = two_columns()
    is_left = cells[:, 0] % GRID < cells[:, 1] % GRID
    return cells, torch.tensor([int(x) for x in tenths]), is_left


def weights(cells: Tensor) -> Tensor:
    """How often `glyphs.left_of` draws the columns of these pairs, up to 1/12.

    The left one is uniform, the last place for it twice as likely; the right
    one is uniform behind it.
    """
    left = (cells % GRID).amin(dim=1)
    return (1.0 + (left == GRID - 2)) / (GRID - 1 - left).double()


def in_half(tenths: str, half: str) -> tuple[float, float]:
    """Of pairs in the upper or lower half, how many are sure; of these, wrong.

    Sure is a probability under a tenth or over nine. Pairs count by `weights`.
    """
    cells, said, is_left = answers(tenths)
    low = cells >= GRID**2 // 2
    there = (low if half == "lower" else ~low).all(dim=1)
    sure = (said == 0) | (said == 9)
    wrong = (said >= 5) != is_left
    share = weights(cells) * there
    is_sure = share @ sure.double()
    is_wrong = share @ (sure & wrong).double()
    return (is_sure / share.sum()).item(), (is_wrong / is_sure).item()


def right_by_rows(tenths: str) -> Tensor:
    """What a network says of every pair, to percents (row of A, row of B)."""
    cells, said, is_left = answers(tenths)
    share = weights(cells)
    right = share * ((said >= 5) == is_left)
    rows = tuple((cells // GRID).T)
    sums = torch.zeros(2, GRID, GRID).double()
    for each, values in zip(sums, (right, share), strict=True):
        each.index_put_(rows, values, accumulate=True)
    return 100 * sums[0] / sums[1]


def by_rows(maps: Mapping[str, Tensor]) -> "tuple[Figure, str]":
    """Percents right (row of A, row of B): trained and lower rows framed."""
    columns = min(3, len(maps))
    lines = -(-len(maps) // columns)
    size = WIDTH, lines * WIDTH / columns + 0.9
    figure, grid = chart(*size, lines, columns, squeeze=False)
    told = []
    for axes, (name, right) in zip(grid.flat, maps.items(), strict=True):
        shown = axes.imshow(right.numpy(), cmap=MAP, vmin=0, vmax=100)
        look = {"fill": False, "ec": "white", "lw": 2.5}
        look["transform"] = axes.transData
        half = GRID // 2
        rectangle(axes, (-0.5, -0.5), (half, half), **look)
        look |= {"ec": "black", "lw": 1.5, "ls": ":"}
        rectangle(axes, (half - 0.5, half - 0.5), (half, half), **look)
        share = right[half:, half:].mean().item()
        axes.set_title(f"{name}\n{share:.0f}% below", fontsize=11)
        ticks = range(GRID), [str(x + 1) for x in range(GRID)]
        axes.set_xticks(*ticks, fontsize=10)
        axes.set_yticks(*ticks, fontsize=10)
        told.append(
            f"{name}: {right[:half, :half].mean():.0f}% where it has learned, "
            f"{right[half:, half:].mean():.0f} below"
        )
    for axes in grid[-1]:
        axes.set_xlabel("row of B", fontsize=11)
    for axes in grid[:, 0]:
        axes.set_ylabel("row of A", fontsize=11)
    bar = figure.colorbar(
        shown, ax=grid, orientation="horizontal", shrink=0.6, aspect=30
    )
    bar.set_label("right (%)", fontsize=11)
    alt = (
        "Maps of how often a network is right, by the row of A and that of B; "
        f"a white frame holds the rows it was trained on, a dotted one those "
        f"below. {'; '.join(told)}."
    )
    return figure, alt


def runs(
    groups: Mapping[str, Mapping[str, Sequence[float]]],
    words: str,
    guess: float | None = None,
    with_means: bool = False,
) -> "tuple[Figure, str]":
    """Every run as a point: {row: {kind of point: percent per seed}}."""
    figure, axes = chart(WIDTH, 1.2 + 0.36 * len(groups))
    kinds = [*dict.fromkeys(kind for row in groups.values() for kind in row)]
    told = []
    for place, (name, kind_of) in enumerate(groups.items()):
        axes.axhline(-place, color="0.9", linewidth=1, zorder=0)
        for which, (kind, values) in enumerate(kind_of.items()):
            color, marker = LOOKS[kinds.index(kind)]
            look = {"color": color, "markersize": 7, "alpha": 0.75}
            height = -place + 0.2 * (which - (len(kind_of) - 1) / 2)
            middle = (len(values) - 1) / 2  # points of equal runs are apart
            step = 0.2 / len(values)
            heights = [height + step * (i - middle) for i in range(len(values))]
            axes.plot(values, heights, marker, mew=0, **look)
            if with_means:
                ends = height - 0.2, height + 0.2
                axes.plot([_mean(values)] * 2, ends, color=color, linewidth=2)
        means = (f"{kind} {_mean(x):.1f}" for kind, x in kind_of.items())
        told.append(f"{name} {', '.join(means)}")
    if guess is not None:
        axes.axvline(guess, color=DARK, linestyle=":", linewidth=1)
    for kind, (color, marker) in zip(kinds, LOOKS, strict=False):
        axes.plot([], [], marker, color=color, label=kind, markersize=7)
    if len(kinds) > 1:
        look = {"frameon": False, "fontsize": 11, "ncols": len(kinds)}
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1), **look)
    axes.set_yticks([-place for place in range(len(groups))], [*groups])
    axes.set_ylim(0.6 - len(groups), 0.6)
    axes.set_xlabel(words, fontsize=12)
    axes.tick_params(labelsize=11)
    bare(axes)
    return figure, f"A point per run, {words}; means: {'; '.join(told)}."


def arrows(
    pairs: Sequence[tuple[float, float]], words: str, guess: float
) -> "tuple[Figure, str]":
    """An arrow per run, from percent before to percent after."""
    pairs = sorted(pairs)
    figure, axes = chart(WIDTH, 0.9 + 0.28 * len(pairs))
    for place, (before, after) in enumerate(pairs):
        axes.plot(before, place, "o", color=DARK, markersize=7)
        way = {"arrowstyle": "-|>", "color": ATTENTION, "lw": 2}
        way |= {"shrinkA": 6, "shrinkB": 0, "mutation_scale": 16}
        axes.annotate("", (after, place), (before, place), arrowprops=way)
    axes.axvline(guess, color=DARK, linestyle=":", linewidth=1)
    axes.text(guess + 0.7, len(pairs) - 0.3, "a coin", fontsize=11, va="top")
    axes.set(xlim=(30, 102), ylim=(-0.7, len(pairs) - 0.2))
    axes.set_yticks([])
    axes.set_xlabel(words, fontsize=12)
    axes.tick_params(labelsize=11)
    bare(axes, "top", "right", "left")
    told = "; ".join(f"{x:.1f} to {y:.1f}" for x, y in pairs)
    return figure, f"An arrow per run, {words}: from {told}."


def rates(
    curves: Mapping[str, tuple[Sequence[float], Sequence[Sequence[float]]]],
) -> "tuple[Figure, str]":
    """Accuracy over the rate: {name: (rates, percent per rate and seed)}."""
    figure, axes = chart(WIDTH, 3.3)
    told, ticks = [], set()
    looks = ((CLASS, "o"), (PATCHES, "s"), (POSITIONS, "D"), (MLP, "^"))
    for (name, (x, runs)), (color, marker) in zip(
        curves.items(), looks, strict=False
    ):
        means = [_mean(each) for each in runs]
        ticks |= {*x}
        axes.plot(x, means, color=color, linewidth=2, label=name, marker=marker)
        for rate, each in zip(x, runs, strict=True):
            dots = {"color": color, "alpha": 0.4, "markersize": 5, "mew": 0}
            axes.plot([rate] * len(each), each, marker, **dots)
        best = max(range(len(x)), key=means.__getitem__)
        told.append(
            f"{name} {means[0]:.1f}% at {x[0]:g}, best {means[best]:.1f} at "
            f"{x[best]:g}, {means[-1]:.1f} at {x[-1]:g}"
        )
    axes.set(xscale="log")
    axes.set_xticks(sorted(ticks), [f"{x:g}" for x in sorted(ticks)])
    axes.minorticks_off()
    axes.set_xlabel("learning rate", fontsize=12)
    axes.set_ylabel("new photographs right (%)", fontsize=12)
    axes.tick_params(labelsize=11)
    look = {"ncols": 2, "fontsize": 11, "frameon": False}
    figure.legend(loc="outside upper center", **look)
    bare(axes)
    return figure, f"Accuracy over the learning rate: {'; '.join(told)}."


def costs(
    rivals: Mapping[str, tuple[float, float, Sequence[float]]],
) -> "tuple[Figure, str]":
    """Percent per seed over multiply-adds and over time, both relative."""
    figure, panels = chart(WIDTH, 3.0, 1, 2, sharey=True)
    told = []
    for number, (name, (*costs, runs)) in enumerate(rivals.items()):
        color, marker = LOOKS[number]
        for axes, cost in zip(panels, costs, strict=True):
            look = {"color": color, "markersize": 8, "mew": 0, "alpha": 0.75}
            axes.plot([cost] * len(runs), runs, marker, label=name, **look)
        told.append(
            f"{name} {_mean(runs):.1f}% at {costs[0]:.2f} times the "
            f"multiply-adds and {costs[1]:.2f} times the time"
        )
    for axes, words in zip(panels, ("multiply-adds", "time"), strict=True):
        axes.set(xlim=(0.8, 2.2))
        axes.set_xticks([1, 1.5, 2], ["1", "1.5", "2"])
        axes.set_xlabel(words, fontsize=12)
        axes.tick_params(labelsize=11)
        bare(axes)
    panels[0].set_ylabel("new photographs right (%)", fontsize=12)
    figure.supxlabel(f"({next(iter(rivals))} = 1)", fontsize=11)
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=2,
        fontsize=11,
        frameon=False,
    )
    alt = f"Accuracy over what a network costs: {'; '.join(told)}."
    return figure, alt


def shapes(
    grown: Mapping[str, Sequence[tuple[float, Sequence[float]]]],
) -> "tuple[Figure, str]":
    """What grows, as {name: pairs of relative compute and percent per seed}."""
    figure, axes = chart(WIDTH, 3.8)
    told = []
    for (name, pairs), (color, marker) in zip(
        grown.items(), GROWN, strict=True
    ):
        pairs = sorted(pairs, key=lambda pair: pair[0])
        costs, runs = zip(*pairs, strict=True)
        means = [_mean(each) for each in runs]
        look = {"color": color, "linewidth": 2, "markersize": 6}
        axes.plot(costs, means, marker=marker, label=name, **look)
        for cost, each in pairs:
            dots = {"color": color, "alpha": 0.4, "markersize": 4, "mew": 0}
            axes.plot([cost] * len(each), each, marker, **dots)
        ways = (
            f"{y:.1f}% at {x:.1f}" for x, y in zip(costs, means, strict=True)
        )
        told.append(f"{name} {', '.join(ways)}")
    axes.set(xscale="log")
    ticks = (0.25, 0.5, 1, 2, 4)
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.minorticks_off()
    axes.set_xlabel("multiply-adds (times the base)", fontsize=12)
    axes.set_ylabel("new photographs right (%)", fontsize=12)
    axes.tick_params(labelsize=11)
    axes.legend(fontsize=11, frameon=False)
    bare(axes)
    alt = (
        "Accuracy over relative compute, one line for each thing that grows, "
        f"all through the base at 1: {'; '.join(told)}."
    )
    return figure, alt


def table_of(x: Tensor, y: Tensor) -> "tuple[Figure, str]":
    """How a 2-D table is put together from x (gw, c) and y (gh, c)."""
    gw, gh = len(x), len(y)
    figure, axes = chart(WIDTH, 2.2)
    axes.axis("off")
    axes.set(xlim=(-1.9, gw * 2 + 0.1), ylim=(-gh - 0.1, 1.2))
    for column in range(gw):
        _cell(axes, 2 * column + 0.45, 0.15, f"X{column + 1}", PATCHES)
    for row in range(gh):
        _cell(axes, -1.7, -row - 0.85, f"Y{row + 1}", POSITIONS)
        for column in range(gw):
            _cell(axes, 2 * column, -row - 0.85, f"X{column + 1}", PATCHES)
            _cell(axes, 2 * column + 0.9, -row - 0.85, f"Y{row + 1}", POSITIONS)
    alt = (
        f"A grid of {gh} rows and {gw} columns; the patch in row r and column "
        "c gets Xc and Yr side by side, so all patches of a column share X."
    )
    return figure, alt


def hands(pairs: Sequence[tuple[int, int]]) -> "tuple[Figure, str]":
    """A row of clocks per pair: a query's column, a key's; hands turn along."""
    figure, axes = chart(WIDTH, 0.85 * len(pairs) + 0.35)
    axes.axis("off")
    axes.set(xlim=(-0.6, GRID - 0.4), ylim=(0.5 - len(pairs), 0.9))
    axes.set_aspect("equal")
    turn = np.linspace(0, 2 * np.pi, 60)
    style = {"ha": "center", "va": "center", "fontsize": 12}
    for row, pair in enumerate(pairs):
        for column in range(GRID):
            angle = np.pi / 2 - column * np.pi / 5
            known = dict(zip(pair, (ATTENTION, CLASS), strict=True))
            color = known.get(column, "0.8")
            if row == 0:
                axes.text(column, 0.6, f"{column + 1}", **style)
            middle = np.array([column, -row])
            axes.plot(*(middle[:, None] + 0.42 * _on_circle(turn)), color=color)
            end = middle + 0.4 * _on_circle(angle)
            axes.plot(*zip(middle, end, strict=True), color=color, lw=3)
            if column in pair:  # on the side away from the hand
                letter = "QK"[pair.index(column)]
                axes.text(*(1.5 * middle - 0.5 * end), letter, **style)
    told = "; ".join(f"columns {q + 1} and {k + 1}" for q, k in pairs)
    alt = (
        f"Rows of {GRID} clocks whose hands turn on by 36 degrees from column "
        f"to column. In each row, those of a query and a key: {told}."
    )
    return figure, alt


def _on_circle(angle: "float | np.ndarray") -> np.ndarray:
    return np.array([np.cos(angle), np.sin(angle)])


def _cell(
    axes: "Axes", left: float, low: float, words: str, color: str
) -> None:
    look = {"fc": color, "ec": "white", "lw": 1, "transform": axes.transData}
    rectangle(axes, (left, low), (0.9, 0.7), **look)
    style = {"color": "white", "ha": "center", "va": "center", "fontsize": 12}
    axes.text(left + 0.45, low + 0.35, words, weight="bold", **style)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
