"""Outlines and boxes: targets, ridge, IoU, suppression, average precision."""

import pytest
import torch
from torch.testing import assert_close

from vitedu.evaluate.dense import (
    average_precision,
    box_iou,
    box_targets,
    coverage,
    ridge,
    suppress,
)


def boxes(count, seed=0, size=100.0):
    generator = torch.Generator().manual_seed(seed)
    corner = size * torch.rand(count, 2, generator=generator)
    sides = 5 + size / 2 * torch.rand(count, 2, generator=generator)
    return torch.cat([corner, corner + sides], dim=1)


def test_coverage_is_the_share_of_each_patch():
    masks = torch.zeros(2, 8, 12, dtype=torch.bool)
    masks[0, :4, :4] = True
    masks[1, 2:6, 8:] = True
    shares = coverage(masks, 4)
    assert shares.shape == (2, 2, 3)
    assert shares[0].tolist() == [[1, 0, 0], [0, 0, 0]]
    assert shares[1].tolist() == [[0, 0, 0.5], [0, 0, 0.5]]


def test_ridge_solves_the_normal_equations():
    x = torch.randn(50, 7, dtype=torch.float64, generator=torch.manual_seed(0))
    y = torch.randn(50, 2, dtype=torch.float64)
    weights = ridge(x, y, 3.0)
    ones = torch.cat([x, torch.ones(50, 1, dtype=torch.float64)], dim=1)
    # the derivative of |Xw - y|^2 + 3 |w|^2 is zero
    slope = ones.mT @ (ones @ weights - y) + 3.0 * weights
    assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-10)


def test_a_point_learns_the_box_in_which_it_is_most_central():
    points = torch.tensor([[5.0, 5.0], [9.0, 5.0], [30.0, 5.0], [10.0, 1.0]])
    targets = torch.tensor([[0.0, 0.0, 10.0, 10.0], [6.0, 0.0, 18.0, 10.0]])
    centres, edges = box_targets(points, targets)
    # 9 is 1 from the right edge of the first, 3 from the left of the second
    expected = [1.0, (3 / 9) ** 0.5, 0.0, (4 / 8 * 1 / 9) ** 0.5]
    assert_close(centres, torch.tensor(expected))
    assert edges[0].tolist() == [5, 5, 5, 5]
    assert edges[1].tolist() == [3, 5, 9, 5]
    assert edges[3].tolist() == [4, 1, 8, 9]


def test_a_picture_without_boxes_has_no_centre():
    centres, edges = box_targets(torch.rand(3, 2), torch.zeros(0, 4))
    assert centres.tolist() == [0, 0, 0] and edges.shape == (3, 4)


def test_iou_counts_pixels():
    grid = torch.arange(40)

    def pixels(box):
        left, top, right, bottom = box
        columns = (grid >= left) & (grid < right)
        rows = (grid >= top) & (grid < bottom)
        return rows[:, None] & columns

    some = boxes(6, size=20).round().clamp(max=40)
    others = boxes(5, 1, size=20).round().clamp(max=40)
    expected = [
        [
            (pixels(a) & pixels(b)).sum() / (pixels(a) | pixels(b)).sum()
            for b in others
        ]
        for a in some
    ]
    assert_close(box_iou(some, others), torch.tensor(expected))


def test_suppression_keeps_the_best_of_each_crowd():
    some, scores = boxes(60), torch.rand(60, generator=torch.manual_seed(1))
    kept = suppress(some, scores, 0.4)
    overlap = box_iou(some, some)
    assert scores[kept].tolist() == sorted(scores[kept].tolist(), reverse=True)
    for row in range(60):
        better = [k for k in kept.tolist() if scores[k] > scores[row]]
        is_covered = any(overlap[row, k] > 0.4 for k in better)
        assert (row in kept.tolist()) != is_covered
    assert len(suppress(torch.zeros(0, 4), torch.zeros(0))) == 0


def test_boxes_without_area_come_to_an_end():
    point, turned = torch.full((1, 4), 3.0), torch.tensor([[5.0, 5, 2, 2]])
    some = torch.cat([point, point, turned, turned])
    assert len(suppress(some, torch.ones(4))) <= 4


ONE = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
FAR = ONE + 50


def precision(*pictures):
    """From (boxes, scores, true boxes) of each picture."""
    found = [(x, torch.tensor(scores)) for x, scores, _ in pictures]
    return average_precision(found, [truth for *_, truth in pictures])


def test_average_precision_by_pencil():
    both = torch.cat([ONE, FAR])
    assert precision((both, [0.9, 0.8], both)) == pytest.approx(100)
    # one of two found, nothing wrong
    assert precision((ONE, [0.9], both)) == pytest.approx(50)
    # the wrong one comes first: precision 1/2 at full recall
    assert precision((both, [0.8, 0.9], ONE)) == pytest.approx(50)
    # the wrong one comes last and costs nothing
    assert precision((both, [0.9, 0.8], ONE)) == pytest.approx(100)
    # right, wrong, right: 1 up to half of the recall, then 2/3
    first, second = (ONE, [0.9], ONE), (both, [0.8, 0.7], FAR)
    expected = 100 * (0.5 + 0.5 * 2 / 3)
    assert precision(second, first) == pytest.approx(expected)


def test_a_cell_found_twice_counts_once():
    twice = torch.cat([ONE, ONE + 1])
    assert precision((twice, [0.9, 0.8], torch.cat([ONE, FAR]))) == 50


def test_half_an_iou_is_enough_and_less_is_not():
    half = torch.tensor([[0.0, 0.0, 10.0, 5.0]])
    assert precision((half, [0.5], ONE)) == pytest.approx(100)
    assert precision((half - 0.01, [0.5], ONE)) == 0


def test_nothing_found_and_nothing_there():
    nothing = torch.zeros(0, 4)
    assert precision((nothing, [], ONE)) == 0
    assert precision((ONE, [0.5], nothing)) == 0
