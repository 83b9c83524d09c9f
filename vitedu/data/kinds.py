"""Data of the caller's own, of whatever kind, as a source of batches.

`source = as_source(dataset, preprocess=model.preprocess, shuffle=True)`
`source = as_source("photos/val", preprocess=model.preprocess)`
`source = as_source((images, labels), preprocess=model.preprocess)`
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from vitedu.data.arrays import Arrays, Dataset
from vitedu.data.augment import Augment
from vitedu.data.batches import yields_batches
from vitedu.data.folders import FolderDataset, training_part
from vitedu.data.images import Pictures, find_images
from vitedu.data.items import (
    Items,
    check_labels,
    is_hugging_face,
    items_of,
    name_of,
    named_classes,
    numbers,
    pair_of,
    whole_labels,
)
from vitedu.data.memory import arrays_of, is_pair
from vitedu.data.opened import Opened, few
from vitedu.data.randomness import Draws
from vitedu.data.source import Source
from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec

if TYPE_CHECKING:
    from vitedu.data.image_source import PictureChange

KINDS = (
    "a folder of class folders, a pair (images, labels) of arrays, a torch Dataset, a "
    "Hugging Face dataset, a DataLoader or a vitedu Source"
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
    """Data of your own as a source of batches for a model with this `preprocess`.

    `data` may be

    * a folder that holds a folder of pictures for each class;
    * a pair (images, labels) in memory: uint8 as arrays (n, h, w) or (n, h, w, c) or
      tensors (n, c, h, w), of any size; or floats (n, c, h, w) of the model's size;
    * a torch Dataset with items (picture, label), or a Hugging Face dataset with an
      image and a label: the picture is a pillow image, a path, uint8 pixels or floats
      (c, h, w);
    * a DataLoader, or another iterable of (images, labels) batches that can be run
      through more than once and has a length: its order and augmentation are its own;
    * a `Source`, which is returned as it is.

    Pictures and uint8 pixels are resized and normalised as `preprocess` says. Floats
    are fed as they are: they must be normalised already, and are refused if none of the
    first images goes below the mean, unless `check_range=False` says that they are
    right. Labels are whole numbers from 0; `class_names` or `num_classes` say how many
    there are where the data do not.

    `augment` is an `Augment`, or a function from pillow image to pillow image that is
    applied before the picture is resized. It and `shuffle` are for training. What they
    draw depends on (seed, epoch, index) alone, as does what a Dataset draws itself.

    UserError: the data are of no such kind, are empty, or do not fit.
    """
    return open_data(data, class_names, num_classes).source(
        preprocess=preprocess,
        augment=augment,
        shuffle=shuffle,
        num_workers=num_workers,
        device=device,
        check_range=check_range,
    )


def open_data(
    data: Any,
    class_names: Sequence[str] | None = None,
    num_classes: int | None = None,
) -> Opened:
    """What kind `data` are, and what they tell about themselves.

    UserError: they are of no kind in KINDS, or empty.
    """
    if isinstance(data, Opened):
        return data
    if isinstance(data, str | PathLike):
        folder = Path(data).expanduser()
        pictures = _known(_class_folders(folder), class_names, num_classes)
        return replace(pictures, name=folder.resolve().name)
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
        check_labels("the data", data.labels, names)
        return Opened("arrays", data, len(data.labels), names, data.labels)
    if isinstance(data, Iterator) or hasattr(data, "__next__"):
        raise UserError(
            f"a {name_of(data)} can be run through only once, but an epoch is run "
            f"through again and again; give {KINDS}"
        )
    if isinstance(data, dict):
        raise UserError(
            f"a {name_of(data)} of {few(tuple(map(str, data)))} was given; give one "
            "part of it, such as data['train']"
        )
    if yields_batches(data):
        return _batches(data, class_names, num_classes)
    if not (
        hasattr(data, "__getitem__")
        or is_hugging_face(data)
        or isinstance(data, IterableDataset)
    ):
        raise UserError(f"can't use {name_of(data)} as data; pass {KINDS}")
    return _known(
        _first_read(items_of(data, class_names, num_classes)), None, None
    )


def _known(
    data: "Pictures | Items | Source",
    class_names: Sequence[str] | None,
    num_classes: int | None,
) -> Opened:
    """What says itself how many classes it has."""
    name = data.name if isinstance(data, Items) else name_of(data)
    labels = getattr(data, "labels", None)
    if isinstance(data, Pictures):
        labels = torch.tensor(data.labels)
    own = named_classes(name, data.class_names, class_names, num_classes)
    if isinstance(data, Source) and not own:
        own = numbers(data.num_classes)
    if isinstance(data, Items):
        data = replace(data, class_names=own)
    if not isinstance(data, Pictures | Items):
        labels = None
    return Opened(name, data, len(data), own, labels)


def _first_read(items: Items) -> Items:
    """`items`, once the first of them was found to be of the right form."""
    with Draws(0).in_force():
        items[0]
    return items


def _class_folders(folder: Path) -> Pictures:
    if folder.suffix == ".npz":
        raise UserError(
            f"{folder} has several parts; give one of them, such as "
            f"vitedu.data.load_dataset({str(folder)!r}).train"
        )
    if folder.is_dir() and training_part(folder) != folder:
        raise UserError(
            f"{folder} has several parts; give one of them, such as "
            f"{folder / 'train'}"
        )
    return find_images(folder)


def _batches(
    loader: Any,
    class_names: Sequence[str] | None,
    num_classes: int | None,
) -> Opened:
    """What yields batches; its images are counted, by a first run through if needed."""
    name = name_of(loader)
    sampler: Any = getattr(loader, "sampler", None)
    if getattr(sampler, "num_replicas", 1) > 1:
        raise UserError(
            f"the {name} has a DistributedSampler and would be cut twice: every batch "
            "is shared by the processes here, so leave the sampler out"
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
            f"the {name} has no length (the number of its batches), so an epoch might "
            "not end; give it a __len__"
        ) from None
    with Draws(0).in_force():
        labels = [
            whole_labels(pair_of(batch, f"batch {number}")[1], name)
            for number, batch in enumerate(loader)
        ]
    every = torch.cat([*labels, torch.empty(0, dtype=torch.int64)])
    if not len(every):
        raise UserError(f"the {name} is empty")
    check_labels(name, every, names)
    names = names or numbers(int(every.max()) + 1)
    return Opened(name, loader, len(every), names, None)


def _classes_behind(loader: "DataLoader[Any]") -> tuple[str, ...]:
    """The classes that its data set tells; (): it does not, or not in a known form.

    A collate_fn of the user's own may make batches of anything.
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
    """Whether its own parts say how many images an epoch holds."""
    is_indexed = not isinstance(loader.dataset, IterableDataset)
    return is_indexed and loader.batch_size is not None
