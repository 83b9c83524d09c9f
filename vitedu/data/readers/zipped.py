"""Named sets of photographs that come as a zip: found here, or downloaded.

`archive_folder("ants-bees")` is the folder with train/ and val/, in
$VITEDU_DATA or the cache. If it is in neither, it is "download:ants-bees", and
what opens that place downloads it.
"""

import os
from pathlib import Path

from vitedu.data.catalogue import (
    CATALOGUE,
    MissingDataError,
    NamedSet,
    folders_of,
    is_offline,
    reader_of,
)
from vitedu.data.dataset import Split
from vitedu.data.download import MirrorError, download_folder
from vitedu.data.listing import has_pictures
from vitedu.errors import UserError

PREFIX = "download:"
PARTS = ("train", "val")


def archive_folder(name: str) -> Path:
    """Where the pictures of a named set are, or the place to get them from."""
    for folder in folders_of(name):
        if holds(folder, CATALOGUE[name]):
            return folder
    return Path(f"{PREFIX}{name}")


def accepts(place: Path) -> bool:
    prefix, colon, name = str(place).partition(":")
    return prefix + colon == PREFIX and reader_of(name) == "zip"


def class_names(place: Path) -> tuple[str, ...]:
    return CATALOGUE[str(place).removeprefix(PREFIX)].class_names


def parts(place: Path) -> dict[str, Path]:
    folder = downloaded(place)
    return {part: folder / part for part in PARTS}


def open_part(place: Path, folder: Path | None = None) -> Split:
    """A set has parts, each of which is a folder."""
    raise NotImplementedError


def downloaded(place: Path) -> Path:
    """The folder with train/ and val/, after a download to the cache.

    MissingDataError: that is forbidden, or failed. UserError: the cache has
    something else of that name, or cannot be written.
    """
    name = str(place).removeprefix(PREFIX)
    known = CATALOGUE[name]
    found = archive_folder(name)
    if found != place:
        return found
    *_, folder = folders = folders_of(name)
    address = known.mirrors[0] + known.files[0].name
    if is_offline():
        raise MissingDataError(
            f"{known.title} is not in {' or '.join(map(str, folders))}, and "
            "VITEDU_OFFLINE=1 forbids the download; unset it, or unpack "
            f"{address} so that {folder} has train/ and val/"
        )
    try:
        download_folder(known, folder)
    except MirrorError as error:
        raise MissingDataError(
            f"{known.title} could not be downloaded ({error}); unpack "
            f"{address} so that {folder} has train/ and val/"
        ) from None
    if not holds(folder, known):
        raise UserError(
            f"{folder} has something else in it than {known.title}; move it "
            "away"
        )
    return folder


def holds(folder: Path, known: NamedSet) -> bool:
    """Whether every part has pictures of every class."""
    return all(
        os.path.isdir(folder / part / name)
        and has_pictures(folder / part / name)
        for part in PARTS
        for name in known.class_names
    )
