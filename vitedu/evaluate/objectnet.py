"""ObjectNet: everyday things photographed from odd sides (Barbu et al. 2019).

Only the 113 of its 313 classes that are also in ImageNet count, and the answer
may be any of the model's 1,000 classes (paper, appendix D.9). One class may
match several of ImageNet's. The pictures' red border of 2 pixels is cut off.

`objectnet_accuracy("ViT-Ti/16", "objectnet-1.0").accuracy`
"""

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from vitedu.data.dataset import Split
from vitedu.data.imagenet import NUM_1K
from vitedu.data.readers.folder import (
    FolderReader,
    class_folders,
    existing_folder,
    open_part,
)
from vitedu.errors import UserError, reason
from vitedu.evaluate.accuracy import picture_logits, top_k_among
from vitedu.evaluate.batches import check_imagenet_classes, loaded
from vitedu.files import check_regular, read_json
from vitedu.pictures import open_image

if TYPE_CHECKING:
    from PIL.Image import Image

BORDER = 2  # pixels
# published with the pictures, in the folder mappings/
FOLDERS = "folder_to_objectnet_label.json"
TO_IMAGENET = "objectnet_to_imagenet_1k.json"
LABELS = "imagenet_to_label_2012_v2"
TO_PYTORCH = "pytorch_to_imagenet_2012_id.json"


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


class ObjectNet(NamedTuple):
    pictures: Split  # by ObjectNet's own folders, those in ImageNet alone
    right: Tensor  # bool (folders, 1000): the classes of ImageNet that count

    def counts(self, logits: Tensor, labels: Tensor) -> ObjectNetEvaluation:
        """From logits (n, 1000) and folder numbers (n,)."""
        right = self.right[labels]
        top_1, top_5 = (top_k_among(logits, right, k) for k in (1, 5))
        return ObjectNetEvaluation(top_1, top_5, len(labels))


class WithoutBorder(FolderReader):
    """Picture files whose border is cut off."""

    def __getitem__(self, row: int) -> "tuple[Image, None]":
        path = self.paths[row]
        image = open_image(path, 3)
        width, height = image.size
        if min(width, height) <= 2 * BORDER:
            raise UserError(
                f"{path} is {width} by {height} pixels and consists of its red "
                "border alone; fetch ObjectNet again"
            )
        box = (BORDER, BORDER, width - BORDER, height - BORDER)
        return image.crop(box), None


def objectnet_accuracy(
    model: nn.Module | str | PathLike[str],
    folder: str | PathLike[str],
    *,
    batch_size: int = 64,
    num_workers: int = 0,
) -> ObjectNetEvaluation:
    """Top-1 and top-5 accuracy on ObjectNet.

    `folder` is the published objectnet-1.0, with images/ and mappings/ inside.
    Unreadable pictures are left out.

    UserError: the model doesn't have ImageNet's classes, the folder isn't
    ObjectNet, or the model answers NaN or infinity.
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
    answers = picture_logits(
        model,
        objectnet.pictures,
        batch_size=batch_size,
        num_workers=num_workers,
    )
    return objectnet.counts(*answers)


def find_objectnet(folder: Path) -> Path | None:
    roots = [folder]
    if folder.name == "images":
        roots.append(folder.absolute().parent)
    for root in roots:
        has_mapping = (root / "mappings" / TO_IMAGENET).is_file()
        if has_mapping and (root / "images").is_dir():
            return root
    return None


def read_objectnet(root: Path) -> ObjectNet:
    classes = imagenet_classes_of(root / "mappings")
    images = root / "images"
    names = [name for name in class_folders(images) if name in classes]
    if not names:
        raise UserError(
            f"there are no pictures in {images} of a class that ImageNet has "
            f"too ({', '.join(sorted(classes)[:3])}, ...); fetch ObjectNet "
            "again"
        )
    right = torch.zeros(len(names), NUM_1K, dtype=torch.bool)
    for label, name in enumerate(names):
        right[label, classes[name]] = True
    split = open_part(images, images, names)
    reader = WithoutBorder(cast(FolderReader, split.reader).paths)
    return ObjectNet(replace(split, reader=reader), right)


def imagenet_classes_of(mappings: Path) -> dict[str, list[int]]:
    """The model's ImageNet class indices for each folder."""
    folders, to_imagenet, to_pytorch = (
        read_json(mappings / name)
        for name in (FOLDERS, TO_IMAGENET, TO_PYTORCH)
    )
    check_regular(mappings / LABELS)
    try:
        lines = (mappings / LABELS).read_text("utf-8").splitlines()
        # from ImageNet's label to its line, and from there to the model's index
        index_of_line = {int(line): int(i) for i, line in to_pytorch.items()}
        index_of = {
            name.strip(): index_of_line[i] for i, name in enumerate(lines)
        }
        classes = {
            folder: [index_of[x.strip()] for x in to_imagenet[label].split(";")]
            for folder, label in folders.items()
            if label in to_imagenet
        }
    except (
        OSError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise UserError(
            f"the files in {mappings} are damaged or don't belong together "
            f"({reason(error)}); fetch ObjectNet again"
        ) from error
    if not all(0 <= x < NUM_1K for each in classes.values() for x in each):
        raise UserError(
            f"{mappings / TO_PYTORCH} has classes beyond ImageNet's 1,000; "
            "fetch ObjectNet again"
        )
    return classes
