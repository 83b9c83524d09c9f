"""Charts: axes with numbers, on a white ground."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 5  # inches: 11 points stay legible on a phone


def chart(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def bare(axes: Axes, *sides: str) -> None:
    """Hide the frame on these sides; top and right by default."""
    axes.spines[list(sides or ("top", "right"))].set_visible(False)


def note(
    axes: Axes,
    words: str,
    point: Sequence[float],
    offset: Sequence[float],
    fontsize: float = 11,
    **options: Any,
) -> None:
    """Text at a data point (x, y), moved by `offset` in points."""
    axes.annotate(
        words,
        point,
        offset,
        textcoords="offset points",
        fontsize=fontsize,
        **options,
    )
