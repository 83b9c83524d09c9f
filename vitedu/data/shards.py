"""Pictures in WebDataset's shards: tars that are read at any place.

`pictures = open_part(Path("imagenet/val-{000000..000049}.tar"))`
`pictures[0]` is (an open file, 0).

The headers of the tars are read once, and then every picture is a place: which
tar, from which byte on. So an epoch can have any order, be divided among
workers and processes, and go on in its middle, all of it computed from (seed,
epoch, index) as for a folder. `vitedu.data.feed.pictures` reads one window of
shards after the other.
"""

import hashlib
import math
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from vitedu.data.dataset import Reader, Split
from vitedu.data.labels import check_labels
from vitedu.data.prepared_index import (
    Index,
    Shard,
    finished_index,
    read_index,
)
from vitedu.data.shard_listing import headers_of, places_in, read_place
from vitedu.errors import UserError
from vitedu.files import check_regular, user_path

MOST_SHARDS = 100_000
NUMBERS = re.compile(r"\{(-?\d+)\.\.(-?\d+)")
MOST_DIGITS = 9
REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class ShardReader(Reader):
    """Pictures in tars; `places` (n, 3): which tar, first byte, length."""

    def __init__(self, paths: Sequence[Path], places: Tensor) -> None:
        self.paths = tuple(paths)
        self.places = places
        self.shard_of = places[:, 0]

    def __len__(self) -> int:
        """The number of pictures."""
        return len(self.places)

    def __getitem__(self, row: int) -> tuple[BinaryIO, None]:
        """One picture as a file in memory.

        UserError: its tar has become shorter, or cannot be read.
        """
        shard, first_byte, num_bytes = self.places[row].tolist()
        return read_place(self.paths[shard], first_byte, num_bytes), None

    def name_of(self, row: int) -> str:
        """As in "a.tar: cat.jpg"."""
        shard, first_byte, _ = self.places[row].tolist()
        return read_place(self.paths[shard], first_byte, 0).name

    def stamps(
        self, rows: Tensor, labels: Tensor | None, folder: Path | None
    ) -> Iterator[bytes]:
        """Names and sizes of the tars, places, labels."""
        for path in self.paths:
            size = check_regular(path).st_size
            yield os.fsencode(f"{path.name} {size}\n")
        if labels is not None:
            places = (self.places[rows], labels[:, None])
            table = torch.cat(places, 1).numpy().astype("<i8")
            yield hashlib.sha256(table.tobytes()).digest()


PREFIX = ""


def accepts(place: str | PathLike[str]) -> bool:
    """Whether it is a tar, several in brace notation, or a folder of them.

    Of folders, those that `vitedu prepare` has filled with shards.
    """
    place = user_path(place)
    if place.name.endswith(".tar"):
        return not os.path.isdir(place)
    index = finished_index(place)
    return index is not None and index.settings.format == "shards"


def open_part(place: str | PathLike[str], folder: Path | None = None) -> Split:
    """The pictures of shards that can be used, in the order of the tars.

    `place` is a tar, several in WebDataset's brace notation, or a folder that
    `vitedu prepare` filled, if it has one part.

    Classes are named by the index beside the shards; without one they are
    numbers. UserError: a shard is missing, breaks off or isn't as it was
    written; there is no picture; a label is outside of the classes.
    """
    place = user_path(place)
    if os.path.isdir(place):
        inside = _parts(place)
        if len(inside) > 1:
            raise UserError(
                f"{place} has several parts; give one of them, such as "
                f"{inside['train']}"
            )
        place = inside["train"]
    index = _index_beside(place)
    paths = _paths(place, index)
    written = None if index is None else _written(index, paths)
    found = places_in(paths, written)
    if not len(found.labels) and found.skipped:
        raise UserError(
            f"none of the {len(found.skipped):,} samples in {place} can be "
            f"used; the first: {found.skipped[0]}"
        )
    if not len(found.labels):
        raise UserError(
            f"there are no samples in {place}; a sample is a picture KEY.jpg "
            "and its label KEY.cls"
        )
    names = () if written is None or index is None else index.classes
    check_labels(str(place), found.labels, len(names))
    return Split(
        place.resolve().name,
        ShardReader(paths, found.places),
        found.labels,
        names or found.class_names(place),
        skipped=found.skipped,
    )


