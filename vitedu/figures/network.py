"""The drawing that every chapter starts from: the whole network, some of it lit."""

from typing import TYPE_CHECKING

from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    MLP,
    PATCHES,
    POSITIONS,
    STREAM,
)
from vitedu.figures.schematic import (
    GREY,
    arrow,
    box,
    figure,
    label,
    line,
    squares,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TIMES = "\N{MULTIPLICATION SIGN}"
WIDE, HALF, INNER = (280, 40), (135, 40), (190, 44)  # sizes of boxes
# part: (what stands in its box, its colour, the box's middle, its size)
PARTS = {
    "patches": (f"cut into patches, {TIMES} E", PATCHES, (160, 108), WIDE),
    "token": ("class token", CLASS, (87.5, 202), HALF),
    "positions": ("+ positions", POSITIONS, (232.5, 202), HALF),
    "attention": ("norm, attention", ATTENTION, (163, 318), INNER),
    "mlp": ("norm, MLP", MLP, (163, 390), INNER),
    "norm": ("norm", STREAM, (160, 470), WIDE),
    "head": ("class token → head", CLASS, (160, 530), WIDE),
}
# what a chapter may light by one name
LIT = {
    "encoder": ("attention", "mlp"),
    "network": tuple(PARTS),
}
STREAM_AT = 42  # the residual stream runs up here
PATCHES_DRAWN = 16


def network(*lit: str) -> "tuple[Figure, str]":
    """The Vision Transformer from image to class, with the parts `lit` in colour.

    `lit` are names of PARTS, "encoder" (attention and MLP) or "network" (all of
    it). The ground is transparent.
    ValueError: no name, or one that is none of these.
    """
    for name in lit or ("",):
        if name not in PARTS and name not in LIT:
            raise ValueError(
                f"lit must be one of {', '.join([*PARTS, *LIT])}, got {name!r}"
            )
    names = {part for name in lit for part in LIT.get(name, (name,))}
    drawing, axes = figure(320, 590)
    _image(axes)
    _stream(axes)
    _between(axes)
    for name, (words, color, middle, size) in PARTS.items():
        box(axes, middle, size, words, color, lit=name in names)
    ordered = [part for part in PARTS if part in names]
    shown = "; ".join(PARTS[part][0] for part in ordered)
    alt = (
        "The network from the bottom up: image, patches times E, class token and "
        "positions, L encoder blocks of attention and MLP, each added to what came "
        "before, then norm, head, class. In colour: "
        f"{'all of it' if len(names) == len(PARTS) else shown}."
    )
    return drawing, alt


def _image(axes: "Axes") -> None:
    """The picture at the bottom, its tokens, and these with the class token."""
    blue = [PATCHES] * PATCHES_DRAWN
    squares(axes, (136, 8), 10, blue, columns=4)
    label(axes, (200, 31), "image", ha="left")
    side, gap = 11, 4
    for y, colors in ((149, blue), (241, [CLASS, *blue])):
        left = 160 - (len(colors) * (side + gap) - gap) / 2
        squares(axes, (left, y), side, colors, gap=gap)


def _stream(axes: "Axes") -> None:
    """The residual stream: each block reads it, and adds to it."""
    everyone = [(286, 260), (STREAM_AT, 260), (STREAM_AT, 440)]
    line(axes, everyone, width=4)
    arrow(axes, (STREAM_AT, 439), (STREAM_AT, 450), color=GREY, width=4)
    for name in ("attention", "mlp"):
        _, _, (x, y), (width, _) = PARTS[name]
        near = x - width / 2
        line(axes, [(STREAM_AT, y - 14), (near - 2, y - 14)])
        arrow(axes, (STREAM_AT, y - 14), (near, y - 14), color=GREY, width=1.6)
        arrow(axes, (near, y + 14), (STREAM_AT + 9, y + 14), color=GREY)
        axes.plot(
            STREAM_AT,
            y + 14,
            marker="o",
            markersize=15,
            color="white",
            markeredgecolor=GREY,
            markeredgewidth=1.6,
            zorder=3,
        )
        label(axes, (STREAM_AT, y + 14), "+", zorder=4, weight="bold")
    corners = [(18, 282), (302, 282), (302, 426), (18, 426), (18, 282)]
    line(axes, corners, width=1, dashed=True)
    label(axes, (280, 354), f"{TIMES} L", fontsize=13)


def _between(axes: "Axes") -> None:
    """Arrows between the parts that follow each other, and what comes out."""
    for below, above in (
        (62, 86),
        (130, 145),
        (164, 180),
        (224, 238),
        (491, 508),
    ):
        arrow(axes, (160, below), (160, above), color=GREY, width=1.6)
    arrow(axes, (160, 551), (160, 566), color=GREY, width=1.6)
    label(axes, (160, 578), "class")
