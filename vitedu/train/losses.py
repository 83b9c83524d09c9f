"""What training makes small: two cross-entropies, each a sum over the images.

Both take logits (b, classes) and labels, int64 (b,) or soft (b, classes), and compute
in float32 whatever the network computed in, in float64 if it did.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.train.config import TrainConfig

Loss = Callable[[Tensor, Tensor], Tensor]


def softmax_cross_entropy(
    logits: Tensor, labels: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    """One class an image: minus the log of its probability, summed over images.

    Smoothing s makes of a target y the target (1 - s) y + s / classes.
    """
    return F.cross_entropy(
        at_least_float32(logits),
        labels,
        reduction="sum",
        label_smoothing=label_smoothing,
    )


def sigmoid_cross_entropy(
    logits: Tensor, labels: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    """Every class a yes or no of its own, summed over classes and images.

    An image may have several labels, or none. A network that says 1/2 everywhere
    begins with a loss of classes * ln 2; the config's `head_bias` of about
    -ln(classes) begins with "no". Smoothing as for softmax.
    Source: big_vision's sigmoid_xent, the loss of its ImageNet-21k runs.
    """
    logits = at_least_float32(logits)
    if labels.ndim == 1:
        labels = torch.zeros_like(logits).scatter(1, labels[:, None], 1.0)
    target = labels.to(logits.dtype)
    if label_smoothing:
        target = (1 - label_smoothing) * target
        target = target + label_smoothing / logits.shape[-1]
    return F.binary_cross_entropy_with_logits(logits, target, reduction="sum")


LOSSES = {"softmax": softmax_cross_entropy, "sigmoid": sigmoid_cross_entropy}


def build_loss(config: TrainConfig) -> Loss:
    """The loss that `config` names, with its label smoothing."""
    loss = LOSSES[config.loss]
    return partial(loss, label_smoothing=config.label_smoothing)


def at_least_float32(logits: Tensor) -> Tensor:
    """Half formats widened: their exponentials and sums would be off by percents."""
    return logits if logits.dtype == torch.float64 else logits.float()
