"""The state of a run: what a step reads and changes."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from vitedu.evaluate.losses import LOSSES, GivenLoss, Loss, own_loss
from vitedu.model.classifier import LossName
from vitedu.model.network import Network
from vitedu.train.config import TrainConfig
from vitedu.train.optimizer import MovingAverage
from vitedu.train.precision import Precision
from vitedu.train.processes import full_tensor, unwrapped
from vitedu.train.schedule import Schedule


@dataclass
class TrainState:
    """What a step reads and changes; `step` counts the updates done.

    `loss` is the one that `config` names, or a given one; it sums over images.
    Evaluations report `plain_loss`, without label smoothing and class weights.
    """

    config: TrainConfig
    model: nn.Module
    optimizer: Optimizer
    schedule: Schedule
    precision: Precision
    ema: MovingAverage | None = None
    step: int = 0
    loss: Loss | None = None
    images_per_epoch: int = 0
    # by which the data are known again
    data: dict[str, Any] = field(default_factory=dict)
    start: str | None = None  # `start_of` the run
    class_names: tuple[str, ...] = ()  # what the result calls its outputs
    class_weights: Tensor | None = None  # (classes,)
    frozen: list[nn.Parameter] = field(default_factory=list)  # by the config
    # a sentence for each departure from `config`
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.config.needs_labels:
            self.loss = own_loss
        self.plain_loss = self.loss or LOSSES[self.config.loss]
        if self.loss is None:
            self.loss = build_loss(self.config, self.class_weights)

    @property
    def network(self) -> Network:
        """The model without torch.compile's or DDP's wrapper."""
        return unwrapped(self.model)

    @property
    def loss_name(self) -> LossName | None:
        """The name of the loss; None for the caller's own."""
        return None if isinstance(self.loss, GivenLoss) else self.config.loss

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.model.parameters()).device

    @property
    def num_steps(self) -> int:
        """Updates of the whole run."""
        return count_steps(self.config, self.images_per_epoch)

    @property
    def epoch_steps(self) -> int:
        """Updates in an epoch; the last batch may be short."""
        return -(-self.images_per_epoch // self.config.batch_size)

    @property
    def is_done(self) -> bool:
        """Whether the last step has been taken."""
        return self.step == self.num_steps

    @property
    def num_images(self) -> int:
        """Images in the batch of the next step."""
        seen = self.step % self.epoch_steps * self.config.batch_size
        return min(self.config.batch_size, self.images_per_epoch - seen)

    def result_weights(self) -> dict[str, Tensor]:
        """The weights of a result now: averaged if there is an average.

        With FSDP2, all processes have to call it to get whole tensors.
        """
        weights = self.network.state_dict()
        if self.ema is not None:
            weights = self.ema.average
        return {name: full_tensor(tensor) for name, tensor in weights.items()}


def build_loss(
    config: TrainConfig, class_weights: Tensor | None = None
) -> Loss:
    """The loss that `config` names, with its label smoothing."""
    return partial(
        LOSSES[config.loss],
        label_smoothing=config.label_smoothing,
        class_weights=class_weights,
    )


def count_steps(config: TrainConfig, num_images: int) -> int:
    """Updates of the whole run; the last batch of an epoch may be short."""
    if config.steps is not None:
        return config.steps
    return (config.epochs or 0) * -(-num_images // config.batch_size)
