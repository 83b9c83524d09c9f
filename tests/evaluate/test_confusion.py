"""Which classes are taken for which: counted by hand and by scikit-learn."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.evaluate.small import cut, prepared, small
from vitedu import UserError
from vitedu.evaluate import accuracy
from vitedu.evaluate.confusion import (
    Predictions,
    class_scores,
    confusion_matrix,
    most_confused,
    predictions,
)

LABELS = [0, 0, 0, 1, 1, 2, 2, 2, 2]
CLASSES = [0, 1, 1, 1, 0, 2, 2, 0, 0]


def answers(num_classes=4):
    """Nine images of three classes out of four."""
    return Predictions(
        torch.tensor(LABELS), torch.tensor(CLASSES), torch.ones(9), num_classes
    )


def test_rows_are_the_truth_and_columns_the_answers():
    assert confusion_matrix(answers()).tolist() == [
        [1, 2, 0, 0],
        [1, 1, 0, 0],
        [2, 0, 2, 0],
        [0, 0, 0, 0],
    ]


def test_recall_and_precision_of_a_class():
    scores = class_scores(answers())
    assert scores.num_images.tolist() == [3, 2, 4, 0]
    assert scores.num_predicted.tolist() == [4, 3, 2, 0]
    assert scores.num_correct.tolist() == [1, 1, 2, 0]
    third = pytest.approx(1 / 3)
    assert scores.recall[:3].tolist() == [third, 0.5, 0.5]
    assert scores.precision[:3].tolist() == [0.25, third, 1.0]
    # a class that isn't there, and never answered
    assert scores.recall[3].isnan() and scores.precision[3].isnan()


def test_the_most_frequent_mistakes_come_first():
    assert most_confused(answers()) == [(0, 1, 2), (2, 0, 2), (1, 0, 1)]
    assert most_confused(answers(), 1) == [(0, 1, 2)]
    labels = torch.tensor(LABELS)
    assert most_confused(Predictions(labels, labels, torch.ones(9), 3)) == []


@pytest.mark.slow  # scikit-learn takes seconds to import
def test_all_agree_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    generator = torch.Generator().manual_seed(0)
    labels, classes = torch.randint(0, 7, (2, 500), generator=generator)
    found = Predictions(labels, classes, torch.ones(500), 7)
    matrix = metrics.confusion_matrix(labels, classes, labels=range(7))
    assert np.array_equal(confusion_matrix(found), matrix)
    precision, recall, _, count = metrics.precision_recall_fscore_support(
        labels, classes
    )
    scores = class_scores(found)
    # float32 against float64
    assert np.allclose(scores.precision, precision, atol=1e-6)
    assert np.allclose(scores.recall, recall, atol=1e-6)
    assert np.array_equal(scores.num_images, count)


def test_the_trace_is_the_accuracy_however_batches_are_cut():
    want = accuracy(small(), [prepared(30)]).num_correct
    for size in (30, 7):
        found = predictions(small(), cut(*prepared(30), size))
        assert confusion_matrix(found).trace() == want
        assert found.is_correct.sum() == want
        assert len(found.labels) == 30 and found.num_classes == 3


def test_a_matrix_larger_than_the_memory_is_refused():
    with pytest.raises(UserError, match="most_confused"):
        confusion_matrix(answers(num_classes=10**8))
    # and these are not as large
    assert most_confused(answers(num_classes=10**8))[0].num_images == 2


def broken():
    model = small()
    nn.init.constant_(model.head.weight, float("nan"))
    return model
