"""What a measure needs of model and data: batches that fit, and the eval mode.

`for images, labels in batches_of(model, "photos/val"): ...`
"""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor, nn

from vitedu.data.folders import evaluation_part
from vitedu.data.images import Pictures, match_classes
from vitedu.data.items import pair_of, whole_labels
from vitedu.data.kinds import given
from vitedu.data.prepared import check_range
from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec

# (images, labels) batches, or whatever else `vitedu.data.as_source` takes
Data: TypeAlias = Any


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode, and afterwards for each module the mode that it had."""
    in_training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in in_training:
            module.training = True


def batches_of(
    model: nn.Module,
    data: Data,
    *,
    batch_size: int,
    num_workers: int,
    by_class_of_model: bool,
) -> Iterator[tuple[Tensor, Tensor]]:
    """(images (b, c, h, w), labels (b,)) on the model's device and in its dtype.

    Batches of the caller come as they are cut. Of all else `batch_size` images are
    prepared at a time, as `model.preprocess` says. `by_class_of_model`: labels mean the
    model's classes; otherwise the data's own, of a folder in alphabetical order.

    UserError: the data have another form, or classes that the model does not have.
    """
    if not yields_batches(data):
        yield from prepared(
            model, data, batch_size, num_workers, by_class_of_model
        )
        return
    spec = getattr(model, "preprocess", None)
    is_checked = hasattr(
        data, "__next__"
    )  # an own source's, which may be all bright
    like = next(model.parameters(), None)
    for number, batch in enumerate(data):
        images, labels = pair_of(batch, f"batch {number}")
        if like is None:  # a function of its input alone
            yield images, labels
            continue
        if not isinstance(images, Tensor) or not images.is_floating_point():
            kind = getattr(images, "dtype", type(images).__name__)
            raise UserError(
                f"batch {number} has images of {kind}; the model takes floats that are "
                "prepared, so give the data set transform=model.preprocess"
            )
        if not is_checked and isinstance(spec, PreprocessSpec):
            check_range(images, spec, "the images")
            is_checked = True
        if not isinstance(labels, Tensor):
            labels = whole_labels(labels, f"batch {number}")
        yield images.to(like.device, like.dtype), labels.to(like.device)


def yields_batches(data: Data) -> bool:
    """Whether `data` are the batches themselves: a DataLoader, a generator, a list."""
    if isinstance(data, list):  # of pictures with a label each, or of batches?
        first = data[0] if data else None
        if not isinstance(first, list | tuple) or len(first) != 2:
            return True
        return isinstance(
            first[1], list | tuple | np.ndarray | Tensor
        ) and bool(np.ndim(first[1]))
    is_iterator = hasattr(data, "__next__")
    return is_iterator or (
        hasattr(data, "__iter__") and not hasattr(data, "__getitem__")
    )


def prepared(
    model: nn.Module,
    data: Data,
    batch_size: int,
    num_workers: int,
    by_class_of_model: bool,
) -> Iterator[tuple[Tensor, Tensor]]:
    """The same for data that `model.preprocess` prepares."""
    spec = getattr(model, "preprocess", None)
    if not isinstance(spec, PreprocessSpec):
        raise ValueError(
            "the model has no preprocess, so it takes prepared batches alone; load it "
            "with vitedu.load, or set model.preprocess = PreprocessSpec(...)"
        )
    if by_class_of_model and isinstance(data, str | PathLike):
        data = evaluation_part(data)
    known = given(data)
    names = tuple(getattr(model, "class_names", ()))
    num_classes = getattr(model, "num_classes", None) or len(names)
    if by_class_of_model and isinstance(known.content, Pictures):
        known = given(match_classes(known.content, names, num_classes))
    elif by_class_of_model and names:
        known = known.called(names)
    like = next(model.parameters())
    source = known.source(
        preprocess=spec, num_workers=num_workers, device=like.device
    )
    if by_class_of_model and source.num_classes > num_classes:
        raise UserError(
            f"{known.name} has {source.num_classes} classes, but the model has "
            f"{num_classes}"
        )
    for images, labels in source.batches(
        epoch=0, seed=0, batch_size=batch_size
    ):
        yield images.to(like.device, like.dtype), labels.to(like.device)
