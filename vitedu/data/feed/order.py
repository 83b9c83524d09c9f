"""Random draws, computed from (seed, epoch, index) and never stored.

`order = torch.randperm(len(labels), generator=epoch_generator(seed, epoch))`
`for rows in batch_rows(order, batch_size=64): images[rows], labels[rows]`
`with Draws(seed, epoch, index): picture, label = dataset[index]`
"""

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError


def seed_from(*numbers: int) -> int:
    """One seed from several numbers; neighbours give unrelated draws."""
    words = [number % (1 << 64) for number in numbers]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """The CPU generator of an epoch's order, then of its augmentation."""
    return torch.Generator().manual_seed(seed_from(seed, epoch))


def batch_rows(
    order: Tensor,
    *,
    batch_size: int,
    start: int = 0,
    rank: int = 0,
    world: int = 1,
) -> list[Tensor]:
    """The samples of each batch from `start` on; `order` (n,) is int64.

    Of each global batch, process `rank` of `world` takes rows [rank::world]:
    together they get the batches of a single process, and equally many (the
    last may be empty for some).
    """
    firsts = range(start * batch_size, len(order), batch_size)
    return [order[first : first + batch_size][rank::world] for first in firsts]


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
    if not 0 < fraction < 1:
        raise UserError(
            f"a held-out share of {fraction} must be between 0 and 1"
        )
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
        self.own: tuple[Any, ...] | None = None
        self.outside: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        self.outside = _states()
        if self.own is not None:
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
