"""Chapter 15: distance, filters, positions, rollout, and four corners."""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    DARK,
    GREY,
    MAP,
    PALE,
    PATCHES,
    POSITIONS,
)
from vitedu.figures.photos import draw_picture
from vitedu.figures.report.examples import jpeg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# of a line and its points, in the order in which lines are given
LOOKS = ((ATTENTION, "o"), (PATCHES, "s"), (POSITIONS, "D"), (PALE, "^"))
LENGTHS = 5, 600  # of tokens: the ends of their logarithmic scale
GIANT = 100  # a token that is longer is one, in this model


def distances(
    panels: Mapping[str, Tensor], uniform: float
) -> "tuple[Figure, str]":
    """How far heads look (layers, heads), in pixels: a panel each, a dot each.

    A line is drawn at `uniform`, the distance of a head that looks everywhere.
    """
    figure, grid = chart(WIDTH, 2.9, 1, len(panels), squeeze=False, sharey=True)
    told = []
    for axes, (title, found) in zip(grid[0], panels.items(), strict=True):
        blocks = range(1, len(found) + 1)
        for head in found.T:
            axes.plot(blocks, head.tolist(), "o", color=ATTENTION, alpha=0.75)
        axes.axhline(uniform, color=DARK, linestyle="--", linewidth=1.5)
        axes.set(xlabel="block", ylim=(0, 1.45 * uniform))
        apart = 3 if len(panels) > 1 and len(found) > 6 else 1
        axes.set_xticks(range(1, len(found) + 1, apart))
        axes.set_title(title, fontsize=12)
        bare(axes)
        above = int((found > uniform).sum())
        told.append(
            f"{title or 'heads'}: from {found[0].min():.0f} to "
            f"{found[0].max():.0f} in the first block, {found[-1].min():.0f} "
            f"to {found[-1].max():.0f} in the last; {above} of "
            f"{found.numel()} are above the line"
        )
    grid[0, 0].set_ylabel("distance of attention (pixels)")
    note(grid[0, 0], "everywhere", (0.6, uniform), (0, 4), 10)
    alt = (
        "A dot for each head over the number of its block, with a line at "
        f"{uniform:.0f} pixels, for a head that looks everywhere equally. "
    )
    return figure, f"{alt}{'; '.join(told)}."


