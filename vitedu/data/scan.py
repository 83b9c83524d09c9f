"""Find unreadable pictures before anything uses them.

Each picture is decoded once, by the code that reads it later and on all
processors, since no header tells that a file is truncated. So a run depends
only on the readable pictures: number, order, split and digest stay the same if
the others are deleted. Which they are is cached, with a hash of the contents.

`split = leave_out_unreadable(split, files_key(paths))`
"""

import hashlib
import json
import math
import os
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

import PIL
from tqdm import tqdm

from vitedu.data.catalogue import cache_folder
from vitedu.data.dataset import Split
from vitedu.errors import UserError, printable
from vitedu.files import read_json, replace_file
from vitedu.pictures import (
    LARGE_PIXELS,
    UnreadablePicture,
    converted,
    open_picture,
)

WORTH_KEEPING = 100  # pictures
BLOCK = 64  # pictures that a thread takes at a time
MOST_THREADS = 16  # past that they wait for Python's lock
BAR_AFTER = 2.0  # seconds
# Two pools at once would put back each other's warning filters.
ONE_POOL = threading.Lock()
# When to stop checking, on time.monotonic's clock; the rest is taken on trust.
DEADLINE = ContextVar("DEADLINE", default=math.inf)


@contextmanager
def checking_for(seconds: float) -> Iterator[None]:
    """Check pictures no longer than that in the block, to look at a folder.

    For training all are: what is found here isn't cached.
    """
    token = DEADLINE.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        DEADLINE.reset(token)


def files_key(files: Iterable[Path], *more: object) -> str:
    digest = hashlib.sha256(f"{[PIL.__version__, *more]}\n".encode())
    for file in files:
        with suppress(OSError):
            status = os.stat(file)
            dates = f"{status.st_mtime_ns} {status.st_ctime_ns}"
            digest.update(f"{status.st_size} {dates} ".encode())
        digest.update(os.fsencode(f"{file.parent.name}/{file.name}\n"))
    return digest.hexdigest()[:16]


def leave_out_unreadable(
    split: Split, key: str, *, above: Path | None = None
) -> Split:
    """`split` without the pictures that can't be decoded; `skipped` says why.

    `key` stands for the files: what is found of WORTH_KEEPING pictures or more
    is cached under it. Sentences leave out the folder `above`.
    """
    kept = cache_folder() / "unreadable" / f"{key}.json"
    rows: Sequence[int] = range(len(split))
    contents = None
    if len(split) >= WORTH_KEEPING:
        with suppress(UserError, LookupError):
            known = read_json(kept)
            rows, contents = known["rows"], known["contents"]
    # what is known to be broken is read again: for the sentence, and since it
    # may have been mended
    bad, hashed = _undecodable(split, rows)
    if contents is None:
        contents = hashed
        is_whole = time.monotonic() < DEADLINE.get()
        if len(split) >= WORTH_KEEPING and is_whole:
            with suppress(OSError, UserError):  # then it is found out again
                kept.parent.mkdir(parents=True, exist_ok=True)
                found = {"rows": sorted(bad), "contents": contents}
                replace_file(kept, json.dumps(found))
    split.reader.contents = contents
    if not bad:
        return split
    prefix = "" if above is None else printable(f"{above}{os.sep}")
    skipped = tuple(bad[row].replace(prefix, "", 1) for row in sorted(bad))
    if len(bad) == len(split):
        raise UserError(
            f"none of the pictures in {above or split.name} can be read; the "
            f"first of {len(split):,}: {skipped[0]}"
        )
    left = split.take([row for row in range(len(split)) if row not in bad])
    return replace(left, skipped=skipped)


def threads() -> int:
    return min(os.cpu_count() or 1, MOST_THREADS)


@contextmanager
def decoding_threads(num_threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads for pillow, which doesn't warn there about what it can read."""
    from PIL import Image

    Image.init()  # all plug-ins, before threads would load them side by side
    with (
        ONE_POOL,
        warnings.catch_warnings(),
        ThreadPoolExecutor(num_threads) as pool,
    ):
        warnings.simplefilter("ignore")
        yield pool


def _undecodable(
    split: Split, rows: Sequence[int]
) -> tuple[dict[int, str], str]:
    """Why some of these rows can't be decoded; a hash of the other files."""
    from PIL import Image

    one_large, deadline = threading.Lock(), DEADLINE.get()

    def decode(block: Sequence[int]) -> tuple[dict[int, str], bytes]:
        bad, hashes = {}, b""
        for row in block:
            if time.monotonic() > deadline:
                break
            try:
                picture, _ = split.reader[row]
                if isinstance(picture, Image.Image):
                    continue  # the reader has decoded it
                with open_picture(picture) as image:
                    is_large = image.width * image.height >= LARGE_PIXELS
                    with one_large if is_large else nullcontext():
                        converted(image, 3)
            except UnreadablePicture as error:
                bad[row] = str(error)
                continue
            if isinstance(picture, Path):
                with open(picture, "rb") as file:
                    hashes += hashlib.file_digest(file, "sha256").digest()[:8]
        return bad, hashes

    blocks = [rows[i : i + BLOCK] for i in range(0, len(rows), BLOCK)]
    bad: dict[int, str] = {}
    contents = b""
    with (
        decoding_threads(threads()) as pool,
        tqdm(
            total=len(rows),
            desc="checking the pictures",
            unit="picture",
            delay=BAR_AFTER,
            disable=None,
            leave=False,
            dynamic_ncols=True,
        ) as bar,
    ):
        for block, (found, hashes) in zip(
            blocks, pool.map(decode, blocks), strict=True
        ):
            bad |= found
            contents += hashes
            bar.update(len(block))
    if not contents:
        return bad, ""
    return bad, hashlib.sha256(contents).hexdigest()[:16]
