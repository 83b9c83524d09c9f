"""The index.json that `vitedu prepare` writes beside its shards.

`read_index(Path("imagenet-256")).parts["train"].shards[0].sha256`
"""

import json
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vitedu.errors import UserError
from vitedu.files import read_json, replace_file

NAME = "index.json"
WRITER = "vitedu prepare"

Format = Literal["shards", "folder"]


class Settings(NamedTuple):
    """The settings of `vitedu prepare` that change its output."""

    format: Format
    short_side: int
    shard_size: int
    quality: int


class Shard(NamedTuple):
    """A tar of samples, or as many pictures of a folder."""

    name: str
    samples: int
    bytes: int
    sha256: str
    unreadable: tuple[str, ...]  # a sentence for each picture that is missing


class Part(NamedTuple):
    """train, val or test."""

    counts: tuple[int, ...]  # the pictures of each class
    shards: tuple[Shard, ...]

    @property
    def num_samples(self) -> int:
        return sum(self.counts)


class Index(NamedTuple):
    """What a prepared folder contains, and how it was made."""

    is_complete: bool
    settings: Settings
    source: str  # 16 hex digits: the names and sizes of the original files
    classes: tuple[str, ...]
    parts: dict[str, Part]
    preprocess: dict[str, Any]  # for a reader: how the pictures were made

    @property
    def shards(self) -> dict[str, Shard]:
        parts = self.parts.values()
        return {shard.name: shard for part in parts for shard in part.shards}

    @property
    def unreadable(self) -> tuple[str, ...]:
        shards = self.shards.values()
        return tuple(each for shard in shards for each in shard.unreadable)


def write_index(folder: Path, index: Index) -> None:
    values = {
        "written_by": WRITER,
        "version": 1,
        "complete": index.is_complete,
        "settings": index.settings._asdict(),
        "source": index.source,
        "classes": list(index.classes),
        "parts": {
            name: {
                "samples": part.num_samples,
                "counts": list(part.counts),
                "shards": [shard._asdict() for shard in part.shards],
            }
            for name, part in index.parts.items()
        },
        "preprocess": index.preprocess,
    }
    replace_file(folder / NAME, json.dumps(values, indent=1) + "\n")


def finished_index(folder: Path) -> Index | None:
    """The index in a folder, if any. UserError: it is damaged or unfinished."""
    index = read_index(folder)
    if index is not None and not index.is_complete:
        raise UserError(
            f"{folder} isn't finished; run `vitedu prepare` again, which goes "
            "on where it stopped"
        )
    return index


def read_index(folder: Path) -> Any:
    path = folder / NAME
    try:
        values = read_json(path)
    except UserError:
        if os.path.isfile(path) and WRITER.encode() in path.read_bytes()[:100]:
            raise _damaged(path) from None  # cut off, by a copy say
        return None
    if values.get("written_by") != WRITER:
        return None
    try:
        return Index(
            values["complete"],
            Settings(**values["settings"]),
            values["source"],
            tuple(values["classes"]),
            {
                name: Part(
                    tuple(part["counts"]),
                    tuple(map(shard_of, part["shards"])),
                )
                for name, part in values["parts"].items()
            },
            values["preprocess"],
        )
    except (LookupError, TypeError):
        raise _damaged(path) from None


def _damaged(path: Path) -> UserError:
    again = f"delete {path.parent} and prepare it again"
    return UserError(f"{path} is damaged; {again}")


def shard_of(values: dict[str, Any]) -> Shard:
    shard = Shard(**values)
    return shard._replace(unreadable=tuple(shard.unreadable))
