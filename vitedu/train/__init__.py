"""Training: `fit(recipe("digits", "cpu"))`."""

from vitedu.train.config import TrainConfig, override
from vitedu.train.fit import Start, fit
from vitedu.train.journal import Progress, Run
from vitedu.train.optimizer import build_optimizer, parameter_groups, set_lr
from vitedu.train.precision import build_precision
from vitedu.train.processes.device import find_device
from vitedu.train.recipes import RECIPES, recipe
from vitedu.train.schedule import warmup_constant, warmup_cosine, warmup_linear
from vitedu.train.step import StepResult, TrainState, train_step
from vitedu.train.vtab import run_vtab

__all__ = [
    "RECIPES",
    "Progress",
    "Run",
    "Start",
    "StepResult",
    "TrainConfig",
    "TrainState",
    "build_optimizer",
    "build_precision",
    "find_device",
    "fit",
    "override",
    "parameter_groups",
    "recipe",
    "run_vtab",
    "set_lr",
    "train_step",
    "warmup_constant",
    "warmup_cosine",
    "warmup_linear",
]
