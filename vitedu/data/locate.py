"""Where a named data set is on this computer, or how it gets here.

The first of four places that has it wins: the path that you give (`data=`), the
folder in $VITEDU_DATA, the cache, and last a download into the cache, which
VITEDU_OFFLINE=1 forbids.

`folder = locate("mnist").path`
"""

import http.client
import os
import socket
import urllib.error
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from torch.hub import download_url_to_file

from vitedu.data import catalogue
from vitedu.data.readers.folder import contents, has_pictures, is_picture
from vitedu.errors import UserError, did_you_mean, explained, reason
from vitedu.files import user_path

SILENT_SECONDS = 30  # without a byte
# Raised by network or server; anything else comes from the disk.
NETWORK = (
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    RuntimeError,  # of torch: another digest
)


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
    check_name(name, *catalogue.ARRAYS, "zip")
    named = catalogue.CATALOGUE[name]
    if data is not None:
        return locate_given(name, data)
    if found := present(name):
        return found
    if catalogue.is_offline():
        raise not_here(name, _by_hand(name))
    *_, folder = catalogue.folders_of(name)
    mirrors = mirrors or named.mirrors
    end = "make room there, or set VITEDU_CACHE to a folder that can be written"
    with explained(f"cannot write {folder}", end=f"; {end}"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        if named.kind == "zip":
            _download_folder(name, folder, mirrors)
        else:
            for file in named.files:
                if not os.path.isfile(folder / file.name):
                    folder.mkdir(exist_ok=True)
                    _download(name, file, folder, mirrors)
    path = _found(named, folder)
    if path is None:
        raise UserError(
            f"{folder} has something else in it than {named.title}; move it "
            "away"
        )
    return Location(path, "cache")


def locate_given(name: str, data: str | Path) -> Location:
    named, path = catalogue.CATALOGUE[name], user_path(data)
    if named.kind == "package":
        raise unfit(path, f"{name} comes with the package, so leave it out")
    is_file = os.path.isfile(path) and any(not x for _, x in named.layouts)
    found = _found(named, path) or (path if is_file else None)
    if found is None:
        needed = f"give the folder of {named.title}'s files ({_files(named)})"
        raise unfit(path, needed)
    return Location(found, f"data={data}")


def where() -> dict[str, Location | None]:
    """Where each named set of arrays is, without downloading; None: nowhere."""
    return {
        name: present(name) for name in catalogue.sets_of(*catalogue.ARRAYS)
    }


def present(name: str) -> Location | None:
    *own, cache = catalogue.folders_of(name)
    is_carried = catalogue.kind_of(name) in ("package", "photos")
    origin = "package" if is_carried else "cache"
    for folder, place in [(x, "$VITEDU_DATA") for x in own] + [(cache, origin)]:
        if (path := _found(catalogue.CATALOGUE[name], folder)) is not None:
            return Location(path, place)
    return None


def holds(name: str, path: Path) -> bool:
    return name in catalogue.sets_of(*catalogue.ARRAYS) and (
        _found(catalogue.CATALOGUE[name], path) is not None
    )


def check_name(name: str, *kinds: catalogue.Kind) -> None:
    kind = catalogue.kind_of(name)
    if kind == "boxes":
        raise UserError(
            f"{name} is a set of pictures with boxes; read it with "
            f"vitedu.data.load_boxes({name!r})"
        )
    if kind is not None and kind not in kinds:
        raise UserError(
            f"{name} is a set of pictures in folders, not of arrays; read it "
            f"with vitedu.data.load_folder(vitedu.data.folder_of({name!r}))"
        )
    if kind is None:
        drawn = ("shapes", "shapes-100k", "glyphs-same", "glyphs-which")
        known = (*catalogue.sets_of(*catalogue.ARRAYS, "photos", "zip"), *drawn)
        raise UserError(
            f"there is no data set {name!r} here; data=FOLDER names pictures "
            "of your own, in a folder for each class; "
            + did_you_mean(name, known)
        )


def not_here(name: str, by_hand: str) -> catalogue.MissingDataError:
    *own, cache = catalogue.folders_of(name)
    meaning = own[0] if own else "VITEDU_DATA is not set"
    title = catalogue.CATALOGUE[name].title
    return catalogue.MissingDataError(
        f"{title} is not in $VITEDU_DATA/{name} ({meaning}) or the cache "
        f"({cache}), and VITEDU_OFFLINE=1 forbids the download; unset it, or "
        f"{by_hand}"
    )


def unfit(data: str | Path, remedy: str) -> UserError:
    path = user_path(data)
    found = "is a file" if os.path.exists(path) else "does not exist"
    if os.path.isdir(path):
        found = f"has {contents(path)}"
    return UserError(
        f"data={data} {found}; {remedy}, or give pictures: class folders, in "
        "train/ and val/ or alone"
    )


def _found(named: catalogue.NamedSet, folder: Path) -> Path | None:
    if named.kind in ("torchvision", "photos"):
        return folder if os.path.isdir(folder) else None
    if named.kind == "zip":
        classes = [
            folder / part / name
            for part in named.splits or ("train", "val")
            for name in named.class_names
        ]
        is_there = all(os.path.isdir(x) and has_pictures(x) for x in classes)
        return folder if is_there else None
    for place, files in named.layouts:
        path = folder / place
        if all(
            os.path.isfile(path / file) or os.path.isfile(path / f"{file}.gz")
            for file in files
        ) and (files or os.path.isfile(path)):
            return path
    return None


def _files(named: catalogue.NamedSet) -> str:
    listed = [file.name for file in named.files]
    return ", ".join(
        listed or [file for _, x in named.layouts[:1] for file in x]
    )


def _by_hand(name: str) -> str:
    named, (*_, folder) = catalogue.CATALOGUE[name], catalogue.folders_of(name)
    files = _files(named)
    if named.splits:
        return (
            f"sort {named.mirrors[0]}{named.files[0].name} into train/, val/ "
            f"and test/ of {folder} by the lists beside it, or use {name}-"
            "small, a part of it that comes with the package"
        )
    if named.kind == "zip":
        return (
            f"unpack {named.mirrors[0]}{files} so that {folder} has train/ and "
            "val/"
        )
    digits = ", or pass fallback=digits" if named.kind == "idx" else ""
    return f"put {files} into {folder}{digits}"


def _download(
    name: str, file: catalogue.File, folder: Path, mirrors: tuple[str, ...]
) -> None:
    """Put `file` into `folder`, from the first mirror that has it.

    torch moves it there once its digest is right, so several processes may fill
    the same cache, and a partial file is never taken for the whole.
    """
    reasons = []
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENT_SECONDS)  # torch sets none
    try:
        for mirror in mirrors:
            url, path = f"{mirror}{file.name}", str(folder / file.name)
            try:
                return download_url_to_file(
                    url, path, file.sha256, progress=False
                )
            except NETWORK as error:
                reasons.append(f"{url}: {reason(error).strip('<>')}")
    finally:
        socket.setdefaulttimeout(before)
    raise catalogue.MissingDataError(
        f"{catalogue.CATALOGUE[name].title} could not be downloaded "
        f"({'; '.join(reasons)}); {_by_hand(name)}"
    )


