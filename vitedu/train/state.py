"""The state of a run before its first step."""

from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from vitedu.data import ArraySource
from vitedu.model import ViT
from vitedu.train.config import TrainConfig
from vitedu.train.distributed import ALONE, Together, World, spread
from vitedu.train.optimizer import MovingAverage, build_optimizer
from vitedu.train.precision import build_precision
from vitedu.train.schedule import build_schedule
from vitedu.train.step import TrainState


def build_state(
    config: TrainConfig,
    train: ArraySource,
    device: torch.device,
    world: World = ALONE,
) -> TrainState:
    """The state before the first step: initial weights from the seed, on the CPU."""
    model = build_model(config).to(device)
    notes = []
    if config.activation_checkpointing:
        checkpoint_blocks(model)
    if config.compile and (note := compile_model(model, device)):
        notes.append(note)
    if world.size > 1:
        notes.append(f"{world.size} processes share every batch")
    elif config.shard:
        notes.append("shard=true has no effect: there is one process")
    num_steps = count_steps(config, len(train))
    precision = build_precision(config.precision, device, config.attention)
    spread_model = spread(model.train(), world, config.shard)
    if world.size > 1:
        precision = Together(
            precision, spread_model, world, config.micro_batch_size
        )
    return TrainState(
        config=config,
        model=spread_model,
        optimizer=build_optimizer(model, config),
        schedule=build_schedule(
            config.schedule, config.lr, num_steps, config.warmup
        ),
        precision=precision,
        ema=MovingAverage(model, config.ema) if config.ema else None,
        notes=notes,
    )


def build_model(config: TrainConfig) -> ViT:
    """The network with the initial weights of the seed, on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = ViT(config.model)
    if config.head_bias:
        nn.init.constant_(model.head.bias, config.head_bias)
    return model


def count_steps(config: TrainConfig, num_images: int) -> int:
    """Updates of the whole run; the last batch of an epoch may be short."""
    if config.steps is not None:
        return config.steps
    return config.epochs * -(-num_images // config.batch_size)


def checkpoint_blocks(model: ViT) -> None:
    """Have each block keep its input alone, in place: memory for time.

    The backward pass computes the rest again, with the dropout of the first time: a
    forward pass more, a third of a step. Names of parameters stay. Whatever chose the
    kernels of the forward pass has to be in force in the backward pass as well.
    """
    for block in model.blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def compile_model(model: nn.Module, device: torch.device) -> str | None:
    """Compile in place, at the first forward pass; names of parameters stay.

    Where that cannot be done (no C++ compiler, no Triton, a Python or a system that
    torch.compile does not know) the model is left as it is, and a sentence says so.
    """
    try:
        torch.compile(probe)(torch.ones(8, device=device))
    except Exception as error:  # each missing tool raises another kind
        lines = str(error).splitlines() or [type(error).__name__]
        return (
            f"compile=true has no effect, torch.compile fails here ({lines[0]}); "
            "training goes on uncompiled"
        )
    model.compile()
    return None


def probe(x: torch.Tensor) -> torch.Tensor:
    """The least that has to be compiled to know whether there is a compiler."""
    return x.sin() + 1.0
