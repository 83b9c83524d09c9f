"""The interface through which training and evaluation get batches.

`isinstance(ArraySource(...), Source)` is True, as for any class with these four
members.
"""

from collections.abc import Iterator
from typing import Protocol, TypeAlias, runtime_checkable

from torch import Tensor

Batches: TypeAlias = Iterator[tuple[Tensor, Tensor]]


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


def check_batches(batch_size: int, start: int, rank: int, world: int) -> None:
    """ValueError: the arguments of `batches` contradict each other."""
    if batch_size < 1 or start < 0:
        raise ValueError(
            f"batches needs batch_size from 1 and start from 0, "
            f"got {batch_size} and {start}"
        )
    if not 0 <= rank < world:
        raise ValueError(f"rank {rank} is not one of {world} processes")
