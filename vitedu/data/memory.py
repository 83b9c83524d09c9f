"""Images and labels that you have in memory, as a source.

`arrays = arrays_of(images, labels)  # uint8 (n, h, w, c), whole numbers (n,)`
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from vitedu.data.array_source import ArraySource
from vitedu.data.arrays import Arrays
from vitedu.data.augment import Augment
from vitedu.data.image_source import ImageSource
from vitedu.data.items import Items
from vitedu.data.labels import check_labels, whole_labels
from vitedu.data.prepared import RangeCheck, as_prepared, is_prepared
from vitedu.data.source import Source
from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec

if TYPE_CHECKING:
    from vitedu.data.image_source import PictureChange


def is_pair(data: Any) -> bool:
    """Whether `data` is (images, labels): two arrays, or array and list."""
    return (
        isinstance(data, tuple | list)
        and not isinstance(data, Arrays)
        and len(data) == 2
        and isinstance(data[0], np.ndarray | Tensor)
        and isinstance(data[1], np.ndarray | Tensor | list | tuple)
    )


def arrays_of(images: Any, labels: Any) -> Arrays:
    """Images and labels as tensors: (n, c, h, w) uint8 or float, (n,) int64.

    uint8: arrays (n, h, w) or (n, h, w, c), tensors (n, c, h, w) or (n, h, w).
    Floats are (n, c, h, w). UserError: another shape or type, or unequal
    lengths.
    """
    shape = tuple(images.shape)
    is_float = is_prepared(images)
    has_channels_last = isinstance(images, np.ndarray) and not is_float
    pixels = (
        torch.from_numpy(np.require(images, requirements=["C", "W"]))
        if isinstance(images, np.ndarray)
        else images.detach().cpu()
    )
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
    labels = whole_labels(labels, "the images")
    if len(labels) != len(pixels):
        raise UserError(
            f"there are {len(pixels):,} images, but {len(labels):,} labels"
        )
    check_labels("the data", labels)
    return Arrays(pixels, labels)


@dataclass(frozen=True, eq=False)
class Rows:
    """Arrays by index, as NumPy pictures that are resized one by one."""

    arrays: Arrays

    def __len__(self) -> int:
        """The number of images."""
        return len(self.arrays.labels)

    def __getitem__(self, row: int) -> tuple[np.ndarray[Any, Any], int]:
        """Pixels (h, w, c), or floats (c, h, w), and their label."""
        image, label = self.arrays.images[row], int(self.arrays.labels[row])
        if not image.is_floating_point():
            image = image.permute(1, 2, 0)
        return image.numpy(), label


def array_source(
    arrays: Arrays,
    class_names: tuple[str, ...],
    *,
    preprocess: PreprocessSpec,
    augment: "Augment | PictureChange | None",
    shuffle: bool,
    num_workers: int,
    device: torch.device | str,
    check_range: bool,
) -> Source:
    """On the device if the size fits, else each picture through pillow."""
    images, labels = arrays
    spec = preprocess
    if images.is_floating_point():
        arrays = Arrays(as_prepared(images, spec), labels)
        if check_range:
            RangeCheck(spec, "the images").see(images)
    is_ours = augment is None or isinstance(augment, Augment)
    fits = images.shape[1:] == (spec.in_channels, *spec.image_size)
    if is_ours and (fits or images.is_floating_point()):
        if num_workers:
            raise UserError(
                f"num_workers={num_workers}: this data set lives on the device "
                "and is fed without workers; leave it at 0"
            )
        return ArraySource(
            arrays,
            class_names,
            preprocess=spec,
            augment=augment if isinstance(augment, Augment) else None,
            shuffle=shuffle,
            device=device,
        )
    return ImageSource(
        Items("the data", Rows(arrays), class_names, labels),
        spec,
        augment=augment,
        shuffle=shuffle,
        num_workers=num_workers,
        device=device,
        check_range=check_range,
    )
