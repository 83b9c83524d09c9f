"""What drawings without data are made of."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DARK = "#202020"


def arrow(
    axes: "Axes",
    start: Sequence[float],
    end: Sequence[float],
    dashed: bool = False,
) -> None:
    """An arrow between two points (x, y) of `axes`."""
    style = {
        "arrowstyle": "->",
        "color": DARK,
        "shrinkA": 0,
        "shrinkB": 0,
        "linestyle": "--" if dashed else "-",
    }
    axes.annotate("", tuple(end), tuple(start), arrowprops=style)
