"""Pictures that are not in class folders, but are named like a folder.

A place is a path, or what stands for one: `train-{000000..000127}.tar`,
`hf:imagenet-1k`, `torchvision:flowers102`, `download:ants-bees`. It has parts,
each of which is a place or a folder, or is one part itself.

`parts_at(Path("small"))["val"]` is "small/val-{000000..000049}.tar".
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from vitedu.data import archives, hugging_face, shards, torchvision_sets
from vitedu.data.catalogue import CATALOGUE, reader_of, sets_of
from vitedu.data.images import Pictures
from vitedu.data.sources import Location, folders_of


class Kind(NamedTuple):
    """One kind of place, and what is done with it."""

    is_one: Callable[[Path], bool]
    parts: Callable[[Path], dict[str, Path]]
    pictures: Callable[[Path], Pictures]
    classes: Callable[[Path], tuple[str, ...]]
    prefix: str = ""


KINDS = (
    Kind(
        hugging_face.is_hub,
        hugging_face.hub_parts,
        hugging_face.hub_pictures,
        hugging_face.hub_classes,
        hugging_face.PREFIX,
    ),
    Kind(
        torchvision_sets.is_torchvision,
        torchvision_sets.torchvision_parts,
        torchvision_sets.torchvision_pictures,
        torchvision_sets.torchvision_classes,
        torchvision_sets.PREFIX,
    ),
    Kind(
        archives.is_archive,
        archives.archive_parts,
        archives.archive_pictures,
        archives.archive_classes,
        archives.PREFIX,
    ),
    Kind(
        shards.is_shards,
        shards.shard_parts,
        shards.find_shards,
        shards.shard_classes,
    ),
)


def kind_of(place: Path) -> Kind | None:
    """What kind of place it is; None: class folders, or nothing."""
    return next((kind for kind in KINDS if kind.is_one(place)), None)


def is_place(place: Path) -> bool:
    """Whether it stands for pictures without being class folders."""
    return kind_of(place) is not None


def parts_at(place: Path) -> dict[str, Path]:
    """train, val and test, as far as they are there; {}: it is one part."""
    kind = kind_of(place)
    return {} if kind is None else kind.parts(place)


def name_at(place: Path) -> str:
    """What a result calls the data: "imagenet-256", "flowers102"."""
    kind = kind_of(place)
    if kind is None or not kind.prefix:
        return place.resolve().name
    name = str(place).removeprefix(kind.prefix)
    return Path(name.partition(":")[0]).name


def named_folders() -> dict[str, Location | None]:
    """Where each set of pictures that has a name would be taken from now.

    None: it would be downloaded.
    """
    found: dict[str, Location | None] = {}
    for name in sets_of("zip", "torchvision"):
        *own, cache = folders_of(name)
        places = [Location(folder, "$VITEDU_DATA") for folder in own]
        places.append(Location(cache, "cache"))
        here = [
            place
            for place in places
            if os.path.isdir(place.path)
            and (
                reader_of(name) == "torchvision"
                or archives.holds(place.path, CATALOGUE[name])
            )
        ]
        found[name] = here[0] if here else None
    return found
