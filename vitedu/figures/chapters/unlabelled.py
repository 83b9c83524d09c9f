"""Chapter 19: pictures completed, what it cost, and what it bought."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import (
    DARK,
    GREY,
    MLP,
    PALE,
    PATCHES,
    POSITIONS,
)
from vitedu.figures.photos import draw_picture
from vitedu.model.patches import patchify, unpatchify

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COVER = "#e8b04a"  # what is hidden: a colour that no digit has
# the ways to begin, as the record calls them: words, colour, marker
STARTS = {
    "scratch": ("from scratch", GREY, "s"),
    "mpp-mnist": ("MPP first", POSITIONS, "^"),
    "mae-mnist": ("MAE first", PATCHES, "o"),
}
# what their frozen features are called, where it is something else
FEATURES = {"scratch": "untrained", "mpp-mnist": "MPP", "mae-mnist": "MAE"}
TARGETS = {"mean": "mean colour", "small": "4 by 4", "pixels": "all pixels"}
SHOTS = (1, 5, 10)
# the same on photographs, and a start that has had other labels
BEGUN = {
    "scratch": STARTS["scratch"],
    "shapes": ("drawn shapes first", MLP, "D"),
    "mpp-mean": STARTS["mpp-mnist"],
    "mae": STARTS["mae-mnist"],
}
LABELS = (500, 1_000, 5_000)
AGAIN = ("", "-again1", "-again2")  # other random weights
KINDS = {"probe": "frozen", "tuned": "set free"}


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
    pictures: Tensor,
    masks: Tensor,
    found: Tensor | Mapping[str, Tensor],
    patch: int = 4,
    read: Mapping[str, Sequence[int]] | None = None,
    only: Sequence[str] | None = None,
) -> "tuple[Figure, str]":
    """Pictures (b, 1, h, w) in 0..1: what was shown, what was found, truth.

    `masks` (b, n) are True where a patch was hidden. Answers of several are
    given by name, and by the same name how a classifier `read` them. `only`
    names the rows to draw, the truth last or alone.
    """
    read = read or {}
    named = found if isinstance(found, Mapping) else {"completed": found}
    words = tuple(only or ("shown", *named, "true"))
    labels = [f"{word},\nread as" if word in read else word for word in words]
    if words == ("true",):  # under "completed", its columns below theirs
        labels = ["true digits"]
    figure, grid = _strips(len(words), len(pictures), labels)
    covered = [
        seen(x, mask, patch) for x, mask in zip(pictures, masks, strict=True)
    ]
    rows = {"shown": covered, **named, "true": pictures}
    for line, word in zip(grid, words, strict=True):
        for axes, picture in zip(line, rows[word], strict=True):
            draw_picture(axes, picture)
    figure.set_figheight(figure.get_figheight() + 0.3 * len(read))
    for line, word in zip(grid, words, strict=True):
        for axes, digit in zip(line, read.get(word, ()), strict=False):
            axes.set_xlabel(str(digit), fontsize=14, weight="bold")
    hidden = masks.double().mean().item()
    place = "In the middle" if "true" in words else "Below"
    alt = f"{len(pictures)} handwritten digits"
    if "shown" in words:
        alt += (
            f". Above, what the network was shown: {hidden:.0%} of the patches "
            f"are covered. {place} the pictures as {' and '.join(named)}"
        )
    if "true" in words:
        alt += ", below as they are" if "shown" in words else ", as they are"
    alt += "."
    for name, digits in read.items():
        alt += f" {name.capitalize()}, a classifier reads them as "
        alt += f"{', '.join(map(str, digits))}."
    return figure, alt


def guesses(
    picture: Tensor,
    masks: Tensor,
    before: Sequence[int],
    found: Tensor,
    after: Sequence[int],
    patch: int = 4,
) -> "tuple[Figure, str]":
    """One picture (1, h, w) under several masks (b, n), and the answers.

    What a classifier says `before` of each picture's patches on black, and
    `after` of each answer.
    """
    figure, grid = _strips(2, 1 + len(masks), ("shown", "completed"))
    figure.set_figheight(figure.get_figheight() + 0.8)  # for the words
    draw_picture(grid[0, 0], picture)
    grid[0, 0].set_title("true", fontsize=11)
    words = ("on black, read as", "read as")
    for axes, word in zip(grid[:, 0], words, strict=True):
        axes.set_xlabel(word, fontsize=11, loc="right")
    columns = zip(grid[:, 1:].T, masks, found, before, after, strict=True)
    for (above, below), mask, answer, *digits in columns:
        draw_picture(above, seen(picture, mask, patch))
        draw_picture(below, answer)
        for axes, digit in zip((above, below), digits, strict=True):
            axes.set_xlabel(str(digit), fontsize=14, weight="bold")
    alt = (
        f"One handwritten digit, covered in {len(masks)} ways, and under each "
        "the picture as the network completed it. A classifier reads the "
        f"patches on black as {', '.join(map(str, before))}, and the "
        f"completed pictures as {', '.join(map(str, after))}."
    )
    return figure, alt


def losses(
    curve: Sequence[tuple[int, float]], guess: float
) -> "tuple[Figure, str]":
    """Error of hidden pixels over steps: pairs of a step and the error.

    `guess` is the error of always answering the mean picture.
    """
    figure, axes = chart(WIDTH, 2.7)
    steps, values = zip(*curve, strict=True)
    axes.plot(steps, values, color=PATCHES, linewidth=2.4)
    axes.axhline(guess, color=DARK, linewidth=1.5, linestyle=":")
    note(axes, "the mean of all digits", (steps[-1], guess), (0, 4), ha="right")
    axes.set(xlabel="step", ylabel="error of hidden pixels")
    axes.set_ylim(0, 1.5 * guess)
    bare(axes)
    below = next(step for step, value in curve if value < 0.95 * guess)
    return figure, (
        f"Error of hidden pixels over {steps[-1]:,} steps, from "
        f"{values[0]:.2f} to {values[-1]:.2f}. A dotted line at {guess:.2f} is "
        "what answering the mean of all digits gives; the curve is clearly "
        f"below it from step {below:,} on."
    )


def scraps(
    pictures: Tensor, masks: Tensor, patch: int = 4
) -> "tuple[Figure, str]":
    """Two pictures (2, 1, h, w) whose visible patches are the same."""
    figure, grid = chart(WIDTH, WIDTH / 3, 1, 3)
    pairs = zip(pictures, masks, strict=True)
    shown = [seen(picture, mask, patch) for picture, mask in pairs]
    titles = ("a digit", "what's visible", "laid out anew")
    for axes, picture, title in zip(
        grid, [pictures[0], *shown], titles, strict=True
    ):
        axes.axis("off")
        draw_picture(axes, picture)
        axes.set_title(title, fontsize=11)
    return figure, (
        "A digit, its twelve visible patches, and the same twelve patches in "
        "other places, in the same order: no digit at all."
    )


def targets(rows: Mapping[str, Tensor]) -> "tuple[Figure, str]":
    """Named rows of pictures (b, 1, h, w) in 0..1, one under the other."""
    count = len(next(iter(rows.values())))
    figure, grid = _strips(len(rows), count, list(rows))
    for line, pictures in zip(grid, rows.values(), strict=True):
        for axes, picture in zip(line, pictures, strict=True):
            draw_picture(axes, picture)
    return figure, (
        f"{count} handwritten digits in {len(rows)} rows: {', '.join(rows)}. "
        "Normalised, every patch has the same mean and contrast: the ground "
        "is grey, in blotches, and the strokes are still there."
    )


def _markers(
    axes: Any,
    places: Iterable[float],
    rows: Iterable[Sequence[float]],
    color: str,
    marker: str,
    words: str,
) -> None:
    """A marker for each seed, above its place."""
    points = [
        (x, y) for x, seeds in zip(places, rows, strict=True) for y in seeds
    ]
    look = {"color": color, "marker": marker, "s": 25, "zorder": 3}
    axes.scatter(*zip(*points, strict=True), label=words, **look)


def bought(metrics: Mapping[str, Mapping[str, Any]]) -> "tuple[Figure, str]":
    """Accuracy of frozen features by labels, and of fine-tuning by steps.

    Solid lines are new digits, dashed ones those learned from. Every seed is
    a marker, and the lines go through their means.
    """
    figure, (left, right) = chart(WIDTH, 3.5, 1, 2, sharey=True)
    frozen, tuned = [], []
    pixels = metrics["probe/pixels"]["value"]
    starts = {name: STARTS[name] for name in ("scratch", "mae-mnist")}
    for start, (words, color, marker) in (
        {"pixels": ("pixels", DARK, "x")} | starts
    ).items():
        names = [f"shots/{start}/{k}" for k in SHOTS] + [f"probe/{start}"]
        values = [metrics[name]["value"] for name in names]
        words = FEATURES.get(start, words)
        seeds = [metrics[name]["per_seed"] for name in names]
        left.plot([*SHOTS, 100], values, color=color, linewidth=2)
        _markers(left, [*SHOTS, 100], seeds, color, marker, words)
        frozen.append(f"{words} {', '.join(f'{x:.0f}' for x in values)}%")
    for start, (words, color, marker) in starts.items():
        rows = [metrics[f"tuned/{start}{more}"] for more in ("", ", longer")]
        new = [row["value"] for row in rows]
        own = [sum(x) / len(x) for x in (r["train_per_seed"] for r in rows)]
        right.plot(range(2), new, color=color, linewidth=2)
        seeds = [row["per_seed"] for row in rows]
        _markers(right, range(2), seeds, color, marker, words)
        dashed = {"color": color, "linestyle": (0, (4, 2)), "linewidth": 1.2}
        right.plot(range(2), own, **dashed)
        pairs = zip(new, own, strict=True)
        told = ", ".join(f"{x:.0f} (its own {y:.0f})" for x, y in pairs)
        tuned.append(f"{words} {told}%")
    left.set_xscale("log")
    left.set_xticks([*SHOTS, 100], [*map(str, SHOTS), "100"])
    left.minorticks_off()
    left.set(
        xlabel="labels of each digit (log)", ylabel="right (%)", ylim=(0, 100)
    )
    left.set_title("frozen", fontsize=12)
    right.axhline(pixels, color=DARK, linestyle=":", linewidth=1.5)
    note(right, "pixels", (0.5, pixels), (0, -14), ha="center")
    right.plot([], [], label="its own digits", **dashed | {"color": DARK})
    right.set_xticks(range(2), ["150", "450"])
    right.set(xlabel="steps", xlim=(-0.2, 1.2))
    right.set_title("fine-tuned, 100 of each", fontsize=12)
    for axes, place in ((left, "upper left"), (right, "lower right")):
        axes.legend(frameon=False, fontsize=10, loc=place)
        bare(axes)
    return figure, (
        "Right on new digits. On the left frozen features, from 1, 5, 10 and "
        f"100 labels of each digit: {'; '.join(frozen)}. On the right "
        f"fine-tuned with 100 of each, for 150 and 450 steps: "
        f"{'; '.join(tuned)}. A dotted line is a linear probe on the pixels, "
        f"{pixels:.0f}%."
    )


def set_free(
    metrics: Mapping[str, Mapping[str, Any]],
    only: Sequence[str] = tuple(KINDS),
) -> "tuple[Figure, str]":
    """Accuracy from 1,000 labels: a linear probe, and all of it fine-tuned.

    Hollow markers are runs with frozen features, filled ones fine-tuned; an
    arrow leads from mean to mean. Each start's pretrainings are together.
    Kinds that `only` doesn't name leave their place empty. A dotted line marks
    MAE's frozen features or, if one kind is drawn alone, random weights.
    """
    starts = {"pixels": ("plain pixels", DARK, "v"), **BEGUN}
    figure, axes = chart(WIDTH, 3.3)
    told, means = [], {}
    for row, (start, (words, color, marker)) in enumerate(starts.items()):
        kinds = means[start] = {}
        for kind, face in (("probe", "white"), ("tuned", color)):
            names = (f"{kind}/cifar-{start}{x}/1000" for x in AGAIN)
            runs = [metrics[name] for name in names if name in metrics]
            if not runs:  # pixels have no weights to tune
                continue
            values, own = (
                [x for each in runs for x in each[key]]
                for key in ("per_seed", "train_per_seed")
            )
            look = {"color": face, "edgecolor": color, "marker": marker}
            look |= {"s": 34, "zorder": 3, "visible": kind in only}
            axes.scatter(values, [row] * len(values), **look)
            if kind not in only:
                continue
            kinds[kind] = sum(values) / len(values)
            told.append(
                f"{words} {KINDS[kind]} {kinds[kind]:.0f} (its own "
                f"{sum(own) / len(own):.0f})"
            )
        if len(kinds) > 1:
            look = {"arrowstyle": "->", "color": color, "linewidth": 1.5}
            ends = (kinds["tuned"], row + 0.25), (kinds["probe"], row + 0.25)
            axes.annotate("", *ends, arrowprops=look)
    bottom, both = -0.45, len(only) > 1
    start, words, ends = (
        ("mae", "MAE's frozen features", (bottom, row))
        if both
        else ("scratch", "random weights", (1, row + 0.3))
    )
    line, color = means[start]["probe"], BEGUN[start][1]
    axes.plot([line] * 2, ends, color=color, linestyle=":", zorder=0)
    if both:
        look = {"ha": "right", "color": color}
        note(axes, "MAE, frozen", (line, bottom), (-4, 4), **look)
    for kind in only:
        face = "white" if kind == "probe" else DARK
        look = {"color": face, "edgecolor": DARK, "label": KINDS[kind]}
        axes.scatter([], [], s=34, **look)
    names = [words.removesuffix(" first") for words, *_ in starts.values()]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(bottom, len(names) - 0.4)
    axes.set(xlabel="new photographs right (%)")
    axes.legend(frameon=False, fontsize=10, loc="upper left")
    bare(axes)
    return figure, (
        "Percent of new photographs right, from 1,000 labels, "
        f"{' and '.join(KINDS[x] for x in only)}: {'; '.join(told)}. A dotted "
        f"line leads from {words} past the other starts."
    )


def gained(
    kinds: Mapping[str, tuple[Mapping[str, Mapping[str, Any]], str, str]],
    equal: Mapping[str, Mapping[str, Any]] | None = None,
) -> "tuple[Figure, str]":
    """Accuracy on kinds of pictures, from scratch and with MAE first.

    By kind: metrics, and the names of the two. Every seed is a marker, and an
    arrow leads from mean to mean. `equal` has kinds' results from scratch with
    as much compute.
    """
    equal = equal or {}
    figure, axes = chart(WIDTH, 2.6)
    told, named = [], False
    starts = [STARTS[name] for name in ("scratch", "mae-mnist")]
    for row, (kind, (metrics, *names)) in enumerate(kinds.items()):
        pair = [metrics[name] for name in names]
        for (words, color, marker), found in zip(starts, pair, strict=True):
            look = {"color": color, "marker": marker, "s": 34, "zorder": 3}
            seeds = found["per_seed"]
            label = words if row == 0 else None
            axes.scatter(seeds, [row] * len(seeds), label=label, **look)
        few, more = (each["value"] for each in pair)
        look = {"arrowstyle": "->", "color": DARK, "linewidth": 1.5}
        ends = (more, row + 0.3), (few, row + 0.3)
        axes.annotate("", *ends, arrowprops=look)
        words, tip = f"+{more - few:.0f}", (more, row + 0.3)
        note(axes, words, tip, (4, 0), va="center")
        own = [sum(x) / len(x) for x in (y["train_per_seed"] for y in pair)]
        scratch, first = own
        told.append(
            f"{kind} from scratch {few:.0f}% (its own {scratch:.0f}), with MAE "
            f"first {more:.0f}% (its own {first:.0f})"
        )
        if kind in equal:
            seeds = equal[kind]["per_seed"]
            look = {"color": DARK, "marker": "s", "s": 34, "zorder": 3}
            label = None if named else "scratch, as much compute"
            named = True
            axes.scatter(seeds, [row - 0.2] * len(seeds), label=label, **look)
            told[-1] += ", from scratch with as much compute "
            told[-1] += f"{equal[kind]['value']:.0f}%"
    axes.set_yticks(range(len(kinds)), list(kinds))
    axes.set_ylim(len(kinds) - 0.4, -0.4)
    axes.set(xlabel="new pictures right (%)", xlim=(0, 107))
    look = {"frameon": False, "fontsize": 10, "ncols": 3, "columnspacing": 1}
    look |= {"handlelength": 1, "handletextpad": 0.3, "borderaxespad": 0}
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1.02), **look)
    bare(axes)
    return figure, (
        "Percent of new pictures right, from 1,000 labels and in as many "
        f"steps: {'; '.join(told)}."
    )


def by_labels(
    metrics: Mapping[str, Mapping[str, Any]],
) -> "tuple[Figure, str]":
    """Accuracy over labels, on new photographs and on those learned from.

    Every seed is a marker, and the line goes through their means. Arrows lead
    from MAE to as many more labels as make its equal from scratch: grey ones
    where scratch knows less than two thirds of its own photographs.
    """
    figure, grid = chart(WIDTH, 3.6, 1, 2, width_ratios=(3, 2))
    told = []
    panels = {
        "new photographs": "per_seed",
        "its own photographs": "train_per_seed",
    }
    for axes, (title, key) in zip(grid, panels.items(), strict=True):
        for start, (words, color, marker) in BEGUN.items():
            rows = [metrics[f"tuned/cifar-{start}/{k}"][key] for k in LABELS]
            means = [sum(seeds) / len(seeds) for seeds in rows]
            axes.plot(LABELS, means, color=color, linewidth=2)
            _markers(axes, LABELS, rows, color, marker, words)
            told.append(f"{words} {', '.join(f'{x:.0f}' for x in means)}%")
        axes.set_xscale("log")
        axes.set_xticks(LABELS, [f"{k:,}" for k in LABELS])
        axes.minorticks_off()
        axes.set(xlabel="labels (log)", ylim=(0, 102))
        axes.set_title(title, fontsize=12)
        bare(axes)
    left, right = grid
    left.set(ylabel="right (%)", ylim=(30, 62))
    for (few, many), part in zip(
        itertools.pairwise(LABELS), (0.45, 0.84), strict=True
    ):
        height = metrics[f"tuned/cifar-mae/{few}"]["value"]
        own = metrics[f"tuned/cifar-scratch/{many}"]["train_per_seed"]
        done = sum(own) / len(own) > 200 / 3
        look = {"arrowstyle": "->", "linestyle": ":", "linewidth": 1.7}
        look |= {"shrinkA": 0, "shrinkB": 0, "color": DARK if done else PALE}
        left.annotate("", (many, height), (few, height), arrowprops=look)
        place = few * (many / few) ** part, height  # where no line is
        words = f"{many // few}\N{MULTIPLICATION SIGN}" + "?" * (not done)
        note(left, words, place, (0, 3), ha="center")
    right.legend(frameon=False, fontsize=9, loc="lower left", reverse=True)
    half, counts = len(BEGUN), ", ".join(f"{k:,}" for k in LABELS)
    return figure, (
        f"Accuracy after fine-tuning with {counts} labelled photographs. On "
        f"the left on new ones: {'; '.join(told[:half])}. On the right on "
        f"those it learned from: {'; '.join(told[half:])}."
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
