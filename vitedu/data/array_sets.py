"""Data sets of arrays by name: of the catalogue, drawn shapes, or FILE.npz.

`load_dataset("mnist").train.images` is (60000, 1, 28, 28).
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from vitedu.data import glyphs
from vitedu.data.catalogue import (
    ARRAYS,
    CATALOGUE,
    MissingDataError,
    sets_of,
)
from vitedu.data.dataset import Dataset
from vitedu.data.labels import names_from_labels
from vitedu.data.locate import check_name, locate, unfit
from vitedu.data.readers import shapes
from vitedu.data.readers.array_files import (
    KEYS,
    cifar_arrays,
    idx_arrays,
    npz_arrays,
)
from vitedu.data.readers.arrays import open_pair
from vitedu.errors import UserError
from vitedu.files import user_path

SHAPES_NAME = re.compile(r"shapes(?:-([1-9][0-9]{0,5})k)?")
NUM_TEST = 2_000  # pictures of a drawn set


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

    Names: mnist, fashion-mnist, cifar10, cifar100 (found by
    `vitedu.data.locate`), digits (embedded), shapes (drawn here, 10,000 images)
    and shapes-<N>k, glyphs-same, glyphs-which, glyphs-left (drawn, too; see
    `vitedu.data.glyphs.NAME`). image_size (default 64), num_classes (10) and
    max_images are for shapes alone.
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
            found = _dataset(
                path.name, npz_arrays(path), str(path), f"data={file}"
            )
            return replace(found, requested=Path(name).name)
    if is_drawn(name):
        if data is not None:
            raise unfit(data, f"{name} is drawn, not read, so leave it out")
        classes = array_classes(name, None, num_classes or 10)
        if match := SHAPES_NAME.fullmatch(name):
            counts = 1000 * int(match[1] or 10), NUM_TEST
            size = image_size or 64, num_classes or 10
            drawn = [
                shapes.make_arrays(min(count, max_images or count), *size, seed)
                for seed, count in enumerate(counts)
            ]
        else:
            drawn = glyphs.named(name, NUM_TEST)
        parts = [map(torch.as_tensor, part) for part in drawn]
        arrays = dict(zip(KEYS, chain(*parts), strict=True))
        return _dataset(name, arrays, name, "made", classes)
    check_name(name, *ARRAYS)
    try:
        path, origin = locate(name, data=data)
    except MissingDataError:
        if fallback is None:
            raise
        return replace(load_dataset(fallback), requested=name)
    named = CATALOGUE[name]
    if named.kind == "idx":
        arrays = idx_arrays(path, named.layouts[0][1])
    elif named.kind == "cifar":
        arrays = cifar_arrays(path, name)
    else:
        arrays = npz_arrays(path)
    return _dataset(name, arrays, str(path), origin, named.class_names)


def is_drawn(name: str) -> bool:
    return bool(SHAPES_NAME.fullmatch(name) or glyphs.NAME.fullmatch(name))


def is_array_set(name: str) -> bool:
    return is_drawn(name) or name in sets_of(*ARRAYS) or name.endswith(".npz")


def array_classes(
    name: str, data: str | None, num_classes: int
) -> tuple[str, ...]:
    """`load_dataset`'s classes, without a download; only FILE.npz is read."""
    if name.endswith(".npz") or str(data).endswith(".npz"):
        return load_dataset(name, data=data).class_names
    if SHAPES_NAME.fullmatch(name):
        return shapes.class_names(num_classes)
    if match := glyphs.NAME.fullmatch(name):
        return glyphs.CLASSES[match[1]]
    check_name(name, *ARRAYS)
    return CATALOGUE[name].class_names


def _dataset(
    name: str,
    arrays: Mapping[str, Any],
    where: str,
    origin: str,
    class_names: tuple[str, ...] = (),
) -> Dataset:
    """A data set of x_train, y_train, x_test, y_test, as `open_pair` takes."""
    class_names = class_names or tuple(map(str, arrays.get("class_names", ())))
    digest = hashlib.sha256()
    parts = []
    for part in ("train", "test"):
        split = open_pair(
            arrays[f"x_{part}"],
            arrays[f"y_{part}"],
            class_names,
            where=f"{where}: {part}",
        )
        parts.append(replace(split, name=name))
        for stamp in split.stamps():
            digest.update(stamp)
        digest.update(split.labels.numpy().astype("<i8"))
    sizes = ["x".join(map(str, part.images.shape[1:])) for part in parts]
    if sizes[0] != sizes[1]:
        raise UserError(
            f"{where}: x_train has images of {sizes[0]}, x_test of {sizes[1]}; "
            "both parts must have the same size"
        )
    if not class_names:
        numbers = torch.cat([part.labels for part in parts])
        class_names = names_from_labels(name, numbers)
    train, test = (replace(part, class_names=class_names) for part in parts)
    return Dataset(
        name,
        train,
        None,
        test,
        class_names,
        digest.hexdigest()[:16],
        origin,
        requested=name,
    )
