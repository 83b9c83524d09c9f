"""Data by name: a set of the catalogue, drawn shapes, FILE.npz, a folder.

`load_dataset("mnist").train.images` is (60000, 1, 28, 28).
"""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitedu.data.catalogue import (
    ARRAYS,
    CATALOGUE,
    DIGIT_NAMES,
    MissingDataError,
    folders_of,
    reader_of,
    sets_of,
)
from vitedu.data.dataset import Dataset
from vitedu.data.locate import Location, holds, locate, unfit
from vitedu.data.open import READERS, class_names_at, holds_pictures
from vitedu.data.readers import torchvision, zipped
from vitedu.data.readers.array_files import (
    KEYS,
    cifar_arrays,
    idx_arrays,
    npz_arrays,
)
from vitedu.data.readers.arrays import dataset_of
from vitedu.errors import UserError, did_you_mean
from vitedu.files import user_path

SHAPES_NAME = re.compile(r"shapes(?:-([1-9][0-9]{0,5})k)?")
SHAPES_TEST_IMAGES = 2_000


def load_dataset(
    name: str,
    *,
    data: str | Path | None = None,
    fallback: str | None = None,
    image_size: int | tuple[int, int] | None = None,
    num_classes: int | None = None,
    max_images: int | None = None,
) -> Dataset:
    """Read a data set by name, or a FILE.npz (as `name`, or as `data` of any).

    Names: mnist, fashion-mnist, cifar10 (found by `vitedu.data.locate`), digits
    (embedded), shapes (drawn here, 10,000 images) and shapes-<N>k. image_size
    (default 64), num_classes (10) and max_images are for shapes alone.
    fallback="digits" stands in for a set that isn't found; `requested` of the
    result then differs from `name`.
    UserError: an unknown name, a missing set, a damaged file, too little
    memory.
    """
    if fallback not in (None, "digits"):
        raise UserError(
            f"fallback={fallback!r} is unknown; only digits can stand in"
        )
    for file in (data, name):
        if str(file).endswith(".npz"):
            path = user_path(str(file))
            # called as the file is: a copy of cifar10 may not be cifar10
            found = dataset_of(
                path.name, npz_arrays(path), str(path), f"data={file}"
            )
            return replace(found, requested=Path(name).name)
    shapes = SHAPES_NAME.fullmatch(name)
    if shapes:
        if data is not None:
            raise unfit(
                f"{name} is drawn, not read; leave out data={data}", data
            )
        counts = [1000 * int(shapes[1] or 10), SHAPES_TEST_IMAGES]
        if max_images is not None:
            counts = [min(count, max_images) for count in counts]
        return _make_shapes(name, counts, image_size or 64, num_classes or 10)
    if not is_array_set(name):
        raise _unknown(name)
    try:
        path, origin = locate(name, data=data)
    except MissingDataError:
        if fallback is None:
            raise
        return replace(load_dataset(fallback), requested=name)
    if name == "digits":
        return dataset_of(name, npz_arrays(path), str(path), origin)
    named = CATALOGUE[name]
    if named.reader == "npz":
        arrays = npz_arrays(path)
    elif named.reader == "cifar":
        arrays = cifar_arrays(path, name)
    else:
        arrays = idx_arrays(path, named.layouts[0][1])
    return dataset_of(name, arrays, str(path), origin, named.class_names)


def _unknown(name: str) -> UserError:
    known = ("digits", *sets_of(*ARRAYS, "zip"), "shapes", "shapes-100k")
    return UserError(
        f"there is no data set {name!r} here; data=FOLDER names pictures of "
        "your own, in a folder for each class; " + did_you_mean(name, known)
    )


def _make_shapes(
    name: str,
    counts: Sequence[int],
    image_size: int | tuple[int, int],
    num_classes: int,
) -> Dataset:
    # here, since most users never need what draws them
    from vitedu.data.readers import shapes

    arrays: list[Any] = []
    for count, seed in zip(counts, (0, 1), strict=True):
        arrays += shapes.make_arrays(count, image_size, num_classes, seed)
    named = dict(zip(KEYS, arrays, strict=True))
    classes = shapes.class_names(num_classes)
    return dataset_of(name, named, name, "made", classes)


def is_array_set(name: str) -> bool:
    is_named = name == "digits" or name in sets_of(*ARRAYS)
    is_made = SHAPES_NAME.fullmatch(name) is not None
    return is_named or is_made or name.endswith(".npz")


def array_classes(
    name: str, data: str | None, num_classes: int
) -> tuple[str, ...]:
    """`load_dataset`'s classes, without a download; only FILE.npz is read."""
    if name.endswith(".npz") or str(data).endswith(".npz"):
        return load_dataset(name, data=data).class_names
    if SHAPES_NAME.fullmatch(name):
        from vitedu.data.readers import shapes

        return shapes.class_names(num_classes)
    if name == "digits":
        return DIGIT_NAMES
    if name not in sets_of(*ARRAYS):
        raise _unknown(name)
    return CATALOGUE[name].class_names


def known_classes(
    dataset: str, data: str | None = None, *, num_classes: int
) -> tuple[str, ...]:
    """Class names of `dataset` at `data`; no download, no picture read."""
    place = folder_of(dataset, data)
    if place is not None:
        return class_names_at(place)
    return array_classes(dataset, data, num_classes)


def folder_of(dataset: str, data: str | None = None) -> Path | None:
    """The folder of pictures that `dataset` and `data` mean; None for arrays.

    If `data` has train/ or class folders of pictures, it is used whatever set a
    recipe names, unless it has that set's own files. A name that `load_dataset`
    knows always means the set, never a folder of that name (write ./mnist for
    that); any other is a folder, which may be at `data`.

    Shards in brace notation, `hf:NAME` and torchvision's sets count as folders:
    pass the result to `load_folder`, `evaluation_part` or `find_images`.
    """
    place = None if data is None else user_path(data)
    if reader_of(dataset) == "torchvision":
        if (
            place is None
            or not holds_pictures(place)
            or torchvision.holds(dataset, place)
        ):
            return torchvision.place_of(dataset, place)
        return place
    if reader_of(dataset) == "zip" and place is None:
        return zipped.archive_folder(dataset)
    if dataset.endswith(".npz") or (data or "").endswith(".npz"):
        return None
    is_named = is_array_set(dataset)
    if place is None:
        place = user_path(dataset)
        is_there = any(reader.accepts(place) for reader in READERS)
        return place if is_there and not is_named else None
    if is_named and (holds(dataset, place) or not holds_pictures(place)):
        return None
    return place


def named_folders() -> dict[str, Location | None]:
    """Where each named set of pictures is now; None: it would be downloaded."""
    found: dict[str, Location | None] = {}
    for name in sets_of("zip", "torchvision"):
        *own, cache = folders_of(name)
        places = [Location(folder, "$VITEDU_DATA") for folder in own]
        places.append(Location(cache, "cache"))
        here = [
            place
            for place in places
            if os.path.isdir(place.path)
            and (
                reader_of(name) == "torchvision"
                or zipped.holds(place.path, CATALOGUE[name])
            )
        ]
        found[name] = here[0] if here else None
    return found
