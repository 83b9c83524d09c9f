"""Data sets that torchvision has a class for, by name.

`torchvision:flowers102` is a set, `torchvision:flowers102:test` one of its
parts. torchvision finds, checks and downloads them, in the usual places.
"""

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from vitedu.compat import import_torchvision
from vitedu.data import catalogue
from vitedu.data.dataset import Reader, Split
from vitedu.data.labels import check_labels, names_from_labels, whole_labels
from vitedu.data.locate import not_here
from vitedu.data.readers.torch_dataset import kept_labels, own_class_names
from vitedu.data.scan import files_key, leave_out_unreadable
from vitedu.errors import UserError, reason
from vitedu.pictures import reading

if TYPE_CHECKING:
    from PIL.Image import Image

PREFIX = "torchvision:"


class TorchvisionReader(Reader):
    def __init__(self, dataset: Any, name: str, labels: Tensor) -> None:
        self.dataset = dataset
        self.name = name
        self.num_pictures = len(labels)
        digest = hashlib.sha256(f"{name} {len(labels)}\n".encode())
        digest.update(labels.numpy().astype("<i8").tobytes())
        self.digest = digest.hexdigest()[:16]
        pixels = getattr(dataset, "data", None)
        if isinstance(pixels, np.ndarray):
            if pixels.shape[-1] == 3:
                pixels = pixels.transpose(0, 3, 1, 2)
            self.images = torch.from_numpy(np.ascontiguousarray(pixels))
            self.dataset = None

    def __len__(self) -> int:
        return self.num_pictures

    def __getitem__(self, row: int) -> "tuple[Image | np.ndarray, None]":
        if self.images is not None:
            return self.images[row].permute(1, 2, 0).numpy(), None
        with reading(self.name_of(row)):
            return self.dataset[row][0], None

    def name_of(self, row: int) -> str:
        return f"{self.name}[{row}]"


def place_of(name: str, data: str | Path | None = None) -> Path:
    return Path(f"{PREFIX}{name}" + (f"::{data}" if data is not None else ""))


def parts(place: Path) -> dict[str, Path]:
    name, part, data = _address(place)
    end = f":{data}" if data else ""
    splits = () if part else catalogue.CATALOGUE[name].splits
    return {each: Path(f"{PREFIX}{name}:{each}{end}") for each in splits}


def class_names(place: Path) -> tuple[str, ...]:
    name, *_ = _address(place)
    return catalogue.CATALOGUE[name].class_names or _contents(place)[-1]


def open_part(place: Path, folder: Path | None = None) -> Split:
    name, part, _ = _address(place)
    dataset, root, labels, names = _contents(place)
    where = f"{PREFIX}{name}:{part or 'train'}"
    reader = TorchvisionReader(dataset, where, labels)
    split = Split(where, reader, labels, names)
    if reader.images is not None:
        return split
    return leave_out_unreadable(split, files_key([root], root, reader.digest))


def _contents(place: Path) -> tuple[Any, Path, Tensor, tuple[str, ...]]:
    name, part, data = _address(place)
    dataset, root = _open(name, part or "train", data)
    labels = kept_labels(dataset)
    if labels is None:
        labels = whole_labels(dataset.y, name)  # Caltech101
    names = catalogue.CATALOGUE[name].class_names or own_class_names(dataset)
    names = names or tuple(getattr(dataset, "categories", ()))  # Caltech101
    check_labels(name, labels, len(names))
    return dataset, root, labels, names or names_from_labels(name, labels)


def holds(name: str, folder: Path) -> bool:
    return _in_folder(name, "train", folder, download=False) is not None


def _address(place: Path) -> tuple[str, str, str]:
    """Name, part ("": to train on) and where to look ("": the usual places)."""
    text = str(place).removeprefix(PREFIX)
    name, part, data = (*text.split(":", 2), "", "")[:3]
    if catalogue.kind_of(name) != "torchvision":
        names = ", ".join(catalogue.sets_of("torchvision"))
        raise UserError(f"{place}: known are {names}; see `vitedu info data`")
    known = catalogue.CATALOGUE[name].splits or ("train",)
    if part and part not in known:
        raise UserError(
            f"{name} has no part {part!r}; it has {', '.join(known)}"
        )
    return name, part, data


def _open(name: str, part: str, data: str) -> tuple[Any, Path]:
    named = catalogue.CATALOGUE[name]
    folders = (Path(data),) if data else catalogue.folders_of(name)
    for folder in filter(os.path.isdir, folders):
        dataset = _in_folder(name, part, folder, download=False)
        if dataset is not None:
            return dataset, folder
    by_hand = f"put it there as torchvision's {named.torchvision} keeps it"
    if data:
        raise UserError(
            f"data={data} doesn't have {named.title}; {by_hand}, or leave "
            "data= out to have it looked for"
        )
    if catalogue.is_offline():
        raise not_here(name, by_hand)
    cache = folders[-1]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        return _in_folder(name, part, cache, download=True), cache
    # what a download raises depends on the network and on the server
    except Exception as error:
        raise catalogue.MissingDataError(
            f"{named.title} could not be downloaded to {cache} "
            f"({reason(error)}); {by_hand}"
        ) from error


def _in_folder(name: str, part: str, folder: Path, *, download: bool) -> Any:
    """torchvision's data set; None: its files are missing or damaged."""
    named = catalogue.CATALOGUE[name]
    options: dict[str, Any] = {"download": True} if download else {}
    if named.splits:
        options["split"] = named.splits[part]
    kind = getattr(import_torchvision().datasets, named.torchvision)
    try:
        dataset = kind(str(folder), **options)
    except ImportError as error:
        raise UserError(
            f"torchvision's {named.torchvision} needs another library: "
            f"{reason(error)}"
        ) from None
    except (RuntimeError, OSError, EOFError, ValueError):
        if download:
            raise
        return None
    if named.torchvision == "SUN397":
        # its files come in the order of the disk, which differs from machine
        # to machine, and what is drawn by a seed would too
        pairs = sorted(zip(dataset._image_files, dataset._labels, strict=True))
        dataset._image_files = [file for file, _ in pairs]
        dataset._labels = [label for _, label in pairs]
    return dataset
