"""Counting from all answers of a model at once."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vitedu.data import ArraySource, PreprocessSpec, load_dataset, subset
from vitedu.evaluate import Answers, accuracy, all_logits, top_k_correct


def answers():
    """Three images, four classes; the true class is first, second, last."""
    logits = torch.tensor(
        [[9.0, 1.0, 2.0, 3.0], [5.0, 4.0, 1.0, 0.0], [3.0, 2.0, 1.0, 0.0]]
    )
    return Answers(logits, torch.tensor([0, 1, 3]))


@pytest.mark.parametrize(("k", "count"), [(1, 1), (2, 2), (3, 2), (5, 3)])
def test_an_image_counts_where_its_label_is_among_the_largest(k, count):
    assert top_k_correct(answers(), k) == count


def test_it_agrees_with_accuracy_however_the_batches_are_cut():
    digits = load_dataset("digits")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).eval()
    source = ArraySource(
        subset(digits.test, 100),
        digits.class_names,
        preprocess=PreprocessSpec(image_size=28, in_channels=1),
    )
    measured = accuracy(model, source.batches(batch_size=32))
    for batch_size in (100, 7):
        found = all_logits(model, source.batches(batch_size=batch_size))
        assert found.logits.shape == (100, 10)
        assert top_k_correct(found, 1) == measured.num_correct
        loss = F.cross_entropy(*found).item()
        # float32 sums
        assert math.isclose(loss, measured.loss, rel_tol=1e-5)


def test_a_model_in_training_mode_or_without_images_is_refused():
    with pytest.raises(ValueError, match="eval mode"):
        all_logits(nn.Identity(), [])
    with pytest.raises(ValueError, match="at least one image"):
        all_logits(nn.Identity().eval(), [])
