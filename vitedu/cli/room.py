"""Whether a step of a run fits into memory, and what to change if not."""

from dataclasses import replace
from typing import NamedTuple

import torch

from vitedu import budget
from vitedu.budget.memory import pixels
from vitedu.train import TrainConfig

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
# What isn't predicted, as a share: work space, what the allocator rounds up.
SPARE = 1.1
FEWEST = 8  # images at a time, before blocks are computed twice instead


class Room(NamedTuple):
    """Bytes that one process holds in a step, by what they hold."""

    weights: int  # with their gradients, the optimizer's and the average
    activations: int  # with the casts of the weights
    images: int  # of the batch, besides those of the micro-batch
    total: int


def room_for(config: TrainConfig, num_processes: int = 1) -> Room:
    """What `vitedu.budget` predicts for one of the processes of a run.

    UserError: it isn't counted for such a model.
    """
    share = -(-config.batch_size // num_processes)
    at_once = min(config.micro_batch_size or share, share)
    held = budget.memory(
        config.model,
        batch_size=at_once,
        optimizer=config.optimizer,
        autocast=HALVES.get(config.precision),
        checkpointing=config.activation_checkpointing,
    )
    weights = held.weights + held.gradients + held.optimizer
    if config.ema is not None:
        weights += held.weights
    if config.shard:
        weights //= num_processes
    activations = held.casts + held.activations
    images = 4 * (share - at_once) * pixels(config.model)
    return Room(weights, activations, images, weights + activations + images)


def fits(config: TrainConfig, num_bytes: float, num_processes: int = 1) -> bool:
    """Whether a step will do with so much memory, and some to spare."""
    return room_for(config, num_processes).total * SPARE <= num_bytes


def made_to_fit(
    config: TrainConfig, num_bytes: float, num_processes: int = 1
) -> TrainConfig | None:
    """`config` with as many images at a time as so much memory allows.

    Blocks are computed twice only if not even FEWEST images fit otherwise.
    None: nothing helps. UserError: it isn't counted for such a model.
    """
    if fits(config, num_bytes, num_processes):
        return config
    most = config.micro_batch_size or config.batch_size
    most = min(most, -(-config.batch_size // num_processes))
    sizes = [2**i for i in reversed(range(most.bit_length())) if 2**i < most]
    few = [size for size in sizes if size >= FEWEST]
    smaller = [
        *(replace(config, micro_batch_size=size) for size in few),
        *(
            replace(
                config, micro_batch_size=size, activation_checkpointing=True
            )
            for size in (most, *sizes)
        ),
    ]
    tried = (x for x in smaller if fits(x, num_bytes, num_processes))
    return next(tried, None)


def added_words(config: TrainConfig, before: TrainConfig) -> str:
    """What to add to a command of `before` to make it `config`'s."""
    names = ("micro_batch_size", "activation_checkpointing")
    return " ".join(
        f"{name}={getattr(config, name)}".lower()
        for name in names
        if getattr(config, name) != getattr(before, name)
    )
