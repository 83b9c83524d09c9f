"""Pictures in WebDataset's shards: tars with random access.

`pictures = open_part(Path("imagenet/val-{000000..000049}.tar"))`

The tars' headers are read once, for the tar, first byte and length of each
picture; then an epoch can have any order.
"""

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitedu.data import scan
from vitedu.data.catalogue import cache_folder
from vitedu.data.dataset import Reader, Split
from vitedu.data.labels import check_labels, names_from_labels
from vitedu.data.prepared_index import (
    Index,
    Shard,
    finished_index,
    read_index,
)
from vitedu.data.readers.array_files import DAMAGE
from vitedu.data.readers.folder import SUFFIXES
from vitedu.errors import UserError, counted, explained, reason
from vitedu.files import check_regular, replace_file

PREFIX = ""
BLOCK = tarfile.BLOCKSIZE
# WebDataset's rule: the key ends at the first dot of the file's own name
KEY = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]*)")
BRACES = re.compile(r"\{([^{}]*)\}")
AGAIN = "delete it and run `vitedu prepare` again, which writes it anew"


class NamedBytes(BytesIO):
    name = ""


class ShardReader(Reader):
    """Pictures in tars; `places` (n, 3): which tar, first byte, length."""

    def __init__(self, paths: Sequence[Path], places: Tensor) -> None:
        self.paths = tuple(paths)
        self.places = places
        self.shard_of = places[:, 0]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, row: int) -> tuple[BinaryIO, None]:
        shard, first_byte, num_bytes = self.places[row].tolist()
        return self._read(shard, first_byte, num_bytes), None

    def name_of(self, row: int) -> str:
        shard, first_byte, _ = self.places[row].tolist()
        return self._read(shard, first_byte, 0).name

    def stamps(
        self, rows: Tensor, labels: Tensor | None, folder: Path | None
    ) -> Iterator[bytes]:
        for path in self.paths:
            size = check_regular(path).st_size
            yield os.fsencode(f"{path.name} {size}\n")
        if labels is not None:
            places = (self.places[rows], labels[:, None])
            table = torch.cat(places, 1).numpy().astype("<i8")
            yield hashlib.sha256(table.tobytes()).digest()

    def _read(self, shard: int, first_byte: int, num_bytes: int) -> NamedBytes:
        path = self.paths[shard]
        with explained(f"cannot read {path}"), open(path, "rb") as file:
            # the header before it has its name
            file.seek(first_byte - BLOCK)
            content = file.read(BLOCK + num_bytes)
        if len(content) < BLOCK + num_bytes:
            raise UserError(
                f"{path} has become shorter since it was opened; fetch it again"
            )
        picture = NamedBytes(content[BLOCK:])
        name = content[:100].split(b"\0")[0].decode("utf-8", "surrogateescape")
        picture.name = f"{path}: {name}"
        return picture


def accepts(place: Path) -> bool:
    if place.name.endswith(".tar"):
        return not os.path.isdir(place)
    index = finished_index(place)
    return index is not None and index.settings.format == "shards"


def parts(place: Path) -> dict[str, Path]:
    found = _parts(place) if os.path.isdir(place) else {}
    return found if len(found) > 1 else {}


def class_names(place: Path) -> tuple[str, ...]:
    if os.path.isdir(place):
        return read_index(place).classes
    paths, index = _paths(place)
    if index is not None:
        return index.classes
    return _numbered(place, _listed(paths))


def open_part(place: Path, folder: Path | None = None) -> Split:
    """The usable pictures of shards, in the order of the tars.

    `place` is a tar, several in brace notation, or a prepared folder with one
    part. Prepared shards are compared with the checksums of their index, which
    also names the classes. In others each picture is decoded once, to leave out
    broken ones, and classes are numbered.
    UserError: a shard is missing, truncated or changed; there is no picture; a
    label has no class.
    """
    if os.path.isdir(place):
        place = _parts(place)["train"]
    paths, index = _paths(place)
    written = None if index is None else [index.shards[x.name] for x in paths]
    listing = _kept_listing(paths, written)
    names = _numbered(place, listing) if index is None else index.classes
    labels = listing.table[:, 3]
    check_labels(str(place), labels, len(names))
    reader = ShardReader(paths, listing.table[:, :3].contiguous())
    split = Split(place.resolve().name, reader, labels, names)
    if index is None:  # else `vitedu prepare` has decoded them
        above = paths[0].parent
        split = scan.leave_out_unreadable(
            split, scan.files_key(paths), above=above
        )
    return replace(split, skipped=(*listing.skipped, *split.skipped))


def _parts(folder: Path) -> dict[str, Path]:
    found = {}
    for name, part in read_index(folder).parts.items():
        first, last = part.shards[0].name, part.shards[-1].name
        if len(part.shards) > 1:
            start, end = (x.removesuffix(".tar")[-6:] for x in (first, last))
            first = f"{name}-{{{start}..{end}}}.tar"
        found[name] = folder / first
    return found


def _paths(place: Path) -> tuple[list[Path], Index | None]:
    paths = expanded(place)
    missing = [path for path in paths if not os.path.lexists(path)]
    if missing:
        raise UserError(
            f"there is no {missing[0]} ({len(missing):,} of "
            f"{counted(len(paths), 'shard')} missing); fetch it, or name only "
            "those that are here"
        )
    index = finished_index(place.parent)
    known = {} if index is None else index.shards
    return paths, index if all(path.name in known for path in paths) else None


