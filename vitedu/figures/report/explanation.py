"""What a model sees in one picture: one page, as the report of a run."""

from typing import Any

import torch
import torch.nn.functional as F
from markupsafe import Markup
from matplotlib.axes import Axes
from torch import Tensor

from vitedu.figures.palette import PALE, PATCHES, STREAM
from vitedu.figures.report.charts import INK, drawn_svg
from vitedu.figures.report.examples import as_seen, lit
from vitedu.figures.report.page import place_of_most, template
from vitedu.interpret import Explanation, attention_distance
from vitedu.interpret.removal import SHARES
from vitedu.model import ViT

DARK = 0.25  # of a picture where no giant is


def render(found: Explanation, model: ViT, name: str, whose: str) -> str:
    picture = as_seen(found.image, model.preprocess)
    title = f"What a ViT sees in {name}"
    if found.answers:
        title = f"{found.answers[0].name}, {found.answers[0].probability:.0%}"
    means = found.distance.mean(dim=1)
    giants = as_image(found.outliers[None].float(), picture)
    values: dict[str, Any] = found._asdict() | {
        "title": title,
        "name": name,
        "model": whose,
        "picture": picture,
        "rollout": None,
        "class_maps": [],
        "distance": Markup(drawn_svg(lambda axes: distances(axes, found))),
        "distance_alt": (
            f"Mean distance of attention in {len(means)} blocks: "
            f"{means[0]:.0f} pixels in the first, {means[-1]:.0f} in the last."
        ),
        "components": as_image(found.components.permute(2, 0, 1), picture),
        "outliers": picture * (DARK + (1 - DARK) * giants),
        "num_outliers": int(found.outliers.sum()),
        "curves": None,
        "versions": f"PyTorch {torch.__version__}",
    }
    if found.rollout is not None:
        values["rollout"] = lit(picture, found.rollout.cpu())
        values["rollout_alt"] = place_of_most(found.rollout)
    if found.class_maps is not None:
        maps = found.class_maps.float().cpu()
        calm = maps.masked_fill(found.outliers.cpu(), 0)
        values["class_maps"] = [
            (lit(picture, each), lit(picture, without))
            for each, without in zip(maps, calm, strict=True)
        ]
    if found.curves:
        drawn = drawn_svg(lambda axes: curves(axes, found.curves))
        values["curves"] = Markup(drawn)
        values["curves_alt"] = curves_alt(found.curves)
    return template("explanation.html").render(values)


def as_image(pixels: Tensor, like: Tensor) -> Tensor:
    """(c, gh, gw) in squares, as large as `like`."""
    size = like.shape[-2:]
    return F.interpolate(pixels[None].float().cpu(), size, mode="nearest")[0]


def distances(axes: Axes, found: Explanation) -> None:
    """A dot per head over the blocks, and the line of uniform attention."""
    grid = found.outliers.shape
    size = found.image.shape[1] // grid[0], found.image.shape[2] // grid[1]
    every = torch.full((1, 1, grid.numel(), grid.numel()), 1 / grid.numel())
    (uniform,) = attention_distance([every], grid, size).flatten().tolist()
    for block, heads in enumerate(found.distance.tolist(), start=1):
        axes.plot([block] * len(heads), heads, "o", color=PATCHES)
    axes.axhline(uniform, color=PALE, linestyle="--")
    axes.set(xlabel="block", ylabel="mean distance (pixels)", ylim=(0, None))
    axes.locator_params(axis="x", integer=True)


def curves(axes: Axes, lines: dict[str, Tensor]) -> None:
    looks = {"rollout": (PATCHES, "-"), "random": (STREAM, "--")}
    shares = [100 * share for share in SHARES]
    for name, values in lines.items():
        color, style = looks[name]
        percents = (100 * values).tolist()
        axes.plot(shares, percents, style, color=color, marker="o", label=name)
    axes.set(xlabel="patches removed (%)", ylabel="probability (%)")
    axes.set_ylim(0)
    axes.legend(frameon=False, labelcolor=INK)


def curves_alt(lines: dict[str, Tensor]) -> str:
    told = [
        f"{name} {', '.join(f'{100 * x:.0f}' for x in values.tolist())}"
        for name, values in lines.items()
    ]
    shares = ", ".join(f"{100 * share:.0f}" for share in SHARES)
    return (
        f"Probability in percent after {shares} percent of the patches are "
        f"removed: {'; '.join(told)}."
    )
