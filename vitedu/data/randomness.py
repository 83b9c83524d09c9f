"""Other people's code, whose random numbers are decided by a seed of ours.

`with Draws(seed, epoch, index).in_force(): picture, label = dataset[index]`
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from vitedu.data.order import mixed


class Draws:
    """What torch, numpy and random draw on the CPU, set by a few numbers.

    Each time they are in force they continue where they stopped; the rest of
    the program draws as if they had never been.
    """

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers
        self.states: tuple[Any, ...] | None = None

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Put these draws in the place of the program's own."""
        outside = _states()
        if self.states is None:
            seed = mixed(*self.numbers)
            random.seed(seed)
            # numpy takes seeds of 32 bits
            np.random.seed([seed >> 32, seed & 0xFFFFFFFF])
            torch.default_generator.manual_seed(seed)
        else:
            _restore(self.states)
        try:
            yield
        finally:
            self.states = _states()
            _restore(outside)


def _states() -> tuple[Any, ...]:
    return (
        random.getstate(),
        np.random.get_state(),
        torch.default_generator.get_state(),
    )


def _restore(states: tuple[Any, ...]) -> None:
    of_random, of_numpy, of_torch = states
    random.setstate(of_random)
    np.random.set_state(of_numpy)
    torch.default_generator.set_state(of_torch)
