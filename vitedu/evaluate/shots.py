"""k images of each class, drawn by a seed, and how accuracy grows with k.

`for point in fewshot_curve(train, test): print(point.shots, point.mean)`
"""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitedu.evaluate.features import Features, check_features
from vitedu.evaluate.fewshot import fewshot_accuracy

# the authors'
SHOTS = (1, 5, 10, 25)
SEEDS = (0, 1, 2)


class FewShotPoint(NamedTuple):
    """The accuracy from `shots` images of each class, once for each seed."""

    shots: int
    accuracies: tuple[float, ...]  # shares, 0..1

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.accuracies)

    @property
    def std(self) -> float | None:
        """Standard deviation over the seeds (n - 1); None of a single one."""
        several = len(self.accuracies) > 1
        return statistics.stdev(self.accuracies) if several else None


def sample_shots(labels: Tensor, k: int, seed: int) -> Tensor:
    """Rows of `k` images of each class: labels (n,) to int64 (classes * k,).

    Class after class, in the order of their numbers. The classes are those that
    occur. With the same seed, the first k of each are among the first k + 1.
    The draws are those of the authors' code.

    ValueError: `k` is below 1, a class has fewer images, or there are none.
    """
    if labels.ndim != 1 or not len(labels):
        raise ValueError(
            "sample_shots needs labels (n,) of at least one image, got "
            f"{tuple(labels.shape)}"
        )
    if k < 1:
        raise ValueError(f"k must be at least 1 image of each class, got {k}")
    generator = np.random.default_rng(seed)
    drawn = []
    for label in labels.unique().tolist():
        rows = (labels == label).nonzero()[:, 0].cpu().numpy()
        if len(rows) < k:
            raise ValueError(
                f"class {label} has {len(rows)} images, but {k} of each class "
                f"are wanted; give more images, or at most {len(rows)} shots"
            )
        drawn.append(generator.permutation(rows)[:k])
    return torch.from_numpy(np.concatenate(drawn))


def fewshot_curve(
    train: Features,
    test: Features,
    *,
    shots: Sequence[int] = SHOTS,
    seeds: Sequence[int] = SEEDS,
    l2: float = 2.0**10,
) -> list[FewShotPoint]:
    """`fewshot_accuracy` for several numbers of shots, each with several seeds.

    `train` are the features to draw from, `test` those to measure on, all of
    them every time.

    ValueError: there are no shots or seeds, a class has too few images, or what
    `fewshot_accuracy` says.
    """
    if not shots or not seeds:
        raise ValueError("fewshot_curve needs at least one k and one seed")
    check_features("training images", *train)
    points = []
    for k in shots:
        accuracies = []
        for seed in seeds:
            few = train.take(sample_shots(train.labels, k, seed))
            accuracies.append(fewshot_accuracy(*few, *test, l2=l2))
        points.append(FewShotPoint(k, tuple(accuracies)))
    return points
