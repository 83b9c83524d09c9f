"""Chapter 17: puzzles of glyphs, who learns which, and shuffled pieces."""

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from torch import Tensor

from vitedu.figures.chapters.resnets import NETWORKS, standard_error
from vitedu.figures.charts import WIDTH, bare, chart
from vitedu.figures.palette import ATTENTION, CLASS, DARK, PALE, PATCHES
from vitedu.figures.photos import draw_picture
from vitedu.figures.schematic import rectangle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FRESH = 76_800  # 1,200 steps of 64: as many as never come back
NUMBERS = {"300": 300, "1k": 1_000, "3k": 3_000, "10k": 10_000, "30k": 30_000}
NUMBERS |= {"fresh": FRESH}
TICKS = {place: name for name, place in NUMBERS.items()} | {FRESH: "77k"}
SHIFTS = {"hybrid": 0.92, "resnet": 1.0, "vit": 1.08}  # to tell them apart
NAMED = {"hybrid": (480, 82), "resnet": (13_500, 76), "vit": (12_000, 59)}
CONTRAST = 1.7  # of the puzzles' greys, 0.25 and 0.75
PRETRAINED = ("ImageNet", "ImageNet-21k", "JFT-300M")
SHAPES = {"1k": 1_000, "3k": 3_000, "10k": 10_000, "30k": 30_000}
SHAPES |= {"100k": 100_000}
NAMED_SHAPES = ("1k", "10k", "100k")  # those between have no room
LENGTHS = {"1,200 steps": "", "4,800 steps": "-4800-steps"}
JUDGED = {
    "its own": "train_per_seed",
    "new ones": "per_seed",
    "new forms,\nfive of each": "shots_5_per_seed",
}
LINES = {20: ("-", 2.4), 6: (":", 1.6)}  # by million multiply-adds


def puzzles(
    rows: Mapping[str, tuple[Tensor, Sequence[str]]],
    alt: str,
    framed: Tensor | None = None,
) -> tuple[Figure, str]:
    """Rows of grey pictures (n, h, w) in 0..1, with words under each.

    Lines show the patches of 4 x 4 pixels. Which of the glyphs `framed` (m, 4,
    4) are in a picture is marked by a frame. Greys are drawn farther apart.
    """
    columns = max(len(words) for _, words in rows.values())
    height = 0.3 + WIDTH / columns
    figure, grid = chart(
        WIDTH, height * len(rows), len(rows), columns, squeeze=False
    )
    for row, (name, (images, words)) in zip(grid, rows.items(), strict=True):
        row[0].set_ylabel(name, fontsize=12)
        for axes, image, said in zip(row, images, words, strict=True):
            draw_picture(axes, (image[None] - 0.5) * CONTRAST + 0.5)
            for place in range(4, image.shape[0], 4):
                look = {"color": PATCHES, "linewidth": 0.8}
                axes.axhline(place - 0.5, **look)
                axes.axvline(place - 0.5, **look)
            if framed is not None:
                for top, left in corners(image, framed):
                    look = {"fill": False, "ec": CLASS, "lw": 2.5, "zorder": 3}
                    look["transform"] = axes.transData
                    rectangle(axes, (left - 0.5, top - 0.5), (4, 4), **look)
            axes.set(xticks=[], yticks=[], xlabel=said)
            axes.xaxis.label.set_size(12)
    return figure, alt


def corners(image: Tensor, glyphs: Tensor) -> list[tuple[int, int]]:
    """Rows and columns where one of the glyphs (m, 4, 4) is in (h, w)."""
    windows = image.unfold(0, 4, 1).unfold(1, 4, 1)  # (h - 3, w - 3, 4, 4)
    far = (windows[:, :, None] - glyphs).abs().amax(dim=(3, 4))  # noise only
    return [(int(y), int(x)) for y, x in (far < 0.25).any(dim=2).nonzero()]


def jumbled(
    shown: Mapping[str, tuple[Tensor, Tensor, Sequence[str]]],
) -> tuple[Figure, str]:
    """Photographs (3, h, w) in 0..1, in pieces too, and three answers.

    One is to the whole, one to the pieces, and the last one to the pieces with
    the table of positions in their order.
    """
    figure, (above, below) = chart(WIDTH, 4.7, 2, len(shown))
    figure.set_layout_engine("compressed")
    told = []
    for over, axes, (name, (whole, picture, answers)) in zip(
        above, below, shown.items(), strict=True
    ):
        first, alone, both = answers
        over.set_title(first, fontsize=11)
        draw_picture(over, whole)
        draw_picture(axes, picture)
        for each in (over, axes):
            each.set(xticks=[], yticks=[])
        axes.set_xlabel("\n" * 7)  # room for what follows
        for place, color, words, row in (
            (-0.04, CLASS, alone, "in pieces:"),
            (-0.5, ATTENTION, both, "in pieces, and its table shuffled, too:"),
        ):
            look = {"va": "top", "transform": axes.transAxes, "fontsize": 11}
            if axes is below[0]:
                axes.text(0, place, row, in_layout=False, **look)
            look |= {"ha": "center", "color": color, "weight": "bold"}
            said = words.replace(", ", "\n")
            axes.text(0.5, place - 0.15, said, linespacing=1.2, **look)
        told.append(
            f"{name}: {first}; in pieces: {alone}; with its table shuffled "
            f"too: {both}"
        )
    alt = (
        "Photographs with what the ViT says of them, and under each its 196 "
        "pieces in another order. Below, in red, what the ViT says of the "
        "pieces, and in green what it says with its table of positions in the "
        f"same order. {'. '.join(told)}."
    )
    return figure, alt


