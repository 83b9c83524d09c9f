"""ImageNet-ReaL: all classes that are right for a picture (Beyer et al. 2020).

The pictures are ImageNet's validation set; the labels come from real.json.

`real_accuracy("ViT-Ti/16", "imagenet/val", "real.json").accuracy`
"""

import json
import re
from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vitedu.data.dataset import Split
from vitedu.data.imagenet import NUM_1K
from vitedu.data.readers.folder import (
    existing_folder,
    pictures_in,
    readable,
)
from vitedu.errors import UserError, reason
from vitedu.evaluate.accuracy import picture_logits, top_k_among
from vitedu.evaluate.batches import check_imagenet_classes, loaded
from vitedu.files import check_regular, user_path

NUM_REAL = 50_000
VALIDATION_NAME = re.compile(r"ILSVRC2012_val_(\d{8})(?!\d)")

# of every validation picture, in the order of their names; empty: none is right
RealLabels = list[list[int]]


class RealEvaluation(NamedTuple):
    """Counts over the pictures that have at least one label."""

    num_correct: int
    num_images: int
    num_unlabelled: int = 0

    @property
    def accuracy(self) -> float:
        """ReaL accuracy in percent."""
        return 100.0 * self.num_correct / self.num_images


def real_accuracy(
    model: nn.Module | str | PathLike[str],
    folder: str | PathLike[str],
    labels: str | PathLike[str],
    *,
    batch_size: int = 64,
    num_workers: int = 0,
) -> RealEvaluation:
    """ImageNet-ReaL: an answer counts if it is one of the picture's labels.

    `folder` has ImageNet's validation pictures somewhere inside, under their
    own names (ILSVRC2012_val_00000001.JPEG); `labels` is the file real.json.
    Pictures without a label aren't counted, as in the authors' code.

    UserError: the model doesn't have ImageNet's classes, a picture has another
    name, `labels` is another file, no picture has a label, or the model answers
    NaN or infinity.
    """
    model = loaded(model)
    check_imagenet_classes(model, "ImageNet-ReaL")
    real = read_real(labels)
    pictures = validation_pictures(folder)
    answers = picture_logits(
        model, pictures, batch_size=batch_size, num_workers=num_workers
    )
    return real_counts(answers.logits, names_of(pictures), real)


def validation_pictures(folder: str | PathLike[str]) -> Split:
    folder = existing_folder(folder)
    paths = sorted(pictures_in(folder), key=lambda path: path.name)
    if not paths:
        raise UserError(f"there are no pictures in {folder}")
    real_rows([path.name for path in paths])
    return readable(paths, [0] * len(paths), (), folder)


def names_of(pictures: Split) -> list[str]:
    return [pictures.name_of(index) for index in range(len(pictures))]


def real_counts(
    logits: Tensor, names: Sequence[str], real: RealLabels
) -> RealEvaluation:
    """From logits (n, 1000) of the pictures called `names`."""
    right = torch.zeros(len(names), NUM_1K, dtype=torch.bool)
    for row, number in enumerate(real_rows(names)):
        right[row, real[number]] = True
    has_label = right.any(dim=1)
    num_images = int(has_label.sum())
    if not num_images:
        raise UserError(
            f"none of the {len(names):,} pictures has a label in "
            "ImageNet-ReaL, so there is nothing to count; give more of the "
            "validation set"
        )
    return RealEvaluation(
        top_k_among(logits[has_label], right[has_label], 1),
        num_images,
        len(names) - num_images,
    )


def real_rows(names: Sequence[str]) -> list[int]:
    """Indices from 0 among the 50,000 validation pictures."""
    rows = []
    for path in names:
        name = path.rpartition("/")[2]
        found = VALIDATION_NAME.search(name)
        number = int(found[1]) if found else 0
        if not 1 <= number <= NUM_REAL:
            raise UserError(
                f"{name} isn't one of ImageNet's validation pictures, "
                "ILSVRC2012_val_00000001 to 00050000, which ImageNet-ReaL "
                "labels; keep their own names"
            )
        rows.append(number - 1)
    return rows


def read_real(path: str | PathLike[str]) -> RealLabels:
    """The authors' real.json: 50,000 lists of classes."""
    path = user_path(path)
    check_regular(path)
    try:
        values: Any = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {reason(error)}") from None
    if not isinstance(values, list) or len(values) != NUM_REAL:
        what = type(values).__name__
        if isinstance(values, list):
            what = f"list of {len(values):,}"
        raise UserError(
            f"{path} is a {what}, but ImageNet-ReaL's real.json is a list of "
            f"{NUM_REAL:,} lists of class numbers; fetch it again"
        )
    for row, classes in enumerate(values):
        if not isinstance(classes, list) or not all(
            type(each) is int and 0 <= each < NUM_1K for each in classes
        ):
            raise UserError(
                f"{path} has {classes!r:.40} for picture {row + 1}, where "
                "a list of classes from 0 to 999 is needed; fetch it again"
            )
    return values
