"""Pictures that are not in class folders, but are named like a folder.

A place is a path, or what stands for one: `train-{000000..000127}.tar`,
`hf:imagenet-1k`, `torchvision:flowers102`, `download:ants-bees`. It has parts,
each of which is a place or a folder, or is one part itself.

`parts_at(Path("imagenet-256"))["val"]` is "imagenet-256/val-{000000..49}.tar".
"""

import os
from pathlib import Path

from vitedu.data import archives, hugging_face, shards, torchvision_sets
from vitedu.data.archives import is_archive
from vitedu.data.catalogue import ARCHIVES
from vitedu.data.hugging_face import is_hub
from vitedu.data.images import Pictures
from vitedu.data.shards import is_shards
from vitedu.data.sources import Location, folders_of
from vitedu.data.torchvision_sets import is_torchvision


def is_place(place: Path) -> bool:
    """Whether it stands for pictures without being class folders."""
    return (
        is_hub(place)
        or is_torchvision(place)
        or is_archive(place)
        or is_shards(place)
    )


def parts_at(place: Path) -> dict[str, Path]:
    """train, val and test, as far as they are there; {}: it is one part."""
    if is_hub(place):
        return hugging_face.hub_parts(place)
    if is_torchvision(place):
        return torchvision_sets.torchvision_parts(place)
    if is_archive(place):
        folder = archives.downloaded(place)
        return {part: folder / part for part in archives.PARTS}
    if is_shards(place) and os.path.isdir(place):
        parts = shards.parts_in(place)
        if len(parts) > 1:
            return {part: shards.shard_part(place, part) for part in parts}
    return {}


def pictures_at(place: Path) -> Pictures:
    """The pictures of a part that can be used. UserError: it has parts."""
    if is_hub(place):
        return hugging_face.hub_pictures(place)
    if is_torchvision(place):
        return torchvision_sets.torchvision_pictures(place)
    return shards.find_shards(place)


def classes_at(place: Path) -> tuple[str, ...]:
    """The classes, in the order of their labels; no picture is read."""
    if is_hub(place):
        return hugging_face.hub_classes(place)
    if is_torchvision(place):
        return torchvision_sets.torchvision_classes(place)
    if is_archive(place):
        return archives.archive_classes(place)
    return shards.shard_classes(place)


def name_at(place: Path) -> str:
    """What a result calls the data: "imagenet-256", "flowers102"."""
    for prefix in (
        archives.PREFIX,
        hugging_face.PREFIX,
        torchvision_sets.PREFIX,
    ):
        if str(place).startswith(prefix):
            name = str(place).removeprefix(prefix)
            return Path(name.partition(":")[0]).name
    return place.resolve().name


def named_folders() -> dict[str, Location | None]:
    """Where each set of pictures that has a name would be taken from now.

    None: it would be downloaded.
    """
    found: dict[str, Location | None] = {}
    for name in (*ARCHIVES, *torchvision_sets.SETS):
        *own, cache = folders_of(name)
        places = [Location(folder, "$VITEDU_DATA") for folder in own]
        places.append(Location(cache, "cache"))
        here = [place for place in places if os.path.isdir(place.path)]
        found[name] = here[0] if here else None
    return found
