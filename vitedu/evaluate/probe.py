"""What frozen features are worth: a linear probe, and nearest neighbours.

`probe = linear_probe(model, "photos/train")`
`probe.accuracy(model, "photos/val")  # in percent`
`knn(model, "photos/train", "photos/val")  # in percent, and nothing learned`
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer

from vitedu.data.dataset import hold_out
from vitedu.evaluate.batches import Data, Model
from vitedu.evaluate.features import (
    Features,
    check_features,
    features_and_names,
    features_of_both,
    percent_right,
)

# from the strongest, which converges fastest, to hardly any
L2S = tuple(10.0**power for power in range(1, -7, -1))
MOST_STEPS = 1000
# of the gradient's largest entry, where the mean loss is about 1
TOLERANCE = 1e-6
HISTORY = 20  # steps, each a change of the weights and of the gradient
SIMILARITIES = 1 << 24  # to the neighbours, in memory at a time


class LinearProbe(NamedTuple):
    """A linear classifier on standardised features; float64."""

    mean: Tensor  # (d,)
    std: Tensor  # (d,)
    weight: Tensor  # (classes, d)
    bias: Tensor  # (classes,)
    l2: float
    class_names: tuple[str, ...] = ()  # of a folder that it was trained on

    def logits(self, x: Tensor) -> Tensor:
        """Features (n, d) to (n, classes)."""
        x = (x.double() - self.mean) / self.std
        return F.linear(x, self.weight, self.bias)

    def accuracy(self, model: Model, test: Data) -> float:
        """Top-1 accuracy on `test` in percent; arguments as for `features`.

        Classes of a folder are matched by name with those of the training data.
        """
        (x, y), _ = features_and_names(model, test, self.class_names)
        check_features("test images", x, y)
        return percent_right(self.logits(x).argmax(dim=1), y)


def linear_probe(
    model: Model,
    train: Data,
    *,
    l2: float | Sequence[float] = L2S,
    validation: float = 0.2,
    seed: int = 0,
) -> LinearProbe:
    """Multinomial logistic regression on features, by L-BFGS in float64.

    `model` and `train` are as for `features`. Minimises the mean cross-entropy
    in nats plus l2 / 2 times the sum of squared weights (not the bias), on
    features standardised by the training images. Of several `l2` the one with
    the lowest loss on a held-out share `validation` of every class (split by
    `seed`) is chosen, and the classifier is fitted again to all images.
    scikit-learn's C is 1 / (l2 * n).

    UserError: too few images to hold some out. ValueError: the features and
    labels don't fit together, or an `l2` isn't above 0.
    """
    known, names = features_and_names(model, train)
    check_features("training images", *known)
    l2s = sorted([l2] if isinstance(l2, int | float) else l2, reverse=True)
    if not l2s[-1] > 0:
        raise ValueError(f"l2 must be above 0, got {l2}")
    num_classes = int(known.labels.max()) + 1
    if len(l2s) > 1:
        held_out = hold_out(known.labels, validation, seed)
        candidates = _fit(known.take(~held_out), l2s, num_classes)
        x, y = known.take(held_out)
        losses = [F.cross_entropy(each.logits(x), y) for each in candidates]
        best = int(torch.stack(losses).argmin())
        # the stronger ones come first again: each starts where the last ended
        l2s = l2s[: best + 1]
    return _fit(known, l2s, num_classes)[-1]._replace(class_names=names)


def _fit(
    train: Features, l2s: Sequence[float], num_classes: int
) -> list[LinearProbe]:
    """A probe for each l2, each starting from the one before."""
    x, y = train.features.double(), train.labels
    mean, std = x.mean(dim=0), x.std(dim=0, correction=0)
    std = torch.where(std > 0, std, 1.0)  # a feature that never changes
    x = (x - mean) / std
    weight = x.new_zeros(num_classes, x.shape[1]).requires_grad_()
    bias = x.new_zeros(num_classes).requires_grad_()
    probes = []
    for l2 in l2s:
        optimizer = torch.optim.LBFGS(
            [weight, bias],
            max_iter=MOST_STEPS,
            tolerance_grad=TOLERANCE,
            tolerance_change=0.0,
            history_size=HISTORY,
            line_search_fn="strong_wolfe",
        )

        def loss(optimizer: Optimizer = optimizer, l2: float = l2) -> float:
            optimizer.zero_grad()
            with torch.enable_grad():
                total = F.cross_entropy(F.linear(x, weight, bias), y)
                total = total + l2 / 2 * weight.square().sum()
            total.backward()
            return total.item()

        optimizer.step(loss)
        learned = weight.detach().clone(), bias.detach().clone()
        probes.append(LinearProbe(mean, std, *learned, l2))
    return probes


def knn(
    model: Model,
    train: Data,
    test: Data,
    *,
    k: int = 20,
    temperature: float = 0.07,
) -> float:
    """Top-1 accuracy in percent of the nearest neighbours, without training.

    Of each test image the `k` training images (at most all) with the largest
    cosine similarity s of features vote for their classes, with weights of
    exp(s / temperature). `model`, `train` and `test` are as for `features`;
    classes of folders are matched by name.

    ValueError: features and labels don't fit together; k, temperature too low.
    Source: Wu et al. 2018, section 3.4; k and temperature are DINO's.
    """
    if k < 1 or not temperature > 0:
        raise ValueError(
            "knn needs k of at least 1 and a temperature above 0, got "
            f"k={k} and temperature={temperature}"
        )
    (x, y), (xt, yt) = features_of_both(model, train, test)
    x, xt = (F.normalize(each.float()) for each in (x, xt))
    answers = []
    for rows in xt.split(max(1, SIMILARITIES // len(x))):
        similarities, nearest = (rows @ x.mT).topk(min(k, len(x)))  # (b, k)
        # the largest weight is 1, so that none overflows
        weights = ((similarities - similarities[:, :1]) / temperature).exp()
        votes = weights.new_zeros(len(rows), int(y.max()) + 1)  # (b, classes)
        answers.append(votes.scatter_add_(1, y[nearest], weights).argmax(dim=1))
    return percent_right(torch.cat(answers), yt)
