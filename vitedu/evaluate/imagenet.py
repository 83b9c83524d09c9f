"""Two more tests of ImageNet's classes: ImageNet-ReaL and ObjectNet.

`real_accuracy("ViT-Ti/16", "imagenet/val", "real.json").accuracy`

In both, several of a model's 1,000 classes may be right for a picture. ReaL
(Beyer et al. 2020) has new labels for ImageNet's validation set. ObjectNet
(Barbu et al. 2019) has everyday things photographed from odd sides; only the
113 of its 313 classes that are also in ImageNet count (paper, appendix D.9),
and the pictures' red border of 2 pixels is cut off.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from vitedu.data.dataset import FileReader, Split
from vitedu.data.imagenet import NUM_1K
from vitedu.data.readers.folder import (
    class_folders,
    existing_folder,
    open_part,
    pictures_in,
    readable,
)
from vitedu.errors import UserError, explained
from vitedu.evaluate.accuracy import Answers, all_logits, top_k_correct
from vitedu.evaluate.batches import (
    Model,
    batches_of,
    check_imagenet_classes,
    loaded,
)
from vitedu.evaluate.classify import check_finite
from vitedu.files import check_regular, read_json, user_path
from vitedu.pictures import as_image

if TYPE_CHECKING:
    from PIL.Image import Image

NUM_REAL = 50_000
VALIDATION_NAME = re.compile(r"ILSVRC2012_val_(\d{8})(?!\d)")
# of every validation picture, in the order of their names; empty: none is right
RealLabels = list[list[int]]

BORDER = 2  # pixels
# published with ObjectNet's pictures, in the folder mappings/
FOLDERS = "folder_to_objectnet_label.json"
TO_IMAGENET = "objectnet_to_imagenet_1k.json"
LABELS = "imagenet_to_label_2012_v2"
TO_PYTORCH = "pytorch_to_imagenet_2012_id.json"


class RealEvaluation(NamedTuple):
    """Counts over the pictures that have at least one label."""

    num_correct: int
    num_images: int

    @property
    def accuracy(self) -> float:
        """ReaL accuracy in percent."""
        return 100.0 * self.num_correct / self.num_images


class ObjectNetEvaluation(NamedTuple):
    """Counts over the pictures whose class is also in ImageNet."""

    num_correct: int
    num_top5_correct: int
    num_images: int

    @property
    def accuracy(self) -> float:
        """Top-1 accuracy in percent."""
        return 100.0 * self.num_correct / self.num_images

    @property
    def top5_accuracy(self) -> float:
        """Top-5 accuracy in percent."""
        return 100.0 * self.num_top5_correct / self.num_images


def picture_logits(
    model: nn.Module, pictures: Split, batch_size: int, num_workers: int
) -> Answers:
    batches = batches_of(
        model, pictures, batch_size, num_workers, by_class_of_model=False
    )
    answers = all_logits(model, batches)
    check_finite(answers.logits)
    return answers


def right_classes(classes: Sequence[Sequence[int]]) -> Tensor:
    """bool (n, 1000): the classes of ImageNet that are right for each of n."""
    right = torch.zeros(len(classes), NUM_1K, dtype=torch.bool)
    for row, each in enumerate(classes):
        right[row, list(each)] = True
    return right


# --- ImageNet-ReaL


def real_accuracy(
    model: Model,
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

    UserError: they or the model aren't ImageNet's, or it answers NaN.
    """
    model = loaded(model)
    check_imagenet_classes(model, "ImageNet-ReaL")
    real = read_real(labels)
    pictures = validation_pictures(folder)
    answers = picture_logits(model, pictures, batch_size, num_workers)
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
    right = right_classes([real[row] for row in real_rows(names)])
    num_images = int(right.any(dim=1).sum())
    if not num_images:
        raise UserError(
            f"none of the {len(names):,} pictures has a label in "
            "ImageNet-ReaL, so there is nothing to count; give more of the "
            "validation set"
        )
    num_correct = top_k_correct(Answers(logits, right), 1)
    return RealEvaluation(num_correct, num_images)


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
    path = user_path(path)
    check_regular(path)
    with explained(f"cannot read {path}", OSError, ValueError):
        values: Any = json.loads(path.read_bytes())
    if not isinstance(values, list) or len(values) != NUM_REAL:
        raise UserError(
            f"{path} isn't ImageNet-ReaL's real.json, a list of {NUM_REAL:,} "
            "lists of class numbers; fetch it again"
        )
    return values


# --- ObjectNet


class ObjectNet(NamedTuple):
    pictures: Split  # by ObjectNet's own folders, those in ImageNet alone
    right: Tensor  # bool (folders, 1000): the classes of ImageNet that count

    def counts(self, logits: Tensor, labels: Tensor) -> ObjectNetEvaluation:
        """From logits (n, 1000) and folder numbers (n,)."""
        answers = Answers(logits, self.right[labels])
        top_1, top_5 = (top_k_correct(answers, k) for k in (1, 5))
        return ObjectNetEvaluation(top_1, top_5, len(labels))


class WithoutBorder(FileReader):
    def __getitem__(self, row: int) -> "tuple[Image, None]":
        image = as_image(self.paths[row], 3)
        width, height = image.size
        box = (BORDER, BORDER, width - BORDER, height - BORDER)
        return image.crop(box), None


def objectnet_accuracy(
    model: Model,
    folder: str | PathLike[str],
    *,
    batch_size: int = 64,
    num_workers: int = 0,
) -> ObjectNetEvaluation:
    """Top-1 and top-5 accuracy on ObjectNet.

    `folder` is the published objectnet-1.0, with images/ and mappings/ inside.
    Unreadable pictures are left out.

    UserError: the model isn't ImageNet's, the folder isn't ObjectNet, or the
    model answers NaN.
    """
    model = loaded(model)
    check_imagenet_classes(model, "ObjectNet")
    root = find_objectnet(existing_folder(folder))
    if root is None:
        raise UserError(
            f"{folder} isn't ObjectNet: images/ and mappings/{TO_IMAGENET} are "
            "needed in it, as in the published objectnet-1.0"
        )
    objectnet = read_objectnet(root)
    return objectnet.counts(
        *picture_logits(model, objectnet.pictures, batch_size, num_workers)
    )


def find_objectnet(folder: Path) -> Path | None:
    root = folder.absolute().parent if folder.name == "images" else folder
    has_mapping = (root / "mappings" / TO_IMAGENET).is_file()
    return root if has_mapping and (root / "images").is_dir() else None


def read_objectnet(root: Path) -> ObjectNet:
    classes = imagenet_classes_of(root / "mappings")
    images = root / "images"
    names = [name for name in class_folders(images) if name in classes]
    split = open_part(images, images, names)
    reader = WithoutBorder(cast(FileReader, split.reader).paths)
    right = right_classes([classes[name] for name in names])
    return ObjectNet(replace(split, reader=reader), right)


def imagenet_classes_of(mappings: Path) -> dict[str, list[int]]:
    folders, to_imagenet, to_pytorch = (
        read_json(mappings / name)
        for name in (FOLDERS, TO_IMAGENET, TO_PYTORCH)
    )
    lines = (mappings / LABELS).read_text("utf-8").splitlines()
    # from ImageNet's label to its line, and from there to the model's index
    index_of_line = {int(line): int(i) for i, line in to_pytorch.items()}
    index_of = {name.strip(): index_of_line[i] for i, name in enumerate(lines)}
    return {
        folder: [index_of[x.strip()] for x in to_imagenet[label].split(";")]
        for folder, label in folders.items()
        if label in to_imagenet
    }