def filters(components: Tensor) -> "tuple[Figure, str]":
    """Principal components (count, 3, p, q) of a patch embedding, 7 a row."""
    rows = -(-len(components) // 7)
    figure, grid = chart(WIDTH, rows * WIDTH / 7, rows, 7, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, each in zip(grid.flat, components, strict=False):
        low, high = each.min(), each.max()
        draw_picture(axes, (each - low) / (high - low))
    alt = (
        f"{len(components)} small pictures: fine checks, spots in green and "
        "pink, stripes in several directions, and rougher patterns after them."
    )
    return figure, alt


def crosses(
    maps: Mapping[str, Tensor],
    step: int = 1,
    columns: int = 3,
    marked: Mapping[tuple[int, int], str] | None = None,
) -> "tuple[Figure, str]":
    """How alike positions are, (gh, gw, gh, gw): a map for each patch.

    All maps of a table in a grid, those of every `step`-th row and column; the
    tables are side by side under their titles, on one scale from -1 to 1. In
    the first map of the first table, patches `marked` (row, column) have their
    letters.
    """
    from matplotlib.patheffects import withStroke

    columns = min(columns, len(maps))
    rows = -(-len(maps) // columns)
    height = rows * (WIDTH / columns + 0.5 + over(maps)) + 0.6
    figure, panels = chart(WIDTH, height, rows, columns, squeeze=False)
    told = []
    for axes, (title, similarity) in zip(
        panels.flat, maps.items(), strict=True
    ):
        chosen = similarity[::step, ::step]
        sheet = _sheet(chosen).numpy()
        shown = axes.imshow(sheet, cmap=MAP, vmin=-1, vmax=1)
        axes.set_title(title, fontsize=11)
        axes.axis("off")
        words = " ".join(title.split())
        told.append(f"{words}: {len(chosen)} by {chosen.shape[1]}")
    for (row, column), letter in (marked or {}).items():
        at = {"ha": "center", "va": "center", "weight": "bold"}
        outline = [withStroke(linewidth=3, foreground="white")]
        panels.flat[0].text(
            column, row, letter, color=DARK, path_effects=outline, **at
        )
        told[0] += f", {letter} in row {row}, column {column}"
    label = "cosine of two positions"
    figure.colorbar(
        shown, ax=panels, location="bottom", aspect=40, shrink=0.8, label=label
    )
    alt = (
        "Tables of small maps, one for each position, of how like it all "
        f"others are. {'; '.join(told)}. Each is brightest at its own place."
    )
    return figure, alt


def over(titles: Iterable[str]) -> float:
    """Inches that titles of more than one line need."""
    return 0.25 * max(title.count("\n") for title in titles)


def _sheet(similarity: Tensor) -> Tensor:
    """(rows, columns, gh, gw) -> maps side by side, with gaps of NaN."""
    rows, columns, gh, gw = similarity.shape
    sheet = torch.full((rows * (gh + 1) - 1, columns * (gw + 1) - 1), torch.nan)
    for row in range(rows):
        for column in range(columns):
            top, left = row * (gh + 1), column * (gw + 1)
            there = similarity[row, column]
            sheet[top : top + gh, left : left + gw] = there
    return sheet


def looked_at(
    images: Sequence[Tensor],
    maps: Mapping[str, Sequence[Tensor]],
    answers: Sequence[str],
    bright: str = "its answer came from",
    lit: str = "",
) -> "tuple[Figure, str]":
    """Photographs (3, h, w), and beside each a map, bright where `bright` says.

    `maps` are (gh, gw) by title. Those of a photograph share one scale, from
    the lowest share to the highest. With `lit`, each has its own, and under
    that title the last map falls on the photograph as a light.
    """
    wide = 1 + len(maps) + bool(lit)
    in_row = 2 if wide == 2 else 1
    rows, columns = -(-len(images) // in_row), wide * in_row
    height = rows * (WIDTH / columns + 0.3)
    figure, grid = chart(WIDTH, height, rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for number, (image, answer) in enumerate(zip(images, answers, strict=True)):
        row, place = divmod(number, in_row)
        first, *others = grid[row, wide * place :][:wide]
        draw_picture(first, image)
        first.set_title(answer, fontsize=11, loc="left")
        own = [each[number] for each in maps.values()]
        ends = (
            {}
            if lit
            else {
                "vmin": min(each.min() for each in own),
                "vmax": max(each.max() for each in own),
            }
        )
        for axes, title, each in zip(others, maps, own, strict=False):
            axes.imshow(
                each.numpy(), cmap=MAP, interpolation="bilinear", **ends
            )
            axes.set_title(title, fontsize=11)
        if lit:
            draw_picture(others[-1], _lit(image, own[-1]))
            others[-1].set_title(lit, fontsize=11)
    alt = (
        f"Photographs, and beside each a map, bright where {bright}. "
        + ("The last one, as a light, shows what it falls on. " if lit else "")
        + f"Their answers: {', '.join(answers)}."
    )
    return figure, alt


def _lit(image: Tensor, light: Tensor) -> Tensor:
    """A photograph (3, h, w) in the light of a map (gh, gw)."""
    light = F.interpolate(
        light[None, None], image.shape[1:], mode="bilinear", align_corners=False
    )[0]
    return image * (light / light.quantile(0.97)).clamp(0.01, 1) ** 0.7


def removed(
    images: Tensor,
    gone: Tensor,
    answers: Sequence[str],
    rows: Mapping[str, Tensor],
    patch: int = 16,
) -> "tuple[Figure, str]":
    """Photographs (b, 3, h, w) whose patches `gone` (b, k) are grey.

    Below each of them, the probability of its answer in each of the `rows`.
    """
    height = WIDTH / len(images) + 0.3 + 0.22 * len(rows)
    figure, grid = chart(WIDTH, height, 1, len(images), squeeze=False)
    wide, told = images.shape[3] // patch, []
    for number, (axes, image) in enumerate(zip(grid[0], images, strict=True)):
        left = image.clone()
        for place in gone[number].tolist():
            row, column = (patch * x for x in divmod(place, wide))
            left[:, row : row + patch, column : column + patch] = 0.5
        draw_picture(axes, left)
        bare(axes, "top", "right", "bottom", "left")
        axes.set(xticks=[], yticks=[])
        axes.set_title(answers[number], fontsize=11, loc="left")
        words = [f"{name} {each[number]:.0%}" for name, each in rows.items()]
        axes.set_xlabel("\n".join(words), fontsize=11, loc="left")
        told.append(f"{answers[number]}: {', '.join(words)}")
    return figure, (
        "Photographs with patches painted grey, and below each how probable "
        f"its answer is. {'; '.join(told)}."
    )


def removal(
    curves: Mapping[str, Mapping[str, Any]],
) -> "tuple[Figure, str]":
    """The probability of the answer over the share of patches removed.

    A curve has "shares", "probability" and "error" of each share.
    """
    figure, axes = chart(WIDTH, 3.7)
    told = []
    for (name, curve), (color, marker) in zip(
        curves.items(), LOOKS, strict=False
    ):
        percents = [100 * share for share in curve["shares"]]
        heights = [100 * each for each in curve["probability"]]
        axes.errorbar(
            percents,
            heights,
            yerr=[200 * each for each in curve["error"]],
            color=color,
            marker=marker,
            linewidth=2,
            label=name,
        )
        told.append(f"{name}: {', '.join(f'{x:.0f}' for x in heights)}")
    axes.set(xlabel="patches removed (%)", ylim=(0, None))
    axes.set(ylabel="probability of the answer (%)")
    axes.set_xticks(percents)
    place = {"loc": "upper center", "bbox_to_anchor": (0.45, -0.2)}
    axes.legend(**place, ncols=2, fontsize=11, frameon=False)
    bare(axes)
    shares = ", ".join(f"{each:.0f}" for each in percents)
    alt = (
        f"The probability of the answer with {shares} percent of the patches "
        f"removed, in four orders. {'; '.join(told)} percent."
    )
    return figure, alt


def norms(
    panels: Mapping[str, Tensor], columns: int = 3
) -> "tuple[Figure, str]":
    """How long tokens are (t,), as maps of 14 by 14 on one logarithmic scale.

    The last 196 are the patches; those before them have no place in the
    picture, and stand below it.
    """
    from matplotlib.colors import LogNorm

    gh = gw = 14
    rows = -(-len(panels) // columns)
    height = rows * (WIDTH / columns + 0.6 + over(panels)) + 0.6
    figure, grid = chart(WIDTH, height, rows, columns, squeeze=False)
    scale, told = LogNorm(*LENGTHS), []
    below = 2 * any(len(found) > gh * gw for found in panels.values())
    for axes in grid.flat:
        axes.axis("off")
    for axes, (title, found) in zip(grid.flat, panels.items(), strict=False):
        patches, others = found[-gh * gw :].view(gh, gw), found[: -gh * gw]
        shown = torch.full((gh + below, gw), torch.nan)
        shown[:gh] = patches
        for number, norm in enumerate(others, start=-len(others)):
            shown[gh + 1, 2 * number] = norm
        if len(others):
            note(axes, "registers", (0, gh + 1), (-4, -4), 10)
        drawn = axes.imshow(shown.numpy(), cmap=MAP, norm=scale)
        axes.set_title(title, fontsize=11)
        giants = int((patches > GIANT).sum())
        outside = int((others > GIANT).sum())
        told.append(
            f"{title.replace(chr(10), ' ')}: {giants} giants in the picture"
            + (f", {outside} outside" if len(others) else "")
        )
    figure.colorbar(
        drawn,
        ax=grid,
        location="bottom",
        aspect=40,
        shrink=0.8,
        label="length of the token (logarithmic)",
    )
    return figure, f"Maps of the lengths of tokens. {'; '.join(told)}."


def growth(
    lengths: Mapping[str, Sequence[float]], shares: Sequence[float]
) -> "tuple[Figure, str]":
    """Over the blocks: lengths of tokens, and the corners' share in percent."""
    figure, (above, below) = chart(WIDTH, 4.2, 2, 1, sharex=True)
    blocks = range(1, len(shares) + 1)
    told = []
    for (name, each), color in zip(lengths.items(), (CLASS, GREY), strict=True):
        above.plot(blocks, list(each), "o-", color=color, label=name)
        told.append(f"{name} {each[0]:.0f} to {each[-1]:.0f}")
    above.set(ylabel="length of the token", ylim=(0, None))
    above.legend(fontsize=11)
    below.bar(blocks, [100 * share for share in shares], color=ATTENTION)
    below.set(xlabel="block", ylabel="attention to\nthe corners (%)")
    below.set_xticks(list(blocks))
    for axes in (above, below):
        bare(axes)
    last = ", ".join(f"{100 * share:.0f}" for share in shares)
    alt = (
        f"Over {len(shares)} blocks: lengths of tokens, {'; '.join(told)}; and "
        f"below it what the corners get of the patches' attention: {last} "
        "percent."
    )
    return figure, alt


def costs(rows: Mapping[str, Mapping[str, float]]) -> "tuple[Figure, str]":
    """What each change adds to the loss, with twice its error; a row each."""
    figure, axes = chart(WIDTH, 0.55 * len(rows) + 0.8)
    places, told = range(len(rows)), []
    for place, (name, row) in zip(places, rows.items(), strict=True):
        more, error = row["more"], row["error_of_more"]
        axes.barh(place, more, color=ATTENTION, xerr=2 * error, capsize=4)
        end = max(more, 0) + 2 * error, place
        note(axes, f"{more:+.2f}", end, (7, 0), va="center")
        told.append(f"{name} {more:+.3f} ± {error:.3f}")
    axes.set_yticks(list(places), list(rows), fontsize=11)
    axes.set(xlabel="loss added (thin lines: ± two standard errors)")
    axes.margins(x=0.12)
    axes.axvline(0, color=DARK, linewidth=1)
    axes.invert_yaxis()
    bare(axes, "top", "right", "left")
    words = "; ".join(told).replace("\n", " ")
    return figure, f"What each change adds to the loss: {words}."


class Corners:
    """What the page needs to change the corners by hand: a `div` with numbers.

    `pictures` are (3, h, w) in 0..1 by name. `found` has, by change, how long
    tokens are after the last block (b, t), the last 196 the patches', NaN where
    one is missing; and the answers, (b, classes). `rows` say what a change does
    to the loss.
    """

    def __init__(
        self,
        pictures: Mapping[str, Tensor],
        found: Mapping[str, tuple[Tensor, Tensor]],
        rows: Mapping[str, Mapping[str, float]],
        class_names: Sequence[str],
    ) -> None:
        small = {
            name: jpeg(F.avg_pool2d(each, 2)) for name, each in pictures.items()
        }
        self.told: dict[str, Any] = {"pictures": small, "changes": []}
        for name, row in rows.items():
            loss = f"{row['value']:.3f}"
            if row["more"]:
                loss += f" ({row['more']:+.3f} ± {row['error_of_more']:.3f})"
            photographs = []
            for lengths, shares in zip(*found[name], strict=True):
                best = zip(*(x.tolist() for x in shares.topk(3)), strict=True)
                top = [[class_names[i], round(share, 4)] for share, i in best]
                photographs.append(_sizes(lengths) | {"top": top})
            self.told["changes"].append([name, loss, photographs])

    def _repr_html_(self) -> str:
        told = json.dumps(self.told, ensure_ascii=False)
        told = told.replace("&", "&amp;").replace('"', "&quot;")
        return f'<div class="try" data-part="corners" data-told="{told}"></div>'

    def __repr__(self) -> str:
        return "(on the site, you can change the corners yourself)"


def _sizes(lengths: Tensor) -> dict[str, Any]:
    """Lengths as bytes, 1 to 255 on their scale and 0 for none; giants."""
    low, high = torch.tensor(LENGTHS).log()
    shares = ((lengths.log() - low) / (high - low)).clamp(0, 1)
    shown = torch.where(lengths.isnan(), 0, 1 + (254 * shares).round())
    giants = lengths > GIANT
    return {
        "lengths": b64encode(bytes(shown.int().tolist())).decode(),
        "giants": [int(giants[-196:].sum()), int(giants[:-196].sum())],
    }
