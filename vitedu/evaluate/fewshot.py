"""A classifier from a few images of each class, in closed form.

Frozen features are whitened, and least squares maps them to 1 for the right
class and -1 for the others (paper, section 4.1; details as in the authors'
`fewshot_lsr`).

`for point in fewshot_curve(model, "photos/train", "photos/val"):`
`    print(point.shots, point.mean)  # in percent`
"""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.errors import counted
from vitedu.evaluate.batches import Data, Model
from vitedu.evaluate.features import (
    check_features,
    features_and_names,
    features_of_both,
    percent_right,
)

# the authors'
SHOTS = (1, 5, 10, 25)
SEEDS = (0, 1, 2)


class FewShotClassifier(NamedTuple):
    """Least squares on whitened features; float64."""

    mean: Tensor  # (d,)
    std: Tensor  # (d,)
    # (d + 1, classes); the last row belongs to the bias
    weights: Tensor

    def scores(self, x: Tensor) -> Tensor:
        """Features (n, d) to (n, classes); the largest is the answer."""
        return whiten(x, self.mean, self.std) @ self.weights


def fewshot_accuracy(
    model: Model, train: Data, test: Data, *, l2: float = 2.0**10
) -> float:
    """Top-1 accuracy in percent of a classifier from all images of `train`.

    `model`, `train` and `test` are as for `features`; `Features` will do, such
    as some that `sample_shots` draws. Classes of folders are matched by name.
    The authors use this `l2` for every data set.

    UserError: the data don't fit. ValueError: the features and labels don't.
    """
    few, unseen = features_of_both(model, train, test)
    classifier = fewshot_classifier(model, few, l2=l2)
    answers = classifier.scores(unseen.features).argmax(dim=1)
    return percent_right(answers, unseen.labels)


def fewshot_classifier(
    model: Model, train: Data, *, l2: float = 2.0**10
) -> FewShotClassifier:
    """The classifier of `fewshot_accuracy`, from the same arguments.

    Classes go up to the largest label. Computed in float64; the authors'
    float32 is off by up to 3.5 points of accuracy where `l2` is small.

    ValueError: the features and labels don't fit together, or `l2` isn't above
    0, without which there are many solutions.
    """
    few, _ = features_and_names(model, train)
    check_features("training images", *few)
    if not l2 > 0:
        raise ValueError(f"l2 must be above 0, got {l2}")
    return least_squares(*few, l2)


def least_squares(x: Tensor, y: Tensor, l2: float) -> FewShotClassifier:
    """Whitening and weights from features (n, d) and labels (n,)."""
    x, targets = x.double(), 2.0 * F.one_hot(y).double() - 1.0  # 1 and -1
    mean, std = x.mean(dim=0), x.std(dim=0, correction=0) + 1e-5
    x = whiten(x, mean, std)
    # (X'X + l2)^-1 X'Y = X' (XX' + l2)^-1 Y: decompose the smaller square
    if len(x) >= x.shape[1]:
        values, vectors = torch.linalg.eigh(x.mT @ x)
        inverse = (vectors / (values + l2)) @ vectors.mT
        weights = inverse @ (x.mT @ targets)
    else:
        values, vectors = torch.linalg.eigh(x @ x.mT)
        inverse = (vectors / (values + l2)) @ vectors.mT
        weights = x.mT @ (inverse @ targets)
    return FewShotClassifier(mean, std, weights)


def whiten(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """(n, d) to (n, d + 1): centred, scaled, and 100 last for the bias."""
    return F.pad((x.double() - mean) / std, (0, 1), value=100.0)


def sample_shots(labels: Tensor, k: int, seed: int) -> Tensor:
    """Rows of `k` images of each class: labels (n,) to int64 (classes * k,).

    Class after class, of those that occur; the draws are those of the authors'
    code. With the same seed, k of a class are among k + 1.

    ValueError: a class has fewer images.
    """
    generator = np.random.default_rng(seed)
    drawn = []
    for label in labels.unique().tolist():
        rows = (labels == label).nonzero()[:, 0].cpu().numpy()
        if len(rows) < k:
            raise ValueError(
                f"class {label} has {counted(len(rows), 'image')}, but {k} of "
                "each class are wanted; give more images, or at most "
                f"{counted(len(rows), 'shot')}"
            )
        drawn.append(generator.permutation(rows)[:k])
    return torch.from_numpy(np.concatenate(drawn))


class FewShotPoint(NamedTuple):
    """Accuracies from `shots` images per class, one for each seed."""

    shots: int
    accuracies: tuple[float, ...]  # in percent

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.accuracies)

    @property
    def std(self) -> float | None:
        """Standard deviation over the seeds (n - 1); None for a single one."""
        if len(self.accuracies) == 1:
            return None
        return statistics.stdev(self.accuracies)


def fewshot_curve(
    model: Model,
    train: Data,
    test: Data,
    *,
    shots: Sequence[int] = SHOTS,
    seeds: Sequence[int] = SEEDS,
    l2: float = 2.0**10,
) -> list[FewShotPoint]:
    """`fewshot_accuracy` for several numbers of shots, each with several seeds.

    Shots are drawn from `train`; every accuracy is measured on all of `test`.

    ValueError: a class has too few images, or what `fewshot_accuracy` says.
    """
    pool, unseen = features_of_both(model, train, test)

    def measure(k: int, seed: int) -> float:
        few = pool.take(sample_shots(pool.labels, k, seed))
        return fewshot_accuracy(model, few, unseen, l2=l2)

    return [
        FewShotPoint(k, tuple(measure(k, seed) for seed in seeds))
        for k in shots
    ]