def expanded(place: Path) -> list[Path]:
    """The paths that braces mean: {000..127} or {a,b}. UserError: others."""
    text = str(place)
    if os.path.lexists(place) or not set("{}") & set(text):
        return [place]
    try:
        before, inside, after = BRACES.split(text, maxsplit=1)
        first, dots, last = inside.partition("..")
        options = inside.split(",")
        if dots:
            numbers = range(int(first), int(last) + 1)
            options = [f"{number:0{len(first)}}" for number in numbers]
            if not options:
                raise ValueError
    except ValueError:
        raise UserError(
            f"{text} has braces of another form; write them as "
            "train-{000000..000127}.tar"
        ) from None
    names = [Path(f"{before}{option}{after}") for option in options]
    return [path for name in names for path in expanded(name)]


class Listing(NamedTuple):
    table: Tensor  # (n, 4) int64: which tar, first byte, length, label
    skipped: tuple[str, ...]  # a sentence for each that cannot be used


def _numbered(place: Path, listing: Listing) -> tuple[str, ...]:
    if len(listing.table):
        return names_from_labels(str(place), listing.table[:, 3])
    first = f" (the first: {listing.skipped[0]})" if listing.skipped else ""
    raise UserError(
        f"there are no samples in {place}{first}; a sample is a picture "
        "KEY.jpg and its label KEY.cls"
    )


def _kept_listing(
    paths: Sequence[Path], written: Sequence[Shard] | None
) -> Listing:
    key = scan.files_key(paths, *(shard.sha256 for shard in written or ()))
    kept = cache_folder() / "shards" / f"{key}.npz"
    with (
        suppress(KeyError, ValueError, *DAMAGE),
        open(kept, "rb") as opened,
        np.load(opened) as file,
    ):
        return Listing(
            torch.from_numpy(file["table"]),
            tuple(json.loads(file["skipped"].tobytes())),
        )
    listing = _listed(paths)
    if written is not None:
        _check_sums(paths, written)
    if len(listing.table) >= scan.WORTH_KEEPING:
        content = BytesIO()
        skipped = np.frombuffer(json.dumps(listing.skipped).encode(), np.uint8)
        np.savez(content, table=listing.table.numpy(), skipped=skipped)
        with suppress(OSError, UserError):  # then it is found out again
            kept.parent.mkdir(parents=True, exist_ok=True)
            replace_file(kept, content.getvalue())
    return listing


def _check_sums(paths: Sequence[Path], written: Sequence[Shard]) -> None:
    with ThreadPoolExecutor(scan.threads()) as pool:
        sums = pool.map(sha256_of, paths)
        for path, shard, digest in zip(paths, written, sums, strict=True):
            if digest != shard.sha256:
                raise UserError(
                    f"{path} has the sha256 {digest[:16]}..., but index.json "
                    f"says {shard.sha256[:16]}...; {AGAIN}"
                )


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _listed(paths: Sequence[Path]) -> Listing:
    def rows_of(shard: int) -> tuple[Tensor, list[str]]:
        samples, skipped = samples_in(paths[shard])
        # as tensors, which take a tenth of the memory
        rows = torch.tensor(samples, dtype=torch.int64).reshape(-1, 3)
        number = torch.full((len(rows), 1), shard)
        return torch.cat((number, rows), 1), skipped

    with ThreadPoolExecutor(scan.threads()) as pool:
        found = list(pool.map(rows_of, range(len(paths))))
    return Listing(
        torch.cat([rows for rows, _ in found]),
        tuple(each for _, skipped in found for each in skipped),
    )


def samples_in(path: Path) -> tuple[list[tuple[int, int, int]], list[str]]:
    """Per sample first byte, length and label; a sentence per unusable one."""
    check_regular(path)
    samples: list[tuple[int, int, int]] = []
    skipped: list[str] = []
    found: dict[str, dict[str, tarfile.TarInfo]] = {}  # by key and suffix
    last, why = None, "it breaks off or is damaged"
    is_whole = False
    with open(path, "rb") as file:
        try:
            with tarfile.open(fileobj=file, mode="r:") as archive:
                for last in archive:
                    match = KEY.fullmatch(last.name)
                    # not a folder, nor a name like ._cat.jpg and README
                    if match is None or not last.isfile() or last.issparse():
                        continue
                    members = found.setdefault(match[1], {})
                    if members.setdefault(match[2].lower(), last) is not last:
                        skipped.append(
                            f"{path.name}: {last.name} is there twice; the "
                            "first one is used"
                        )
                # tarfile takes whatever is no header for the end
                file.seek(archive.offset)
                is_whole = file.read(2 * BLOCK) == bytes(2 * BLOCK)
        except tarfile.TarError as error:
            why = reason(error)
        if not is_whole and last is None:
            raise UserError(
                f"{path} is not a tar file; if it is compressed, unpack it to "
                "a plain .tar, so that its pictures can be read in any order"
            )
        if not is_whole:
            raise UserError(
                f"cannot read {path}: {why}, after {last.name}; fetch it again"
            )
        for key, members in found.items():
            try:
                samples.append(_sample(file, members))
            except ValueError as error:
                skipped.append(f"{path.name}: {key} {error}")
    return sorted(samples), skipped


def _sample(
    file: BinaryIO, members: dict[str, tarfile.TarInfo]
) -> tuple[int, int, int]:
    """The picture and the label of one key. ValueError: what is missing."""
    pictures = [x for suffix, x in members.items() if f".{suffix}" in SUFFIXES]
    if len(pictures) != 1:
        what = "has more than one" if pictures else "doesn't have a"
        raise ValueError(f"{what} picture")
    if "cls" not in members:
        raise ValueError("doesn't have a label (.cls)")
    file.seek(members["cls"].offset_data)
    label = file.read(members["cls"].size).strip()
    if not label.isdigit():
        raise ValueError(
            "has a label (.cls) that is not a whole number from 0 up"
        )
    return pictures[0].offset_data, pictures[0].size, int(label)
