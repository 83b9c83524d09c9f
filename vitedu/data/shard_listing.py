"""Where the pictures of shards are, found out once and kept in the cache.

`found = places_in([Path("train-000000.tar")])`
`found.places[0]` is (0, 1536, 48211): the first tar, from byte 1536 on.

Shards that `vitedu prepare` wrote are held against the checksums of their
index. Of all others each picture is decoded once, as `vitedu.data.readable`
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
from typing import NamedTuple

import numpy as np
import PIL
import torch
from torch import Tensor

from vitedu.data.labels import LARGEST
from vitedu.data.prepared_index import Shard
from vitedu.data.readable import MOST_THREADS, WORTH_KEEPING, undecodable
from vitedu.data.sources import cache_folder
from vitedu.data.tars import BLOCK, listed
from vitedu.errors import UserError, printable, reason
from vitedu.files import check_regular, replace_file
from vitedu.limits import check_memory

CHUNK_BYTES = 1 << 20
# From here on a picture's file is held against the free memory.
LARGE_BYTES = 1 << 24
SAMPLE_BYTES = 4 * 8  # in memory, of one sample
# No sample takes less: two headers, and a block each.
LEAST_BYTES = 4 * BLOCK


class Places(NamedTuple):
    """The samples of some shards."""

    places: Tensor  # (n, 3) int64: which tar, first byte, number of bytes
    labels: Tensor  # (n,) int64
    skipped: tuple[str, ...]  # a sentence for each that cannot be used


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
        with suppress(OSError, ValueError, KeyError, EOFError):
            with np.load(kept, allow_pickle=False) as file:
                places, labels = file["places"], file["labels"]
                skipped = json.loads(file["skipped"].tobytes())
            return Places(
                torch.from_numpy(places),
                torch.from_numpy(labels),
                tuple(map(str, skipped)),
            )
    found = headers_of(paths)
    if written is not None:
        _check_sums(paths, written)
    else:
        found = _without_broken(paths, found)
    if kept is not None and len(found.labels) >= WORTH_KEEPING:
        content = BytesIO()
        np.savez(
            content,
            places=found.places.numpy(),
            labels=found.labels.numpy(),
            skipped=np.frombuffer(json.dumps(found.skipped).encode(), np.uint8),
        )
        with suppress(OSError, UserError):  # then it is found out again
            kept.parent.mkdir(parents=True, exist_ok=True)
            replace_file(kept, content.getvalue())
    return found


def headers_of(paths: Sequence[Path]) -> Places:
    """What the headers and labels of the tars say; no picture is read."""
    num_bytes = sum(check_regular(path).st_size for path in paths)
    check_memory(
        SAMPLE_BYTES * (num_bytes // LEAST_BYTES), "the list of the pictures"
    )
    with ThreadPoolExecutor(threads()) as pool:
        listings = list(pool.map(listed, paths))
    rows = [
        (shard, sample.first_byte, sample.num_bytes, sample.label)
        for shard, listing in enumerate(listings)
        for sample in listing.samples
    ]
    table = torch.tensor(rows, dtype=torch.int64).reshape(-1, 4)
    skipped = tuple(each for listing in listings for each in listing.skipped)
    return Places(table[:, :3].contiguous(), table[:, 3].contiguous(), skipped)


def read_place(path: Path, first_byte: int, num_bytes: int) -> NamedBytes:
    """A picture as a file in memory, called "a.tar: cat.jpg".

    UserError: the tar has become shorter, or cannot be read.
    """
    if num_bytes >= LARGE_BYTES:
        check_memory(num_bytes, f"a picture in {path}")
    try:
        with open(path, "rb", buffering=0) as file:
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


def threads() -> int:
    """How many threads read side by side."""
    return min(os.cpu_count() or 1, MOST_THREADS)


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
    return Places(
        found.places[good],
        found.labels[good],
        (*found.skipped, *(names[row] for row in sorted(names))),
    )


def _cache_file(
    paths: Sequence[Path], written: Sequence[Shard] | None
) -> Path | None:
    """Where what is found out is kept; None: nobody knows where."""
    digest = hashlib.sha256(f"1 {PIL.__version__} {LARGEST}\n".encode())
    for path in paths:
        status = check_regular(path)
        dates = f"{status.st_mtime_ns} {status.st_ctime_ns}"
        digest.update(os.fsencode(f"{path.name} {status.st_size} {dates}\n"))
    for shard in written or ():
        digest.update(f"{shard.sha256}\n".encode())
    try:
        folder = cache_folder() / "shards"
    except UserError:
        return None
    return folder / f"{digest.hexdigest()[:16]}.npz"
