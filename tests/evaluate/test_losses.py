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
from vitedu.train.step import build_loss

# float64, 28 terms
EXACT = {"rtol": 1e-13, "atol": 0}


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
@pytest.mark.parametrize("given", [None, (0.5, 2.0, 1.0, 3.0)])
def test_each_share_of_a_label_counts_as_its_class_says(
    name, smoothing, kept, given
):
    logits, labels = drawn()
    weights = torch.tensor(given or (1.0,) * 4, dtype=torch.float64)
    want = 0.0
    for row, one, other in zip(logits, labels, labels.roll(1), strict=True):
        for share, label in ((kept, one), (1 - kept, other)):
            loss = LOSSES[name](
                row[None], label[None], label_smoothing=smoothing
            )
            want += share * weights[label] * loss
    hard = F.one_hot(labels, 4).double()
    soft = hard.lerp(hard.roll(1, 0), 1 - kept)
    for target in (labels, soft) if kept == 1 else (soft,):
        got = LOSSES[name](
            logits,
            target,
            label_smoothing=smoothing,
            class_weights=weights if given else None,
        )
        assert_close(got, want, rtol=1e-12, atol=0)


def test_balanced_classes_weigh_the_same_and_an_image_one_on_average():
    labels = torch.tensor([0] * 9 + [2] * 3 + [3])  # none of class 1
    each = balanced_weights(labels, 4)[labels]
    assert_close(each.mean(), torch.tensor(1.0))
    assert_close(each[:9].sum(), each[9:12].sum())
    assert_close(each[:9].sum(), each[12])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_half_formats_are_widened_and_float64_is_kept(name, dtype):
    # as a run builds it, with all of its settings
    loss = build_loss(replace(SHORT, loss=name, label_smoothing=0.1))
    want = torch.float64 if dtype == "float64" else torch.float32
    logits, labels = drawn()
    for target in (labels, F.one_hot(labels, 4).float()):
        logits = logits.detach().to(getattr(torch, dtype)).requires_grad_()
        got = loss(logits, target)
        assert got.dtype == want
        assert_close(got, loss(logits.to(want), target), rtol=0, atol=0)
        got.backward()
        assert logits.grad.dtype == logits.dtype


def test_sigmoid_stays_finite_where_it_saturates():
    logits = torch.tensor([[1e4, -1e4]])
    labels = torch.tensor([1])
    # both classes are wrong by 1e4
    assert sigmoid_cross_entropy(logits, labels).item() == 2e4


def test_every_choice_of_a_config_is_a_loss():
    assert set(get_args(LossName)) == set(LOSSES)
