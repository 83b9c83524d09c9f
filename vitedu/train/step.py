"""One update of the weights."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from vitedu.train.config import TrainConfig
from vitedu.train.losses import LOSSES, Loss, build_loss
from vitedu.train.optimizer import MovingAverage, set_lr
from vitedu.train.precision import FullPrecision
from vitedu.train.schedule import Schedule


@dataclass
class TrainState:
    """What a step reads and changes; `step` counts the updates done.

    `loss` is the one that `config` names unless another is given; it sums over images.
    What an evaluation reports, `plain_loss`, is the same without label smoothing.
    """

    config: TrainConfig
    model: nn.Module
    optimizer: Optimizer
    schedule: Schedule
    precision: FullPrecision
    ema: MovingAverage | None = None
    step: int = 0
    loss: Loss | None = None
    data_digest: str = ""  # of the data set, see vitedu.data.Dataset
    class_names: tuple[str, ...] = ()  # what the result calls its outputs
    # a sentence for each thing that is not done as `config` asks
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plain_loss = self.loss or LOSSES[self.config.loss]
        if self.loss is None:
            self.loss = build_loss(self.config)


class StepResult(NamedTuple):
    """Sums and counts of one step, left on the device: reading them would wait."""

    loss_sum: Tensor
    correct: Tensor | None  # None where labels are soft
    num_images: int
    grad_norm: Tensor | None  # before clipping; None where nothing is clipped


def micro_batches(
    images: Tensor, labels: Tensor, size: int | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Cut a batch (b, ...) into parts of `size` images or fewer; None: one."""
    size = size or len(images)
    return zip(images.split(size), labels.split(size), strict=True)


def train_step(state: TrainState, batch: tuple[Tensor, Tensor]) -> StepResult:
    """One update of `state`: no print, no clock, no waiting for the device.

    `batch` is images (b, c, h, w), ready for the model, and labels, int64 (b,) or
    soft (b, classes). Gradients are those of the mean loss over the whole batch,
    however it is cut into micro-batches. A step that a loss scaler skips counts.
    """
    images, labels = batch
    config = state.config
    set_lr(state.optimizer, state.schedule(state.step))
    loss_sum, correct = 0.0, None if labels.ndim == 2 else 0
    for x, y in micro_batches(images, labels, config.micro_batch_size):
        with state.precision.autocast():
            logits = state.model(x)  # (b, classes)
        loss = state.loss(logits, y)  # summed, in float32 or better
        # divided by the whole batch, so that unequal micro-batches weigh right
        state.precision.backward(loss / len(images))
        loss_sum = loss_sum + loss.detach()
        if correct is not None:
            correct = correct + (logits.argmax(dim=-1) == y).sum()
    grad_norm = state.precision.update(state.optimizer, config.max_grad_norm)
    if state.ema is not None:
        state.ema.update(state.model)
    state.step += 1
    return StepResult(loss_sum, correct, len(images), grad_norm)


def step_seed(seed: int, step: int, rank: int = 0) -> int:
    """The seed of what is drawn inside the network at one step of one process."""
    mixed = np.random.SeedSequence([seed, step, rank]).generate_state(
        2, np.uint32
    )
    return int(mixed[0]) << 32 | int(mixed[1])
