"""Drawings of the chapter on attention: who looks at whom, and how much.

`figures.show(*looks(...))` in a notebook; every function returns a figure and alt text.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK, LIGHT = "#202020", "#ffd75e"
WIDTH = 4.8  # inches, so that 10 points stay legible on a phone
LEVELS = 15  # of a colour as drawn, so that a photograph stays a small PNG
SHARE = 4  # weights are drawn from 1/4 to 4 times an equal share


def framed(
    picture: Tensor, places: Mapping[str, tuple[int, int]], patch_size: int
) -> "tuple[Figure, str]":
    """A picture (3, h, w) in 0..1 with patches framed; places are (row, column)."""
    figure = _figure(3.4, 3.4)
    axes = figure.subplots()
    _picture(axes, picture, places, patch_size)
    words = ", ".join(
        f"{name} at row {row}, column {column}"
        for name, (row, column) in places.items()
    )
    return figure, f"The picture with frames around patches: {words}."


def looks(
    picture: Tensor,
    maps: Mapping[str, tuple[Tensor, tuple[int, int]]],
    seen: str = "",
) -> "tuple[Figure, str]":
    """A picture (3, h, w), and three maps (gh, gw) of weights, each of one patch.

    `maps` is title to (weights, (row, column) of the patch that looks). Colours are
    weights over an equal share, on one scale; a title says at how many patches it
    looks. The alt text ends with `seen`.
    """
    figure = _figure(WIDTH, 5.4)
    panels = list(figure.subplots(2, 2).flat)
    places = {title: place for title, (_, place) in maps.items()}
    if len(set(places.values())) == 1:
        places = {"": next(iter(places.values()))}
    rows, columns = next(iter(maps.values()))[0].shape
    number = rows * columns
    _picture(panels[0], picture, places, picture.shape[1] // rows)
    words = []
    for axes, (title, (weights, place)) in zip(
        panels[1:], maps.items(), strict=True
    ):
        shares = weights * number
        shown = axes.imshow(
            shares.clamp(1 / SHARE, SHARE).log2().numpy(),
            cmap="cividis",
            vmin=-math.log2(SHARE),
            vmax=math.log2(SHARE),
        )
        _frame(axes, place[1] - 0.5, place[0] - 0.5, 1)
        row, column = divmod(int(weights.argmax()), columns)
        axes.plot(
            column,
            row,
            "o",
            color="white",
            markeredgecolor="black",
            markersize=4,
        )
        many = f"looks at {_looked_at(weights):.0f} of {number}"
        axes.set_title(f"{title}\n{many}", fontsize=11)
        axes.set(xticks=[], yticks=[])
        top = shares.max().item()
        words.append(
            f"{title} {many}, most at row {row}, column {column}, {top:.1f} times "
            "an equal share"
        )
    ticks = {-2: "¼ or less", -1: "½", 0: "1 (equal)", 1: "2", 2: "4 or more"}
    bar = figure.colorbar(
        shown,
        ax=panels,
        location="bottom",
        aspect=30,
        ticks=list(ticks),
        label=rf"weight $\times$ {number}; a dot on the largest",
    )
    bar.ax.set_xticklabels(list(ticks.values()))
    alt = (
        f"The picture with frames, and maps of weights, {rows} by {columns}. "
        f"{'; '.join(words)}. {seen}"
    )
    return figure, alt


def dealt(
    deals: Mapping[str, tuple[Tensor, Tensor, Mapping[str, Tensor], int]],
) -> "tuple[Figure, str]":
    """Deals, each a query (h, w) and keys (m, h, w), and under a key its weights.

    `deals` is title to (query, keys, name to weights (m,), number of the right key);
    m is even, and at most two rows of weights are drawn. The largest weight of a row
    stands beside its bar, the right key has a coloured ground.
    """
    from matplotlib.patches import Rectangle

    figure = _figure(WIDTH, 2.75 * len(deals))
    words = []
    for axes, (title, (query, keys, rows, answer)) in zip(
        figure.subplots(len(deals), 1, squeeze=False)[:, 0],
        deals.items(),
        strict=True,
    ):
        across = len(keys) // 2
        axes.set(xlim=(-1.35, across), ylim=(3.35, -0.15), aspect="equal")
        axes.axis("off")
        axes.set_title(title, fontsize=11)
        axes.text(-0.75, 0.55, "query", fontsize=10, ha="center")
        _digit(axes, query, -1.2, 0.7, 0.9)
        chosen = []
        for number, (name, style) in enumerate(
            zip(
                rows, ({"facecolor": "0.65"}, {"facecolor": DARK}), strict=False
            )
        ):
            y = 2.2 + 0.35 * number
            axes.add_patch(Rectangle((-1.3, y - 0.09), 0.18, 0.18, **style))
            axes.text(-1.05, y, name, fontsize=10, va="center")
            best = int(rows[name].argmax())
            chosen.append(
                f"{name} choose {best} ({float(rows[name][best]):.2f})"
            )
            for place, weight in enumerate(rows[name].tolist()):
                left, top = place % across, 1.75 * (place // across)
                bar = (left + 0.05, top + 1.0 + 0.25 * number)
                axes.add_patch(Rectangle(bar, 0.9 * weight, 0.18, **style))
                if place == best:
                    after = 0.9 * weight + 0.1 if weight < 0.5 else 0.1
                    axes.text(
                        left + after,
                        bar[1] + 0.1,
                        f"{weight:.2f}",
                        fontsize=10,
                        color="black" if weight < 0.5 else "white",
                        va="center",
                    )
        for place, key in enumerate(keys):
            left, top = place % across, 1.75 * (place // across)
            if place == answer:
                ground = Rectangle(
                    (left, top - 0.05), 1, 1.55, facecolor=LIGHT, zorder=0
                )
                axes.add_patch(ground)
            _digit(axes, key, left + 0.05, top, 0.9)
        words.append(f"{title}: the right one is {answer}, {', '.join(chosen)}")
    alt = (
        "Handwritten digits as queries, ten digits as keys, and bars of their "
        f"weights. {'; '.join(words)}."
    )
    return figure, alt


def _looked_at(weights: Tensor) -> float:
    """At how many patches weights look: the exponential of their entropy."""
    return (-weights * weights.log()).nansum().exp().item()


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _picture(
    axes: "Axes",
    picture: Tensor,
    places: Mapping[str, tuple[int, int]],
    side: int,
) -> None:
    """The picture with framed patches of `side` pixels, and their names."""
    from matplotlib.patheffects import withStroke

    shown = (picture.clamp(0, 1) * LEVELS).round() / LEVELS
    axes.imshow(shown.permute(1, 2, 0).numpy(), interpolation="nearest")
    for name, (row, column) in places.items():
        _frame(axes, column * side - 0.5, row * side - 0.5, side)
        before = (column + 0.5) * side > picture.shape[2] / 2
        axes.text(
            (column - 0.25 if before else column + 1.25) * side,
            (row + 0.5) * side,
            name,
            color="white",
            fontsize=12,
            fontweight="bold",
            ha="right" if before else "left",
            va="center",
            path_effects=[withStroke(linewidth=2, foreground="black")],
        )
    axes.axis("off")


def _frame(axes: "Axes", x: float, y: float, side: float) -> None:
    """A white square in a black one: seen on any ground."""
    from matplotlib.patches import Rectangle

    for color, width in (("black", 3.5), ("white", 1.5)):
        axes.add_patch(
            Rectangle(
                (x, y), side, side, fill=False, edgecolor=color, linewidth=width
            )
        )


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
