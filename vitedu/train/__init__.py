"""Training: `fit(recipe("digits", "cpu"))`."""

from vitedu.train.config import TrainConfig, override
from vitedu.train.device import find_device
from vitedu.train.loop import Progress, Run, fit
from vitedu.train.recipes import RECIPES, recipe
from vitedu.train.schedule import warmup_constant, warmup_cosine, warmup_linear
from vitedu.train.step import StepResult, TrainState, train_step

__all__ = [
    "RECIPES",
    "Progress",
    "Run",
    "StepResult",
    "TrainConfig",
    "TrainState",
    "find_device",
    "fit",
    "override",
    "recipe",
    "train_step",
    "warmup_constant",
    "warmup_cosine",
    "warmup_linear",
]
