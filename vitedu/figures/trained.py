"""Drawings of what a trained network looks at, and what it has learned of places."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor


def attention_maps(
    images: "Tensor", received: "Tensor", names: "Sequence[str]"
) -> "tuple[Figure, str]":
    """Images (n, 1, h, w), each beside its maps (n, maps, gh, gw), named by `names`."""
    from matplotlib.figure import Figure

    n, num_maps = received.shape[:2]
    figure = Figure(figsize=(5, n + 1.2), layout="constrained")
    panels = figure.subplots(n, num_maps + 1, squeeze=False)
    highest = received.max().item()
    for row, image, maps in zip(panels, images, received, strict=True):
        row[0].imshow(image[0].numpy(), cmap="gray_r")
        cuts(row[0], image.shape[-2:], maps.shape[-2:])
        for axes, weights in zip(row[1:], maps, strict=True):
            shown = axes.imshow(
                weights.numpy(), cmap="cividis", vmin=0, vmax=highest
            )
            cuts(axes, weights.shape, weights.shape)
        for axes in row:
            axes.set(xticks=[], yticks=[])
    for axes, name in zip(panels[0], ["image", *names], strict=True):
        axes.set_title(name, fontsize=11)
    figure.colorbar(
        shown,
        ax=panels,
        label="share of attention",
        location="bottom",
        aspect=40,
        pad=0.02,
    )
    alt = (
        f"{n} digits, each beside {num_maps} maps of the attention that its "
        f"{received[0, 0].numel()} patches receive; the highest share is {highest:.2f}."
    )
    return figure, alt


def two_maps(
    left: "Tensor", right: "Tensor", names: "Sequence[str]"
) -> "tuple[Figure, str]":
    """Two maps (gh, gw) side by side with their values, named by `names`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 2.8), layout="constrained")
    words = []
    for axes, values, name in zip(
        figure.subplots(1, 2), (left, right), names, strict=True
    ):
        axes.imshow(values.numpy(), cmap="cividis")
        middle = (values.max() + values.min()) / 2
        places = 1 if values.max() >= 10 else 2
        for y, row in enumerate(values.tolist()):
            for x, value in enumerate(row):
                color = "black" if value > middle else "white"
                text = f"{round(value, places) + 0.0:.{places}f}"  # no "-0.0"
                axes.text(x, y, text, ha="center", va="center", color=color)
        axes.set(xticks=[], yticks=[])
        axes.set_title(name, fontsize=10)
        y, x = divmod(int(values.argmax()), values.shape[1])
        words.append(
            f"{name}: highest {values.max():.{places}f} in row {y + 1}, "
            f"column {x + 1}"
        )
    return figure, "Two maps of the patches. " + "; ".join(words) + "."


def position_table(table: "Tensor") -> "tuple[Figure, str]":
    """How alike the rows of a table (gh, gw, d) are: a map (gh, gw) for each row.

    Likeness is the cosine of two rows: 1 the same direction, 0 none, -1 opposite.
    """
    from matplotlib.figure import Figure

    gh, gw = table.shape[:2]
    alike = cosines(table)
    figure = Figure(figsize=(5, 4.6), layout="constrained")
    panels = figure.subplots(gh, gw, squeeze=False)
    for y, row in enumerate(panels):
        for x, axes in enumerate(row):
            shown = axes.imshow(
                alike[y, x].numpy(), cmap="cividis", vmin=-1, vmax=1
            )
            axes.plot(x, y, "o", color="white", markeredgecolor="black")
            axes.set(xticks=[], yticks=[])
    figure.colorbar(
        shown, ax=panels, label="cosine of two positions", ticks=[-1, 0, 1]
    )
    beside, apart = neighbours(alike)
    ends = alike[:: gh - 1, :: gw - 1][..., :: gh - 1, :: gw - 1].reshape(4, 4)
    corners = (ends.sum().item() - 4) / 12  # a place is 1 to itself
    alt = (
        f"{gh * gw} maps of {gh} by {gw} patches: how alike each position is to all. "
        f"Mean cosine {beside:.2f} between neighbours, {apart:.2f} between all other "
        f"places, {corners:.2f} between the four corners."
    )
    return figure, alt


def cosines(table: "Tensor") -> "Tensor":
    """Of every row of a table (gh, gw, d) with every other: (gh, gw, gh, gw)."""
    from torch.nn import functional

    rows = functional.normalize(table.flatten(0, 1), dim=-1)
    return (rows @ rows.mT).view(*table.shape[:2], *table.shape[:2])


def neighbours(alike: "Tensor") -> tuple[float, float]:
    """Mean of (gh, gw, gh, gw) over places side by side, and over all others."""
    gh, gw = alike.shape[:2]
    places = [(y, x) for y in range(gh) for x in range(gw)]
    beside, apart = [], []
    for one in places:
        for other in places:
            distance = abs(one[0] - other[0]) + abs(one[1] - other[1])
            if distance:
                (beside if distance == 1 else apart).append(
                    alike[(*one, *other)].item()
                )
    return sum(beside) / len(beside), sum(apart) / len(apart)


def cuts(axes: "Axes", size: "Sequence[int]", grid: "Sequence[int]") -> None:
    """Lines between the patches of a panel of `size` pixels."""
    for row in range(1, grid[0]):
        edge = row * size[0] / grid[0] - 0.5
        axes.axhline(edge, color="#33658a", linewidth=0.8)
    for column in range(1, grid[1]):
        edge = column * size[1] / grid[1] - 0.5
        axes.axvline(edge, color="#33658a", linewidth=0.8)
