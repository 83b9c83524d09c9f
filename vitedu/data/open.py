"""Open any data as a data set, one part of it, or a source of batches.

`pets = load_folder("pets")`
`source = as_source(pets.test, preprocess=model.preprocess)`

To support another kind of path, add a module to `vitedu.data.readers` and list
it in `READERS`.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.utils.data import IterableDataset

from vitedu.data.array_sets import array_classes, is_array_set
from vitedu.data.augment import Augment
from vitedu.data.catalogue import CATALOGUE, folders_of, kind_of, sets_of
from vitedu.data.dataset import (
    Dataset,
    Loader,
    Split,
    left_out,
    match_classes,
)
from vitedu.data.feed.arrays import ArraySource
from vitedu.data.feed.loader import LoaderSource, yields_batches
from vitedu.data.feed.pictures import ImageSource, PictureChange
from vitedu.data.feed.source import Draws, Source
from vitedu.data.labels import (
    check_known,
    check_labels,
    few,
    named_classes,
    numbered_names,
)
from vitedu.data.locate import holds, locate, present
from vitedu.data.prepared_index import finished_index
from vitedu.data.readers import folder as folders
from vitedu.data.readers import huggingface, shards, torch_dataset, torchvision
from vitedu.data.readers.arrays import is_pair, open_pair
from vitedu.errors import UserError, warn
from vitedu.files import user_path
from vitedu.pictures import PreprocessSpec


class PlaceReader(Protocol):
    """A module that reads one kind of place.

    A place is a path or a name such as `hf:imagenet-1k` or
    `train-{000000..000127}.tar`. It has parts, each a place, or is itself one
    part.
    """

    PREFIX: str  # of what stands for a path: "hf:"; "" for paths

    def accepts(self, place: Path) -> bool:
        """Whether it reads this path; not asked for names with its prefix."""

    def parts(self, place: Path) -> dict[str, Path]:
        """Those of train, val and test that exist; {}: `place` is one part."""

    def class_names(self, place: Path) -> tuple[str, ...]:
        """The classes to train on, without reading a picture."""

    def open_part(self, place: Path, folder: Path | None = None) -> Split:
        """The readable pictures of one part of `folder`."""


# the first that accepts a place reads it
READERS: tuple[PlaceReader, ...] = (huggingface, torchvision, shards, folders)
KINDS = (
    "a folder of class folders, a pair (images, labels) of arrays, a torch "
    "Dataset, a Hugging Face dataset, a DataLoader or a vitedu Source"
)
# Held out for testing if there is no part for it.
TEST_SHARE = 0.2
TEST_SEED = 0


def as_source(
    data: Any,
    *,
    preprocess: PreprocessSpec,
    augment: Augment | PictureChange | None = None,
    shuffle: bool = False,
    num_workers: int = 0,
    device: torch.device | str = "cpu",
    class_names: Sequence[str] | None = None,
    num_classes: int | None = None,
    check_range: bool = True,
) -> Source:
    """Your own data as a source of batches for a model with `preprocess`.

    `data` may be

    * a folder with one folder of pictures per class; WebDataset's shards,
      `photos/train-{000000..000127}.tar`; a split of a Hugging Face data set,
      `hf:imagenet-1k:train`; or a `Split` from `load_dataset`, `load_folder` or
      `find_images`;
    * a pair (images, labels) in memory: uint8 as arrays (n, h, w) or (n, h, w,
      c) or tensors (n, c, h, w), of any size; or floats (n, c, h, w) of the
      model's size;
    * a torch Dataset with items (picture, label), or a Hugging Face dataset
      with an image and a label: the picture is a pillow image, a path, uint8
      pixels or floats (c, h, w);
    * a DataLoader, or another iterable of (images, labels) batches that has a
      length and can be iterated again: it keeps its own order and augmentation;
    * a `Source`, which is returned unchanged.

    Pictures and uint8 pixels are resized and normalised as `preprocess` says.
    Floats must be normalised in the same way already; values that `preprocess`
    cannot make are refused. To train a new model on floats of your own, let its
    `preprocess` name their mean and std; `check_range=False` takes any floats.
    Labels are whole numbers from 0; if the data don't say how many classes
    there are, give `class_names` or `num_classes`.

    `augment` is an `Augment`, or a function from pillow image to pillow image,
    applied before resizing. Use it and `shuffle` for training. Their random
    numbers, and a Dataset's own, depend only on (seed, epoch, index).

    Unreadable pictures of a folder are left out, with a warning that names
    them.

    UserError: the data are of another kind, empty, or don't fit.
    """
    split = open_split(data, class_names, num_classes)
    warn_of_skipped(data, split)
    names = split.classes()
    if isinstance(augment, Augment) and augment.is_off:
        augment = None
    if augment is not None and isinstance(split.reader, Loader | Source):
        raise UserError(
            f"{split.name} gives its images as they are, so they cannot be "
            "augmented here; augment them there, or give a Dataset, and leave "
            "it out here (augment=Augment())"
        )
    if isinstance(split.reader, Source):
        return split.reader
    options: dict[str, Any] = {"device": device, "check_range": check_range}
    if isinstance(split.reader, Loader):
        return LoaderSource(
            split.reader.loader,
            preprocess,
            names,
            num_images=len(split),
            **options,
        )
    options |= {"augment": augment, "shuffle": shuffle}
    if not split.is_named:
        split = replace(split, class_names=names)
    images: torch.Tensor | None = getattr(split.reader, "images", None)
    if images is not None and (augment is None or isinstance(augment, Augment)):
        size = (preprocess.in_channels, *preprocess.image_size)
        if images.is_floating_point() or images.shape[1:] == size:
            return ArraySource(split, preprocess, **options)
    return ImageSource(split, preprocess, num_workers=num_workers, **options)


def warn_of_skipped(data: Any, split: Split) -> None:
    if isinstance(data, str | PathLike):
        for note in split.notes:
            warn(f"{data}: {note}")


def open_split(
    data: Any,
    class_names: Sequence[str] | None = None,
    num_classes: int | None = None,
) -> Split:
    if isinstance(data, str | PathLike):
        data = find_images(data)
    elif isinstance(data, Dataset):
        raise UserError(
            f"{data.name} has several parts; give one of them, .train or .test"
        )
    elif is_pair(data):
        data = open_pair(*data)
    elif isinstance(data, Source):
        name = type(data).__name__
        names = data.class_names or numbered_names(data.num_classes)
        data = Split(name, data, None, names)
    if isinstance(data, Split):
        names = named_classes(
            data.name, data.class_names, class_names, num_classes
        )
        if names != data.class_names:
            check_labels(data.name, data.labels, len(names))
            data = replace(data, class_names=names)
        return data
    if hasattr(data, "__next__"):
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
        return torch_dataset.open_loader(data, class_names, num_classes)
    if not (
        hasattr(data, "__getitem__")
        or torch_dataset.is_hugging_face(data)
        or isinstance(data, IterableDataset)
    ):
        raise UserError(
            f"can't use {type(data).__name__} as data; pass {KINDS}"
        )
    split = torch_dataset.from_torch(
        data, class_names=class_names, num_classes=num_classes
    )
    with Draws(0):
        split[0]  # says whether it has another form
    return split


def find_images(
    folder: str | PathLike[str], *, labels: str | PathLike[str] | None = None
) -> Split:
    """The readable pictures of a folder, sorted by name.

    Without `labels`, each sub-folder is a class, numbered in sorted order. With
    it the folder is flat, and `labels` is a CSV with a header: the columns
    `filename` and `class_index` (a number) or `class` (a name). Every picture
    is decoded once (see `vitedu.data.scan`); `skipped` lists the damaged ones.
    Shards in brace notation and `hf:NAME:SPLIT` are accepted as folders.

    UserError: no picture, a picture without a label, a CSV that does not fit.
    """
    if labels is not None:
        return folders.open_table(
            folders.existing_folder(folder), user_path(labels)
        )
    place = _local(folder)
    if place.suffix == ".npz":
        example = f"vitedu.data.load_dataset({str(place)!r}).train"
    else:
        example = str(next(iter(parts_of(place).values()), ""))
    if example:
        raise UserError(
            f"{place} has several parts; give one of them, such as {example}"
        )
    return replace(reader_of(place).open_part(place), name=name_at(place))


def load_folder(
    folder: str | PathLike[str], name: str | None = None
) -> Dataset:
    """The readable pictures of a folder, to train on and to test on.

    FOLDER/train and FOLDER/test, or FOLDER/val if there is no test/; with both,
    val/ is for validation. Their names may be in any case, and valid/ or
    validation/ stands for val/. Each part has class folders, as in
    `find_images`. Without test/ and val/, TEST_SHARE of every class is held out
    for testing: the same pictures every time, none of a class with one or two.
    `notes` says so, and how many pictures are left out. `name` defaults to the
    folder's own.

    `folder` may also be one filled with shards by `vitedu prepare`, a tar or
    several in brace notation, `hf:NAME`, or the result of `folder_of` for a
    named set; their splits become the parts.
    UserError: there are no class folders, no picture of a class can be read, or
    another part has a class that train/ doesn't have.
    """
    place = _local(folder)
    reader, own_name = reader_of(place), name_at(place)
    given = reader.parts(place)
    train = reader.open_part(given.get("train", place), place)
    parts, known = {"train": train}, train.class_names
    for part, at in given.items():
        if part != "train":
            split = reader.open_part(at, place)
            check_known(at, split.class_names, known)
            parts[part] = match_classes(split, known, len(known))
    skipped = sum((part.skipped for part in parts.values()), ())
    notes = left_out(skipped, sum(map(len, parts.values())))
    if len(parts) == 1:
        try:
            kept, held_out = train.hold_out(TEST_SHARE, TEST_SEED)
        except UserError as error:
            raise UserError(
                f"{place} has too few pictures to hold some out for testing "
                f"({len(train)} in all); put pictures to test on into val/, "
                "beside train/"
            ) from error
        parts = {"train": kept, "test": held_out}
        is_flat = os.path.isdir(place) and not given
        missing = "train/ and val/" if is_flat else "val/ and test/"
        words = held_out_words(len(held_out), len(train))
        notes = (f"{own_name} doesn't have {missing}, so {words}", *notes)
    digest = hashlib.sha256()
    for part in sorted(parts):
        for stamp in parts[part].stamps(place):
            digest.update(stamp)
    return Dataset(
        name or own_name,
        parts["train"],
        parts.get("val") if "test" in parts else None,
        parts["test"] if "test" in parts else parts["val"],
        train.class_names,
        digest.hexdigest()[:16],
        f"data={place}",
        name or own_name,
        notes,
        skipped,
    )


def held_out_words(num_held_out: int, num_all: int) -> str:
    verb = "is" if num_held_out == 1 else "are"
    return (
        f"{num_held_out:,} of its {num_all:,} pictures ({100 * TEST_SHARE:g}% "
        f"of each class, drawn with seed {TEST_SEED}) {verb} held out for "
        "testing"
    )


def evaluation_part(folder: str | PathLike[str]) -> Path:
    """The part to test on: test/ or val/ if there is train/, else `folder`.

    UserError: there is train/, but neither of the others; or no such folder.
    """
    parts = parts_of(folder)
    if not parts:
        return _local(folder)
    for name in ("test", "val"):
        if name in parts:
            return parts[name]
    raise UserError(
        f"{folder} has train/, but neither val/ nor test/; put the pictures to "
        "measure with into one of them, in class folders like those of train/"
    )


def folder_of(dataset: str, data: str | None = None) -> Path | None:
    """The folder of pictures that `dataset` and `data` mean; None for arrays.

    If `data` has train/ or class folders of pictures, it is used whatever set a
    recipe names, unless it has that set's own files. A name that `load_dataset`
    knows always means the set, never a folder of that name (write ./mnist for
    that); any other is a folder, which may be at `data`.

    Shards in brace notation, `hf:NAME` and torchvision's sets count as folders:
    pass the result to `load_folder`, `evaluation_part` or `find_images`.
    """
    kind = kind_of(dataset)
    if data is None:
        if kind == "torchvision":
            return torchvision.place_of(dataset)
        if kind in ("zip", "photos"):  # a zip is downloaded when it is opened
            here = present(dataset)
            return here.path if here else folders_of(dataset)[-1]
        place = user_path(dataset)
        is_there = accepting(place) is not None
        return place if is_there and not is_array_set(dataset) else None
    place = user_path(data)
    if kind == "torchvision":
        is_own = holds_pictures(place) and not torchvision.holds(dataset, place)
        return place if is_own else torchvision.place_of(dataset, place)
    if dataset.endswith(".npz") or data.endswith(".npz"):
        return None
    if is_array_set(dataset):
        is_own = holds_pictures(place) and not holds(dataset, place)
        return place if is_own else None
    return place


def known_classes(
    dataset: str, data: str | None = None, *, num_classes: int
) -> tuple[str, ...]:
    """Class names of `dataset` at `data`; no download, no picture read."""
    place = folder_of(dataset, data)
    if place is None:
        return array_classes(dataset, data, num_classes)
    if kind_of(dataset) == "zip" and data is None:
        return CATALOGUE[dataset].class_names
    return reader_of(place).class_names(place)


def can_train_on(place: Path, count: int) -> bool:
    """Whether `place` is a folder with so many listed pictures to train on."""
    if os.path.isdir(place) and (index := finished_index(place)):
        num_listed = index.parts["train"].num_samples
    elif reader_of(place) is folders:
        root = parts_of(place).get("train", place)
        found = (
            folders.pictures_in(root / x) for x in folders.class_folders(root)
        )
        # as many as tell, of maybe millions
        enough = islice(chain.from_iterable(found), 2 * count)
        num_listed = sum(1 for _ in enough)
    else:
        return False
    if not {"test", "val"} & parts_of(place).keys():
        num_listed = round((1 - TEST_SHARE) * num_listed)
    return num_listed >= count


def holds_pictures(place: Path) -> bool:
    reader = reader_of(place)
    return reader is not folders or folders.holds_pictures(place)


def parts_of(folder: str | PathLike[str]) -> dict[str, Path]:
    place = _local(folder)
    return reader_of(place).parts(place)


def reader_of(place: Path) -> PlaceReader:
    return accepting(place) or folders


def accepting(place: Path) -> PlaceReader | None:
    is_name = not os.path.lexists(place)
    for reader in READERS:
        prefix = reader.PREFIX
        if prefix and is_name and str(place).startswith(prefix):
            return reader
        if not prefix and reader.accepts(place):
            return reader
    return None


def name_at(place: Path) -> str:
    """The data's name in results: "imagenet-256", "flowers102"."""
    prefix = reader_of(place).PREFIX
    if not prefix:
        return place.resolve().name
    name = str(place).removeprefix(prefix)
    return Path(name.partition(":")[0]).name


def _local(place: str | PathLike[str]) -> Path:
    """The place that a text means, downloaded if it is a set's in the cache."""
    place = user_path(place)
    for name in sets_of("zip"):
        if place == folders_of(name)[-1]:
            return locate(name).path
    return place
