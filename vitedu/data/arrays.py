"""Small data sets as uint8 arrays: named sets, drawn shapes, and files FILE.npz.

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

from vitedu.data import formats, sources
from vitedu.data.order import hold_out
from vitedu.errors import UserError, did_you_mean

DIGIT_NAMES = tuple("0123456789")
CLASS_NAMES = {
    "mnist": DIGIT_NAMES,
    "digits": DIGIT_NAMES,
    "fashion-mnist": (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    "cifar10": (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
}
IDX_FILES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
SHAPES_NAME = re.compile(r"shapes(?:-([1-9][0-9]*)k)?")
SHAPES_TEST_IMAGES = 2_000


class Arrays(NamedTuple):
    """Images and what is on them."""

    images: Tensor  # (n, c, h, w) uint8; or float, if it is normalised already
    labels: Tensor  # (n,) int64


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with its two parts, and where it came from."""

    name: str
    train: Arrays
    test: Arrays
    class_names: tuple[str, ...]
    digest: str  # of shapes, pixels and labels of both parts: equal data, equal digest
    origin: str  # "data=...", "$VITEDU_DATA", "cache", "package" or "made"
    requested: str  # the name asked for; another than `name` after a fallback


def is_array_set(name: str) -> bool:
    """Whether `load_dataset` knows this name: a named set, shapes or FILE.npz."""
    is_named = name in CLASS_NAMES or SHAPES_NAME.fullmatch(name) is not None
    return is_named or name.endswith(".npz")


def classes_of_set(
    name: str, *, data: str | Path | None = None, num_classes: int
) -> tuple[str, ...]:
    """The classes of what `load_dataset` would read; nothing is downloaded for it.

    Only shapes looks at `num_classes`, and only a FILE.npz is read.
    UserError: an unknown name, a damaged file.
    """
    if name.endswith(".npz") or str(data).endswith(".npz"):
        return load_dataset(name, data=data).class_names
    if SHAPES_NAME.fullmatch(name):
        from vitedu.data import shapes

        return shapes.class_names(num_classes)
    if name not in CLASS_NAMES:
        raise _unknown(name)
    return CLASS_NAMES[name]


def load_dataset(
    name: str,
    *,
    data: str | Path | None = None,
    fallback: str | None = None,
    image_size: int | tuple[int, int] | None = None,
    num_classes: int | None = None,
    max_images: int | None = None,
) -> Dataset:
    """Read a data set: a name, or a FILE.npz (as the name, or as `data` of any name).

    Names: mnist, fashion-mnist, cifar10 (found by `sources.locate`), digits (embedded),
    shapes (made here, 10,000 images) and shapes-<N>k. Only shapes reads image_size (64
    if not given), num_classes (10) and max_images: it draws no more than asked for.
    fallback="digits" stands in for a set that is found nowhere; the result then says so
    (`requested` differs from `name`).
    UserError: an unknown name, a set that is missing or a file that is damaged.
    """
    if fallback not in (None, "digits"):
        raise UserError(
            f"fallback={fallback!r} is unknown; only digits can stand in"
        )
    for file in (data, name):
        if str(file).endswith(".npz"):
            path = Path(file).expanduser()
            # called as the file is: a copy of cifar10 may not be cifar10
            found = _dataset(
                path.name, formats.read_npz(path), f"data={file}", path
            )
            return replace(found, requested=Path(name).name)
    shapes = SHAPES_NAME.fullmatch(name)
    if shapes:
        if data is not None:
            raise sources.unfit(
                f"{name} is made, not read; leave out data={data}", data
            )
        num_images = 1000 * int(shapes[1] or 10)
        counts = num_images, SHAPES_TEST_IMAGES
        if max_images is not None:
            counts = tuple(min(count, max_images) for count in counts)
        return _make_shapes(name, counts, image_size or 64, num_classes or 10)
    if name not in CLASS_NAMES:
        raise _unknown(name)
    try:
        path, origin = sources.locate(name, data=data)
    except sources.MissingDataError:
        if fallback is None:
            raise
        return replace(load_dataset(fallback), requested=name)
    if name == "digits":
        return _dataset(name, formats.read_npz(path), origin, path)
    names = CLASS_NAMES[name]
    if name == "cifar10":
        return _dataset(name, formats.read_cifar10(path), origin, path, names)
    files = {key: _idx_file(path / stem) for key, stem in IDX_FILES.items()}
    arrays = {
        key: formats.read_idx(file, ndim=3 if key.startswith("x_") else 1)
        for key, file in files.items()
    }
    return _dataset(name, arrays, origin, path, names, files)


