"""The state of a run, and one update of its weights."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from vitedu.evaluate.losses import LOSSES, Loss, own_loss
from vitedu.model.network import Network
from vitedu.train.config import TrainConfig
from vitedu.train.optimizer import MovingAverage, set_lr
from vitedu.train.precision import Precision
from vitedu.train.processes import SINGLE, Processes, full_tensor, unwrapped
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
    class_weights: Tensor | None = None  # (classes,)
    frozen: list[nn.Parameter] = field(default_factory=list)  # by the config
    # a sentence for each departure from `config`
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.needs_labels = self.config.needs_labels
        if not self.needs_labels:
            self.loss = own_loss
        self.plain_loss = self.loss or LOSSES[self.config.loss]
        if self.loss is None:
            self.loss = build_loss(self.config, self.class_weights)

    @property
    def network(self) -> Network:
        """The model without torch.compile's or DDP's wrapper."""
        return unwrapped(self.model)

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


class StepResult(NamedTuple):
    """Sums and counts of a step, left on the device: reading would wait."""

    loss_sum: Tensor
    correct: Tensor | None  # None where labels are soft or not needed
    num_images: int
    grad_norm: Tensor | None  # before clipping; None where nothing is clipped


def train_step(
    state: TrainState,
    batch: tuple[Tensor, Tensor],
    processes: Processes = SINGLE,
    num_images: int | None = None,
) -> StepResult:
    """One update of `state`: no print, no clock, no waiting for the device.

    `batch` is images (b, c, h, w), ready for the model, and labels, int64 (b,)
    or soft (b, classes). Gradients are of the mean loss over the whole batch,
    however it is split. A step that a loss scaler skips counts.

    Of several `processes` each passes its share (maybe empty) of a batch of
    `num_images`; they exchange gradients, and the result is for the share.
    """
    images, labels = batch
    config = state.config
    num_images = num_images or len(images)
    # the last of an epoch: to compile for it would take longer than it saves
    is_short = config.compile and num_images < config.batch_size
    has_classes = labels.ndim == 1 and state.needs_labels
    loss_sum, correct = 0.0, 0 if has_classes else None
    for x, y in processes.micro_batches(
        state.model, batch, config.micro_batch_size, num_images
    ):
        with uncompiled(is_short), state.precision.autocast():
            logits = state.model(x)  # (b, classes)
        # summed, in float32 or better; 0 where this process has no image left
        loss = state.loss(logits, y) if len(y) else 0 * logits.float().sum()
        # divided by the whole batch, so that unequal micro-batches weigh right;
        # exchanging gradients takes their mean over the processes
        state.precision.backward(loss / (num_images / processes.world_size))
        loss_sum = loss_sum + loss.detach()
        if correct is not None:
            correct = correct + (logits.argmax(dim=-1) == y).sum()
    set_lr(state.optimizer, state.schedule(state.step))
    grad_norm = state.precision.update(state.optimizer, config.max_grad_norm)
    if state.ema is not None:
        state.ema.update(state.model)
    state.step += 1
    return StepResult(loss_sum, correct, len(images), grad_norm)


def uncompiled(is_on: bool) -> AbstractContextManager[object]:
    """The block in which a compiled model runs as it was before."""
    if not is_on:
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def step_seed(seed: int, step: int, process: int = 0) -> int:
    # `seed_from` but for the order of its halves: that of recorded runs
    words = np.random.SeedSequence([seed, step, process])
    high, low = words.generate_state(2, np.uint32)
    return int(high) << 32 | int(low)
