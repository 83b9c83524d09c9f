"""Images that are entirely in memory, with their labels.

`split = open_pair(images, labels)  # uint8 (n, h, w, c), whole numbers (n,)`
`split.images` is (n, c, h, w).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitedu.data.dataset import Reader, Split
from vitedu.data.labels import check_labels, whole_labels
from vitedu.errors import UserError, counted


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
    images: Any,
    labels: Any,
    class_names: tuple[str, ...] = (),
    *,
    where: str = "the pair",
) -> Split:
    """A Split of images and labels in memory; errors call them `where`.

    uint8: arrays (n, h, w) or (n, h, w, c), tensors (n, c, h, w) or (n, h, w).
    Floats are (n, c, h, w). UserError: another shape or type, or unequal
    lengths.
    """
    shape = tuple(images.shape)
    is_array = isinstance(images, np.ndarray)
    if is_array:
        is_float = images.dtype.kind == "f"
        # torch wants memory that may be written
        pixels = torch.from_numpy(np.require(images, requirements=["C", "W"]))
    else:
        is_float = images.is_floating_point()
        pixels = images.detach().cpu()
    if pixels.dtype != torch.uint8 and not is_float:
        raise UserError(
            f"{where} has images of {images.dtype}; give pixels of 0..255 as "
            "uint8, or floats that are normalised already"
        )
    if pixels.ndim == 3 and not is_float:
        pixels = pixels[:, None]
    elif pixels.ndim == 4 and is_array and not is_float:
        pixels = pixels.permute(0, 3, 1, 2).contiguous()
    if pixels.ndim != 4 or not (is_float or pixels.shape[1] in (1, 3)):
        wanted = "a tensor is (n, c, h, w)"
        if is_array and not is_float:
            wanted = "an array of uint8 is (n, h, w, c)"
        raise UserError(
            f"{where} has images of shape {shape}; {wanted} with 1 or 3 "
            "channels"
        )
    if not pixels.numel():
        raise UserError(f"{where} has no images, but the shape {shape}")
    numbers = whole_labels(labels, where)
    if len(numbers) != len(pixels):
        raise UserError(
            f"{where} has {counted(len(pixels), 'image')}, but "
            f"{counted(len(numbers), 'label')}"
        )
    check_labels(where, numbers, len(class_names))
    return Split("arrays", ArrayReader(pixels), numbers, class_names)
