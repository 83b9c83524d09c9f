"""Learning rates as pure functions of the step.

The warm-up factor multiplies the decayed rate, and the decay starts after the
warm-up, as in vit_jax; with warm-up, step 0 has rate 0.
"""

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def warmup_cosine(
    step: int, lr: float, num_steps: int, warmup_steps: int
) -> float:
    """Linear warm-up to `lr`, then half a cosine down to 0 at `num_steps`.

    Source: vit_jax's create_learning_rate_schedule, decay_type "cosine".
    """
    progress = (step - warmup_steps) / max(1, num_steps - warmup_steps)
    progress = min(max(progress, 0.0), 1.0)
    decayed = lr * 0.5 * (1.0 + math.cos(math.pi * progress))
    return decayed * min(1.0, step / warmup_steps) if warmup_steps else decayed


def warmup_linear(
    step: int, lr: float, num_steps: int, warmup_steps: int, end: float = 1e-5
) -> float:
    """Linear warm-up to `lr`, then a straight line to `end` at `num_steps`.

    Source: vit_jax's create_learning_rate_schedule, decay_type "linear".
    """
    progress = (step - warmup_steps) / max(1, num_steps - warmup_steps)
    progress = min(max(progress, 0.0), 1.0)
    decayed = end + (lr - end) * (1.0 - progress)
    return decayed * min(1.0, step / warmup_steps) if warmup_steps else decayed


def warmup_constant(
    step: int, lr: float, num_steps: int, warmup_steps: int
) -> float:
    """Linear warm-up to `lr`, then `lr`."""
    return lr * min(1.0, step / warmup_steps) if warmup_steps else lr


SCHEDULES = {
    "cosine": warmup_cosine,
    "linear": warmup_linear,
    "constant": warmup_constant,
}


def build_schedule(
    name: str, lr: float, num_steps: int, warmup: float
) -> Schedule:
    """The function from step to rate; `warmup` is a share of `num_steps`."""
    warmup_steps = round(warmup * num_steps)
    return lambda step: SCHEDULES[name](step, lr, num_steps, warmup_steps)
