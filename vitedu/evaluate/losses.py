"""A classifier's losses, each a sum over the images, and a check of your own.

Both cross-entropies take logits (b, classes) and labels, int64 (b,) or soft (b,
classes), and compute in float32 (float64 for float64 logits).
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.errors import UserError

# logits (b, classes) and labels (b,) or (b, classes) -> the sum over the images
Loss = Callable[[Tensor, Tensor], Tensor]


def softmax_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    label_smoothing: float = 0.0,
    class_weights: Tensor | None = None,
) -> Tensor:
    """Minus the log-probability of each image's class, summed over images.

    Smoothing s turns a target y into (1 - s) y + s / classes. With
    `class_weights` (classes,) an image counts as often as its class says; of a
    soft label each class's share does.
    """
    logits = _at_least_float32(logits)
    if class_weights is None:
        return F.cross_entropy(
            logits, labels, reduction="sum", label_smoothing=label_smoothing
        )
    labels, weights = _weighted(labels, class_weights)
    losses = F.cross_entropy(
        logits, labels, reduction="none", label_smoothing=label_smoothing
    )
    return (weights * losses).sum()


def sigmoid_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    label_smoothing: float = 0.0,
    class_weights: Tensor | None = None,
) -> Tensor:
    """A separate yes or no for every class, summed over classes and images.

    An image may have several labels, or none. A network that says 1/2
    everywhere starts at classes * ln 2; a config's `head_bias` of about
    -ln(classes) lets it start at "no". Smoothing and weights as for softmax.
    Source: big_vision's sigmoid_xent, the loss of its ImageNet-21k runs.
    """
    logits = _at_least_float32(logits)
    weights = None
    if class_weights is not None:
        labels, weights = _weighted(labels, class_weights)
        weights = weights[:, None]
    if labels.ndim == 1:
        labels = torch.zeros_like(logits).scatter(1, labels[:, None], 1.0)
    target = labels.to(logits.dtype)
    if label_smoothing:
        target = (1 - label_smoothing) * target
        target = target + label_smoothing / logits.shape[-1]
    return F.binary_cross_entropy_with_logits(
        logits, target, weights, reduction="sum"
    )


def balanced_weights(labels: Tensor, num_classes: int) -> Tensor:
    """Weights (classes,) by which all classes of `labels` (n,) count the same.

    The mean over the images is 1.
    """
    counts = torch.bincount(labels, minlength=num_classes)
    num_seen = max(int((counts > 0).sum()), 1)
    # a class without an image counts nowhere
    return len(labels) / (num_seen * counts.clamp(min=1).float())


def own_loss(losses: Tensor, labels: Tensor) -> Tensor:
    """The sum of losses (b,), which a network computed without labels."""
    return losses.sum()


LOSSES: dict[str, Loss] = {
    "softmax": softmax_cross_entropy,
    "sigmoid": sigmoid_cross_entropy,
}


class GivenLoss:
    """The caller's loss, checked: logits (b, classes) and labels -> a sum.

    Logits are float32 or better, labels int64 (b,) or soft (b, classes).
    UserError: the loss isn't a single number, or is a mean.
    """

    def __init__(self, loss: Loss, name: str) -> None:
        self.loss = loss
        self.name = name
        self.is_checked = False

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        logits = _at_least_float32(logits)
        loss = self.loss(logits, labels)
        if not isinstance(loss, Tensor) or loss.shape != ():
            what = tuple(getattr(loss, "shape", ())) or type(loss).__name__
            raise UserError(
                f"loss={self.name} returned {what} for {len(logits)} images; "
                "it must return one number, the sum over the images "
                "(reduction='sum')"
            )
        if not self.is_checked and len(logits):
            with torch.no_grad():
                twice = self.loss(
                    torch.cat([logits, logits]), torch.cat([labels, labels])
                )
            self.is_checked = bool(loss != 0)  # of 0 the mean is the sum
            if self.is_checked and twice.isclose(loss, rtol=1e-3):
                raise UserError(
                    f"loss={self.name} is the same for a batch and for that "
                    "batch twice over, so it is a mean; return the sum over "
                    "the images (reduction='sum')"
                )
        return loss


def loss_name_of(loss: Loss) -> str:
    loss = getattr(loss, "func", loss)  # of functools.partial
    for name, known in LOSSES.items():
        if loss is known:
            return name
    own = getattr(loss, "name", None) or getattr(loss, "__name__", None)
    return str(own or type(loss).__name__)


def _weighted(labels: Tensor, class_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Labels whose shares count by their classes; the weight of each image."""
    if labels.ndim == 1:
        return labels, class_weights[labels]
    shares = labels * class_weights
    weights = shares.sum(dim=1)
    return shares / weights[:, None], weights


def _at_least_float32(logits: Tensor) -> Tensor:
    # a sum in a half format would be off by percents
    return logits if logits.dtype == torch.float64 else logits.float()
