"""A DataLoader, or another iterable of (images, labels) batches.

`open_loader(DataLoader(dataset, batch_size=64), None, None)`
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from vitedu.data.dataset import Loader, Split
from vitedu.data.feed.order import Draws
from vitedu.data.labels import (
    check_labels,
    named_classes,
    names_from_labels,
    whole_labels,
)
from vitedu.data.readers.torch_dataset import open_dataset, pair_of
from vitedu.errors import UserError


def open_loader(
    loader: Any,
    class_names: Sequence[str] | None,
    num_classes: int | None,
) -> Split:
    """Batches as a Split; counts their images, by reading them if need be."""
    name = type(loader).__name__
    sampler: Any = getattr(loader, "sampler", None)
    if getattr(sampler, "num_replicas", 1) > 1:
        raise UserError(
            f"the {name} has a DistributedSampler, but vitedu already divides "
            "every batch among the processes; leave the sampler out"
        )
    names = named_classes(name, (), class_names, num_classes)
    if (
        isinstance(loader, DataLoader)
        and not isinstance(loader.dataset, IterableDataset)
        and loader.batch_size is not None
    ):
        num_images = len(sampler)
        if loader.drop_last:
            num_images -= num_images % (loader.batch_size or 1)
        names = names or _classes_behind(loader)
    else:
        labels = _labels_by_reading(loader)
        num_images = len(labels)
        check_labels(name, labels, len(names))
        names = names or (names_from_labels(name, labels) if num_images else ())
    if num_images == 0:
        raise UserError(f"the {name} is empty")
    return Split(name, Loader(loader, num_images), None, names)


def _labels_by_reading(loader: Any) -> torch.Tensor:
    name = type(loader).__name__
    try:
        len(loader)
    except TypeError:
        raise UserError(
            f"the {name} doesn't have a length (its number of batches), so an "
            "epoch might never end; give it a __len__"
        ) from None
    with Draws(0):
        labels = [
            whole_labels(pair_of(batch, f"batch {number}")[1], name)
            for number, batch in enumerate(loader)
        ]
    return torch.cat([*labels, torch.empty(0, dtype=torch.int64)])


def _classes_behind(loader: "DataLoader[Any]") -> tuple[str, ...]:
    """The data set's classes; (): unknown, or of a form that we can't read."""
    try:
        split = open_dataset(loader.dataset)
    except UserError:
        return ()
    is_known = split.class_names or split.labels is not None
    return split.classes() if is_known else ()
