"""The index that `vitedu prepare` leaves beside its shards, index.json.

`index = read_index(Path("imagenet-256"))`
`index.parts["train"].shards[0].sha256`
"""

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vitedu.errors import UserError
from vitedu.files import read_json, replace_file

NAME = "index.json"
WRITER = "vitedu prepare"
VERSION = 1
# so that the index stays below what is read of JSON
MOST_SHARDS = 50_000

Format = Literal["shards", "folder"]


class Settings(NamedTuple):
    """What decides how the pictures come out."""

    format: Format
    short_side: int
    shard_size: int
    quality: int


class Shard(NamedTuple):
    """One file of samples, or as many pictures of a folder."""

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
        """The pictures of all classes."""
        return sum(self.counts)


class Index(NamedTuple):
    """What a prepared folder says of itself."""

    is_complete: bool
    settings: Settings
    source: str  # 16 hex digits: the names and sizes of the original files
    classes: tuple[str, ...]
    parts: dict[str, Part]
    preprocess: dict[str, Any]  # for a reader: how the pictures were made

    @property
    def unreadable(self) -> tuple[str, ...]:
        """A sentence for each picture that could not be read."""
        parts = self.parts.values()
        shards = [shard for part in parts for shard in part.shards]
        return tuple(each for shard in shards for each in shard.unreadable)


def check_finished(folder: Path) -> None:
    """UserError: `vitedu prepare` has begun this folder but not finished."""
    try:
        is_complete = read_index(folder).is_complete
    except UserError:
        return  # somebody else's index.json, or none
    if not is_complete:
        raise UserError(
            f"{folder} isn't finished; run `vitedu prepare` again, which goes "
            "on where it stopped"
        )


def write_index(folder: Path, index: Index) -> None:
    """Put `index` into a folder."""
    values = {
        "written_by": WRITER,
        "version": VERSION,
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


def read_index(folder: Path) -> Index:
    """The index in a folder. UserError: there is none, or it is damaged."""
    path = folder / NAME
    values = read_json(path)
    if values.get("written_by") != WRITER or values.get("version") != VERSION:
        raise UserError(
            f"{path} wasn't written by this version of `vitedu prepare`"
        )
    try:
        index = Index(
            is_complete=values["complete"] is True,
            settings=Settings(**values["settings"]),
            source=str(values["source"]),
            classes=tuple(map(str, values["classes"])),
            parts={
                name: Part(
                    tuple(part["counts"]),
                    tuple(map(shard_of, part["shards"])),
                )
                for name, part in values["parts"].items()
            },
            preprocess=dict(values["preprocess"]),
        )
        _check(index)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(
            f"{path} is damaged; delete {folder} and prepare it again"
        ) from None
    return index


def shard_of(values: dict[str, Any]) -> Shard:
    """A shard from JSON. ValueError, TypeError: it was never one."""
    shard = Shard(**values)
    kinds = [str, int, int, str]
    if [type(value) for value in shard[:4]] != kinds:
        raise ValueError
    return shard._replace(unreadable=tuple(map(str, shard.unreadable)))


def shard_name(part: str, number: int, form: str) -> str:
    """What a shard is called: "train-000000.tar"."""
    return f"{part}-{number:06}" + (".tar" if form == "shards" else "")


def _check(index: Index) -> None:
    """ValueError: no `prepare` has written it.

    A shard that is named twice would have its pictures counted twice.
    """
    names = set(index.parts)
    if not names <= {"train", "val", "test"} or (
        index.is_complete and "train" not in names
    ):
        raise ValueError
    for name, part in index.parts.items():
        expected = [
            shard_name(name, number, index.settings.format)
            for number in range(len(part.shards))
        ]
        if (
            not expected
            or [shard.name for shard in part.shards] != expected
            or [type(count) for count in part.counts]
            != [int] * len(index.classes)
        ):
            raise ValueError
