"""Chapter 19: pictures completed, what it cost, and what it bought."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    DARK,
    GREY,
    PALE,
    PATCHES,
    POSITIONS,
)
from vitedu.figures.photos import draw_picture
from vitedu.model.patches import patchify, unpatchify

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COVER = "#e8b04a"  # what is hidden: a colour that no digit has
# the ways to begin, as the record calls them: words, colour, marker
STARTS = {
    "scratch": ("from scratch", GREY, "s"),
    "mpp-mnist": ("MPP first", POSITIONS, "^"),
    "mae-mnist": ("MAE first", PATCHES, "o"),
}


def seen(picture: Tensor, mask: Tensor, patch: int) -> Tensor:
    """A grey picture (1, h, w) in 0..1 as RGB, hidden patches (n,) covered."""
    rows = picture.shape[1] // patch
    flat = patchify(picture[None].expand(-1, 3, -1, -1), patch).clone()
    cover = torch.tensor([int(COVER[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    flat[:, mask] = cover.repeat(patch * patch)
    return unpatchify(flat, patch, (rows, picture.shape[2] // patch))[0]


def _strips(
    rows: int, columns: int, words: Sequence[str]
) -> "tuple[Figure, Any]":
    figure, grid = chart(
        WIDTH, rows * (WIDTH - 0.8) / columns, rows, columns, squeeze=False
    )
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        bare(axes, "top", "right", "bottom", "left")
    for axes, word in zip(grid[:, 0], words, strict=True):
        look = {"rotation": 0, "ha": "right", "va": "center", "fontsize": 11}
        axes.set_ylabel(word, **look)
    return figure, grid


def completed(
    pictures: Tensor, masks: Tensor, found: Tensor, patch: int = 4
) -> "tuple[Figure, str]":
    """Pictures (b, 1, h, w) in 0..1: what was shown, what was found, truth.

    `masks` (b, n) are True where a patch was hidden.
    """
    figure, grid = _strips(3, len(pictures), ("shown", "completed", "true"))
    for column, (picture, mask, answer) in enumerate(
        zip(pictures, masks, found, strict=True)
    ):
        draw_picture(grid[0, column], seen(picture, mask, patch))
        draw_picture(grid[1, column], answer)
        draw_picture(grid[2, column], picture)
    hidden = masks.double().mean().item()
    alt = (
        f"{len(pictures)} handwritten digits. Above, what the network was "
        f"shown: {hidden:.0%} of the patches are covered. In the middle the "
        "pictures as it completed them, below as they are."
    )
    return figure, alt


def guesses(
    picture: Tensor, masks: Tensor, found: Tensor, patch: int = 4
) -> "tuple[Figure, str]":
    """One picture (1, h, w) under several masks (b, n), and the answers."""
    figure, grid = _strips(2, len(masks), ("shown", "completed"))
    for column, (mask, answer) in enumerate(zip(masks, found, strict=True)):
        draw_picture(grid[0, column], seen(picture, mask, patch))
        draw_picture(grid[1, column], answer)
    alt = (
        f"One handwritten digit, covered in {len(masks)} ways, and under each "
        "the picture as the network completed it."
    )
    return figure, alt


def losses(
    curves: Mapping[str, Sequence[float]], guess: float, every: int
) -> "tuple[Figure, str]":
    """Error of hidden pixels over steps, a line each; means of `every` steps.

    `guess` is the error of answering the mean pixel of all.
    """
    figure, axes = chart(WIDTH, 2.7)
    told = []
    looks = zip((PATCHES, CLASS), ("-", "--"), strict=True)
    for (name, values), (color, style) in zip(
        curves.items(), looks, strict=True
    ):
        means = torch.tensor(values).unfold(0, every, every).mean(dim=1)
        steps = every * torch.arange(1, len(means) + 1)
        look = {"color": color, "linestyle": style, "linewidth": 2.4}
        axes.plot(steps, means, label=name, **look)
        told.append(f"{name} from {means[0]:.2f} to {means[-1]:.2f}")
    axes.axhline(guess, color=PALE, linewidth=1.5, linestyle=":")
    axes.set(xlabel="step", ylabel="error of hidden pixels", ylim=(0, None))
    axes.legend(frameon=False, fontsize=11)
    bare(axes)
    alt = (
        f"Error of hidden pixels over training steps: {'; '.join(told)}. A "
        f"dotted line at {guess:.2f}, where guessing the mean digit would be."
    )
    return figure, alt


def targets(rows: Mapping[str, Tensor]) -> "tuple[Figure, str]":
    """Named rows of pictures (b, 1, h, w) in 0..1, one under the other."""
    count = len(next(iter(rows.values())))
    figure, grid = _strips(len(rows), count, list(rows))
    for line, pictures in zip(grid, rows.values(), strict=True):
        for axes, picture in zip(line, pictures, strict=True):
            draw_picture(axes, picture)
    return figure, (
        f"{count} handwritten digits in {len(rows)} rows: {', '.join(rows)}. "
        "Normalised, every patch has the same mean and contrast, and the "
        "strokes are hard to tell from the ground."
    )


def bought(
    metrics: Mapping[str, Mapping[str, Any]],
) -> "tuple[Figure, str]":
    """Accuracy by the way to begin: probe and fine-tuning, a dot each seed."""
    figure, grid = chart(WIDTH, 2.9, 1, 2, sharey=True)
    told = []
    kinds = (("probe", "frozen, linear probe"), ("tuned", "fine-tuned"))
    for axes, (kind, title) in zip(grid, kinds, strict=True):
        for place, (start, (words, color, marker)) in enumerate(STARTS.items()):
            found = metrics[f"{kind}/{start}"]
            _dots(axes, place, found, color, marker)
            told.append(f"{title}, {words} {found['value']:.1f} %")
        words = [x[0].replace(" first", "") for x in STARTS.values()]
        axes.set_xticks(range(3), ["untrained", *words[1:]])
        axes.set_xlim(-0.5, 2.5)
        axes.set_title(title, fontsize=12)
        bare(axes)
    grid[1].set_xticks(range(3), ["scratch", *words[1:]])
    grid[0].set_ylabel("right on the test set (%)")
    return figure, (
        "Accuracy with 1,000 labels, a dot for each of three draws and a bar "
        f"for their mean: {'; '.join(told)}."
    )


def _dots(
    axes: "Axes", place: int, found: Mapping[str, Any], color: str, marker: str
) -> None:
    values = found["per_seed"]
    spread = torch.linspace(-0.12, 0.12, len(values)).tolist()
    places = [place + x for x in spread]
    axes.plot(places, values, marker, color=color, markersize=6)
    axes.hlines(
        found["value"], place - 0.28, place + 0.28, color=DARK, linewidth=2
    )


def distances(
    metrics: Mapping[str, Mapping[str, Any]], uniform: float
) -> "tuple[Figure, str]":
    """How far each head looks, by block, a panel for each way to begin."""
    figure, grid = chart(WIDTH, 2.7, 1, 3, sharey=True)
    told = []
    for axes, (start, (words, *_)) in zip(grid, STARTS.items(), strict=True):
        words = (
            "untrained" if start == "scratch" else words.removesuffix(" first")
        )
        heads = torch.tensor(metrics[f"distance/{start}"]["heads"])
        for head in heads.T:
            blocks = range(1, len(heads) + 1)
            axes.plot(blocks, head.tolist(), "o", color=ATTENTION, alpha=0.75)
        axes.axhline(uniform, color=DARK, linestyle="--", linewidth=1.5)
        axes.set(xlabel="block", ylim=(0, 1.35 * uniform), xlim=(0.5, 4.5))
        axes.set_xticks(range(1, len(heads) + 1))
        axes.set_title(words, fontsize=12)
        bare(axes)
        told.append(
            f"{words}: {heads[0].min():.1f} to {heads[0].max():.1f} in the "
            f"first block, {heads[-1].min():.1f} to {heads[-1].max():.1f} in "
            "the last"
        )
    grid[0].set_ylabel("distance (pixels)")
    return figure, (
        "How far the heads look in each block, a dot each, with a line at "
        f"{uniform:.1f} pixels, where a head is that looks everywhere equally. "
        f"{'; '.join(told)}."
    )


def mosaic(picture: Tensor, classes: Tensor) -> "tuple[Figure, str]":
    """A picture (3, h, w) in 0..1, and its patches' colours as classes (r, c).

    A class 64 r + 8 g + b is drawn as the middle of its levels.
    """
    digits = torch.stack([classes // 64, classes // 8 % 8, classes % 8])
    figure, grid = chart(WIDTH, WIDTH / 2, 1, 2)
    for axes, shown in zip(grid, (picture, (digits + 0.5) / 8), strict=True):
        axes.axis("off")
        draw_picture(axes, shown)
    count = len(classes.unique())
    return figure, (
        "A photograph, and beside it one flat colour for each of its "
        f"{classes.numel()} patches; {count} different colours occur."
    )
