"""Chapter 20: a ridge head, what a box head learns, and boxes kept once."""

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
from vitedu.evaluate import dense


def solved(x: Tensor, y: Tensor, penalty: Tensor | float) -> Tensor:
    return torch.linalg.solve(x.mT @ x + penalty, x.mT @ y)


def with_ones(x: Tensor, *, first: bool = False) -> Tensor:
    return F.pad(x, (1, 0) if first else (0, 1), value=1.0)


def ruler(x: Tensor, l2: float) -> Tensor:
    return l2 * torch.eye(x.shape[1], dtype=x.dtype)


RIDGE = [
    Mistake(
        "the penalty is missing: add l2 to the diagonal of x.mT @ x",
        lambda x, y, l2: solved(with_ones(x), y, 0.0),
    ),
    Mistake(
        "l2 is added to every number of the square; only its diagonal grows: "
        "l2 * torch.eye(...)",
        lambda x, y, l2: solved(with_ones(x), y, l2),
    ),
    Mistake(
        "there is no bias: give x a last column of ones",
        lambda x, y, l2: solved(x, y, ruler(x, l2)),
    ),
    Mistake(
        "the bias comes first; append the column of ones, so that its weights "
        "are the last row",
        lambda x, y, l2: solved(
            with_ones(x, first=True), y, ruler(with_ones(x), l2)
        ),
    ),
    Mistake(
        "that's the penalty of the mean, len(x) times too strong or too weak; "
        "add up over the rows, don't average",
        lambda x, y, l2: solved(
            with_ones(x), y, ruler(with_ones(x), l2 * len(x))
        ),
    ),
]


@judged
def ridge(theirs: Any) -> str:
    """Check `ridge(x, y, l2)`: (n, d) and (n, k) to (d + 1, k)."""
    check_function(theirs)
    cases = [
        (numbers(40, 5), numbers(40, 2, seed=1), 3.0),
        (numbers(9, 4, seed=2), numbers(9, 1, seed=3), 0.5),
    ]
    return agreement(theirs, dense.ridge, cases, RIDGE)


def targets(
    points: Tensor,
    boxes: Tensor,
    root: bool = True,
    inside: bool = True,
    order: tuple[int, ...] = (0, 1, 2, 3),
    sign: float = 1.0,
    by_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """`box_targets`, with one thing done differently."""
    before = points[:, None] - boxes[:, :2]
    behind = boxes[:, 2:] - points[:, None]
    near = torch.minimum(before, behind)
    near = near.clamp(min=0) if inside else near
    shares = (near / torch.maximum(before, behind)).prod(dim=2)
    centreness, best = (shares.sqrt() if root else shares).max(dim=1)
    if by_first:
        best = (near.amin(dim=2) > 0).int().argmax(dim=1)
    edges = torch.cat([before, sign * behind], dim=2)[..., list(order)]
    return centreness, edges[torch.arange(len(points)), best]


TARGETS = [
    Mistake(
        "the root is missing: centreness is the square root of the product",
        lambda points, boxes: targets(points, boxes, root=False),
    ),
    Mistake(
        "outside of a box, left of it and above it, two negative shares make a "
        "positive one; clamp the nearer distances at 0",
        lambda points, boxes: targets(points, boxes, root=False, inside=False),
    ),
    Mistake(
        "the distances go left, right, top, bottom; we use left, top, right, "
        "bottom, as boxes do",
        lambda points, boxes: targets(points, boxes, order=(0, 2, 1, 3)),
    ),
    Mistake(
        "inside of a box, the distances to its right and bottom edge are "
        "negative: subtract the point from the edge there",
        lambda points, boxes: targets(points, boxes, sign=-1.0),
    ),
    Mistake(
        "a point in several boxes takes the distances of the first; take those "
        "of the box in which it's most central",
        lambda points, boxes: targets(points, boxes, by_first=True),
    ),
]


def some_boxes(count: int, seed: int) -> Tensor:
    corner = 30 * numbers(count, 2, seed=seed).sigmoid()
    sides = 8 + 20 * numbers(count, 2, seed=seed + 1).sigmoid()
    return torch.cat([corner, corner + sides], dim=1)


@judged
def box_targets(theirs: Any) -> str:
    """Check `box_targets(points, boxes)`: centreness (n,), distances (n, 4)."""
    check_function(theirs)
    boxes = some_boxes(4, 10)
    points = 50 * numbers(200, 2, seed=12).sigmoid()
    # where a point is in no box, its distances say nothing
    middle = (boxes[:, None, :2] + boxes[:, None, 2:]) / 2
    inside = middle + 0.4 * numbers(1, 30, 2).tanh() * (
        boxes[:, None, 2:] - boxes[:, None, :2]
    )
    cases = [(inside.flatten(0, 1), boxes), (points, boxes)]

    def shown(found: Any) -> Any:
        if not isinstance(found, tuple | list) or len(found) != 2:
            return found
        centreness, edges = found
        if not isinstance(edges, Tensor) or edges.shape != (
            *centreness.shape,
            4,
        ):
            return found
        return centreness, edges * (centreness[:, None] > 0)

    def judge(function: Any) -> Any:
        return lambda points, boxes: shown(function(points, boxes))

    mistakes = [Mistake(hint, judge(each)) for hint, each in TARGETS]
    return agreement(judge(theirs), judge(dense.box_targets), cases, mistakes)


def kept(
    boxes: Tensor,
    scores: Tensor,
    most: float,
    descending: bool = True,
    by_dropped: bool = False,
) -> Tensor:
    """`suppress`, with one thing done differently."""
    overlap = dense.box_iou(boxes, boxes)
    found: list[int] = []
    order = scores.argsort(descending=descending).tolist()
    for place, row in enumerate(order):
        rivals = order[:place] if by_dropped else found
        if all(overlap[row, other] <= most for other in rivals):
            found.append(row)
    return torch.tensor(found)


SUPPRESS = [
    Mistake(
        "it starts from the lowest score; sort with descending=True",
        lambda *case: kept(*case, descending=False),
    ),
    Mistake(
        "boxes that were dropped still drop others; only a box that is kept "
        "may",
        lambda *case: kept(*case, by_dropped=True),
    ),
    Mistake(
        "the right boxes, but not the best first",
        lambda *case: kept(*case).sort().values,
    ),
    Mistake(
        "return the rows of the boxes to keep, not the boxes",
        lambda boxes, scores, most: boxes[kept(boxes, scores, most)],
    ),
    Mistake(
        "nothing is dropped",
        lambda boxes, scores, most: scores.argsort(descending=True),
    ),
]


@judged
def suppress(theirs: Any) -> str:
    """Check `suppress(boxes, scores, most)`: the rows of the boxes to keep."""
    check_function(theirs)
    cases = [
        (some_boxes(40, 20), numbers(40, seed=22).sigmoid(), 0.4),
        (some_boxes(25, 30), numbers(25, seed=32).sigmoid(), 0.2),
    ]
    return agreement(theirs, dense.suppress, cases, SUPPRESS)
