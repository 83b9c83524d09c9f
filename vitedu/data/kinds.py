"""Your own data, of any kind, as a source of batches.

`source = as_source(dataset, preprocess=model.preprocess, shuffle=True)`
`source = as_source("photos/val", preprocess=model.preprocess)`
`source = as_source((images, labels), preprocess=model.preprocess)`
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from vitedu.data.arrays import Arrays, Dataset
from vitedu.data.augment import Augment
from vitedu.data.folders import FolderDataset, training_part
from vitedu.data.images import Pictures, find_images
from vitedu.data.items import (
    Items,
    is_hugging_face,
    items_of,
    named_classes,
    pair_of,
)
from vitedu.data.labels import (
    check_labels,
    names_from_labels,
    numbered_names,
    whole_labels,
)
from vitedu.data.loader_source import yields_batches
from vitedu.data.memory import arrays_of, is_pair
from vitedu.data.opened import Opened, few
from vitedu.data.places import is_place, name_at
from vitedu.data.randomness import Draws
from vitedu.data.source import Source
from vitedu.errors import UserError, warn
from vitedu.files import user_path
from vitedu.pictures import PreprocessSpec

if TYPE_CHECKING:
    from vitedu.data.image_source import PictureChange

KINDS = (
    "a folder of class folders, a pair (images, labels) of arrays, a torch "
    "Dataset, a Hugging Face dataset, a DataLoader or a vitedu Source"
)


def as_source(
    data: Any,
    *,
    preprocess: PreprocessSpec,
    augment: "Augment | PictureChange | None" = None,
    shuffle: bool = False,
    num_workers: int = 0,
    device: torch.device | str = "cpu",
    class_names: Sequence[str] | None = None,
    num_classes: int | None = None,
    check_range: bool = True,
) -> Source:
    """Your own data as a source of batches for a model with `preprocess`.

    `data` may be

    * a folder with a folder of pictures for each class; WebDataset's shards,
      `photos/train-{000000..000127}.tar`; a split of a Hugging Face data set,
      `hf:imagenet-1k:train`;
    * a pair (images, labels) in memory: uint8 as arrays (n, h, w) or
      (n, h, w, c) or tensors (n, c, h, w), of any size; or floats
      (n, c, h, w) of the model's size;
    * a torch Dataset with items (picture, label), or a Hugging Face dataset
      with an image and a label: the picture is a pillow image, a path, uint8
      pixels or floats (c, h, w);
    * a DataLoader, or another iterable of (images, labels) batches that has
      a length and can be iterated again: it keeps its own order and
      augmentation;
    * a `Source`, which is returned as it is.

    Pictures and uint8 pixels are resized and normalised as `preprocess` says.
    Floats are fed as they are: they must be normalised already, and are refused
    if none of the first images goes below the mean, unless you say
    `check_range=False`. Labels are whole numbers from 0; where the data don't
    say how many classes there are, give `class_names` or `num_classes`.

    `augment` is an `Augment`, or a function from pillow image to pillow image
    that is applied before the picture is resized. It and `shuffle` are for
    training. Their random numbers depend on (seed, epoch, index) alone, and so
    do a Dataset's own.

    Pictures of a folder that cannot be read are left out, and a warning names
    them.

    UserError: the data are of another kind, empty, or don't fit.
    """
    opened = open_data(data, class_names, num_classes)
    warn_of_skipped(data, opened)
    return opened.source(
        preprocess=preprocess,
        augment=augment,
        shuffle=shuffle,
        num_workers=num_workers,
        device=device,
        check_range=check_range,
    )


def warn_of_skipped(data: Any, opened: Opened) -> None:
    """Warn of pictures left out of a folder, where `data` is its path.

    A caller of `find_images` has its `skipped` at hand.
    """
    if isinstance(data, str | PathLike):
        for note in opened.notes:
            warn(f"{data}: {note}")


def open_data(
    data: Any,
    class_names: Sequence[str] | None = None,
    num_classes: int | None = None,
) -> Opened:
    """Which kind of data it is, and what is known before the data are read.

    UserError: they are empty, or not one of KINDS.
    """
    if isinstance(data, Opened):
        return data
    if isinstance(data, str | PathLike):
        folder = user_path(data)
        pictures = _known(_class_folders(folder), class_names, num_classes)
        return replace(pictures, name=name_at(folder))
    if isinstance(data, Dataset | FolderDataset):
        raise UserError(
            f"{data.name} has several parts; give one of them, .train or .test"
        )
    if isinstance(data, Pictures | Items | Source):
        return _known(data, class_names, num_classes)
    if is_pair(data):
        data = arrays_of(*data)
    if isinstance(data, Arrays):
        names = named_classes("the data", (), class_names, num_classes)
        labels = whole_labels(data.labels, "the data")
        check_labels("the data", labels, len(names))
        data = Arrays(data.images, labels)
        return Opened("arrays", data, len(labels), names, labels)
    if isinstance(data, Iterator) or hasattr(data, "__next__"):
        raise UserError(
            f"a {type(data).__name__} can be iterated only once, but training "
            f"needs it once per epoch; give {KINDS}"
        )
    if isinstance(data, dict):
        raise UserError(
            f"a {type(data).__name__} of {few(tuple(map(str, data)))} has "
            "several parts; give one of them, such as data['train']"
        )
    if yields_batches(data):
        return _batches(data, class_names, num_classes)
    if not (
        hasattr(data, "__getitem__")
        or is_hugging_face(data)
        or isinstance(data, IterableDataset)
    ):
        raise UserError(
            f"can't use {type(data).__name__} as data; pass {KINDS}"
        )
    return _known(
        _first_read(items_of(data, class_names, num_classes)), None, None
    )


def _known(
    data: "Pictures | Items | Source",
    class_names: Sequence[str] | None,
    num_classes: int | None,
) -> Opened:
    """Data that know their own classes."""
    name = data.name if isinstance(data, Items) else type(data).__name__
    labels = getattr(data, "labels", None)
    if isinstance(data, Pictures):
        labels = torch.tensor(data.labels)
    names = named_classes(name, data.class_names, class_names, num_classes)
    if isinstance(data, Source) and not names:
        names = numbered_names(data.num_classes)
    if isinstance(data, Items):
        data = replace(data, class_names=names)
    if not isinstance(data, Pictures | Items):
        labels = None
    return Opened(name, data, len(data), names, labels)


def _first_read(items: Items) -> Items:
    """`items`, after a look at the first. UserError: it has another form."""
    with Draws(0).in_force():
        items[0]
    return items


def _class_folders(folder: Path) -> Pictures:
    if folder.suffix == ".npz":
        raise UserError(
            f"{folder} has several parts; give one of them, such as "
            f"vitedu.data.load_dataset({str(folder)!r}).train"
        )
    is_whole = os.path.isdir(folder) or is_place(folder)
    if is_whole and training_part(folder) != folder:
        raise UserError(
            f"{folder} has several parts; give one of them, such as "
            f"{training_part(folder)}"
        )
    return find_images(folder)


def _batches(
    loader: Any,
    class_names: Sequence[str] | None,
    num_classes: int | None,
) -> Opened:
    """The caller's batches; their images are counted, by reading if need be."""
    name = type(loader).__name__
    sampler: Any = getattr(loader, "sampler", None)
    if getattr(sampler, "num_replicas", 1) > 1:
        raise UserError(
            f"the {name} has a DistributedSampler, but vitedu already divides "
            "every batch among the processes; leave the sampler out"
        )
    names = named_classes(name, (), class_names, num_classes)
    if isinstance(loader, DataLoader) and _is_counted(loader):
        num_images = len(sampler)
        if loader.drop_last:
            num_images -= num_images % (loader.batch_size or 1)
        if num_images == 0:
            raise UserError(f"the {name} is empty")
        return Opened(
            name, loader, num_images, names or _classes_behind(loader), None
        )
    try:
        len(loader)
    except TypeError:
        raise UserError(
            f"the {name} doesn't have a length (its number of batches), so an "
            "epoch might never end; give it a __len__"
        ) from None
    with Draws(0).in_force():
        labels = [
            whole_labels(pair_of(batch, f"batch {number}")[1], name)
            for number, batch in enumerate(loader)
        ]
    every = torch.cat([*labels, torch.empty(0, dtype=torch.int64)])
    if not len(every):
        raise UserError(f"the {name} is empty")
    check_labels(name, every, len(names))
    names = names or names_from_labels(name, every)
    return Opened(name, loader, len(every), names, None)


def _classes_behind(loader: "DataLoader[Any]") -> tuple[str, ...]:
    """The classes of its data set; () if they aren't known, or the form isn't.

    A collate_fn of the user's may make batches out of anything.
    """
    try:
        items = items_of(loader.dataset)
    except UserError:
        return ()
    data = Opened(
        items.name, items, len(items), items.class_names, items.labels
    )
    return data.classes() if data.knows_classes else ()


def _is_counted(loader: "DataLoader[Any]") -> bool:
    """Whether it says how many images an epoch has."""
    is_indexed = not isinstance(loader.dataset, IterableDataset)
    return is_indexed and loader.batch_size is not None
