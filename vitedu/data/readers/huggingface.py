"""Hugging Face data sets by name, through the library `datasets`.

`hf:imagenet-1k` is on the hub, `hf:pets` a folder that `datasets` wrote or can
read, and `hf:imagenet-1k:validation` one split. Nothing is streamed, since that
would allow neither our own order nor an exact resume.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from vitedu.data.catalogue import is_offline
from vitedu.data.dataset import Reader, Split
from vitedu.data.labels import check_labels, names_from_labels, whole_labels
from vitedu.data.readers.folder import PARTS
from vitedu.data.readers.shards import NamedBytes
from vitedu.data.readers.torch_dataset import LABEL_KEYS, PICTURE_KEYS
from vitedu.data.scan import files_key, leave_out_unreadable
from vitedu.errors import UserError, reason
from vitedu.pictures import UnreadablePicture

PREFIX = "hf:"
SPLIT = re.compile(r"(.+):(\w+)")
# CIFAR-100 has its hundred classes there
ALL_LABEL_KEYS = (*LABEL_KEYS, "fine_label")
# what `datasets` writes into a folder by save_to_disk
SAVED = ("dataset_dict.json", "dataset_info.json")


class HubReader(Reader):
    def __init__(self, dataset: Any, name: str, column: str) -> None:
        self.dataset = dataset
        self.name = name
        self.column = column
        sizes = [os.stat(x["filename"]).st_size for x in dataset.cache_files]
        text = f"{len(dataset)} {dataset.features} {sizes}\n"
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:16]

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> tuple[Path | NamedBytes, None]:
        name = self.name_of(row)
        stored = self.dataset[row][self.column] or {}
        if stored.get("bytes") is not None:
            picture = NamedBytes(stored["bytes"])
            picture.name = name
            return picture, None
        if stored.get("path"):
            return Path(stored["path"]), None
        raise UnreadablePicture(f"cannot read {name}: it has no picture")

    def name_of(self, row: int) -> str:
        return f"{self.name}[{row}]"


def parts(place: Path) -> dict[str, Path]:
    name, wanted = _address(place)
    splits = _splits(name)
    if wanted or len(splits) == 1:
        return {}
    found: dict[str, Path] = {}
    for split, dataset in splits.items():
        part = PARTS.get(split.lower())
        if part is not None and _has_labels(dataset):
            found.setdefault(part, Path(f"{PREFIX}{name}:{split}"))
    if "train" not in found:
        raise UserError(
            f"{place} has the splits {', '.join(splits)}, of which none is "
            f"called train; name one, as in {place}:{next(iter(splits))}"
        )
    return found


def open_part(place: Path, folder: Path | None = None) -> Split:
    dataset, column, labels, names = _contents(place)
    import datasets  # here: `_contents` has said it if it isn't installed

    as_stored = datasets.Image(decode=False)
    encoded = dataset.select_columns([column]).cast_column(column, as_stored)
    name = str(place)
    split = Split(name, HubReader(encoded, name, column), labels, names)
    files = [Path(file["filename"]) for file in dataset.cache_files]
    return leave_out_unreadable(split, files_key(files, name, len(encoded)))


def class_names(place: Path) -> tuple[str, ...]:
    return _contents(parts(place).get("train", place))[-1]


def _contents(place: Path) -> tuple[Any, str, Tensor, tuple[str, ...]]:
    """A split, its column of pictures, its labels and its classes."""
    name, wanted = _address(place)
    splits = _splits(name)
    wanted = wanted or next(iter(splits))
    if wanted not in splits:
        raise UserError(
            f"{PREFIX}{name} has no split {wanted!r}; it has "
            f"{', '.join(splits)}"
        )
    dataset, where = splits[wanted], str(place)
    picture, label = _columns(dataset, where)
    labels = _labels(dataset, where, label)
    names = tuple(getattr(dataset.features[label], "names", None) or ())
    check_labels(where, labels, len(names))
    return dataset, picture, labels, names or names_from_labels(where, labels)


def _address(place: Path) -> tuple[str, str]:
    """Name of the data set, and of its split ("": none is named)."""
    # with slashes on Windows too, as the hub has them
    name = place.as_posix().removeprefix(PREFIX)
    match = None if os.path.lexists(name) else SPLIT.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def _splits(name: str) -> dict[str, Any]:
    try:
        import datasets
    except ImportError:
        raise UserError(
            f"{PREFIX}{name} needs the library datasets; install it with pip "
            "install datasets"
        ) from None
    is_saved = any(os.path.isfile(Path(name) / file) for file in SAVED)
    load = datasets.load_from_disk if is_saved else datasets.load_dataset
    before = datasets.config.HF_HUB_OFFLINE
    # VITEDU_OFFLINE=1 acts as HF_HUB_OFFLINE=1, which is read at import
    datasets.config.HF_HUB_OFFLINE = before or is_offline()
    try:
        found = load(name)
    # What it raises depends on the network, the hub and the files.
    except Exception as error:
        offline = ", and VITEDU_OFFLINE=1 forbids asking the hub"
        end = offline if is_offline() and not os.path.isdir(name) else ""
        raise UserError(
            f"cannot load {PREFIX}{name}: {reason(error).rstrip('.')}{end}"
        ) from error
    finally:
        datasets.config.HF_HUB_OFFLINE = before
    splits = dict(found if isinstance(found, Mapping) else {"train": found})
    for split, dataset in splits.items():
        if not len(dataset):
            raise UserError(f"{PREFIX}{name}:{split} is empty")
    return splits


def _columns(dataset: Any, name: str) -> tuple[str, str]:
    import datasets

    picture = _column(dataset, PICTURE_KEYS, datasets.Image)
    label = _column(dataset, ALL_LABEL_KEYS, datasets.ClassLabel)
    if picture is None or label is None:
        what = "classes, such as label"
        if picture is None:
            what = "pictures, such as image or img"
        raise UserError(
            f"{name} doesn't have a column of {what}; it has "
            f"{', '.join(dataset.column_names)}"
        )
    return picture, label


def _column(dataset: Any, names: tuple[str, ...], kind: type) -> str | None:
    for name in names:
        if name in dataset.features:
            return name
    kinds = dataset.features.items()
    found = [name for name, each in kinds if isinstance(each, kind)]
    return found[0] if len(found) == 1 else None


def _labels(dataset: Any, name: str, column: str) -> Tensor:
    plain = dataset.select_columns([column]).with_format("numpy")
    return whole_labels(plain[:][column], name)


def _has_labels(dataset: Any) -> bool:
    """Whether labels are public; secret ones are -1."""
    column = _column(dataset, ALL_LABEL_KEYS, object)
    if column is None:
        return True
    return bool((_labels(dataset, "a split", column) >= 0).any())
