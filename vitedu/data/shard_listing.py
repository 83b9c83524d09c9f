"""Where the pictures of shards are, found out once and kept in the cache.

`found = places_in([Path("train-000000.tar")])`
`found.places[0]` is (0, 1536, 48211): the first tar, from byte 1536 on.

Shards that `vitedu prepare` wrote are held against the checksums of their
index. Of all others each picture is decoded once, as `vitedu.data.scan`
does it for a folder, so that a broken one is left out from the beginning.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitedu.data.formats import DAMAGE
from vitedu.data.labels import names_from_labels
from vitedu.data.prepared_index import Shard
from vitedu.data.scan import WORTH_KEEPING, files_key, threads, undecodable
from vitedu.data.sources import cache_folder
from vitedu.data.tars import BLOCK, listed
from vitedu.errors import UserError, check_memory, printable, reason
from vitedu.files import check_regular, replace_file

CHUNK_BYTES = 1 << 20
# From here on a picture's file is held against the free memory.
LARGE_BYTES = 1 << 24


class Places(NamedTuple):
    """The samples of some shards."""

    places: Tensor  # (n, 3) int64: which tar, first byte, number of bytes
    labels: Tensor  # (n,) int64
    skipped: tuple[str, ...]  # a sentence for each that cannot be used
    highest: int  # label, also of pictures that cannot be decoded; or -1

    def class_names(self, place: Path) -> tuple[str, ...]:
        """The numbers up to the highest label. UserError: far too many."""
        labels = torch.full((len(self.labels),), self.highest)
        return names_from_labels(str(place), labels)


class NamedBytes(BytesIO):
    """A file in memory with a name for messages."""

    name = ""


def places_in(
    paths: Sequence[Path], written: Sequence[Shard] | None = None
) -> Places:
    """The samples of these tars that can be used, in the order of the tars.

    `written`: what `vitedu prepare` says of each.
    UserError: a tar is missing or breaks off, or isn't as it was written.
    """
    _check_files(paths, written)
    kept = _cache_file(paths, written)
    if kept is not None:
        with (
            suppress(KeyError, *DAMAGE),
            open(kept, "rb") as opened,
            np.load(opened) as file,
        ):
            return Places(
                torch.from_numpy(file["places"]),
                torch.from_numpy(file["labels"]),
                tuple(json.loads(file["skipped"].tobytes())),
                int(file["highest"]),
            )
    found = headers_of(paths)
    if written is not None:
        _check_sums(paths, written)
    else:
        found = _without_broken(paths, found)
    if kept is not None and len(found.labels) >= WORTH_KEEPING:
        skipped = json.dumps(found.skipped).encode()

        def write(file: BinaryIO) -> None:
            np.savez(
                file,
                places=found.places.numpy(),
                labels=found.labels.numpy(),
                skipped=np.frombuffer(skipped, np.uint8),
                highest=found.highest,
            )

        with suppress(OSError, UserError):  # then it is found out again
            kept.parent.mkdir(parents=True, exist_ok=True)
            replace_file(kept, write)
    return found


def headers_of(paths: Sequence[Path]) -> Places:
    """What the headers and labels of the tars say; no picture is read."""

    def rows_of(shard: int) -> tuple[Tensor, list[str]]:
        samples, skipped = listed(paths[shard])
        # as tensors, which take a tenth of the memory
        rows = torch.tensor(samples, dtype=torch.int64).reshape(-1, 3)
        number = torch.full((len(rows), 1), shard)
        return torch.cat((number, rows), 1), skipped

    with ThreadPoolExecutor(threads()) as pool:
        found = list(pool.map(rows_of, range(len(paths))))
    table = torch.cat([rows for rows, _ in found])
    return Places(
        table[:, :3].contiguous(),
        table[:, 3].contiguous(),
        tuple(each for _, skipped in found for each in skipped),
        int(table[:, 3].max()) if len(table) else -1,
    )


def read_place(path: Path, first_byte: int, num_bytes: int) -> NamedBytes:
    """A picture as a file in memory, called "a.tar: cat.jpg".

    UserError: the tar has become shorter, or cannot be read.
    """
    if num_bytes >= LARGE_BYTES:
        check_memory(num_bytes, f"a picture in {path}")
    try:
        with open(path, "rb") as file:
            # the header before it has its name
            file.seek(first_byte - BLOCK)
            content = file.read(BLOCK + num_bytes)
    except OSError as error:
        raise UserError(f"cannot read {path}: {reason(error)}") from None
    if len(content) < BLOCK + num_bytes:
        raise UserError(
            f"{path} has become shorter since it was opened; fetch it again"
        )
    picture = NamedBytes(content[BLOCK:])
    name = content[:100].split(b"\0")[0].decode("utf-8", "surrogateescape")
    picture.name = f"{path}: {name}"
    return picture


def _check_files(
    paths: Sequence[Path], written: Sequence[Shard] | None
) -> None:
    """UserError: one of them is missing, or hasn't the size that it should."""
    missing = [path for path in paths if not os.path.lexists(path)]
    if missing:
        raise UserError(
            f"there is no {missing[0]} ({len(missing):,} of {len(paths):,} "
            "shards are missing); fetch it, or name only those that are here"
        )
    for path, shard in zip(paths, written or (), strict=bool(written)):
        if (size := check_regular(path).st_size) != shard.bytes:
            raise UserError(
                f"{path} has {size:,} bytes, but index.json says "
                f"{shard.bytes:,}; {AGAIN}"
            )


AGAIN = "delete it and run `vitedu prepare` again, which writes it anew"


def _check_sums(paths: Sequence[Path], written: Sequence[Shard]) -> None:
    """UserError: a shard isn't what `vitedu prepare` wrote."""
    with ThreadPoolExecutor(threads()) as pool:
        sums = pool.map(sha256_of, paths)
        for path, shard, digest in zip(paths, written, sums, strict=True):
            if digest != shard.sha256:
                raise UserError(
                    f"{path} has the sha256 {digest[:16]}..., but index.json "
                    f"says {shard.sha256[:16]}...; {AGAIN}"
                )


def sha256_of(path: Path) -> str:
    """The checksum of a file. UserError: it cannot be read."""
    check_regular(path)
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise UserError(f"cannot read {path}: {reason(error)}") from None
    return digest.hexdigest()


def _without_broken(paths: Sequence[Path], found: Places) -> Places:
    """The same without pictures that cannot be decoded."""
    rows = found.places.tolist()

    def picture(row: int) -> NamedBytes:
        shard, first_byte, num_bytes = rows[row]
        return read_place(paths[shard], first_byte, num_bytes)

    bad = undecodable(picture, len(rows))
    names = {
        row: sentence.replace(printable(f"{paths[rows[row][0]].parent}/"), "")
        for row, sentence in bad.items()
    }
    good = [row for row in range(len(rows)) if row not in bad]
    return found._replace(
        places=found.places[good],
        labels=found.labels[good],
        skipped=(*found.skipped, *(names[row] for row in sorted(names))),
    )


def _cache_file(
    paths: Sequence[Path], written: Sequence[Shard] | None
) -> Path | None:
    """Where what is found out is kept; None: nobody knows where."""
    key = files_key(paths, *(shard.sha256 for shard in written or ()))
    try:
        folder = cache_folder() / "shards"
    except UserError:
        return None
    return folder / f"{key}.npz"