def class_names(place: Path) -> tuple[str, ...]:
    """The classes that `open_part` would name; no picture is read."""
    if os.path.isdir(place):
        return _finished(place).classes
    index = _index_beside(place)
    paths = _paths(place, index)
    if index is not None and _written(index, paths) is not None:
        return index.classes
    found = headers_of(paths)
    if not len(found.labels):
        return open_part(place).class_names  # says what is wrong
    return found.class_names(place)


def parts(place: Path) -> dict[str, Path]:
    """The parts of a folder in brace notation; {}: there is only one.

    UserError: it isn't finished.
    """
    found = _parts(place) if os.path.isdir(place) else {}
    return found if len(found) > 1 else {}


def _parts(folder: Path) -> dict[str, Path]:
    return {
        name: folder / _in_braces(name, part.shards)
        for name, part in _finished(folder).parts.items()
    }


def _in_braces(part: str, shards: Sequence[Shard]) -> str:
    """What WebDataset calls all shards of a part."""
    if len(shards) == 1:
        return shards[0].name
    digits = [x.name.removesuffix(".tar").rpartition("-")[2] for x in shards]
    return f"{part}-{{{digits[0]}..{digits[-1]}}}.tar"


def _paths(place: Path, index: Index | None) -> list[Path]:
    """The tars that a name means; those of a part stand in the index."""
    for name, part in index.parts.items() if index is not None else ():
        if place.name == _in_braces(name, part.shards):
            return [place.with_name(shard.name) for shard in part.shards]
    return shard_paths(place)


def shard_paths(place: Path) -> list[Path]:
    """The tars that a name in brace notation means; a name may be only itself.

    UserError: they are elsewhere, too many, or the braces are open.
    """
    text = str(place)
    if REMOTE.match(text):
        raise UserError(
            f"{text} isn't a file; shards are read from a disk, in any order, "
            "so download them first"
        )
    if os.path.lexists(place) or not set("{}") & set(text):
        return [place]
    too_many = UserError(
        f"{text} names more than {MOST_SHARDS:,} shards; check the numbers"
    )
    ranges = NUMBERS.findall(text)
    is_short = all(len(x) <= MOST_DIGITS for pair in ranges for x in pair)
    # braceexpand would keep all of them in memory
    if not is_short or MOST_SHARDS < math.prod(
        abs(int(last) - int(first)) + 1 for first, last in ranges
    ):
        raise too_many
    try:
        from braceexpand import UnbalancedBracesError, braceexpand
    except ImportError:
        raise UserError(
            f"{text} needs the library webdataset to be expanded; "
            "install it with pip install webdataset"
        ) from None
    try:
        names = list(islice(braceexpand(text, escape=False), MOST_SHARDS + 1))
    except UnbalancedBracesError:
        raise UserError(
            f"{text} opens a brace without closing it; write it as "
            "train-{000000..000127}.tar"
        ) from None
    if len(names) > MOST_SHARDS:
        raise too_many
    return [Path(name) for name in dict.fromkeys(names)]  # each only once


def _finished(folder: Path) -> Index:
    return finished_index(folder) or read_index(folder)


def _index_beside(place: Path) -> Index | None:
    """The index in the folder of the shards; None: they have none."""
    folder = place.parent
    return _finished(folder) if accepts(folder) else None


def _written(index: Index, paths: Sequence[Path]) -> list[Shard] | None:
    """What the index says of these shards; None: it doesn't know them all."""
    known = {
        shard.name: shard
        for part in index.parts.values()
        for shard in part.shards
    }
    if not all(path.name in known for path in paths):
        return None
    return [known[path.name] for path in paths]
