"""Named sets of photographs that come as a zip: found here, or downloaded.

`archive_folder("ants-bees")` is the folder with train/ and val/, in
$VITEDU_DATA or the cache; if in neither, "download:ants-bees", which is
downloaded when opened.
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
from vitedu.data.download import MirrorError, download_folder
from vitedu.data.listing import has_pictures
from vitedu.data.readers.folder import open_part as open_part  # its parts
from vitedu.errors import UserError

PREFIX = "download:"
PARTS = ("train", "val")


def archive_folder(name: str) -> Path:
    """The folder of a named set, or a place that stands for its download."""
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


def downloaded(place: Path) -> Path:
    """The folder with train/ and val/, downloaded to the cache if need be.

    MissingDataError: that is forbidden, or failed. UserError: the cache has
    other files of that name, or cannot be written.
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
