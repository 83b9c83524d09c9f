"""The state of a run before its first step."""

import torch

from vitedu.data import ArraySource
from vitedu.model import ViT
from vitedu.train.config import TrainConfig
from vitedu.train.optimizer import MovingAverage, build_optimizer
from vitedu.train.precision import build_precision
from vitedu.train.schedule import build_schedule
from vitedu.train.step import TrainState


def build_state(
    config: TrainConfig, train: ArraySource, device: torch.device
) -> TrainState:
    """The state before the first step: initial weights from the seed, on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = ViT(config.model).to(device)
    if config.compile:
        model.compile()
    num_steps = count_steps(config, len(train))
    return TrainState(
        config=config,
        model=model.train(),
        optimizer=build_optimizer(model, config),
        schedule=build_schedule(
            config.schedule, config.lr, num_steps, config.warmup
        ),
        precision=build_precision(config.precision, device),
        ema=MovingAverage(model, config.ema) if config.ema else None,
    )


def count_steps(config: TrainConfig, num_images: int) -> int:
    """Updates of the whole run; the last batch of an epoch may be short."""
    if config.steps is not None:
        return config.steps
    return config.epochs * -(-num_images // config.batch_size)
