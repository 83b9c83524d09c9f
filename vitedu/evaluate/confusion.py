"""Which classes a model confuses.

`confusion_matrix(predictions(model, "photos/val"))[0, 1]`
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from vitedu.errors import check_free
from vitedu.evaluate.batches import Data, Model, all_rows, batches_of, loaded
from vitedu.evaluate.classify import probabilities


class Predictions(NamedTuple):
    """Labels and predicted classes of n images, in order, on the CPU."""

    labels: Tensor  # (n,) int64, the truth
    classes: Tensor  # (n,) int64, the likeliest class
    probabilities: Tensor  # (n,) float32, of that class
    num_classes: int

    @property
    def is_correct(self) -> Tensor:
        """Whether the likeliest class is the true one, bool (n,)."""
        return self.classes == self.labels


class ClassScores(NamedTuple):
    """Counts for each class, (classes,) int64."""

    num_images: Tensor  # that show it
    num_predicted: Tensor  # that are taken for it
    num_correct: Tensor  # both

    @property
    def recall(self) -> Tensor:
        """Share of its images predicted right, 0..1 or NaN, (classes,)."""
        return self.num_correct / self.num_images

    @property
    def precision(self) -> Tensor:
        """Share of its predictions that are right, 0..1 or NaN, (classes,)."""
        return self.num_correct / self.num_predicted


class Confusion(NamedTuple):
    """Number of images of class `label` predicted as `predicted`."""

    label: int
    predicted: int
    num_images: int


def predictions(
    model: Model, data: Data, *, batch_size: int = 64, num_workers: int = 0
) -> Predictions:
    """The likeliest class of every image, beside its true one.

    `model` and `data` are as for `accuracy`, probabilities as for `classify`.

    UserError: the data don't fit the model, an image doesn't have exactly one
    label, or the model answers NaN or infinity. ValueError: there are no
    images.
    """
    model = loaded(model)
    shares, labels = all_rows(
        partial(probabilities, model),
        batches_of(model, data, batch_size, num_workers),
        "predictions",
    )
    highest = shares.max(dim=1)
    return Predictions(
        labels, highest.indices, highest.values, num_classes=shares.shape[1]
    )


def confusion_matrix(answers: Predictions) -> Tensor:
    """(classes, classes) int64: rows are true classes, columns predictions."""
    num_classes = answers.num_classes
    check_free(
        8 * num_classes**2,
        f"a confusion matrix of {num_classes:,} classes",
        "look at most_confused or class_scores instead",
    )
    counts = torch.bincount(_pairs(answers), minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes)


def class_scores(answers: Predictions) -> ClassScores:
    """How often each class is true, is predicted, and both."""
    labels, classes, _, num_classes = answers
    found = (labels, classes, labels[answers.is_correct])
    return ClassScores(
        *(torch.bincount(each, minlength=num_classes) for each in found)
    )


def most_confused(answers: Predictions, count: int = 10) -> list[Confusion]:
    """The most frequent mistakes, the most frequent first; ties by class."""
    wrong = _pairs(answers)[~answers.is_correct]
    found, num_images = torch.unique(wrong, return_counts=True)
    order = num_images.argsort(descending=True, stable=True)[:count]
    pairs = torch.stack([found, num_images], dim=1)[order].tolist()
    return [
        Confusion(*divmod(pair, answers.num_classes), n) for pair, n in pairs
    ]


def _pairs(answers: Predictions) -> Tensor:
    # (n,): the place of each (label, class) in the flattened matrix
    return answers.labels * answers.num_classes + answers.classes
