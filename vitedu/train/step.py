"""One update of the weights."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitedu.train.optimizer import set_lr
from vitedu.train.processes import SINGLE, Processes

if TYPE_CHECKING:
    from vitedu.train.state import TrainState


class StepResult(NamedTuple):
    """Sums and counts of a step, left on the device: reading would wait."""

    loss_sum: Tensor
    correct: Tensor | None  # None where labels are soft or not needed
    num_images: int
    grad_norm: Tensor | None  # before clipping; None where nothing is clipped


def train_step(
    state: "TrainState",
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
    set_lr(state.optimizer, state.schedule(state.step))
    has_classes = labels.ndim == 1 and config.needs_labels
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
