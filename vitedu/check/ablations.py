"""Chapter 16: a 2-D table, a relative bias, and an axial block."""

import math
from collections.abc import Callable
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from vitedu.check.verdict import (
    Mistake,
    agreement,
    check_function,
    judged,
    numbers,
)

Block = Callable[[Tensor], Tensor]
Grid = tuple[int, int]


def tables(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both tables with a row per patch, row by row."""
    return x.repeat(len(y), 1), y.repeat_interleave(len(x), dim=0)


def by_columns(x: Tensor, y: Tensor) -> Tensor:
    across, down = x.repeat_interleave(len(y), dim=0), y.repeat(len(x), 1)
    return torch.cat([across, down], dim=1)


TABLES = [
    Mistake(
        "Y comes first; the columns' numbers go in front: [x, y]",
        lambda x, y: torch.cat(tables(x, y)[::-1], dim=1),
    ),
    Mistake(
        "patches go column by column; they're read row by row, so x repeats as "
        "a whole, and each row of y stays for a whole line",
        by_columns,
    ),
    Mistake(
        "you add X and Y, and then 1 + 3 is the same as 3 + 1; put them side "
        "by side: torch.cat([...], dim=1)",
        lambda x, y: torch.add(*tables(x, y)),
    ),
]


@judged
def table_2d(theirs: Any) -> str:
    """Check `table_2d(x, y)`: (gw, c) and (gh, c) to (gh * gw, 2 * c)."""
    check_function(theirs)
    cases = [
        (numbers(3, 4), numbers(2, 4, seed=1)),
        (numbers(2, 3, seed=2), numbers(5, 3, seed=3)),
    ]
    return agreement(
        theirs, lambda x, y: torch.cat(tables(x, y), dim=1), cases, TABLES
    )


def bias(
    q: Tensor,
    table: Tensor,
    rows: Callable[[Tensor, int], Tensor] = lambda offset, t: offset + t - 1,
    scaled: bool = True,
) -> Tensor:
    """`relative_bias`, with one thing done differently."""
    t, hd = q.shape[2:]
    scores = q @ table.mT / (math.sqrt(hd) if scaled else 1)
    place = torch.arange(t)
    found = rows(place[:, None] - place, t)
    return scores.gather(-1, found.expand(*q.shape[:3], t))


BIASES = [
    Mistake(
        "the offsets are turned round: it's the place of the query less that "
        "of the key, place[:, None] - place",
        lambda q, table: bias(q, table, lambda offset, t: t - 1 - offset),
    ),
    Mistake(
        "the root is missing: divide by sqrt(hd), as the scores are",
        lambda q, table: bias(q, table, scaled=False),
    ),
    Mistake(
        "you take how far, without the sign: left and right are the same then",
        lambda q, table: bias(q, table, lambda offset, t: offset.abs() + t - 1),
    ),
    Mistake(
        "a negative offset is counted from the table's end; add t - 1, so that "
        "the first row belongs to the smallest offset",
        lambda q, table: bias(q, table, lambda offset, t: offset % (2 * t - 1)),
    ),
]


@judged
def relative_bias(theirs: Any) -> str:
    """Check `relative_bias(q, table)`: (b, heads, t, hd) to (b, heads, t, t).

    The table is (heads, 2t - 1, hd).
    """
    check_function(theirs)
    cases = [
        (numbers(2, 3, 5, 4), numbers(3, 9, 4, seed=1)),
        (numbers(1, 2, 3, 8, seed=2), numbers(2, 5, 8, seed=3)),
    ]
    return agreement(theirs, bias, cases, BIASES)


def along(block: Block, x: Tensor, grid: Grid, axis: str) -> Tensor:
    """(b, n, d) -> (b, n, d): each line along the axis by itself."""
    gh, gw = grid
    if axis == "row":
        lines = block(rearrange(x, "b (gh gw) d -> (b gh) gw d", gh=gh))
        return rearrange(lines, "(b gh) gw d -> b (gh gw) d", gh=gh)
    lines = block(rearrange(x, "b (gh gw) d -> (b gw) gh d", gw=gw))
    return rearrange(lines, "(b gw) gh d -> b (gh gw) d", gw=gw)


def both(row: Block, column: Block, x: Tensor, grid: Grid) -> Tensor:
    return along(column, along(row, x, grid, "row"), grid, "column")


def turned(row: Block, column: Block, x: Tensor, grid: Grid) -> Tensor:
    found = both(row, column, x, grid)
    return rearrange(found, "b (gh gw) d -> b (gw gh) d", gh=grid[0])


AXES = [
    Mistake(
        "the patches come back column by column; bring them into their old "
        "order: b (gh gw) d",
        turned,
    ),
    Mistake(
        "both blocks run along the rows; for the second, a column has to "
        "become a line: (b gw) gh d",
        lambda row, column, x, grid: along(
            column, along(row, x, grid, "row"), grid, "row"
        ),
    ),
    Mistake(
        "the columns go first; rows first, then columns",
        lambda row, column, x, grid: along(
            row, along(column, x, grid, "column"), grid, "row"
        ),
    ),
    Mistake(
        "the two blocks are swapped: the first is for the rows",
        lambda row, column, x, grid: both(column, row, x, grid),
    ),
    Mistake(
        "both blocks see all patches at once; each line has to be an example "
        "of its own: (b gh) gw d",
        lambda row, column, x, grid: column(row(x)),
    ),
]


def sums(x: Tensor) -> Tensor:
    """A block that mixes what's in a line, and minds the order."""
    return x + x.cumsum(dim=1).tanh()


def peaks(x: Tensor) -> Tensor:
    """Another one."""
    return x * x.amax(dim=1, keepdim=True) - x[:, :1]


@judged
def axial(theirs: Any) -> str:
    """Check `axial(row, column, x, grid)`: (b, n, d) to (b, n, d)."""
    check_function(theirs)
    cases = [
        (sums, peaks, numbers(2, 6, 4), (2, 3)),
        (peaks, sums, numbers(3, 8, 2, seed=1), (4, 2)),
    ]
    return agreement(theirs, both, cases, AXES)
