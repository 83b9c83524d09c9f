"""Data sets that torchvision has a class for, by name.

`torchvision:flowers102` is a set, `torchvision:flowers102:test` one of its
parts. torchvision finds, checks and downloads them, in the usual places.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from vitedu.compat import import_torchvision
from vitedu.data.catalogue import (
    CATALOGUE,
    MissingDataError,
    TorchvisionClass,
    folders_of,
    is_offline,
    reader_of,
    sets_of,
)
from vitedu.data.dataset import Reader, Split, rows_stamp
from vitedu.data.labels import check_labels, names_from_labels, whole_labels
from vitedu.data.readers.torch_dataset import kept_labels, own_class_names
from vitedu.data.scan import files_key, leave_out, scan, undecodable
from vitedu.errors import UserError, printable, reason
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
        """A picture. UnreadablePicture: its file is broken or missing.

        UserError: the system couldn't read it this time.
        """
        if self.images is not None:
            return self.images[row].permute(1, 2, 0).numpy(), None
        with reading(self.name_of(row)):
            return self.dataset[row][0], None

    def name_of(self, row: int) -> str:
        return f"{self.name}[{row}]"

    def stamps(
        self, rows: Tensor, labels: Tensor | None, folder: Path | None
    ) -> Iterator[bytes]:
        yield f"{self.digest}\n".encode()
        yield rows_stamp(rows)


def accepts(place: Path) -> bool:
    return str(place).startswith(PREFIX)


def place_of(name: str, data: str | Path | None = None) -> Path:
    """The place of a named set, looked for only at `data` if that is given."""
    return Path(f"{PREFIX}{name}" + (f"::{data}" if data is not None else ""))


def parts(place: Path) -> dict[str, Path]:
    """Those of train, val and test that the set has; {}: it has one part."""
    name, part, data = _address(place)
    names = _class_of(name).parts
    if part or len(names) == 1:
        return {}
    end = f":{data}" if data else ""
    return {each: Path(f"{PREFIX}{name}:{each}{end}") for each in names}


def class_names(place: Path) -> tuple[str, ...]:
    name, part, data = _address(place)
    if CATALOGUE[name].class_names:
        return CATALOGUE[name].class_names
    first = next(iter(_class_of(name).parts))
    dataset, _ = _open(name, part or first, data)
    labels = _labels(dataset, name)
    return _names(dataset, name) or names_from_labels(name, labels)


def open_part(place: Path, folder: Path | None = None) -> Split:
    """The readable pictures of a part.

    UserError: the set can't be found or downloaded, or has several parts.
    """
    name, part, data = _address(place)
    names = _class_of(name).parts
    if not part:
        if len(names) > 1:
            raise UserError(
                f"{name} has several parts; give one of them, such as "
                f"{PREFIX}{name}:test"
            )
        part = next(iter(names))
    where = f"{PREFIX}{name}:{part}"
    dataset, root = _open(name, part, data)
    labels = _labels(dataset, name)
    classes = _names(dataset, name)
    check_labels(where, labels, len(classes))
    reader = TorchvisionReader(dataset, where, labels)
    bad: dict[int, str] = {}
    if reader.images is None:
        found = scan(
            lambda row: reader[row][0],
            len(labels),
            files_key([root], root, reader.digest),
        )
        # the folder's date doesn't tell which of them were mended since
        rows = list(found)
        again = undecodable(lambda i: reader[rows[i]][0], len(rows))
        bad = {rows[i]: printable(again[i]) for i in sorted(again)}
    classes = classes or names_from_labels(where, labels)
    return leave_out(Split(where, reader, labels, classes), bad, where)


def holds(name: str, folder: Path) -> bool:
    known = _class_of(name)
    part = next(iter(known.parts))
    return _in_folder(known, part, folder, download=False) is not None


def _class_of(name: str) -> TorchvisionClass:
    known = CATALOGUE[name].torchvision
    assert known is not None
    return known


def _address(place: Path) -> tuple[str, str, str]:
    """Name, part ("": all) and where to look ("": in the usual places)."""
    text = str(place).removeprefix(PREFIX)
    name, part, data = (*text.split(":", 2), "", "")[:3]
    if reader_of(name) != "torchvision":
        names = ", ".join(sets_of("torchvision"))
        raise UserError(f"{place}: known are {names}; see `vitedu info data`")
    known = _class_of(name).parts
    if part and part not in known:
        raise UserError(
            f"{name} has no part {part!r}; it has {', '.join(known)}"
        )
    return name, part, data


def _open(name: str, part: str, data: str) -> tuple[Any, Path]:
    """The data set from the first place that has it, and that place."""
    known, title = _class_of(name), CATALOGUE[name].title
    if data:
        dataset = _in_folder(known, part, Path(data), download=False)
        if dataset is None:
            raise UserError(
                f"data={data} doesn't have {title} as torchvision's "
                f"{known.name} keeps it; leave data= out to have it looked for"
            )
        return dataset, Path(data)
    folders = folders_of(name)
    for folder in filter(os.path.isdir, folders):
        dataset = _in_folder(known, part, folder, download=False)
        if dataset is not None:
            return dataset, folder
    cache = folders[-1]
    if is_offline():
        raise MissingDataError(
            f"{title} is not in {' or '.join(map(str, folders))}, and "
            "VITEDU_OFFLINE=1 forbids the download; unset it, or put it there "
            f"as torchvision's {known.name} keeps it"
        )
    try:
        cache.mkdir(parents=True, exist_ok=True)
        dataset = _in_folder(known, part, cache, download=True)
    # what a download raises depends on the network and on the server
    except Exception as error:
        raise MissingDataError(
            f"{title} could not be downloaded to {cache} "
            f"({reason(error)}); put it there yourself"
        ) from error
    return dataset, cache


def _in_folder(
    known: TorchvisionClass, part: str, folder: Path, *, download: bool
) -> Any:
    """torchvision's data set; None: its files are missing or damaged."""
    options: dict[str, Any] = {"download": True} if download else {}
    try:
        dataset = getattr(import_torchvision().datasets, known.name)(
            str(folder), **known.parts[part], **options
        )
    except ImportError as error:
        raise UserError(
            f"torchvision's {known.name} needs another library: {reason(error)}"
        ) from None
    except (RuntimeError, OSError, EOFError, ValueError):
        if download:
            raise
        return None
    if known.name == "SUN397":
        # its files come in the order of the disk, which differs from machine
        # to machine, and what is drawn by a seed would too
        pairs = sorted(zip(dataset._image_files, dataset._labels, strict=True))
        dataset._image_files = [file for file, _ in pairs]
        dataset._labels = [label for _, label in pairs]
    return dataset


def _labels(dataset: Any, name: str) -> Tensor:
    attribute = _class_of(name).labels
    if attribute is not None:
        found = getattr(dataset, attribute)
        return whole_labels(found, CATALOGUE[name].title)
    labels = kept_labels(dataset)
    assert labels is not None, f"{name} keeps its labels somewhere else"
    return labels


def _names(dataset: Any, name: str) -> tuple[str, ...]:
    attribute = _class_of(name).class_names
    if attribute is not None:
        return tuple(map(str, getattr(dataset, attribute)))
    return CATALOGUE[name].class_names or own_class_names(dataset)
