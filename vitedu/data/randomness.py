"""Letting code of others draw its random numbers from a seed, and nothing else.

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
    """What torch, numpy and random would draw on the CPU, decided by some numbers.

    Each time they are in force the draws go on where they stopped; in between, and
    afterwards, the rest of the program draws what it would have drawn without.
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
