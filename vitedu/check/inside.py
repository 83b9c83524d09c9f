"""Chapter 15: how far heads look, and how alike positions are."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu import interpret
from vitedu.check.verdict import (
    Mistake,
    agreement,
    check_function,
    judged,
    numbers,
)
from vitedu.interpret.distance import patch_distances

Grid = tuple[int, int]
Distance = Callable[[Sequence[Tensor], Grid, int], Tensor]


def patches(weights: Tensor) -> Tensor:
    """From patches to patches, with sums of 1."""
    shares = weights[:, :, 1:, 1:]
    return shares / shares.sum(dim=-1, keepdim=True)


def by(
    shares: Callable[[Tensor], Tensor] = patches,
    between: Callable[[Grid, int], Tensor] | None = None,
    over: tuple[int, ...] = (0, 2),
) -> Distance:
    """The book's distance with one of its parts changed."""

    def distance(maps: Sequence[Tensor], grid: Grid, size: int) -> Tensor:
        apart = (between or patch_distances)(grid, size).double()
        each = [(shares(x) * apart).sum(dim=-1).mean(dim=over) for x in maps]
        return torch.stack(each)

    return distance


def in_steps(grid: Grid, size: int) -> Tensor:
    """Rows apart plus columns apart."""
    places = torch.cartesian_prod(*map(torch.arange, grid))
    return size * (places[:, None] - places).abs().sum(dim=-1)


def last_left_out(weights: Tensor) -> Tensor:
    shares = weights[:, :, :-1, :-1]
    return shares / shares.sum(dim=-1, keepdim=True)


def softmax_again(weights: Tensor) -> Tensor:
    return weights[:, :, 1:, 1:].softmax(dim=-1)


DISTANCES = [
    Mistake(
        "without the class token's column the weights no longer sum to 1, so "
        "your distances are too short; divide by their sum",
        by(lambda x: x[:, :, 1:, 1:]),
    ),
    Mistake(
        "you divide by the sums of the columns; the patch that asks is the "
        "row, so divide by the sum over dim=-1",
        by(lambda x: x[:, :, 1:, 1:] / x[:, :, 1:, 1:].sum(-2, keepdim=True)),
    ),
    Mistake(
        "you leave out the last token; the class token is the first one",
        by(last_left_out),
    ),
    Mistake(
        "these weights have had their softmax already; dividing by their sum "
        "is enough",
        by(softmax_again),
    ),
    Mistake(
        "that's in patches; multiply by patch_size to get pixels",
        by(between=lambda grid, p: patch_distances(grid, 1)),
    ),
    Mistake(
        "you add rows and columns; the distance is the root of the sum of "
        "their squares, as torch.cdist computes it",
        by(between=in_steps),
    ),
    Mistake(
        "the root is missing: that's the mean of squared distances",
        by(between=lambda grid, p: patch_distances(grid, p).square()),
    ),
    Mistake(
        "that's the mean over heads as well; keep them apart: (blocks, heads)",
        by(over=(0, 1, 2)),
    ),
    Mistake(
        "your images are still apart; take the mean over them, too: dim=(0, 2)",
        by(over=(2,)),
    ),
]


@judged
def attention_distance(theirs: Any) -> str:
    """Check `attention_distance(maps, grid, patch_size)`, in pixels.

    A map is (b, heads, t, t), a grid is (rows, columns); the result is
    (blocks, heads).
    """
    check_function(theirs)
    maps = [4 * numbers(2, 3, 17, 17, seed=seed) for seed in range(2)]
    maps = [x.softmax(dim=-1) for x in maps]
    cases = [(maps, (4, 4), 16), (maps, (2, 8), 7)]
    return agreement(theirs, interpret.attention_distance, cases, DISTANCES)


def cosines(rows: Tensor) -> Tensor:
    rows = F.normalize(rows, dim=-1)
    return rows @ rows.mT


SIMILARITIES = [
    Mistake(
        "those are dot products, and long vectors win them; divide each row "
        "by its length first: F.normalize(..., dim=-1)",
        lambda x: x[0, 1:] @ x[0, 1:].mT,
    ),
    Mistake(
        "the class token's row is still there, and it has no place in the "
        "picture: [0, 1:]",
        lambda x: cosines(x[0]),
    ),
    Mistake(
        "you leave out the last row; the class token's is the first",
        lambda x: cosines(x[0, :-1]),
    ),
    Mistake(
        "you divide the columns of the table by their lengths, and a position "
        "is a row: dim=-1",
        lambda x: (
            F.normalize(x[0, 1:], dim=0) @ F.normalize(x[0, 1:], dim=0).mT
        ),
    ),
    Mistake(
        "you subtract the mean position first; a cosine compares the vectors "
        "as they are",
        lambda x: cosines(x[0, 1:] - x[0, 1:].mean(dim=0)),
    ),
    Mistake(
        "that's how alike the numbers of a position are, (d, d); compare the "
        "rows: rows @ rows.mT",
        lambda x: (
            F.normalize(x[0, 1:], dim=-1).mT @ F.normalize(x[0, 1:], dim=-1)
        ),
    ),
    Mistake(
        "the batch axis is still there; take the table's only one: "
        "pos_embed[0, 1:]",
        lambda x: cosines(x[0, 1:])[None],
    ),
]


@judged
def position_similarity(theirs: Any) -> str:
    """Check `position_similarity(pos_embed)`: (1, 1 + n, d) -> (n, n)."""
    check_function(theirs)
    cases = [(numbers(1, 10, 6, seed=seed) + 0.5,) for seed in range(2)]
    return agreement(theirs, lambda x: cosines(x[0, 1:]), cases, SIMILARITIES)
