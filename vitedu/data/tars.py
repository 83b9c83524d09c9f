"""The pictures in a tar and where their bytes are; nothing is unpacked.

`listed(Path("train-000000.tar"))` has a place and a label for each sample: a
sample is what WebDataset makes of it, the files KEY.jpg (or .png, ...) and
KEY.cls. No name in the tar is ever used as a path.
"""

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vitedu.data.labels import LARGEST
from vitedu.data.listing import SUFFIXES
from vitedu.errors import UserError, check_memory, reason
from vitedu.files import check_regular

BLOCK = 512
# WebDataset's rule: the key ends at the first dot of the file's own name
KEY = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]*)")
PAX = re.compile(rb"(\d{1,7}) ([^=]+)=")
# Long names and other notes about the next member; no sane one is larger.
MOST_NOTE_BYTES = 1 << 20
MOST_DIGITS = len(str(LARGEST))
NOTES = {tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME}
NOTES |= {tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK}
FILES = {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE}
MEMBERS = 100_000  # for so many names at a time the memory is checked
MEMBER_BYTES = 500  # in memory, of one member
EMPTY = {tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE}
EMPTY |= {tarfile.FIFOTYPE, tarfile.DIRTYPE}
KINDS = {
    tarfile.LNKTYPE: "a link",
    tarfile.SYMTYPE: "a link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


class Member(NamedTuple):
    """A file in a tar."""

    name: str
    kind: bytes  # tarfile's letter
    first_byte: int
    num_bytes: int


class Sample(NamedTuple):
    """A picture in a tar, and its label."""

    first_byte: int
    num_bytes: int
    label: int


class Listing(NamedTuple):
    """What is in a tar."""

    samples: list[Sample]  # in the order of the tar
    skipped: list[str]  # a sentence for each that cannot be used


def listed(path: Path) -> Listing:
    """The samples of a tar, read from its headers and its labels.

    UserError: it is no tar, is compressed, or breaks off.
    """
    size = check_regular(path).st_size
    skipped: list[str] = []
    found: dict[str, dict[str, Member]] = {}
    try:
        with open(path, "rb") as file:
            for number, member in enumerate(members(file, path, size)):
                if number % MEMBERS == MEMBERS - 1:
                    check_memory(MEMBERS * MEMBER_BYTES, f"the list of {path}")
                _sort_in(member, found, skipped, path)
            samples = []
            for key, parts in found.items():
                sample = _sample(file, parts)
                if isinstance(sample, Sample):
                    samples.append(sample)
                else:
                    skipped.append(f"{path.name}: {key} {sample}")
    except OSError as error:
        raise UserError(f"cannot read {path}: {reason(error)}") from None
    return Listing(sorted(samples), skipped)


def members(file: BinaryIO, path: Path, size: int) -> Iterator[Member]:
    """All files, links and devices of an open tar of `size` bytes.

    UserError: it breaks off, also where that is between two files.
    """
    place, name, last = 0, None, None
    actual_size: int | None = None
    while True:
        file.seek(place)
        header = file.read(BLOCK)
        if header == bytes(BLOCK):
            return
        try:
            entry = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.HeaderError:
            raise _broken(path, header, place, size, last) from None
        first_byte = place + BLOCK
        if entry.type in NOTES:
            actual_size = None
            note = _note(file, path, entry, size - first_byte)
            if entry.type == tarfile.GNUTYPE_LONGNAME:
                name = _text(note.rstrip(b"\0"))
            elif entry.type == tarfile.XHDTYPE:
                name, actual_size = _pax(note, name)
            place = first_byte + _padded(entry.size)
            continue
        num_bytes = entry.size if actual_size is None else actual_size
        num_bytes = 0 if entry.type in EMPTY else num_bytes
        last = entry.name if name is None else name
        if num_bytes < 0 or first_byte + num_bytes > size:
            raise UserError(
                f"cannot read {path}: it breaks off in the middle of {last}; "
                "fetch it again"
            )
        yield Member(last, entry.type, first_byte, num_bytes)
        place = first_byte + _padded(num_bytes)
        name = actual_size = None


def _broken(
    path: Path, header: bytes, place: int, size: int, last: str | None
) -> UserError:
    """The sentence about a block that should be a header."""
    if not size:
        return UserError(f"{path} is empty; fetch it again")
    if header.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f")):
        return UserError(
            f"{path} is compressed, so its pictures cannot be read in any "
            "order; unpack it to a plain .tar"
        )
    if not place:
        return UserError(f"{path} is not a tar file")
    if len(header) < BLOCK:
        return UserError(
            f"cannot read {path}: it breaks off after {last}; fetch it again"
        )
    return UserError(
        f"cannot read {path}: it is damaged at byte {place:,}, after {last}; "
        "fetch it again"
    )


def _note(
    file: BinaryIO, path: Path, entry: tarfile.TarInfo, left: int
) -> bytes:
    """What a tar says about its next member: a long name, say."""
    if not 0 <= entry.size <= min(left, MOST_NOTE_BYTES):
        raise UserError(
            f"cannot read {path}: one of its headers has {entry.size:,} bytes; "
            "fetch it again"
        )
    return file.read(entry.size)


def _pax(note: bytes, name: str | None) -> tuple[str | None, int | None]:
    """Name and size in lines such as "30 path=a.jpg"."""
    size = None
    place = 0
    while match := PAX.match(note, place):
        length = int(match[1])
        if length <= len(match[0]):
            break
        value = note[match.end() : place + length - 1]
        if match[2] == b"path":
            name = _text(value)
        elif match[2] == b"size" and value.isdigit() and len(value) < 20:
            size = int(value)
        place += length
    return name, size


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _padded(num_bytes: int) -> int:
    return -(-num_bytes // BLOCK) * BLOCK


def _sort_in(
    member: Member,
    found: dict[str, dict[str, Member]],
    skipped: list[str],
    path: Path,
) -> None:
    """Put a member to the others of its key, or a sentence into `skipped`."""
    match = KEY.fullmatch(member.name)
    if member.kind == tarfile.DIRTYPE or match is None:
        return  # a folder, or a name like ._cat.jpg and README
    where = f"{path.name}: {member.name}"
    if member.kind not in FILES:
        skipped.append(f"{where} is {KINDS.get(member.kind, 'not a file')}")
        return
    if member.name.startswith("/") or ".." in member.name.split("/"):
        skipped.append(f"{where} is a path that leads out of the tar")
        return
    parts = found.setdefault(match[1], {})
    suffix = match[2].lower()
    if suffix in parts:
        skipped.append(f"{where} is there twice; the first one is used")
        return
    parts[suffix] = member


def _sample(file: BinaryIO, parts: dict[str, Member]) -> Sample | str:
    """The picture and the label of one key, or what is missing."""
    pictures = [each for suffix, each in parts.items() if is_picture(suffix)]
    if not pictures:
        return "doesn't have a picture"
    if len(pictures) > 1:
        return "has more than one picture"
    if "cls" not in parts:
        return "doesn't have a label (.cls)"
    [picture], label = pictures, parts["cls"]
    text = b""
    if label.num_bytes <= 2 * MOST_DIGITS:
        file.seek(label.first_byte)
        text = file.read(label.num_bytes).strip()
    if not text.isdigit() or int(text) > LARGEST:
        return "has a label (.cls) that is not a whole number from 0 up"
    return Sample(picture.first_byte, picture.num_bytes, int(text))


def is_picture(suffix: str) -> bool:
    """Whether files that end so are pictures."""
    return f".{suffix}" in SUFFIXES
