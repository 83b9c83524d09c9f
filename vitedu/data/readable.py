"""Which pictures of a folder can be read, found out before anything uses them.

Each picture is decoded once, on all processors, by the code that reads it later: no
header tells of a file that breaks off in the middle. It takes less than an epoch of
reading, 2.5 ms a photograph and processor, and is what lets a run depend on the
readable pictures alone. Their number, order, split and digest are the same once the
others have been deleted, and no picture is missed in the middle of an epoch. Of a
folder with WORTH_KEEPING pictures or more the answer is kept in the cache, and asked
for again by names, sizes, dates and the version of pillow.

`bad = unreadable(paths, folder)`
"""

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path

import PIL

from vitedu.data.sources import cache_folder
from vitedu.decode import LARGE_PIXELS, UnreadablePicture, converted, opened
from vitedu.errors import UserError, printable
from vitedu.files import read_json, replace_file

WORTH_KEEPING = 100
BLOCK = 64  # pictures that a thread takes at a time
MOST_THREADS = 16  # past that they wait for Python's lock


def unreadable(paths: Sequence[Path], folder: Path) -> dict[Path, str]:
    """Those of `paths` that cannot be read, and a sentence that says why for each.

    The sentence names a file as it is below `folder`.
    UserError: there isn't enough memory to find out.
    """
    above = f"{folder.as_posix()}/"
    names = {path: path.as_posix().removeprefix(above) for path in paths}
    if len(paths) < WORTH_KEEPING:
        return _decode_all(names)
    kept = cache_folder() / "unreadable" / f"{_digest(names)}.json"
    with suppress(UserError):
        known = read_json(kept)
        return {p: str(known[n]) for p, n in names.items() if n in known}
    bad = _decode_all(names)
    with suppress(OSError, UserError):  # then it is found out again next time
        kept.parent.mkdir(parents=True, exist_ok=True)
        by_name = {names[path]: sentence for path, sentence in bad.items()}
        replace_file(kept, json.dumps(by_name))
    return bad


def _digest(names: dict[Path, str]) -> str:
    """16 hex digits that change with a file's name, size or date."""
    digest = hashlib.sha256(f"pillow {PIL.__version__}\n".encode())
    for path, name in names.items():
        with suppress(OSError):
            status = path.stat()
            digest.update(f"{status.st_size} {status.st_mtime_ns} ".encode())
        digest.update(os.fsencode(name) + b"\n")
    return digest.hexdigest()[:16]


def _decode_all(names: dict[Path, str]) -> dict[Path, str]:
    paths = list(names)
    blocks = [paths[i : i + BLOCK] for i in range(0, len(paths), BLOCK)]
    one_large = threading.Lock()
    bad: dict[Path, str] = {}
    with (
        warnings.catch_warnings(),
        ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_THREADS)) as threads,
    ):
        # of pillow, about what it could read all the same
        warnings.simplefilter("ignore")
        for found in threads.map(lambda x: _decode(x, one_large), blocks):
            bad |= found
    return {
        path: sentence.replace(printable(str(path)), printable(names[path]))
        for path, sentence in bad.items()
    }


def _decode(
    paths: Sequence[Path], one_large: threading.Lock
) -> dict[Path, str]:
    """What is wrong with those that cannot be read; one large picture at a time."""
    bad = {}
    for path in paths:
        try:
            with opened(path) as image:
                is_large = image.width * image.height >= LARGE_PIXELS
                with one_large if is_large else nullcontext():
                    converted(image, 3)
        except UnreadablePicture as error:
            bad[path] = str(error)
    return bad
