"""Dense prediction: outlines and boxes from the tokens of a frozen ViT.

weights = ridge(tokens, coverage(masks, 16).flatten()[:, None], l2=10.0)
average_precision(found, truths) is 100 if every box was found, and no other.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def coverage(masks: Tensor, patch_size: int) -> Tensor:
    """The share of each patch in a mask: (b, h, w) bool -> (b, gh, gw).

    ValueError: the masks don't divide into patches.
    """
    rows, columns = (size % patch_size for size in masks.shape[1:])
    if rows or columns:
        height, width = masks.shape[1:]
        raise ValueError(
            f"coverage: masks of {height}x{width} do not divide into patches "
            f"of {patch_size} ({rows} rows and {columns} columns left over); "
            f"cut masks and pictures to {height - rows}x{width - columns}"
        )
    return F.avg_pool2d(masks[:, None].float(), patch_size)[:, 0]


def ridge(x: Tensor, y: Tensor, l2: float) -> Tensor:
    """Least squares from x (n, d) to y (n, k): (d + 1, k), the bias last."""
    x = F.pad(x, (0, 1), value=1.0)
    square = x.mT @ x + l2 * torch.eye(x.shape[1])
    return torch.linalg.solve(square, x.mT @ y)


def box_targets(points: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """How central points (n, 2) are in their box (m, 4), and its distances.

    Centreness (n,) is 1 in the middle of a box and 0 on its edge and outside.
    Distances (n, 4) are to the left, top, right and bottom edge. A point in
    several boxes belongs to the one where it is most central.
    Source: Tian et al. 2019, "FCOS", equations (1) and (3).
    """
    if len(boxes) == 0:
        return torch.zeros(len(points)), torch.zeros(len(points), 4)
    before = points[:, None] - boxes[:, :2]  # (n, m, 2): left and top
    behind = boxes[:, 2:] - points[:, None]  # right and bottom
    near = torch.minimum(before, behind).clamp(min=0)
    shares = near / torch.maximum(before, behind)
    centreness, best = shares.prod(dim=2).sqrt().max(dim=1)
    distances = torch.cat([before, behind], dim=2)
    return centreness, distances[torch.arange(len(points)), best]


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes (n, 4) and (m, 4): (n, m)."""
    low = torch.maximum(a[:, None, :2], b[:, :2])
    high = torch.minimum(a[:, None, 2:], b[:, 2:])
    common = (high - low).clamp(min=0).prod(dim=2)
    areas = [(each[:, 2:] - each[:, :2]).prod(dim=1) for each in (a, b)]
    return common / (areas[0][:, None] + areas[1] - common)


def suppress(boxes: Tensor, scores: Tensor, most: float = 0.5) -> Tensor:
    """Which boxes (n, 4) to keep, the best first: their rows.

    A box goes if its IoU with a better one that is kept exceeds `most`.
    """
    order, kept = scores.argsort(descending=True), []
    overlap = box_iou(boxes, boxes)
    while len(order):
        best, order = order[0], order[1:]
        kept.append(best)
        order = order[overlap[best, order] <= most]
    return torch.stack(kept) if kept else order


def average_precision(
    found: Sequence[tuple[Tensor, Tensor]],
    truths: Sequence[Tensor],
    least: float = 0.5,
) -> float:
    """The area under precision over recall, in percent, of one class.

    `found` has boxes (n, 4) and scores (n,) for each picture, `truths` its true
    boxes (m, 4). From the highest score on, a box is right if the true box
    nearest to it (by IoU) has an IoU of `least` or more and wasn't found
    before. Precision is the best at this recall or a higher one.
    Source: the PASCAL VOC challenge from 2010 on.
    """
    scores, hits = [torch.zeros(0)], [torch.zeros(0)]
    for (boxes, given), truth in zip(found, truths, strict=True):
        order = given.argsort(descending=True)
        right = torch.zeros(len(order))
        taken = set()
        if len(truth) and len(boxes):
            values, nearest = box_iou(boxes[order], truth).max(dim=1)
            for row in (values >= least).nonzero()[:, 0].tolist():
                right[row] = nearest[row].item() not in taken
                taken.add(nearest[row].item())
        scores.append(given[order])
        hits.append(right)
    order = torch.cat(scores).argsort(descending=True, stable=True)
    hit = torch.cat(hits)[order]
    precision = hit.cumsum(0) / torch.arange(1, len(hit) + 1)
    best = precision.flip(0).cummax(0).values.flip(0)
    return 100 * (best * hit).sum().item() / max(1, sum(map(len, truths)))
