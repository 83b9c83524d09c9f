"""Named sets of photographs that come as a zip: found here, or downloaded.

`archive_folder("ants-bees")` is the folder with train/ and val/, in
$VITEDU_DATA or the cache. If it is in neither, it is "download:ants-bees", and
what opens that place downloads it.
"""

import hashlib
import os
import shutil
import uuid
import zipfile
from contextlib import suppress
from pathlib import Path

from vitedu.data import sources
from vitedu.data.catalogue import ARCHIVES, PictureArchive
from vitedu.data.download import SLOWEST, MirrorError, not_writable, received
from vitedu.data.formats import DAMAGE
from vitedu.data.images import Pictures
from vitedu.data.listing import has_pictures, is_picture
from vitedu.errors import UserError, reason

PREFIX = "download:"
PARTS = ("train", "val")


def archive_folder(name: str) -> Path:
    """Where the pictures of a named set are, or the place to get them from."""
    known = ARCHIVES[name]
    for folder in sources.folders_of(name):
        if holds(folder, known):
            return folder
    return Path(f"{PREFIX}{name}")


def is_archive(place: Path) -> bool:
    """Whether it is `download:` and the name of a set."""
    prefix, colon, name = str(place).partition(":")
    return prefix + colon == PREFIX and name in ARCHIVES


def archive_classes(place: Path) -> tuple[str, ...]:
    """Its classes; nothing is downloaded."""
    return ARCHIVES[str(place).removeprefix(PREFIX)].class_names


def archive_parts(place: Path) -> dict[str, Path]:
    """train and val, after a download if need be."""
    folder = downloaded(place)
    return {part: folder / part for part in PARTS}


def archive_pictures(place: Path) -> Pictures:
    """UserError: the set has parts."""
    raise UserError(
        f"{place} has several parts; give one of them, such as "
        f"{downloaded(place) / PARTS[0]}"
    )


def downloaded(place: Path) -> Path:
    """The folder with train/ and val/, after a download to the cache.

    MissingDataError: that is forbidden, or failed, or brought something else.
    """
    name = str(place).removeprefix(PREFIX)
    known = ARCHIVES[name]
    found = archive_folder(name)
    if found != place:
        return found
    *_, folder = folders = sources.folders_of(name)
    if sources.is_offline():
        raise sources.MissingDataError(
            f"{known.title} is not in {' or '.join(map(str, folders))}, and "
            "VITEDU_OFFLINE=1 forbids the download; unset it, or unpack "
            f"{known.address} so that {folder} has train/ and val/"
        )
    part = folder.with_name(f"{name}.{uuid.uuid4().hex[:16]}.part")
    try:
        part.mkdir(parents=True)
        _unpack(_fetched(known, part / "archive.zip"), part / name, known)
        # another process may have been faster
        with suppress(OSError):
            (part / name).rename(folder)
    except OSError as error:
        raise not_writable(folder, error) from error
    except MirrorError as error:
        raise sources.MissingDataError(
            f"{known.title} could not be downloaded ({known.address}: "
            f"{error}); unpack it so that {folder} has train/ and val/"
        ) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    if not holds(folder, known):
        raise UserError(
            f"{folder} has something else in it than {known.title}; move it "
            "away"
        )
    return folder


def holds(folder: Path, known: PictureArchive) -> bool:
    """Whether every part has pictures of every class."""
    return all(
        os.path.isdir(folder / part / name)
        and has_pictures(folder / part / name)
        for part in PARTS
        for name in known.class_names
    )


def _fetched(known: PictureArchive, path: Path) -> Path:
    """The zip. MirrorError: the network or the server."""
    seconds = 60 + known.most_bytes / SLOWEST
    with open(path, "xb") as file:
        for chunk in received(
            known.address, known.most_bytes, seconds, is_exact=False
        ):
            file.write(chunk)
    return path


def _unpack(path: Path, folder: Path, known: PictureArchive) -> None:
    """Write the pictures. MirrorError: they aren't those of the set."""
    above = f"{known.inner_folder}/"
    try:
        with zipfile.ZipFile(path) as archive:
            members = {
                member.filename.removeprefix(above): member
                for member in archive.infolist()
                if member.filename.startswith(above)
                and is_picture(member.filename)
                and not member.filename.endswith(".gif")
            }
            names = sorted(members)
            listed = "".join(f"{name}\n" for name in names).encode(
                "utf-8", "surrogateescape"
            )
            # also keeps out every name that leads elsewhere
            if hashlib.sha256(listed).hexdigest() != known.names_sha256:
                raise MirrorError(
                    f"the zip has {len(names)} pictures, which aren't the "
                    f"{known.num_pictures} of {known.title}"
                )
            size = sum(member.file_size for member in members.values())
            if size > known.most_bytes:
                raise MirrorError(f"its pictures would have {size:,} bytes")
            for name in names:
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(members[name]))
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise MirrorError(f"it is damaged: {reason(error)}") from error
