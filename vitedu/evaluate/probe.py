"""A linear probe: logistic regression on frozen features.

`probe = linear_probe(features(model, "photos/train"))`
`probe.accuracy(*features(model, "photos/val"))  # a share, 0..1`
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer

from vitedu.data.feed.order import hold_out
from vitedu.evaluate.features import Features, check_features

# from the strongest, which converges fastest, to hardly any
L2S = tuple(10.0**power for power in range(1, -7, -1))
MOST_STEPS = 1000
# of the gradient's largest entry, where the mean loss is about 1
TOLERANCE = 1e-6
HISTORY = 20  # steps, each a change of the weights and of the gradient


class LinearProbe(NamedTuple):
    """A linear classifier on standardised features; float64."""

    mean: Tensor  # (d,)
    std: Tensor  # (d,)
    weight: Tensor  # (classes, d)
    bias: Tensor  # (classes,)
    l2: float

    def logits(self, x: Tensor) -> Tensor:
        """Features (n, d) to (n, classes)."""
        x = (x.double() - self.mean) / self.std
        return F.linear(x, self.weight, self.bias)

    def accuracy(self, x: Tensor, y: Tensor) -> float:
        """The share of features (n, d) that get their labels (n,)."""
        check_features("test images", x, y)
        answers = self.logits(x).argmax(dim=1)
        return (answers == y).double().mean().item()


def linear_probe(
    train: Features,
    *,
    l2: float | Sequence[float] = L2S,
    validation: float = 0.2,
    seed: int = 0,
) -> LinearProbe:
    """Multinomial logistic regression on features, by L-BFGS in float64.

    Minimises the mean cross-entropy in nats plus l2 / 2 times the sum of
    squared weights (not the bias), on features standardised by the training
    images. Of several `l2` the one with the lowest loss on a held-out share
    `validation` of every class (split by `seed`) is chosen, and the classifier
    is fitted again to all images. scikit-learn's C is 1 / (l2 * n).

    UserError: too few images to hold some out. ValueError: the features and
    labels don't fit together, or an `l2` isn't above 0.
    """
    check_features("training images", *train)
    l2s = sorted([l2] if isinstance(l2, int | float) else l2, reverse=True)
    if not l2s[-1] > 0:
        raise ValueError(f"l2 must be above 0, got {l2}")
    num_classes = int(train.labels.max()) + 1
    if len(l2s) == 1:
        return _fit(train, l2s, num_classes)[0]
    held_out = hold_out(train.labels, validation, seed)
    candidates = _fit(train.take(~held_out), l2s, num_classes)
    x, y = train.take(held_out)
    losses = [F.cross_entropy(each.logits(x), y) for each in candidates]
    best = int(torch.stack(losses).argmin())
    # the stronger ones come first again, since each starts where the last ended
    return _fit(train, l2s[: best + 1], num_classes)[-1]


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