def _download_folder(name: str, folder: Path, mirrors: tuple[str, ...]) -> None:
    named = catalogue.CATALOGUE[name]
    zipped = named.files[0].name
    with TemporaryDirectory(
        prefix=f"{name}.", suffix=".part", dir=folder.parent
    ) as part:
        for file in named.files:
            _download(name, file, Path(part), mirrors)
        with zipfile.ZipFile(Path(part, zipped)) as archive:
            above = f"{Path(zipped).stem}/"
            for member in archive.namelist():
                # among the ants, a picture that says "image not found"
                is_photo = is_picture(member) and "imageNotFound" not in member
                if is_photo and member.startswith(above):
                    archive.extract(member, part)
        whole = Path(part, above)
        if named.splits:
            whole = _sorted(named.splits, whole, Path(part))
        with suppress(OSError):
            os.rename(whole, folder)


def _sorted(splits: Mapping[str, str], pictures: Path, lists: Path) -> Path:
    """Move pictures from class folders to parts; the folder of the parts."""
    found = {path.name: path for path in pictures.glob("*/*")}
    for part, listed in splits.items():
        for line in (lists / listed).read_text().splitlines():
            path = found[line.split()[0]]
            place = lists / "sorted" / part / path.parent.name
            place.mkdir(parents=True, exist_ok=True)
            path.rename(place / path.name)
    return lists / "sorted"
