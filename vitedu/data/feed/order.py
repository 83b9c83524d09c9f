"""Random draws, computed from (seed, epoch, index) and never stored.

`order = torch.randperm(len(labels), generator=epoch_generator(seed, epoch))`
`with Draws(seed, epoch, index): picture, label = dataset[index]`
"""

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError

GENERATORS = (  # those of code that draws without one of its own
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
    (torch.default_generator.get_state, torch.default_generator.set_state),
)


def seed_from(*numbers: int) -> int:
    """One seed from several numbers; neighbours give unrelated draws."""
    words = [number % (1 << 64) for number in numbers]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """The CPU generator of an epoch's order, then of its augmentation."""
    return torch.Generator().manual_seed(seed_from(seed, epoch))


def windowed(
    shard_of: Tensor, window: int, generator: torch.Generator
) -> Tensor:
    """An order for samples in shards (n,): shuffled within windows of shards.

    Shards come in a random order, and the samples of `window` of them are
    mixed, so a disk is read nearly from front to back. With at most `window`
    shards every order is equally likely.
    """
    shards, number_of = torch.unique(shard_of, return_inverse=True)
    turn = torch.randperm(len(shards), generator=generator)
    window_of = turn[number_of] // window
    order = torch.randperm(len(shard_of), generator=generator)
    return order[window_of[order].argsort(stable=True)]


def hold_out(labels: Tensor, fraction: float, seed: int) -> Tensor:
    """Which samples are held out, a share of every class: bool (n,).

    Of each class round(fraction * its size). UserError: a part is empty.
    """
    generator = torch.Generator().manual_seed(seed_from(seed))
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        members = (labels == label).nonzero()[:, 0]
        drawn = torch.randperm(len(members), generator=generator)
        held_out[members[drawn[: round(fraction * len(members))]]] = True
    if not held_out.any() or held_out.all():
        raise UserError(
            f"a held-out share of {fraction} of {len(held_out)} samples "
            "leaves one part empty"
        )
    return held_out


class Draws:
    """Seeds torch, numpy and random on the CPU while a user's code runs.

    Entered again, the generators continue where they stopped; outside of the
    block the program's own draws are untouched.
    """

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers
        self.own: list[Any] = []
        self.outside: list[Any] = []

    def __enter__(self) -> None:
        self.outside = _states()
        if self.own:
            _restore(self.own)
            return
        seed = seed_from(*self.numbers)
        random.seed(seed)
        # numpy takes seeds of 32 bits
        np.random.seed([seed >> 32, seed & 0xFFFFFFFF])
        torch.default_generator.manual_seed(seed)

    def __exit__(self, *error: object) -> None:
        self.own = _states()
        _restore(self.outside)


def _states() -> list[Any]:
    return [state() for state, _ in GENERATORS]


def _restore(states: list[Any]) -> None:
    for (_, restore), state in zip(GENERATORS, states, strict=True):
        restore(state)