def by_number(
    metrics: Mapping[str, Mapping[str, Any]],
    panels: Mapping[str, str],
) -> tuple[Figure, str]:
    """Accuracy over the number of pictures to learn from.

    A panel is a task, by its title. Rows are called "vit-same-off-10k" and so
    on, and one that is not there is left out. Lines are new pictures, dashed
    ones those learned from; a small point is a seed.
    """
    rows = -(-len(panels) // 2)
    figure, grid = chart(WIDTH, 2.8 * rows + 0.6, rows, 2, squeeze=False)
    dashed = {"color": DARK, "linestyle": (0, (4, 2)), "linewidth": 1.2}
    grid[0, 0].plot([], [], label="its own pictures", **dashed)
    grid[0, 0].plot([], [], color=DARK, linewidth=2, label="new ones")
    told = []
    for axes, (title, task) in zip(grid.flat, panels.items(), strict=True):
        said = []
        for network in SHIFTS:
            said += _curve(axes, network, task, metrics)
        axes.axhline(50, color=PALE, linestyle=":", linewidth=1)
        axes.set_title(title, fontsize=12)
        axes.set(xscale="log", xlim=(230, 100_000), ylim=(46, 103))
        axes.set_xticks([*TICKS], TICKS.values())
        axes.minorticks_off()
        axes.tick_params(labelsize=9)
        bare(axes)
        told.append(f"{title.replace(chr(10), ' ')}: {'; '.join(said)}")
    grid[0, 0].text(250, 51, "a coin", fontsize=10, color=DARK)
    for network, place in NAMED.items():  # where lines cross
        label, color, _ = NETWORKS[network]
        axes.text(*place, label, fontsize=10, color=color)
    handles, names = grid[0, 0].get_legend_handles_labels()
    look = {"fontsize": 11, "frameon": False, "ncols": 3}
    figure.legend(handles, names, loc="outside upper center", **look)
    figure.supxlabel("pictures to learn from (77k: all fresh)", fontsize=12)
    figure.supylabel("right answers (%)", fontsize=12)
    alt = (
        "Right answers in % to new pictures, and to those learned from, after "
        f"{', '.join(NUMBERS)} pictures, means over seeds. {'. '.join(told)}. "
        "Guessing gives 50%."
    )
    return figure, alt


def _curve(
    axes: "Axes",
    network: str,
    task: str,
    metrics: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Two lines of `by_number`, moved sideways; returns them in words."""
    label, color, marker = NETWORKS[network]
    rows = {
        number: metrics[f"{network}-{task}-{number}"]
        for number in NUMBERS
        if f"{network}-{task}-{number}" in metrics
    }
    if not rows:
        return []
    places = [SHIFTS[network] * NUMBERS[number] for number in rows]
    own = [statistics.mean(row["train_per_seed"]) for row in rows.values()]
    look = {"color": color, "linewidth": 1.2, "alpha": 0.6}
    axes.plot(places, own, linestyle=(0, (4, 2)), **look)
    for place, row in zip(places, rows.values(), strict=True):
        seeds = row["per_seed"]
        look = {"color": color, "markersize": 3, "alpha": 0.45}
        axes.plot([place] * len(seeds), seeds, "o", linestyle="none", **look)
    means = [row["value"] for row in rows.values()]
    look = {"color": color, "linewidth": 2, "markersize": 5}
    axes.plot(places, means, f"{marker}-", label=label, **look)
    new, known = (
        ", ".join(f"{value:.0f}" for value in values) for values in (means, own)
    )
    return [f"{label} {new} (its own {known})"]


def more_steps(
    metrics: Mapping[str, Mapping[str, Any]],
) -> tuple[Figure, str]:
    """What more pictures bring a ViT, and what more steps: same, anywhere.

    A panel for each of `LENGTHS`; rows as in `by_number`, with its ending.
    """
    figure, panels = chart(WIDTH, 3.4, columns=len(LENGTHS), sharey=True)
    names, told = ("3k", "10k", "30k", "fresh"), []
    for axes, (title, end) in zip(panels, LENGTHS.items(), strict=True):
        shown = {
            f"vit-same-off-{number}": metrics[f"vit-same-off-{number}{end}"]
            for number in names
        }
        told += [
            f"{title}: {said}"
            for said in _curve(axes, "vit", "same-off", shown)
        ]
        axes.axhline(50, color=PALE, linestyle=":", linewidth=1)
        axes.set_title(title, fontsize=12)
        axes.set(xscale="log", xlim=(2_400, 110_000), ylim=(46, 103))
        axes.set_xticks([NUMBERS[name] for name in names], names)
        axes.minorticks_off()
        axes.tick_params(labelsize=11)
        bare(axes)
    color = NETWORKS["vit"][1]
    for place, said in (
        ((13_000, 90), "its own pictures"),
        ((12_500, 65), "new ones"),
    ):
        panels[-1].text(*place, said, fontsize=11, color=color)
    panels[0].text(2_600, 47, "a coin", fontsize=11, color=DARK)
    figure.supxlabel("pictures to learn from", fontsize=12)
    panels[0].set_ylabel("right answers (%)", fontsize=12)
    alt = (
        "Right answers in % of a ViT to new pictures, and to those learned "
        "from, after 3,000, 10,000, 30,000 and always fresh pictures, means "
        f"of three seeds. {'. '.join(told)}. Guessing gives 50%."
    )
    return figure, alt


def growing(
    metrics: Mapping[str, Mapping[str, Any]],
) -> tuple[Figure, str]:
    """Accuracy over the number of shapes, judged in the ways of `JUDGED`.

    Rows are called "vit-20-1k" and so on, by the million multiply-adds.
    """
    figure, panels = chart(WIDTH, 3.3, columns=len(JUDGED), sharey=True)
    told = []
    for axes, (title, key) in zip(panels, JUDGED.items(), strict=True):
        for network in ("resnet", "vit"):
            label, color, marker = NETWORKS[network]
            for size, (style, width) in LINES.items():
                seeds = [metrics[f"{network}-{size}-{n}"][key] for n in SHAPES]
                means = [statistics.mean(each) for each in seeds]
                errors = [standard_error(each) for each in seeds]
                look = {"color": color, "linewidth": width, "capsize": 2}
                look["markersize"] = 2.5 * width
                look["label"] = f"{label}, {size} M"
                places = [*SHAPES.values()]
                look["fmt"] = f"{marker}{style}"
                axes.errorbar(places, means, errors, **look)
                values = ", ".join(f"{value:.0f}" for value in means)
                told.append(f"{' '.join(title.split())}, {label} {size} M")
                told[-1] += f" {values}"
        axes.set_title(title, fontsize=12)
        axes.set(xscale="log", xlim=(600, 170_000), ylim=(0, 104))
        axes.set_xticks(places)
        names = [n if n in NAMED_SHAPES else "" for n in SHAPES]
        axes.set_xticklabels(names)
        axes.minorticks_off()
        axes.tick_params(labelsize=11)
        bare(axes)
        chance = 100 / 6 if axes is panels[-1] else 10  # of six or ten forms
        axes.axhline(chance, color=PALE, linestyle=":", linewidth=1)
    panels[0].text(700, 12, "guessing", fontsize=11, color=DARK)
    look = {"fontsize": 11, "frameon": False, "ncols": 2}
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", **look)
    figure.supxlabel("drawn shapes to learn from", fontsize=12)
    panels[0].set_ylabel("right answers (%)", fontsize=12)
    alt = (
        "Right answers in %, means of three seeds, of ViTs and ResNets of 20 "
        f"and 6 million multiply-adds, after {', '.join(SHAPES)} shapes: "
        f"{'; '.join(told)}. Guessing gives a tenth, and a sixth of new forms."
    )
    return figure, alt


def pretrained(table: Mapping[str, Sequence[float]]) -> tuple[Figure, str]:
    """ImageNet accuracy over the pretraining set, a line per network.

    The networks are B and L, of patches 16 and 32.
    """
    figure, axes = chart(WIDTH, 3.3)
    places = (1.3, 14, 303)  # millions
    for name, values in table.items():
        color = ATTENTION if "L" in name else DARK
        style = "o-" if "16" in name else "o--"
        axes.plot(places, values, style, color=color, linewidth=2, label=name)
    axes.set(xscale="log", xlim=(1, 400), ylim=(69, 90))
    axes.set_xticks(places, ["1.3 M", "14 M", "303 M"])
    axes.minorticks_off()
    axes.set_xlabel("photographs to pretrain on", fontsize=12)
    axes.set_ylabel("ImageNet accuracy (%)", fontsize=12)
    axes.legend(fontsize=11, frameon=False, loc="lower right", ncols=2)
    axes.tick_params(labelsize=11)
    bare(axes)
    told = [f"{name} {', '.join(map(str, x))}" for name, x in table.items()]
    alt = (
        "Accuracy on ImageNet after pretraining on ImageNet, ImageNet-21k and "
        f"JFT-300M: {'; '.join(told)}%. The L lines start below the B lines "
        "of the same patch size and end above them."
    )
    return figure, alt
