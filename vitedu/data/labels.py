"""Labels: whole numbers from 0, checked before they are converted.

`labels = whole_labels(np.array([0, 2, 1], np.uint64), "photos")  # int64 (n,)`
"""

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError, counted
from vitedu.fields import Count, converted

# Labels alone make no more classes than this, unless there are as many images:
# a head for the label 10^9 would be a mistake in the file, and 3 TB.
MOST_CLASSES = 100_000


def whole_labels(labels: Any, where: str) -> Tensor:
    """Labels (n,) of any integer type as int64; errors call them `where`."""
    if isinstance(labels, Tensor):
        if labels.dtype == torch.int64 and labels.ndim == 1:
            return labels.detach().cpu()
        labels = labels.detach().cpu().numpy()
    try:
        array = np.asarray(labels)
    except (ValueError, OverflowError):  # rows of different lengths
        array = np.empty(0, object)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        example = f", such as {array.flat[0]}" if array.size else ""
        remedy = {
            "U": "; number the classes "
            "(a Hugging Face dataset by class_encode_column)",
            "b": "; convert them, for example by .astype(int)",
        }
        raise UserError(
            f"the labels of {where} are {array.dtype} of shape "
            f"{array.shape}{example}, but a label is one whole number from 0 up"
            + remedy.get(array.dtype.kind, "")
        )
    return torch.from_numpy(array.astype(np.int64))


def whole_label(label: Any, where: str) -> int:
    try:
        if isinstance(label, bool):
            raise TypeError
        number = operator.index(label)
    except TypeError:
        raise UserError(
            f"{where} has the label {label!r}; a label is a whole number from "
            "0 up"
        ) from None
    if number < 0:
        raise UserError(f"{where} has the label {number}; labels begin at 0")
    return number


def check_labels(
    where: str, labels: Tensor | None, num_classes: int = 0
) -> None:
    """UserError: a label is below 0 or not below `num_classes` (0: unknown)."""
    if labels is None or not len(labels):
        return
    lowest, highest = (int(each) for each in labels.aminmax())
    if lowest < 0:
        raise UserError(
            f"{where} has the label {lowest}; labels begin at 0, and pictures "
            "without one cannot be used here"
        )
    if num_classes and highest >= num_classes:
        raise UserError(
            f"{where} has the label {highest}, but there "
            f"{'is' if num_classes == 1 else 'are'} "
            f"{counted(num_classes, 'class')}, counted from 0"
        )


def check_known(
    part: Path | str,
    names: Sequence[str],
    classes: Sequence[str],
    known_to: str = "train/",
) -> None:
    for name in names:
        if name not in classes:
            raise UserError(
                f"{part} has the class {name!r}, which {known_to} doesn't "
                f"have; its classes: {few(classes)}"
            )


def numbered_names(num_classes: int) -> tuple[str, ...]:
    return tuple(str(label) for label in range(num_classes))


def names_from_labels(where: str, labels: Tensor) -> tuple[str, ...]:
    """Numbers as names. UserError: a label is below 0, or makes too many."""
    check_labels(where, labels)
    num_classes = int(labels.max()) + 1
    if num_classes > max(MOST_CLASSES, len(labels)):
        raise UserError(
            f"{where} has the label {num_classes - 1:,}, which makes "
            f"{num_classes:,} classes of {len(labels):,} images; number the "
            "classes 0, 1, 2, ..."
        )
    return numbered_names(num_classes)


def named_classes(
    name: str,
    own: tuple[str, ...],
    class_names: Sequence[str] | None,
    num_classes: int | None,
) -> tuple[str, ...]:
    """The classes given, else the data's own; (): unknown."""
    if class_names is not None:
        own = tuple(str(each) for each in class_names)
    if num_classes is None:
        return own
    num_classes = converted("num_classes", num_classes, Count)
    if own and len(own) != num_classes:
        raise UserError(
            f"{name} has {counted(len(own), 'class')}, but "
            f"num_classes={num_classes}"
        )
    return own or numbered_names(num_classes)


def few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
