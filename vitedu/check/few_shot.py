"""Chapter 13: the nearest mean, and least squares on whitened features."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.check.verdict import (
    Mistake,
    agreement,
    check_function,
    judged,
    numbers,
)
from vitedu.evaluate.fewshot import least_squares as book
from vitedu.evaluate.fewshot import whiten

Fit = tuple[Tensor, Tensor, Tensor]


def fit(
    x: Tensor,
    y: Tensor,
    l2: float,
    *,
    off: float = -1.0,
    correction: int = 0,
    bias: float = 100.0,
    is_centred: bool = True,
) -> Fit:
    """Least squares as the book's, but for a mistake."""
    targets = (1 - off) * F.one_hot(y).double() + off
    mean, std = x.mean(dim=0), x.std(dim=0, correction=correction) + 1e-5
    x = whiten(x, mean if is_centred else torch.zeros_like(mean), std)
    x[:, -1] = bias
    if len(x) >= x.shape[1]:
        square = x.mT @ x + l2 * torch.eye(x.shape[1], dtype=x.dtype)
        return mean, std, torch.linalg.solve(square, x.mT @ targets)
    square = x @ x.mT + l2 * torch.eye(len(x), dtype=x.dtype)
    return mean, std, x.mT @ torch.linalg.solve(square, targets)


def transposed(x: Tensor, y: Tensor, l2: float) -> Fit:
    """The sizes divide the rows of the vectors, not their columns."""
    mean, std, _ = book(x, y, l2)
    x, targets = whiten(x, mean, std), 2.0 * F.one_hot(y).double() - 1.0
    wide = len(x) < x.shape[1]
    values, vectors = torch.linalg.eigh(x @ x.mT if wide else x.mT @ x)
    inverse = (vectors / (values + l2)[:, None]) @ vectors.mT
    if wide:
        return mean, std, x.mT @ (inverse @ targets)
    return mean, std, inverse @ (x.mT @ targets)


LEAST_SQUARES = [
    Mistake(
        "the targets should be 1 and -1, not 1 and 0: 2 * one_hot - 1",
        lambda x, y, l2: fit(x, y, l2, off=0.0),
    ),
    Mistake(
        "the deviation divides by n - 1; the authors' divides by n: "
        "correction=0",
        lambda x, y, l2: fit(x, y, l2, correction=1),
    ),
    Mistake(
        "the column for the bias has ones; it should have 100 in every row",
        lambda x, y, l2: fit(x, y, l2, bias=1.0),
    ),
    Mistake(
        "the mean isn't subtracted: (x - mean) / std",
        lambda x, y, l2: fit(x, y, l2, is_centred=False),
    ),
    Mistake(
        "lambda has no effect; add l2 to the values before you divide",
        lambda x, y, l2: fit(x, y, 0.0),
    ),
    Mistake(
        "the sizes divide the rows of vectors; each column is a direction, so "
        "write vectors / (values + l2)",
        transposed,
    ),
]


@judged
def least_squares(theirs: Any) -> str:
    """Check `least_squares(x, y, l2)` with many photographs, and with few."""
    check_function(theirs)
    cases = [
        (3 * numbers(n, d, seed=n) + 1, torch.arange(n) % 3, 5.0)
        for n, d in ((24, 4), (6, 9))
    ]
    return agreement(
        theirs, lambda *case: tuple(book(*case)), cases, LEAST_SQUARES
    )


def nearest(x: Tensor, y: Tensor, xt: Tensor, yt: Tensor) -> float:
    means = torch.stack([x[y == label].mean(dim=0) for label in y.unique()])
    return shared(torch.cdist(xt, means).argmin(dim=1), yt)


def shared(answers: Tensor, truth: Tensor) -> float:
    return (answers == truth).double().mean().item()


def one_mean(x: Tensor, y: Tensor, xt: Tensor, yt: Tensor) -> float:
    means = x.view(-1, len(y.unique()), x.shape[1]).mean(dim=0)
    return shared(torch.cdist(xt, means).argmin(dim=1), yt)


def farthest(x: Tensor, y: Tensor, xt: Tensor, yt: Tensor) -> float:
    means = torch.stack([x[y == label].mean(dim=0) for label in y.unique()])
    return shared(torch.cdist(xt, means).argmax(dim=1), yt)


def by_product(x: Tensor, y: Tensor, xt: Tensor, yt: Tensor) -> float:
    means = torch.stack([x[y == label].mean(dim=0) for label in y.unique()])
    return shared((xt @ means.mT).argmax(dim=1), yt)


def neighbour(x: Tensor, y: Tensor, xt: Tensor, yt: Tensor) -> float:
    return shared(y[torch.cdist(xt, x).argmin(dim=1)], yt)


NEAREST_MEAN = [
    Mistake("that's the farthest mean: argmin, not argmax", farthest),
    Mistake(
        "that's the largest product with a mean, not the smallest distance; "
        "long means win it too often",
        by_product,
    ),
    Mistake(
        "that's the nearest photograph; take the mean of each class first",
        neighbour,
    ),
    Mistake(
        "that's a count, or percents; the mean of right answers is a share",
        lambda *case: 100 * nearest(*case),
    ),
    Mistake(
        "the means mix the classes; x[y == label] has those of one",
        one_mean,
    ),
]


@judged
def nearest_mean(theirs: Any) -> str:
    """Check `nearest_mean(x, y, xt, yt)`, which returns a share."""
    check_function(theirs)
    y, yt = torch.arange(3).repeat_interleave(8), torch.arange(300) % 3
    centres = 2 * numbers(3, 5, seed=7) + torch.tensor([[0.0], [2.0], [4.0]])
    x = centres[y] + 1.5 * numbers(24, 5, seed=8)
    xt = centres[yt] + 3 * numbers(300, 5, seed=9)
    return agreement(theirs, nearest, [(x, y, xt, yt)], NEAREST_MEAN)
