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
    logits: Tensor, labels: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    """Minus the log-probability of each image's class, summed over images.

    Smoothing s turns a target y into (1 - s) y + s / classes.
    """
    return F.cross_entropy(
        _at_least_float32(logits),
        labels,
        reduction="sum",
        label_smoothing=label_smoothing,
    )


def sigmoid_cross_entropy(
    logits: Tensor, labels: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    """A separate yes or no for every class, summed over classes and images.

    An image may have several labels, or none. A network that says 1/2
    everywhere starts at classes * ln 2; a config's `head_bias` of about
    -ln(classes) lets it start at "no". Smoothing as for softmax.
    Source: big_vision's sigmoid_xent, the loss of its ImageNet-21k runs.
    """
    logits = _at_least_float32(logits)
    if labels.ndim == 1:
        labels = torch.zeros_like(logits).scatter(1, labels[:, None], 1.0)
    target = labels.to(logits.dtype)
    if label_smoothing:
        target = (1 - label_smoothing) * target
        target = target + label_smoothing / logits.shape[-1]
    return F.binary_cross_entropy_with_logits(logits, target, reduction="sum")


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


def name_of(loss: Loss) -> str:
    loss = getattr(loss, "func", loss)  # of functools.partial
    own = getattr(loss, "name", None) or getattr(loss, "__name__", None)
    return str(own or type(loss).__name__)


def _at_least_float32(logits: Tensor) -> Tensor:
    # a sum in a half format would be off by percents
    return logits if logits.dtype == torch.float64 else logits.float()
