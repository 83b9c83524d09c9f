"""Chapter 3: the block, its parts, the real stream."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vitedu.figures.charts import chart
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    DARK,
    GREY,
    MLP,
    PALE,
    STREAM,
)
from vitedu.figures.photos import draw_picture, frame_patch, maps
from vitedu.figures.schematic import (
    arrow,
    box,
    canvas,
    label,
    line,
    plus,
    rectangle,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.8  # inches, so that 10 points stay legible on a phone
TEXT = 11  # points of ticks and labels
# where all tokens are alike, nothing is seen; half of the scale is for 0 to 0.4
FOG = ((0, "#10151c"), (0.4, "#72828f"), (1, "#dde4ea"))
COLUMNS = 14  # of patches in a photograph


def likeness(
    picture: Tensor | None, streams: Mapping[str, Tensor], patch: int
) -> "tuple[Figure, str]":
    """How like one patch all others are, beside a picture (3, h, w) in 0..1.

    `streams` are tokens (t, d) under the titles of their maps; rows in front of
    the last 196 belong to no patch. The maps are cosines, all on one scale from
    0 to 1. Without a picture they stand in a row.
    """
    from matplotlib.colors import LinearSegmentedColormap

    drawn, means = {}, []
    for title, tokens in streams.items():
        drawn[title] = _cosines(tokens, patch)
        others = drawn[title].flatten()
        others = torch.cat([others[:patch], others[patch + 1 :]])
        name = title.replace(":\n", ", ")
        means.append(f"{name}: {100 * others.mean():.0f}%")
    alt = (
        "Maps of how like one framed patch every patch is, as cosines from 0 "
        "or less, dark, to 1, bright. Mean over all other patches, "
        f"{'; '.join(means)}."
    )
    name = "unlike  ←  cosine  →  alike"
    colors = LinearSegmentedColormap.from_list("fog", FOG)
    frame = divmod(patch, COLUMNS)
    if picture is not None:
        alt = f"A photograph with one patch framed. {alt}"
        figure, alt = maps(picture, drawn, name, alt, frame, colors=colors)
        more = 0.25 if any("\n" in title for title in drawn) else 0
        figure.set_figheight(figure.get_figheight() + more)
        return figure, alt
    figure, panels = chart(WIDTH, 2.4, 1, len(drawn), squeeze=False)
    for axes, (title, each) in zip(panels.flat, drawn.items(), strict=True):
        shown = axes.imshow(each.numpy(), cmap=colors, vmin=0, vmax=1)
        axes.set_title(title, fontsize=TEXT)
        axes.axis("off")
        frame_patch(axes, frame, 1, (("black", 3), ("white", 1.5)))
    look = {"location": "bottom", "aspect": 40, "shrink": 0.8}
    figure.colorbar(shown, ax=panels, label=name, **look)
    return figure, alt


def averages(steps: Sequence[Tensor]) -> "tuple[Figure, str]":
    """Tokens (t, 2) in the plane, before and after each layer of averaging."""
    figure, axes = chart(3.4, 3.0)
    middle = steps[0].mean(dim=0)
    for before, after in pairwise(steps):
        for start, end in zip(before.tolist(), after.tolist(), strict=True):
            if start != end:
                arrow(axes, start, end, PALE, 1)
    farthest = []
    for number, tokens in enumerate(steps):
        axes.plot(
            *tokens.T.numpy(),
            "o",
            linestyle="none",
            color=(DARK, ATTENTION, "#57b377")[number],
            markersize=10 - 1.5 * number,
            zorder=3,
            label=f"after layer {number}" if number else "three tokens",
        )
        distance = (tokens - middle).norm(dim=1).max().item()
        farthest.append(f"{distance:.2f}")
    axes.set(xlim=(-0.5, 4.5), ylim=(-0.5, 4.5), aspect="equal")
    axes.set(xticks=range(5), yticks=range(5))
    axes.set(xlabel="first number", ylabel="second number")
    axes.legend(fontsize=10, loc="lower left")
    alt = (
        f"{len(steps[0])} points in a plane move towards their mean; the "
        f"farthest is {', '.join(farthest)} away from it before and after each "
        "layer."
    )
    return figure, alt


def block() -> "tuple[Figure, str]":
    """One block: boxes, equations (2) and (3), two lines of code, in colour."""
    figure, axes = canvas(400, 520, opaque=True)
    x = 30  # where the stream runs down
    line(axes, [(x, 492), (x, 34)], STREAM, width=9)
    arrow(axes, (x, 36), (x, 14), STREAM, 7)
    start, between, end = (
        r"\mathbf{z}_{\ell-1}",
        r"\mathbf{z}'_\ell",
        r"\mathbf{z}_\ell",
    )
    for y, symbol in ((504, start), (270, between), (20, end)):
        label(axes, (54, y), f"${symbol}$", STREAM, 15, ha="left")
    label(axes, (110, 504), "the residual stream", STREAM, ha="left")
    for top, name, color, given, result, function, code in (
        (
            484,
            "attention",
            ATTENTION,
            start,
            between,
            "MSA",
            ("x = x + ", "self.attn(", "self.norm1(x)"),
        ),
        (
            254,
            "MLP",
            MLP,
            between,
            end,
            "MLP",
            ("return x + ", "self.mlp(", "self.norm2(x)"),
        ),
    ):
        _branch(axes, x, top, name, color)
        equation = (
            (f"${result} = $", STREAM),
            (rf"$\mathrm{{{function}}}$$($", color),
            (rf"$\mathrm{{LN}}({given})$", GREY),
            ("$)$", color),
            (rf"$\;+\;{given}$", STREAM),
        )
        _words_in_colors(axes, (62, top - 152), equation, fontsize=15)
        colors = (STREAM, color, GREY, color)
        pieces = zip((*code, ")"), colors, strict=True)
        look = {"fontsize": 11.5, "family": "monospace"}
        _words_in_colors(axes, (62, top - 184), pieces, **look)
    alt = (
        "One encoder block, from top to bottom. The residual stream passes it "
        "untouched. Attention reads it through a norm and adds its result to "
        "it: equation (2), x = x + self.attn(self.norm1(x)). The MLP does the "
        "same: equation (3), return x + self.mlp(self.norm2(x))."
    )
    return figure, alt


def _branch(axes: "Axes", x: float, top: float, name: str, color: str) -> None:
    """A branch off the stream at `x`: read, norm, function, plus."""
    reads, adds = top - 36, top - 104
    right = 240  # the middle of its boxes
    arrow(axes, (x, reads), (right - 108, reads), width=1.8)
    box(axes, (right, reads), (212, 40), "norm", GREY, lit=False)
    arrow(axes, (right, reads - 20), (right, adds + 22), width=1.8)
    box(axes, (right, adds), (212, 44), name, color, fontsize=14)
    arrow(axes, (right - 107, adds), (x + 14, adds), color, 2)
    plus(axes, (x, adds), color, diameter=20, edge=2, fontsize=16)
    label(axes, (x + 52, reads + 12), "reads", fontsize=11)
    label(axes, (x + 56, adds + 12), "adds", color, 11)


def _words_in_colors(
    axes: "Axes",
    place: Sequence[float],
    pieces: Iterable[tuple[str, str]],
    **look: Any,
) -> None:
    """Words one after another from `place` to the right, each in its colour."""
    from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea

    areas = [
        TextArea(words, textprops={"color": color, **look})
        for words, color in pieces
    ]
    packed = HPacker(children=areas, align="baseline", pad=0, sep=0)
    alignment = {"box_alignment": (0, 0.5), "frameon": False, "pad": 0}
    axes.add_artist(AnnotationBbox(packed, place, **alignment))


def influence(matrices: Mapping[str, Tensor]) -> "tuple[Figure, str]":
    """For each part, (t, t): does output token i depend on input token j?"""
    from matplotlib.colors import ListedColormap

    colors = {"attention": ATTENTION, "MLP": MLP}
    figure, panels = chart(WIDTH, 2.1, 1, len(matrices), sharey=True)
    counts = []
    for axes, (name, matrix) in zip(panels, matrices.items(), strict=True):
        touched = ListedColormap(["white", colors.get(name, STREAM)])
        axes.imshow((matrix > 0).numpy(), cmap=touched, vmin=0, vmax=1)
        axes.set_title(name, fontsize=12)
        edges = torch.arange(len(matrix) + 1).numpy() - 0.5
        axes.set_xticks(edges, minor=True)
        axes.set_yticks(edges, minor=True)
        axes.grid(which="minor", color="#d0d4d9", linewidth=0.8)
        axes.tick_params(which="both", length=0)
        axes.set(xticks=[], yticks=[])
        axes.set_xlabel("input token", fontsize=TEXT)
        pairs = int((matrix - matrix.diag().diag() > 0).sum())
        counts.append(f"{name} {pairs}")
    panels[0].set_ylabel("output token", fontsize=TEXT)
    pairs = len(matrix) * (len(matrix) - 1)
    alt = (
        f"Which of {len(matrix)} tokens each part lets talk to which. Of "
        f"{pairs} pairs of different tokens: {', '.join(counts)}."
    )
    return figure, alt


def activations() -> "tuple[Figure, str]":
    """GELU beside ReLU."""
    figure, axes = chart(3.4, 2.5)
    x = torch.linspace(-3.5, 3.5, 701, dtype=torch.float64)
    gelu = nn.functional.gelu(x)
    axes.axhline(0, color="0.8", linewidth=1)
    axes.plot(x, x.relu(), color=PALE, linestyle="--", label="ReLU")
    axes.plot(x, gelu, color=MLP, linewidth=2.2, label="GELU")
    axes.set(xlabel="goes in", ylabel="comes out", ylim=(-0.6, 3.2))
    axes.legend(fontsize=TEXT)
    alt = (
        "ReLU is 0 left of zero and the diagonal right of it; GELU is the same "
        f"with the corner rounded, and dips to {gelu.min():.2f} left of zero."
    )
    return figure, alt


def parts(
    pictures: Mapping[str, Tensor],
    guesses: Mapping[str, Sequence[tuple[str, float]]],
) -> "tuple[Figure, str]":
    """What several networks say of several photographs: a row per network.

    `guesses` has a (name, probability) per photograph under the network's name;
    `pictures` are (3, h, w) in 0..1.
    """
    width, left, high, head = 500, 82, 44, 146
    wide = (width - left) / len(pictures)
    height = head + len(guesses) * high + 2
    figure, axes = canvas(width, height, opaque=True)
    for column, picture in enumerate(pictures.values()):
        place = left + (column + 0.5) * wide, height - 70
        _photograph(figure, (width, height), place, 132, picture)
    for row, (network, said) in enumerate(guesses.items()):
        y = height - head - (row + 0.5) * high
        words = network.replace(" ", "\n", 1)
        label(axes, (left - 8, y), words, "black", 10, ha="right")
        for column, (name, share) in enumerate(said):
            corner = (left + column * wide + 2, y - high / 2 + 2)
            words = f"{name}\n{100 * share:.0f}%"
            _guess(axes, corner, (wide - 4, high - 4), words, share, 10.5)
    rows = "; ".join(
        f"{network}: "
        + ", ".join(f"{name} {100 * share:.0f}%" for name, share in said)
        for network, said in guesses.items()
    )
    return figure, f"What each network says of {', '.join(pictures)}. {rows}."


def answers(
    pictures: Mapping[str, Tensor],
    guesses: Mapping[str, Sequence[tuple[str, float]]],
) -> "tuple[Figure, str]":
    """What the head would say after each block, for several photographs.

    `guesses` are (name, probability) after 0, 1, 2, ... blocks; `pictures`
    (3, h, w) in 0..1 under the same names.
    """
    rows = len(next(iter(guesses.values())))
    width, left, high, head = 500, 46, 30, 146
    if alone := len(pictures) == 1:  # beside its guesses, to save height
        left, high, head = 220, 21, 34
    wide = (width - left) / len(pictures)
    height = head + rows * high + 4
    middles = [height - head - (row + 0.5) * high for row in range(rows)]
    figure, axes = canvas(width, height, opaque=True)
    for column, (title, picture) in enumerate(pictures.items()):
        place = left + (column + 0.5) * wide, height - 64
        if alone:
            place = 84, (height - head) / 2
        side = 160 if alone else 116
        _photograph(figure, (width, height), place, side, picture)
        begin = left + column * wide + 2
        for y, (name, share) in zip(middles, guesses[title], strict=True):
            corner, full = (begin, y - high / 2 + 2), (wide - 6, high - 4)
            words = f"{name} {100 * share:.0f}%"
            _guess(axes, corner, full, words, share, 9.3)
    for row, y in enumerate(middles):
        label(axes, (left - 8, y), f"{row}", "black", TEXT, ha="right")
    place = (left - 8, height - head + 2)
    label(axes, place, "after\nblock", "black", 9.5, ha="right", va="bottom")
    ends = "; ".join(
        f"{title} begins with {line[0][0]} and ends with {line[-1][0]}, "
        f"{100 * line[-1][1]:.0f}%"
        for title, line in guesses.items()
    )
    alt = f"The likeliest class after each of {rows - 1} blocks: {ends}."
    return figure, alt


def _photograph(
    figure: "Figure",
    size: tuple[float, float],
    middle: tuple[float, float],
    side: float,
    picture: Tensor,
) -> None:
    """A square picture on a canvas of that size."""
    (width, height), (x, y) = size, middle
    place = (x - side / 2) / width, (y - side / 2) / height
    photo = figure.add_axes((*place, side / width, side / height))
    photo.axis("off")
    draw_picture(photo, picture)


def _guess(
    axes: "Axes",
    corner: tuple[float, float],
    full: tuple[float, float],
    words: str,
    share: float,
    points: float,
) -> None:
    """A guess on a bar as long as its probability."""
    (x, y), (wide, high) = corner, full
    rectangle(axes, corner, full, facecolor="#f6f6f7", linewidth=0)
    bar = wide * share, high
    rectangle(axes, corner, bar, facecolor="#eca9ad", linewidth=0)
    label(axes, (x + wide / 2, y + high / 2), words, "black", points)


def losses(
    lines: Mapping[str, Sequence[float]], constant: float
) -> "tuple[Figure, str]":
    """Training loss over steps, and the loss of the best constant answer."""
    figure, axes = chart(WIDTH, 3.6)
    axes.axhline(constant, color=PALE, linewidth=1.5, linestyle=":", zorder=0)
    looks = (ATTENTION, "-"), (CLASS, "--"), (CLASS, ":")
    for (name, values), (color, dash) in zip(
        lines.items(), looks, strict=False
    ):
        axes.plot(values, color=color, linestyle=dash, linewidth=2, label=name)
    last = len(next(iter(lines.values()))) - 1
    look = {"ha": "right", "va": "bottom", "fontsize": 10, "color": "0.35"}
    axes.text(last, constant + 0.04, "the best constant answer", **look)
    axes.set(ylim=(0, None), xticks=range(0, last + 1, 5))
    axes.set_xlabel("step", fontsize=TEXT)
    axes.set_ylabel("loss", fontsize=TEXT)
    figure.legend(fontsize=10, loc="outside upper left")  # off the curves
    ends = "; ".join(f"{name} {v[-1]:.1f}" for name, v in lines.items())
    alt = (
        f"Loss over {last} steps; the best constant answer has {constant:.1f}. "
        f"At the end: {ends}."
    )
    return figure, alt


def _cosines(tokens: Tensor, patch: int) -> Tensor:
    """The cosine of every patch's token (t, d) with one patch's: (14, 14)."""
    patches = tokens[-(COLUMNS**2) :]
    unit = nn.functional.normalize(patches, dim=-1)
    return (unit @ unit[patch]).view(COLUMNS, COLUMNS)
