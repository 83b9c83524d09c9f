"""What a training run needs: memory for a step, and hours on known GPUs.

`step_memory(Step(vit_config("ViT-B/16"), batch_size=512)).total`
"""

from typing import NamedTuple

import torch

from vitedu.budget.memory import memory, pixels
from vitedu.budget.operations import datasheet, training_flops
from vitedu.model.network import NetworkConfig

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
# What isn't predicted, as a share: work space, what the allocator rounds up.
SPARE = 1.1
FEWEST = 8  # images at a time, before blocks are computed twice instead


class GPU(NamedTuple):
    precision: str
    num_bytes: int  # of memory
    mfu: float  # share of the data sheet's peak


# Memory from NVIDIA's data sheets, less what the driver keeps of a T4's. The
# shares are assumptions, of the order that is reported for ViTs of this size;
# a dry run measures.
GPUS = {
    "T4": GPU("fp16", 15_000_000_000, 0.3),
    "A100": GPU("bf16", 40_000_000_000, 0.4),
    "H100": GPU("bf16", 80_000_000_000, 0.35),
}


class Step(NamedTuple):
    model: NetworkConfig
    batch_size: int  # of all processes together
    micro_batch_size: int | None = None
    optimizer: str = "adamw"
    precision: str = "fp32"
    checkpointing: bool = False
    ema: bool = False
    shard: bool = False
    num_processes: int = 1


class StepMemory(NamedTuple):
    """Bytes that one process holds in a step, by what they hold."""

    weights: int  # with their gradients, the optimizer's and the average
    activations: int  # with the casts of the weights
    images: int  # of the batch, besides those of the micro-batch
    total: int


def step_memory(step: Step) -> StepMemory:
    share = -(-step.batch_size // step.num_processes)
    at_once = min(step.micro_batch_size or share, share)
    held = memory(
        step.model,
        batch_size=at_once,
        optimizer=step.optimizer,
        autocast=HALVES.get(step.precision),
        checkpointing=step.checkpointing,
    )
    weights = held.weights + held.gradients + held.optimizer
    if step.ema:
        weights += held.weights
    if step.shard:
        weights //= step.num_processes
    activations = held.casts + held.activations
    images = 4 * (share - at_once) * pixels(step.model)
    return StepMemory(
        weights, activations, images, weights + activations + images
    )


def fits(step: Step, num_bytes: float) -> bool:
    return step_memory(step).total * SPARE <= num_bytes


def fitted(step: Step, num_bytes: float) -> Step | None:
    """`step`, if need be with fewer images at a time; None: nothing helps.

    Blocks are computed twice only if not even FEWEST images fit otherwise.
    """
    if fits(step, num_bytes):
        return step
    most = step.micro_batch_size or step.batch_size
    most = min(most, -(-step.batch_size // step.num_processes))
    sizes = [2**i for i in reversed(range(most.bit_length())) if 2**i < most]
    smaller = [
        *(step._replace(micro_batch_size=x) for x in sizes if x >= FEWEST),
        *(
            step._replace(micro_batch_size=x, checkpointing=True)
            for x in (most, *sizes)
        ),
    ]
    return next((each for each in smaller if fits(each, num_bytes)), None)


def gpu_hours(
    model: NetworkConfig, num_images: int, gpu: str, checkpointing: bool = False
) -> float:
    """Hours on one `gpu` of GPUS, at its assumed share of the peak."""
    peak = datasheet(gpu, GPUS[gpu].precision)
    assert peak is not None  # GPUS are in the data sheets
    operations = num_images * training_flops(model)
    if checkpointing:
        operations = operations * 4 // 3  # the forward pass once more
    return operations / (peak * GPUS[gpu].mfu) / 3600
