"""The drawing at the start of every chapter: the network, some parts lit."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vitedu.figures import palette, schematic

WIDE, HALF, INNER = (280, 40), (135, 40), (190, 44)  # sizes of boxes
# part: (the words in its box, its colour, the box's middle, its size)
PARTS = {
    "patches": (
        f"cut into patches, {schematic.TIMES} E",
        palette.PATCHES,
        (160, 108),
        WIDE,
    ),
    "token": ("class token", palette.CLASS, (87.5, 202), HALF),
    "positions": ("+ positions", palette.POSITIONS, (232.5, 202), HALF),
    "attention": ("norm, attention", palette.ATTENTION, (163, 318), INNER),
    "mlp": ("norm, MLP", palette.MLP, (163, 390), INNER),
    "norm": ("norm", palette.STREAM, (160, 470), WIDE),
    "head": ("class token → head", palette.CLASS, (160, 530), WIDE),
}
# several parts that a chapter may light by one name
LIT = {"encoder": ("attention", "mlp"), "network": tuple(PARTS)}
STREAM_AT = 42  # the residual stream runs up here
PATCHES_DRAWN = 16


def network(*lit: str) -> tuple[Figure, str]:
    """The Vision Transformer from image to class, the parts `lit` in colour.

    `lit` are names of PARTS, "encoder" (attention and MLP) or "network" (all of
    it). The background is transparent.
    """
    names = {part for name in lit for part in LIT.get(name, (name,))}
    figure, axes = schematic.canvas(320, 590)
    _image(axes)
    _stream(axes)
    _between(axes)
    for name, (words, color, middle, size) in PARTS.items():
        schematic.box(axes, middle, size, words, color, lit=name in names)
    in_color = "; ".join(PARTS[part][0] for part in PARTS if part in names)
    alt = (
        "The network from the bottom up: image, patches times E, class token "
        "and positions, L encoder blocks of attention and MLP, each added to "
        "what came before, then norm, head, class. In colour: "
        f"{'all of it' if len(names) == len(PARTS) else in_color}."
    )
    return figure, alt


def _image(axes: Axes) -> None:
    blue = [palette.PATCHES] * PATCHES_DRAWN
    schematic.squares(axes, (136, 8), 10, blue, columns=4)
    schematic.label(axes, (200, 31), "image", ha="left")
    side, gap = 11, 4
    for y, colors in ((149, blue), (241, [palette.CLASS, *blue])):
        left = 160 - (len(colors) * (side + gap) - gap) / 2
        schematic.squares(axes, (left, y), side, colors, gap=gap)


def _stream(axes: Axes) -> None:
    x = STREAM_AT
    schematic.line(axes, [(286, 260), (x, 260), (x, 440)], width=4)
    schematic.arrow(axes, (x, 439), (x, 450), width=4)
    for name in ("attention", "mlp"):
        _, _, (middle, y), (width, _) = PARTS[name]
        near = middle - width / 2
        schematic.line(axes, [(x, y - 14), (near - 2, y - 14)])
        schematic.arrow(axes, (x, y - 14), (near, y - 14))
        schematic.arrow(axes, (near, y + 14), (x + 9, y + 14), width=1)
        schematic.plus(axes, (x, y + 14))
    schematic.outline(axes, (18, 282), (302, 426), dashed=True)
    schematic.label(axes, (280, 354), f"{schematic.TIMES} L", fontsize=13)


def _between(axes: Axes) -> None:
    heights = ((62, 86), (130, 145), (164, 180), (224, 238), (491, 508))
    for below, above in (*heights, (551, 566)):
        schematic.arrow(axes, (160, below), (160, above))
    schematic.label(axes, (160, 578), "class")
