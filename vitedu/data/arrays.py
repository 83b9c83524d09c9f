"""Small data sets as uint8 arrays: named sets, drawn shapes and FILE.npz.

`mnist = load_dataset("mnist")`
`mnist.train.images.shape` is (60000, 1, 28, 28).
"""

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitedu.data import sources
from vitedu.data.catalogue import ARRAYS, CATALOGUE, DIGIT_NAMES, sets_of
from vitedu.data.cifar import cifar_arrays
from vitedu.data.formats import (
    KEYS,
    StoredArray,
    idx_arrays,
    in_memory,
    npz_arrays,
)
from vitedu.data.labels import check_labels, names_from_labels, whole_labels
from vitedu.data.order import hold_out
from vitedu.errors import UserError, did_you_mean
from vitedu.files import user_path

SHAPES_NAME = re.compile(r"shapes(?:-([1-9][0-9]{0,5})k)?")
SHAPES_TEST_IMAGES = 2_000


class Arrays(NamedTuple):
    """Images and what is on them."""

    images: Tensor  # (n, c, h, w) uint8; or float, if it is normalised already
    labels: Tensor  # (n,) int64


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with its two parts, and where it was found."""

    name: str
    train: Arrays
    test: Arrays
    class_names: tuple[str, ...]
    # of shapes, pixels and labels of both parts: equal data, equal digest
    digest: str
    origin: str  # "data=...", "$VITEDU_DATA", "cache", "package" or "made"
    requested: str  # the name that was given; after a fallback not `name`


def is_array_set(name: str) -> bool:
    """Whether `load_dataset` knows `name`: a named set, shapes or FILE.npz."""
    is_named = name == "digits" or name in sets_of(*ARRAYS)
    is_made = SHAPES_NAME.fullmatch(name) is not None
    return is_named or is_made or name.endswith(".npz")


def classes_of_set(
    name: str, *, data: str | Path | None = None, num_classes: int
) -> tuple[str, ...]:
    """The classes of what `load_dataset` would read, without a download.

    `num_classes` is for shapes alone, and only a FILE.npz is read.
    UserError: an unknown name, a damaged file.
    """
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


def load_dataset(
    name: str,
    *,
    data: str | Path | None = None,
    fallback: str | None = None,
    image_size: int | tuple[int, int] | None = None,
    num_classes: int | None = None,
    max_images: int | None = None,
) -> Dataset:
    """Read a data set by name, or a FILE.npz (as name, or as `data` of any).

    Names: mnist, fashion-mnist, cifar10 (found by `sources.locate`), digits
    (embedded), shapes (drawn here, 10,000 images) and shapes-<N>k. image_size
    (64 if not given), num_classes (10) and max_images are for shapes alone.
    fallback="digits" stands in for a set that isn't found; the result then says
    so (`requested` differs from `name`).
    UserError: an unknown name, a set that is missing, a damaged file, more than
    fits into memory.
    """
    if fallback not in (None, "digits"):
        raise UserError(
            f"fallback={fallback!r} is unknown; only digits can stand in"
        )
    for file in (data, name):
        if str(file).endswith(".npz"):
            path = user_path(file)
            # called as the file is: a copy of cifar10 may not be cifar10
            found = _dataset(path.name, npz_arrays(path), f"data={file}")
            return replace(found, requested=Path(name).name)
    shapes = SHAPES_NAME.fullmatch(name)
    if shapes:
        if data is not None:
            raise sources.unfit(
                f"{name} is drawn, not read; leave out data={data}", data
            )
        counts = 1000 * int(shapes[1] or 10), SHAPES_TEST_IMAGES
        if max_images is not None:
            counts = tuple(min(count, max_images) for count in counts)
        return _make_shapes(name, counts, image_size or 64, num_classes or 10)
    if not is_array_set(name):
        raise _unknown(name)
    try:
        path, origin = sources.locate(name, data=data)
    except sources.MissingDataError:
        if fallback is None:
            raise
        return replace(load_dataset(fallback), requested=name)
    if name == "digits":
        return _dataset(name, npz_arrays(path), origin)
    named = CATALOGUE[name]
    if named.reader == "npz":
        stored = npz_arrays(path)
    elif named.reader == "cifar":
        stored = cifar_arrays(path, name)
    else:
        stored = idx_arrays(path, named.layouts[0][1])
    return _dataset(name, stored, origin, named.class_names)


def _unknown(name: str) -> UserError:
    known = ("digits", *sets_of(*ARRAYS, "zip"), "shapes", "shapes-100k")
    return UserError(
        f"there is no data set {name!r} here; data=FOLDER names pictures of "
        "your own, in a folder for each class; " + did_you_mean(name, known)
    )


def _make_shapes(
    name: str,
    counts: tuple[int, int],
    image_size: int | tuple[int, int],
    num_classes: int,
) -> Dataset:
    # here, since most users never need what draws them
    from vitedu.data.readers import shapes

    arrays = []
    for count, seed in zip(counts, (0, 1), strict=True):
        arrays += shapes.make_arrays(count, image_size, num_classes, seed)
    stored = {
        key: in_memory(f"{name}: {key}", array)
        for key, array in zip(KEYS, arrays, strict=True)
    }
    return _dataset(name, stored, "made", shapes.class_names(num_classes))


def _dataset(
    name: str,
    stored: dict[str, StoredArray],
    origin: str,
    class_names: tuple[str, ...] | None = None,
) -> Dataset:
    """Check the arrays of a set by their headers, then read them into one form.

    Without `class_names` the names are those that are stored, or the numbers.
    """
    for part in ("train", "test"):
        _check_part(stored[f"x_{part}"], stored[f"y_{part}"])
    train, test = stored["x_train"], stored["x_test"]
    if _image_shape(train) != _image_shape(test):
        sizes = ["x".join(map(str, _image_shape(x))) for x in (train, test)]
        raise UserError(
            f"{train.where} has images of {sizes[0]}, {test.where} of "
            f"{sizes[1]}; both parts must have the same size"
        )
    if class_names is None and "class_names" in stored:
        class_names = _stored_names(stored["class_names"])
    numbers = []
    for labels in (stored["y_train"], stored["y_test"]):
        numbers.append(whole_labels(labels.read(), labels.where))
        check_labels(labels.where, numbers[-1], len(class_names or ()))
    if class_names is None:
        class_names = names_from_labels(name, torch.cat(numbers))
    parts = [
        Arrays(_pixels(images), labels)
        for images, labels in zip((train, test), numbers, strict=True)
    ]
    return Dataset(
        name, *parts, class_names, _digest(parts), origin, requested=name
    )


def _check_part(images: StoredArray, labels: StoredArray) -> None:
    """UserError: these are not images and as many labels."""
    x, y = images.where, labels.where
    if images.dtype != np.uint8:
        raise UserError(
            f"{x} is {images.dtype}, should be uint8 (pixels in 0..255)"
        )
    if labels.dtype.kind not in "iu" or len(labels.shape) != 1:
        raise UserError(
            f"{y} is {labels.dtype} of shape {labels.shape}, "
            "should be one whole number per image"
        )
    if len(images.shape) not in (3, 4) or _image_shape(images)[0] not in (1, 3):
        raise UserError(
            f"{x} has images of shape {images.shape[1:]}, "
            "should be (h, w) or (h, w, c) with 1 or 3 channels"
        )
    num_images, num_labels = images.shape[0], labels.shape[0]
    if not images.num_bytes:
        raise UserError(f"{x} is empty ({num_images} images)")
    if num_images != num_labels:
        raise UserError(
            f"{x} has {num_images:,} images, but {y} {num_labels:,} labels"
        )


def _image_shape(images: StoredArray) -> tuple[int, ...]:
    """(c, h, w) of one image."""
    shape = images.shape[1:]
    return shape if len(shape) == 3 else (1, *shape)


def _stored_names(stored: StoredArray) -> tuple[str, ...]:
    if (
        stored.dtype.kind != "U"
        or len(stored.shape) != 1
        or not stored.shape[0]
    ):
        raise UserError(
            f"{stored.where} is {stored.dtype} of shape {stored.shape}, "
            "should be one text per class"
        )
    return tuple(str(each) for each in stored.read())


def _pixels(stored: StoredArray) -> Tensor:
    """Images as (n, c, h, w)."""
    # torch wants memory that may be written, which what was read from bytes is
    # not
    images = np.require(stored.read(), requirements=["C", "W"])
    return torch.from_numpy(images.reshape(len(images), *_image_shape(stored)))


def _digest(parts: list[Arrays]) -> str:
    digest = hashlib.sha256()
    for images, labels in parts:
        digest.update(str(tuple(images.shape)).encode())
        digest.update(images.numpy())
        digest.update(labels.numpy().astype("<i8"))
    return digest.hexdigest()[:16]


def subset(arrays: Arrays, n: int) -> Arrays:
    """The first n samples (all, if there are fewer)."""
    if n < 1:
        raise ValueError(f"subset needs at least 1 sample, got n={n}")
    return Arrays(arrays.images[:n], arrays.labels[:n])


def split(arrays: Arrays, fraction: float, seed: int) -> tuple[Arrays, Arrays]:
    """Hold out a share of every class, chosen by `seed`: (train, validation).

    Both keep the order of the file. UserError: a part would be empty.
    """
    held_out = hold_out(arrays.labels, fraction, seed)
    return tuple(
        Arrays(arrays.images[chosen], arrays.labels[chosen])
        for chosen in (~held_out, held_out)
    )
