"""Images that are entirely in memory: a pair of arrays, or files of arrays.

`split = open_pair(images, labels)  # uint8 (n, h, w, c), whole numbers (n,)`
`split.images` is (n, c, h, w).
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitedu.data.dataset import Dataset, Reader, Split
from vitedu.data.labels import check_labels, names_from_labels, whole_labels
from vitedu.data.readers.array_files import Array
from vitedu.errors import UserError


class ArrayReader(Reader):
    """Images in memory: (n, c, h, w) uint8, or normalised floats."""

    is_named = False
    images: Tensor

    def __init__(self, images: Tensor) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[np.ndarray[Any, Any], None]:
        """Pixels (h, w, c), or floats (c, h, w)."""
        image = self.images[row]
        if not image.is_floating_point():
            image = image.permute(1, 2, 0)
        return image.numpy(), None

    def stamps(
        self, rows: Tensor, labels: Tensor | None, folder: Path | None
    ) -> Iterator[bytes | memoryview]:
        images = self.images
        if not torch.equal(rows, torch.arange(len(images))):
            images = images[rows]
        yield str(tuple(images.shape)).encode()
        yield images.contiguous().numpy().data


def is_pair(data: Any) -> bool:
    return (
        isinstance(data, tuple | list)
        and len(data) == 2
        and isinstance(data[0], np.ndarray | Tensor)
        and isinstance(data[1], np.ndarray | Tensor | list | tuple)
    )


def open_pair(
    images: Any, labels: Any, class_names: tuple[str, ...] = ()
) -> Split:
    """A Split of images and labels in memory.

    uint8: arrays (n, h, w) or (n, h, w, c), tensors (n, c, h, w) or (n, h, w).
    Floats are (n, c, h, w). UserError: another shape or type, or unequal
    lengths.
    """
    shape = tuple(images.shape)
    if isinstance(images, np.ndarray):
        is_float = images.dtype.kind == "f"
        # torch wants memory that may be written
        pixels = torch.from_numpy(np.require(images, requirements=["C", "W"]))
    else:
        is_float = images.is_floating_point()
        pixels = images.detach().cpu()
    has_channels_last = isinstance(images, np.ndarray) and not is_float
    if pixels.dtype != torch.uint8 and not is_float:
        raise UserError(
            f"the images are {images.dtype}; give pixels of 0..255 as uint8, "
            "or floats that are normalised already"
        )
    if pixels.ndim == 3 and not is_float:
        pixels = pixels[:, None]
    elif pixels.ndim == 4 and has_channels_last:
        pixels = pixels.permute(0, 3, 1, 2).contiguous()
    is_fine = pixels.ndim == 4 and (is_float or pixels.shape[1] in (1, 3))
    if not is_fine:
        wanted = "a tensor is (n, c, h, w)"
        if has_channels_last:
            wanted = "an array of uint8 is (n, h, w, c)"
        raise UserError(
            f"the images have the shape {shape}; {wanted} with 1 or 3 channels"
        )
    if not pixels.numel():
        raise UserError(f"there are no images in the shape {shape}")
    numbers = whole_labels(labels, "the images")
    if len(numbers) != len(pixels):
        raise UserError(
            f"there are {len(pixels):,} images, but {len(numbers):,} labels"
        )
    check_labels("the data", numbers, len(class_names))
    return Split("arrays", ArrayReader(pixels), numbers, class_names)


def dataset_of(
    name: str,
    arrays: Mapping[str, Array],
    where: str,
    origin: str,
    class_names: tuple[str, ...] | None = None,
) -> Dataset:
    """A data set of x_train, y_train, x_test and y_test.

    Images are uint8 (n, h, w) or (n, c, h, w); class names default to
    `arrays["class_names"]`, else to numbers. UserError: the arrays don't fit.
    """
    for part in ("train", "test"):
        _check_part(arrays, part, where)
    shapes = [_image_shape(arrays[f"x_{part}"]) for part in ("train", "test")]
    if shapes[0] != shapes[1]:
        sizes = ["x".join(map(str, shape)) for shape in shapes]
        raise UserError(
            f"{where}: x_train has images of {sizes[0]}, x_test of {sizes[1]}; "
            "both parts must have the same size"
        )
    if class_names is None and "class_names" in arrays:
        class_names = _class_names(arrays["class_names"], where)
    numbers = []
    for key in ("y_train", "y_test"):
        numbers.append(whole_labels(arrays[key], f"{where}: {key}"))
        check_labels(f"{where}: {key}", numbers[-1], len(class_names or ()))
    if class_names is None:
        class_names = names_from_labels(name, torch.cat(numbers))
    splits = [
        Split(name, ArrayReader(_pixels(arrays[key])), labels, class_names)
        for key, labels in zip(("x_train", "x_test"), numbers, strict=True)
    ]
    digest = hashlib.sha256()
    for split, labels in zip(splits, numbers, strict=True):
        for stamp in split.stamps():
            digest.update(stamp)
        digest.update(labels.numpy().astype("<i8"))
    return Dataset(
        name,
        splits[0],
        None,
        splits[1],
        class_names,
        digest.hexdigest()[:16],
        origin,
        requested=name,
    )


def _check_part(arrays: Mapping[str, Array], part: str, where: str) -> None:
    images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
    x, y = f"{where}: x_{part}", f"{where}: y_{part}"
    if images.dtype != np.uint8:
        raise UserError(
            f"{x} is {images.dtype}, should be uint8 (pixels in 0..255)"
        )
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise UserError(
            f"{y} is {labels.dtype} of shape {labels.shape}, "
            "should be one whole number per image"
        )
    if images.ndim not in (3, 4) or _image_shape(images)[0] not in (1, 3):
        raise UserError(
            f"{x} has images of shape {images.shape[1:]}, "
            "should be (h, w) or (h, w, c) with 1 or 3 channels"
        )
    if not images.size:
        raise UserError(f"{x} is empty ({len(images)} images)")
    if len(images) != len(labels):
        raise UserError(
            f"{x} has {len(images):,} images, but y_{part} {len(labels):,} "
            "labels"
        )


def _image_shape(images: Array) -> tuple[int, ...]:
    """(c, h, w) of one image."""
    shape = images.shape[1:]
    return shape if len(shape) == 3 else (1, *shape)


def _class_names(names: Array, where: str) -> tuple[str, ...]:
    if names.dtype.kind != "U" or names.ndim != 1 or not len(names):
        raise UserError(
            f"{where}: class_names is {names.dtype} of shape {names.shape}, "
            "should be one text per class"
        )
    return tuple(map(str, names))


def _pixels(images: Array) -> Tensor:
    """Images as (n, c, h, w)."""
    # torch wants memory that may be written, which what was read from bytes is
    # not
    pixels = np.require(images, requirements=["C", "W"])
    return torch.from_numpy(pixels.reshape(len(pixels), *_image_shape(images)))
