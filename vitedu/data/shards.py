"""Pictures in WebDataset's shards: tars that are read at any place.

`pictures = find_shards("imagenet/val-{000000..000049}.tar")`
`pictures[0]` is (an open file, 0).

The headers of the tars are read once, and then every picture is a place: which
tar, from which byte on. So an epoch can have any order, be divided among
workers and processes, and go on in its middle, all of it computed from (seed,
epoch, index) as for a folder. `vitedu.data.image_source` reads one window of
shards after the other.
"""

import hashlib
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from vitedu.data.images import Pictures
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


@dataclass(frozen=True, eq=False)
class Shards(Pictures):
    """Pictures in tars: `paths` are the tars, `places` the pictures."""

    # (n, 3) int64: which tar, first byte, number of bytes
    places: Tensor = field(kw_only=True)

    def __getitem__(self, index: int) -> tuple[BinaryIO, int]:
        """One picture as a file in memory, and its label.

        UserError: its tar has become shorter, or cannot be read.
        """
        shard, first_byte, num_bytes = self.places[index].tolist()
        picture = read_place(self.paths[shard], first_byte, num_bytes)
        return picture, self.labels[index]

    def name_of(self, index: int) -> str:
        """What a sentence or a table calls one picture: "a.tar: cat.jpg"."""
        shard, first_byte, _ = self.places[index].tolist()
        return read_place(self.paths[shard], first_byte, 0).name

    def take(self, rows: Sequence[int]) -> "Shards":
        """These pictures alone, in this order; the classes stay."""
        return replace(
            self,
            labels=tuple(self.labels[row] for row in rows),
            places=self.places[list(rows)],
            skipped=(),
        )

    def stamps(self, folder: Path | None = None) -> Iterator[bytes]:
        """For digests: names and sizes of the tars, places, labels."""
        for path in self.paths:
            size = check_regular(path).st_size
            yield os.fsencode(f"{path.name} {size}\n")
        labels = torch.tensor(self.labels)[:, None]
        table = torch.cat((self.places, labels), 1).numpy().astype("<i8")
        yield hashlib.sha256(table.tobytes()).digest()


def is_shards(place: str | PathLike[str]) -> bool:
    """Whether it is a tar, several in brace notation, or a folder of them.

    Of folders, those that `vitedu prepare` has filled with shards.
    """
    place = user_path(place)
    if place.name.endswith(".tar"):
        return not os.path.isdir(place)
    index = finished_index(place)
    return index is not None and index.settings.format == "shards"


def find_shards(place: str | PathLike[str]) -> Shards:
    """The pictures of shards that can be used, in the order of the tars.

    `place` is a tar, several in WebDataset's brace notation, or a folder that
    `vitedu prepare` filled, if it has one part.

    Classes are named by the index beside the shards; without one they are
    numbers. UserError: a shard is missing, breaks off or isn't as it was
    written; there is no picture; a label is outside of the classes.
    """
    place = user_path(place)
    if os.path.isdir(place):
        parts = _parts(place)
        if len(parts) > 1:
            raise UserError(
                f"{place} has several parts; give one of them, such as "
                f"{parts['train']}"
            )
        place = parts["train"]
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
    return Shards(
        tuple(paths),
        tuple(found.labels.tolist()),
        names or found.class_names(place),
        found.skipped,
        places=found.places,
    )


def shard_classes(place: Path) -> tuple[str, ...]:
    """The classes that `find_shards` would name; no picture is read."""
    if os.path.isdir(place):
        return _finished(place).classes
    index = _index_beside(place)
    paths = _paths(place, index)
    if index is not None and _written(index, paths) is not None:
        return index.classes
    found = headers_of(paths)
    if not len(found.labels):
        return find_shards(place).class_names  # says what is wrong
    return found.class_names(place)


def shard_parts(place: Path) -> dict[str, Path]:
    """The parts of a folder in brace notation; {}: there is only one.

    UserError: it isn't finished.
    """
    parts = _parts(place) if os.path.isdir(place) else {}
    return parts if len(parts) > 1 else {}


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
    return _finished(folder) if is_shards(folder) else None


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
