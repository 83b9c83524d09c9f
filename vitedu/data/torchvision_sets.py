"""Data sets that torchvision has a class for, by name.

`flowers102`, `food101` and the others of the catalogue are found, checked and
downloaded by torchvision's own classes, in the places that
`vitedu.data.sources` tries for every named set. A place is called
`torchvision:flowers102`, and one of its parts `torchvision:flowers102:test`.
"""

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import PIL
import torch

from vitedu.data import sources
from vitedu.data.catalogue import (
    CATALOGUE,
    NamedSet,
    TorchvisionClass,
    reader_of,
    sets_of,
)
from vitedu.data.items import kept_labels, own_class_names
from vitedu.data.labels import check_labels, names_from_labels, whole_labels
from vitedu.data.readable import remembered, undecodable
from vitedu.data.rows import Rows, readable_rows
from vitedu.errors import UserError, reason
from vitedu.pictures import reading

if TYPE_CHECKING:
    from PIL.Image import Image

PREFIX = "torchvision:"


class TorchvisionTable:
    """The pictures of a part, decoded by torchvision's class."""

    def __init__(self, dataset: Any, name: str, digest: str) -> None:
        self.dataset = dataset
        self.name = name
        self.digest = digest

    def __getitem__(self, row: int) -> "Image":
        """A picture. UnreadablePicture: its file is broken or missing.

        UserError: the system couldn't read it this time.
        """
        with reading(f"{self.name}[{row}]"):
            picture: Image = self.dataset[row][0]
            return picture


def is_torchvision(place: Path) -> bool:
    """Whether it is `torchvision:` and a name."""
    return str(place).startswith(PREFIX)


def torchvision_place(name: str, data: str | Path | None = None) -> Path:
    """The place of a named set; if `data` is given, it is looked for there."""
    return Path(f"{PREFIX}{name}" + (f"::{data}" if data is not None else ""))


def torchvision_parts(place: Path) -> dict[str, Path]:
    """train, val and test, as far as the set has them; {}: it has one part."""
    name, part, data = _address(place)
    if part or len(_class_of(name).parts) == 1:
        return {}
    end = f":{data}" if data else ""
    return {
        each: Path(f"{PREFIX}{name}:{each}{end}")
        for each in _class_of(name).parts
    }


def torchvision_pictures(place: Path) -> Rows:
    """The pictures of a part that can be read.

    UserError: the set isn't here and cannot be downloaded, or its parts are
    several.
    """
    name, part, data = _address(place)
    known = CATALOGUE[name]
    parts = _class_of(name).parts
    if not part:
        if len(parts) > 1:
            raise UserError(
                f"{name} has several parts; give one of them, such as "
                f"{PREFIX}{name}:test"
            )
        part = next(iter(parts))
    dataset, root = _opened(name, part, data)
    labels = _labels(dataset, known)
    names = _names(dataset, known)
    where = f"{PREFIX}{name}:{part}"
    check_labels(where, labels, len(names))
    digest = hashlib.sha256(f"{where} {len(labels)}\n".encode())
    digest.update(labels.numpy().astype("<i8").tobytes())
    table = TorchvisionTable(dataset, where, digest.hexdigest()[:16])
    here = f"{root} {os.stat(root).st_mtime_ns} {PIL.__version__}"
    digest.update(os.fsencode(here))
    bad: dict[int, str] = {}
    if getattr(dataset, "data", None) is None:  # else they are in memory
        bad = remembered(
            digest.hexdigest()[:16],
            len(labels),
            lambda: undecodable(table.__getitem__, len(labels)),
        )
        # the key doesn't tell which of them were mended since
        rows = list(bad)
        again = undecodable(lambda i: table[rows[i]], len(rows))
        bad = {rows[i]: why for i, why in again.items()}
    names = names or names_from_labels(where, labels)
    return readable_rows(table, labels.tolist(), names, bad)


def torchvision_classes(place: Path) -> tuple[str, ...]:
    """The classes of a set. UserError: it isn't here."""
    name, part, data = _address(place)
    known = CATALOGUE[name]
    if known.class_names:
        return known.class_names
    first = next(iter(_class_of(name).parts))
    dataset, _ = _opened(name, part or first, data)
    labels = _labels(dataset, known)
    return _names(dataset, known) or names_from_labels(name, labels)


def torchvision_holds(name: str, folder: Path) -> bool:
    """Whether torchvision's class finds the set in this folder."""
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
    parts = _class_of(name).parts
    if part and part not in parts:
        raise UserError(
            f"{name} has no part {part!r}; it has {', '.join(parts)}"
        )
    return name, part, data


def _opened(name: str, part: str, data: str) -> tuple[Any, Path]:
    """torchvision's data set from the first place that has it, and where."""
    known, title = _class_of(name), CATALOGUE[name].title
    if data:
        dataset = _in_folder(known, part, Path(data), download=False)
        if dataset is None:
            raise UserError(
                f"data={data} doesn't have {title} as torchvision's "
                f"{known.name} keeps it; leave data= out to have it looked for"
            )
        return dataset, Path(data)
    folders = sources.folders_of(name)
    for folder in folders:
        if os.path.isdir(folder):
            dataset = _in_folder(known, part, folder, download=False)
            if dataset is not None:
                return dataset, folder
    cache = folders[-1]
    if sources.is_offline():
        raise sources.MissingDataError(
            f"{title} is not in {' or '.join(map(str, folders))}, and "
            "VITEDU_OFFLINE=1 forbids the download; unset it, or put it there "
            f"as torchvision's {known.name} keeps it"
        )
    try:
        cache.mkdir(parents=True, exist_ok=True)
        dataset = _in_folder(known, part, cache, download=True)
    # what a download raises depends on the network and on the server
    except Exception as error:
        raise sources.MissingDataError(
            f"{title} could not be downloaded to {cache} "
            f"({reason(error)}); put it there yourself"
        ) from error
    return dataset, cache


def _in_folder(
    known: TorchvisionClass, part: str, folder: Path, *, download: bool
) -> Any:
    """torchvision's data set; None: its files aren't here, or are damaged."""
    from vitedu.compat import import_torchvision

    import_torchvision()
    from torchvision import datasets

    options: dict[str, Any] = {"download": True} if download else {}
    try:
        dataset = getattr(datasets, known.name)(
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


def _labels(dataset: Any, known: NamedSet) -> torch.Tensor:
    how = known.torchvision
    assert how is not None
    if how.labels is not None:
        return whole_labels(getattr(dataset, how.labels), known.title)
    labels = kept_labels(dataset)
    if labels is None:
        raise UserError(f"torchvision's {how.name} doesn't keep its labels")
    return labels


def _names(dataset: Any, known: NamedSet) -> tuple[str, ...]:
    how = known.torchvision
    if how is not None and how.class_names is not None:
        return tuple(map(str, getattr(dataset, how.class_names)))
    return known.class_names or own_class_names(dataset)
