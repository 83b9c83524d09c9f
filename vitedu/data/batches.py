"""Batches that a caller puts together: which data are such, and what one holds.

`yields_batches(loader)` is True.
`images, labels = read_batch(next(iter(loader)), model.preprocess, "batch 0")`
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from vitedu.data.arrays import Arrays
from vitedu.data.items import is_hugging_face, name_of, pair_of, whole_labels
from vitedu.data.memory import is_pair
from vitedu.data.prepared import RangeCheck, is_prepared
from vitedu.data.source import Source
from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec, normalise, read_image


def yields_batches(data: Any) -> bool:
    """Whether `data` are run through batch by batch, and not read picture by picture.

    A DataLoader, an iterator, another iterable without an index, or a list of batches:
    there the images are an array and their labels another, or a list.
    """
    if isinstance(data, DataLoader) or hasattr(data, "__next__"):
        return True
    if isinstance(data, Arrays | Source | IterableDataset):
        return False
    if is_pair(data) or is_hugging_face(data):
        return False
    if not isinstance(data, list | tuple):
        return hasattr(data, "__iter__") and not hasattr(data, "__getitem__")
    if not data:
        return True
    images, labels = pair_of(data[0], f"{name_of(data)}[0]")
    is_array = isinstance(labels, np.ndarray | Tensor) and labels.ndim > 0
    return isinstance(images, np.ndarray | Tensor) and (
        is_array or isinstance(labels, list | tuple)
    )


def read_batch(
    batch: Any,
    spec: PreprocessSpec | None,
    where: str,
    check: RangeCheck | None = None,
) -> tuple[Tensor, Tensor]:
    """The images (b, c, h, w) of a batch as floats, and its labels (b,) int64.

    uint8 is resized and normalised as `spec` says. Floats come as they are, once
    `check` was shown their range. Without a `spec` images of any kind and shape do.
    UserError: the batch has another form; `where` is what a sentence calls it.
    """
    images, labels = pair_of(batch, where)
    labels = whole_labels(labels, where)
    try:
        images = torch.as_tensor(images)
    except (TypeError, ValueError, RuntimeError):
        raise UserError(
            f"{where} has images of {name_of(images)}; they are an array or a tensor "
            "(b, c, h, w)"
        ) from None
    is_shaped = images.ndim == 4 if spec else images.ndim > 0
    if not is_shaped or len(images) != len(labels):
        raise UserError(
            f"{where} has images of shape {tuple(images.shape)} and {len(labels)} "
            "labels; images are (b, c, h, w), with a label for each"
        )
    if spec is None:
        return images, labels
    if is_prepared(images):
        if check is not None:
            check.see(images)
        return images, labels
    if images.dtype != torch.uint8:
        raise UserError(
            f"{where} has images of {images.dtype}; they are uint8, or floats that are "
            "prepared already"
        )
    wanted = (spec.in_channels, *spec.image_size)
    if len(images) and images.shape[1:] != wanted:
        rows = [image.permute(1, 2, 0).cpu().numpy() for image in images]
        images = torch.stack([read_image(row, spec) for row in rows])
    return normalise(images, spec), labels
