"""The interface through which training and evaluation get batches.

`isinstance(ArraySource(...), Source)` is True, as for any class with these four
members. Their draws are computed from (seed, epoch, index) and never stored:
`order = torch.randperm(len(labels), generator=epoch_generator(seed, epoch))`
`with Draws(seed, epoch, index): picture, label = dataset[index]`
"""

import random
import re
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError

Batches: TypeAlias = Iterator[tuple[Tensor, Tensor]]
GENERATORS = (  # those of code that draws without one of its own
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
    (torch.default_generator.get_state, torch.default_generator.set_state),
)


@runtime_checkable
class Source(Protocol):
    """Images and labels in batches, ready for the model, epoch after epoch.

    `as_source` makes one from arrays, folders, torch Datasets and DataLoaders;
    a class of your own needs only these members, no inheritance.
    """

    @property
    def num_classes(self) -> int:
        """The number of classes; labels are 0 to one less."""
        ...

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of labels 0, 1, ..."""
        ...

    def __len__(self) -> int:
        """The number of images in an epoch."""
        ...

    def batches(
        self,
        *,
        epoch: int,
        seed: int,
        batch_size: int,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> Batches:
        """One epoch on the device: (b, c, h, w) float, labels (b,) int64.

        Every image comes once; the last batch may be short. Order and
        augmentation depend only on (seed, epoch), so a run resumed at batch
        `start` sees what it would have seen. Of each batch, process `rank` of
        `world` takes rows [rank::world]; its share of the last one may be
        empty.
        """
        ...


def labels_of(source: Source) -> Tensor | None:
    """(n,) on the CPU; None: only reading the images would tell."""
    labels = getattr(getattr(source, "pictures", source), "labels", None)
    return None if labels is None else torch.as_tensor(labels).cpu()


class Share(NamedTuple):
    batch_size: int
    start: int
    rank: int
    world: int

    def rows_of(self, order: Tensor) -> list[Tensor]:
        batches = order.split(self.batch_size)[self.start :]
        return [rows[self.rank :: self.world] for rows in batches]


class Feed(ABC):
    """Our kinds of `Source`, which give `_feed`."""

    @abstractmethod
    def _feed(self, epoch: int, seed: int, share: Share) -> Batches: ...

    def batches(
        self,
        *,
        epoch: int = 0,
        seed: int = 0,
        batch_size: int,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> Batches:
        return self._feed(epoch, seed, Share(batch_size, start, rank, world))


def seed_from(*numbers: int) -> int:
    """One seed from several numbers; neighbours give unrelated draws."""
    words = [number % (1 << 64) for number in numbers]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """The CPU generator of an epoch's order, then of its augmentation."""
    return torch.Generator().manual_seed(seed_from(seed, epoch))


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
        self.outside = states()
        if self.own:
            restore(self.own)
            return
        seed = seed_from(*self.numbers)
        random.seed(seed)
        # numpy takes seeds of 32 bits
        np.random.seed([seed >> 32, seed & 0xFFFFFFFF])
        torch.default_generator.manual_seed(seed)

    def __exit__(self, *error: object) -> None:
        self.own = states()
        restore(self.outside)


def states() -> list[Any]:
    """Where torch, numpy and random are on the CPU."""
    return [state() for state, _ in GENERATORS]


def restore(before: list[Any]) -> None:
    """Put back what `states` gave."""
    for (_, set_state), state in zip(GENERATORS, before, strict=True):
        set_state(state)


@contextmanager
def explain_killed_workers() -> Iterator[None]:
    """Turn torch's error about a killed worker into one sentence.

    torch raises it wherever the program is, even in a training step, so wrap
    everything that is done with the batches.
    """
    try:
        yield
    except RuntimeError as error:
        found = re.match(r"DataLoader worker \(pid.*?(\d+)", str(error))
        if found is None:
            raise
        is_shared = "Bus error" in str(error)
        memory = "shared memory (/dev/shm)" if is_shared else "memory"
        raise _killed(
            f"the data worker with process number {found[1]}", memory
        ) from error
    except (ConnectionError, EOFError) as error:
        # killed while it handed a batch over: this end of the pipe notices
        # before torch does
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if Path(frame.f_code.co_filename).parent.name != "multiprocessing":
            raise
        raise _killed("a data worker", "memory") from error


def _killed(worker: str, memory: str) -> UserError:
    return UserError(
        f"{worker} was killed, most likely because {memory} ran out; set "
        "num_workers to a smaller number (0: no workers), or give the machine "
        "more"
    )
