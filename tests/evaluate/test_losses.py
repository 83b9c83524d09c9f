"""Two cross-entropies: against the formula, and what they begin with."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.train.runs import SHORT
from vitedu.evaluate.losses import (
    LOSSES,
    balanced_weights,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
)
from vitedu.model.classifier import LossName
from vitedu.train.state import build_loss

# float64, 28 terms
EXACT = {"rtol": 1e-13, "atol": 0}


def config(**fields):
    return replace(SHORT, **fields)


def drawn(num_images=7, classes=4):
    torch.manual_seed(0)
    logits = 3 * torch.randn(num_images, classes, dtype=torch.float64)
    return logits, torch.randint(classes, (num_images,))


def smoothed(target, smoothing):
    return (1 - smoothing) * target + smoothing / target.shape[-1]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_softmax_is_minus_the_log_of_the_targets_probability(smoothing):
    logits, labels = drawn()
    target = smoothed(F.one_hot(labels, 4).double(), smoothing)
    want = -(target * logits.softmax(-1).log()).sum()
    got = softmax_cross_entropy(logits, labels, label_smoothing=smoothing)
    assert_close(got, want, **EXACT)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sigmoid_is_a_yes_or_no_for_every_class(smoothing):
    logits, labels = drawn()
    target = smoothed(F.one_hot(labels, 4).double(), smoothing)
    yes = logits.sigmoid()
    want = -(target * yes.log() + (1 - target) * (1 - yes).log()).sum()
    got = sigmoid_cross_entropy(logits, labels, label_smoothing=smoothing)
    # 1 - yes loses digits where yes is near 1
    assert_close(got, want, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kept", [1.0, 0.7], ids=["hard", "mixed"])
def test_each_share_of_a_label_counts_as_its_class_says(name, smoothing, kept):
    logits, labels = drawn()
    weights = torch.tensor([0.5, 2.0, 1.0, 3.0], dtype=torch.float64)
    want = 0.0
    for row, one, other in zip(logits, labels, labels.roll(1), strict=True):
        for share, label in ((kept, one), (1 - kept, other)):
            loss = LOSSES[name](
                row[None], label[None], label_smoothing=smoothing
            )
            want += share * weights[label] * loss
    hard = F.one_hot(labels, 4).double()
    given = labels if kept == 1 else hard.lerp(hard.roll(1, 0), 1 - kept)
    got = LOSSES[name](
        logits, given, label_smoothing=smoothing, class_weights=weights
    )
    assert_close(got, want, rtol=1e-12, atol=0)


def test_balanced_classes_weigh_the_same_and_an_image_one_on_average():
    labels = torch.tensor([0] * 9 + [2] * 3 + [3])  # none of class 1
    each = balanced_weights(labels, 4)[labels]
    assert_close(each.mean(), torch.tensor(1.0))
    assert_close(each[:9].sum(), each[9:12].sum())
    assert_close(each[:9].sum(), each[12])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_row_of_one_is_the_whole_number(name, smoothing):
    loss = build_loss(config(loss=name, label_smoothing=smoothing))
    logits, labels = drawn()
    soft = F.one_hot(labels, 4).double()
    assert_close(loss(logits, soft), loss(logits, labels), **EXACT)


@pytest.mark.parametrize("name", LOSSES)
def test_a_mixture_of_labels_costs_the_mixture(name):
    # both are linear in the target
    loss, (logits, labels) = build_loss(config(loss=name)), drawn()
    other = labels.roll(1)
    soft = 0.3 * F.one_hot(labels, 4) + 0.7 * F.one_hot(other, 4).double()
    want = 0.3 * loss(logits, labels) + 0.7 * loss(logits, other)
    # 0.3 times whole numbers is float32
    assert_close(loss(logits, soft), want, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("dtype", "want"),
    [
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
@pytest.mark.parametrize("labels", ["whole", "soft"])
def test_half_formats_are_widened_and_float64_is_kept(
    name, dtype, want, labels
):
    loss, (logits, target) = build_loss(config(loss=name)), drawn()
    if labels == "soft":
        target = F.one_hot(target, 4).float()
    logits = logits.to(dtype).requires_grad_()
    got = loss(logits, target)
    assert got.dtype == want
    assert_close(got, loss(logits.to(want), target), rtol=0, atol=0)
    got.backward()
    assert logits.grad.dtype == dtype


def test_sigmoid_stays_finite_where_it_saturates():
    logits = torch.tensor([[1e4, -1e4]])
    labels = torch.tensor([1])
    # both classes are wrong by 1e4
    assert sigmoid_cross_entropy(logits, labels).item() == 2e4


def test_every_choice_of_a_config_is_a_loss():
    assert set(get_args(LossName)) == set(LOSSES)