def _unknown(name: str) -> UserError:
    known = (*CLASS_NAMES, "shapes", "shapes-100k")
    return UserError(
        f"there is no data set {name!r} here; data=FOLDER names pictures of your own, "
        "in a folder for each class; " + did_you_mean(name, known)
    )


def _idx_file(plain: Path) -> Path:
    return plain if plain.is_file() else plain.with_name(f"{plain.name}.gz")


def _make_shapes(
    name: str,
    counts: tuple[int, int],
    image_size: int | tuple[int, int],
    num_classes: int,
) -> Dataset:
    # Here, so that only whoever wants shapes loads what draws them.
    from vitedu.data import shapes

    arrays = {}
    for part, count, seed in zip(
        ("train", "test"), counts, (0, 1), strict=True
    ):
        pixels, labels = shapes.make_arrays(
            count, image_size, num_classes, seed
        )
        arrays |= {f"x_{part}": pixels, f"y_{part}": labels}
    names = shapes.class_names(num_classes)
    return _dataset(name, arrays, "made", Path(name), names)


def _dataset(
    name: str,
    arrays: dict[str, np.ndarray],
    origin: str,
    path: Path,
    class_names: tuple[str, ...] | None = None,
    files: dict[str, Path] | None = None,
) -> Dataset:
    """Check what was read and bring it into one form.

    `path` is what the arrays came from, `files` the file of each where it has its own:
    messages name them. No class names, neither given nor stored: they are the numbers.
    """
    where = files or {key: f"{path}: {key}" for key in arrays}
    parts = [_checked(arrays, part, where) for part in ("train", "test")]
    sizes = ["x".join(map(str, part.images.shape[1:])) for part in parts]
    if sizes[0] != sizes[1]:
        raise UserError(
            f"{where['x_train']} has images of {sizes[0]}, "
            f"{where['x_test']} of {sizes[1]}; both parts must be alike"
        )
    if "class_names" in arrays:
        stored = arrays["class_names"]
        if stored.dtype.kind != "U" or stored.ndim != 1 or not stored.size:
            raise UserError(
                f"{where['class_names']} is {stored.dtype} of shape {stored.shape}, "
                "should be one text a class"
            )
        class_names = tuple(str(each) for each in stored)
    elif class_names is None:
        highest = max(int(part.labels.max()) for part in parts)
        class_names = tuple(str(label) for label in range(highest + 1))
    for part, key in zip(parts, ("y_train", "y_test"), strict=True):
        if part.labels.max() >= len(class_names):
            raise UserError(
                f"{where[key]} has a label {int(part.labels.max())}, "
                f"but there are {len(class_names)} classes, 0 to {len(class_names) - 1}"
            )
    return Dataset(
        name, *parts, class_names, _digest(parts), origin, requested=name
    )


def _checked(
    arrays: dict[str, np.ndarray], part: str, where: dict[str, Path | str]
) -> Arrays:
    """One part as tensors, images (n, c, h, w); `where` says what a message names."""
    images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
    x, y = where[f"x_{part}"], where[f"y_{part}"]
    if images.dtype != np.uint8:
        raise UserError(
            f"{x} is {images.dtype}, should be uint8 (pixels in 0..255)"
        )
    if not np.issubdtype(labels.dtype, np.integer) or labels.ndim != 1:
        raise UserError(
            f"{y} is {labels.dtype} of shape {labels.shape}, "
            "should be one whole number an image"
        )
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise UserError(
            f"{x} has images of shape {images.shape[1:]}, "
            "should be (h, w) or (h, w, c) with 1 or 3 channels"
        )
    if images.size == 0:
        raise UserError(f"{x} is empty ({len(images)} images)")
    if len(images) != len(labels):
        raise UserError(
            f"{x} has {len(images):,} images, but {y} {len(labels):,} labels"
        )
    if labels.min() < 0:
        raise UserError(f"{y} has a label {labels.min()}; labels begin at 0")
    # torch wants memory that may be written, which what was read from bytes is not
    images = np.require(images, requirements=["C", "W"])
    return Arrays(
        torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))
    )


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
        raise ValueError(f"subset wants at least 1 sample, got n={n}")
    return Arrays(arrays.images[:n], arrays.labels[:n])


def split(arrays: Arrays, fraction: float, seed: int) -> tuple[Arrays, Arrays]:
    """Hold out a share of every class, drawn by `seed`: (train, validation).

    Both stay in file order. UserError: a part would be empty.
    """
    held_out = hold_out(arrays.labels, fraction, seed)
    return tuple(
        Arrays(arrays.images[chosen], arrays.labels[chosen])
        for chosen in (~held_out, held_out)
    )
