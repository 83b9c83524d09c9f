"""What training makes small: the loss that a configuration names."""

from functools import partial

from vitedu.evaluate.losses import (
    LOSSES,
    GivenLoss,
    Loss,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
)
from vitedu.train.config import TrainConfig

__all__ = [
    "LOSSES",
    "GivenLoss",
    "Loss",
    "build_loss",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
]


def build_loss(config: TrainConfig) -> Loss:
    """The loss that `config` names, with its label smoothing."""
    loss = LOSSES[config.loss]
    return partial(loss, label_smoothing=config.label_smoothing)
