"""Where a named data set is on this computer, or how it gets here.

The first of four places that has it wins: the path that you give (`data=`), the
folder in $VITEDU_DATA, the cache, and last a download into the cache, which
VITEDU_OFFLINE=1 forbids.

`folder = locate("mnist").path`
"""

import os
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from vitedu.data.catalogue import (
    ARRAYS,
    CATALOGUE,
    MissingDataError,
    NamedSet,
    cache_folder,
    folders_of,
    is_offline,
    sets_of,
)
from vitedu.data.download import MirrorError, download
from vitedu.data.listing import contents
from vitedu.errors import UserError, did_you_mean
from vitedu.files import user_path


class Location(NamedTuple):
    """The folder or file of a data set, and which place it was found in."""

    path: Path
    origin: str  # "data=...", "$VITEDU_DATA", "cache" or "package"


def locate(
    name: str,
    *,
    data: str | Path | None = None,
    mirrors: tuple[str, ...] | None = None,
) -> Location:
    """Find a data set in the four places; the last downloads to the cache.

    `data` is a folder (or the archive itself), and then the only place.
    `mirrors` replaces the listed addresses, each ending in "/". UserError: an
    unknown name, a `data` without the set, a read-only cache; MissingDataError:
    neither found nor downloaded.
    """
    location = _present(name, data)
    if location is not None:
        return location
    named = CATALOGUE[name]
    folder = cache_folder() / name
    if is_offline():
        raise MissingDataError(
            f"{named.title} is not in {_places(name)}, and VITEDU_OFFLINE=1 "
            f"forbids the download; unset it, put {_files(named)} into "
            f"{folder}{_or_digits(named)}"
        )
    for file in named.files:
        if os.path.isfile(folder / file.name):
            continue
        try:
            download(file, folder, mirrors or named.mirrors)
        except MirrorError as error:
            raise MissingDataError(
                f"{named.title} could not be downloaded ({error}); put "
                f"{_files(named)} into {folder} yourself{_or_digits(named)}"
            ) from None
    return Location(_found(named, folder), "cache")


def holds(name: str, path: Path) -> bool:
    """Whether `path` has all files of the array set `name`."""
    return name in sets_of(*ARRAYS) and (
        _found(CATALOGUE[name], path) is not None
    )


def where() -> dict[str, Location | None]:
    """Where each named set is, without downloading; None: nowhere."""
    return {
        name: _present(name, None) for name in ("digits", *sets_of(*ARRAYS))
    }


def _present(name: str, data: str | Path | None) -> Location | None:
    """Look in the first three places; digits come with the package."""
    if name == "digits":
        if data is not None:
            raise unfit(
                f"digits comes with the package; leave out data={data}", data
            )
        return Location(
            resources.files("vitedu.data") / "digits.npz", "package"
        )
    if name not in sets_of(*ARRAYS):
        known = ("digits", *sets_of(*ARRAYS))
        raise UserError(
            f"there is no data set {name!r}; {did_you_mean(name, known)}"
        )
    named = CATALOGUE[name]
    if data is not None:
        return Location(_given(named, user_path(data)), f"data={data}")
    *own, cache = folders_of(name)
    for folder in (*own, cache):
        if (found := _found(named, folder)) is not None:
            is_cache = folder == cache
            return Location(found, "cache" if is_cache else "$VITEDU_DATA")
    return None


def unfit(sentence: str, data: str | Path) -> UserError:
    """`sentence` with what `data` contains, unless `data` doesn't exist."""
    path = user_path(data)
    if not os.path.exists(path):
        return UserError(
            f"data={data} does not exist; give a folder with a folder of "
            "pictures for each class, or FILE.npz"
        )
    if not path.is_dir():
        return UserError(sentence)
    return UserError(
        f"{sentence}, which has {contents(path)}, or give pictures: class "
        "folders, in train/ and val/ or alone"
    )


def _given(named: NamedSet, path: Path) -> Path:
    """Look in `data=`: a folder in one of the layouts, or its single file."""
    if not os.path.exists(path):
        raise UserError(
            f"data={path} does not exist; give the folder of {named.title}'s "
            "files, or one of pictures"
        )
    if os.path.isdir(path):
        found = _found(named, path)
        if found is not None:
            return found
        raise UserError(
            f"data={path} has {contents(path)}; give the folder of "
            f"{named.title}'s files ({_files(named)}), or pictures: class "
            "folders, in train/ and val/ or alone"
        )
    if any(not files for _, files in named.layouts):
        return path
    raise UserError(
        f"data={path} is a file; give the folder of {named.title}'s files"
    )


def _found(named: NamedSet, folder: Path) -> Path | None:
    for place, files in named.layouts:
        path = folder / place
        if all(
            os.path.isfile(path / file) or os.path.isfile(path / f"{file}.gz")
            for file in files
        ) and (files or os.path.isfile(path)):
            return path
    return None


def _files(named: NamedSet) -> str:
    *others, last = (file.name for file in named.files)
    return f"{', '.join(others)} and {last}" if others else last


def _places(name: str) -> str:
    *own, cache = folders_of(name)
    meaning = own[0] if own else "VITEDU_DATA is not set"
    return f"$VITEDU_DATA/{name} ({meaning}) or the cache ({cache})"


def _or_digits(named: NamedSet) -> str:
    """For sets that the embedded digits can stand in for, else ""."""
    is_alike = named.reader == "idx" and len(named.class_names) == 10
    return ", or pass fallback=digits" if is_alike else ""
