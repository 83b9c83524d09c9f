"""The drawing that every chapter starts from: the whole network, one part lit."""

from itertools import pairwise
from typing import TYPE_CHECKING

from vitedu.figures.schematic import DARK, arrow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# part: (what stands in its box, from below: y of its middle, height)
PARTS = {
    "patches": ("cut into patches, times E", 1.0, 0.62),
    "positions": ("class token in front, + positions", 2.0, 0.62),
    "attention": ("norm, attention, + itself", 3.35, 0.62),
    "mlp": ("norm, MLP, + itself", 4.35, 0.62),
    "norm": ("norm", 5.7, 0.62),
    "head": ("class token's row, linear head", 6.7, 0.62),
}
# what a chapter may light: several parts at once
LIT = {
    "encoder": ("attention", "mlp"),
    "network": tuple(PARTS),
}
LIGHT, PALE = "#ffd75e", "#e9e9e9"


def network(lit: str) -> "tuple[Figure, str]":
    """The Vision Transformer from image to class, with the part `lit` in colour.

    `lit` is one of PARTS, "encoder" (attention and MLP) or "network" (all of it).
    ValueError: it is none of these.
    """
    from matplotlib.figure import Figure

    if lit not in PARTS and lit not in LIT:
        raise ValueError(
            f"lit must be one of {', '.join([*PARTS, *LIT])}, got {lit!r}"
        )
    names = LIT.get(lit, (lit,))
    figure = Figure(figsize=(4.4, 5.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0, 11), ylim=(-0.5, 8.2))
    axes.axis("off")
    heights = [y for _, y, _ in PARTS.values()]
    stops = [0.0, *heights, 7.7]
    for below, above in pairwise(stops):
        arrow(axes, (4.7, below + 0.33), (4.7, above - 0.33))
    axes.add_patch(_frame(0.5, 2.75, 8.4, 2.2))
    axes.text(9.0, 3.85, "L times", va="center", fontsize=13)
    for name, (words, y, height) in PARTS.items():
        face = LIGHT if name in names else PALE
        axes.add_patch(_box(1.0, y - height / 2, 7.4, height, face))
        weight = "bold" if name in names else "normal"
        axes.text(
            4.7, y, words, ha="center", va="center", fontsize=11, weight=weight
        )
    axes.text(4.7, 0.0, "image", ha="center", va="center", fontsize=12)
    axes.text(4.7, 7.7, "class", ha="center", va="center", fontsize=12)
    parts = (
        " and ".join(PARTS[name][0] for name in names)
        if lit != "network"
        else "all"
    )
    alt = (
        "The network from below: image, patches times E, class token and positions, "
        "L encoder blocks of attention and MLP, norm, head, class. "
        f"In colour: {parts}."
    )
    return figure, alt


def _box(x: float, y: float, width: float, height: float, face: str):
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.18"
    return FancyBboxPatch(
        (x, y), width, height, style, facecolor=face, edgecolor=DARK
    )


def _frame(x: float, y: float, width: float, height: float):
    from matplotlib.patches import Rectangle

    return Rectangle(
        (x, y), width, height, fill=False, edgecolor=DARK, linestyle="--"
    )
