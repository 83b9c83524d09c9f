"""Which pictures of a folder can be read, found out before anything uses them.

Each picture is decoded once, on all processors, by the code that reads it
later: no header tells of a file that breaks off in the middle. It takes less
than an epoch of reading, a few milliseconds a photograph, and is what lets a
run depend on the readable pictures alone. Their number, order, split and digest
are the same once the others have been deleted, and no picture is missed in the
middle of an epoch. Of a folder with WORTH_KEEPING pictures or more the answer
is kept in the cache, and asked for again by names, sizes, dates and what pillow
can read. A file that the system cannot read this time is no broken picture:
nothing is left out then, nor kept.

`bad = unreadable(paths, folder)`
"""

import hashlib
import inspect
import json
import os
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path

import PIL

from vitedu import decode
from vitedu.data.sources import cache_folder
from vitedu.decode import LARGE_PIXELS, UnreadablePicture, converted, opened
from vitedu.errors import UserError, printable
from vitedu.files import read_json, replace_file

WORTH_KEEPING = 100
BLOCK = 64  # pictures that a thread takes at a time
MOST_THREADS = 16  # past that they wait for Python's lock
# Two pools at once would put back each other's warning filters.
ONE_POOL = threading.Lock()


def unreadable(paths: Sequence[Path], folder: Path) -> dict[Path, str]:
    """Those of `paths` that cannot be read, and a sentence that says why for each.

    The sentence names a file as it is below `folder`.
    UserError: the system cannot read a file, or there isn't enough memory to
    find out.
    """
    from PIL import Image

    Image.init()  # all plug-ins, before threads would load them side by side
    above = f"{folder.as_posix()}/"
    return {
        path: _renamed(
            sentence, _in_class(path), path.as_posix().removeprefix(above)
        )
        for path, sentence in _known(paths).items()
    }


def _known(paths: Sequence[Path]) -> dict[Path, str]:
    """From the cache if it is there; a sentence names a file in its class folder."""
    if len(paths) < WORTH_KEEPING:
        return _decode_all(paths)
    try:
        kept = cache_folder() / "unreadable" / f"{_digest(paths)}.json"
    except UserError:  # nobody knows where it would be
        return _decode_all(paths)
    with suppress(UserError):
        known = read_json(kept)
        rows = {str(row): path for row, path in enumerate(paths)}
        return {rows[row]: str(known[row]) for row in rows if row in known}
    bad = _decode_all(paths)
    with suppress(OSError, UserError):  # then it is found out again next time
        kept.parent.mkdir(parents=True, exist_ok=True)
        by_row = {
            row: bad[path] for row, path in enumerate(paths) if path in bad
        }
        replace_file(kept, json.dumps(by_row))
    return bad


def _in_class(path: Path) -> str:
    """A name that is the same whichever folder above it was opened."""
    return f"{path.parent.name}/{path.name}"


def _renamed(sentence: str, old: str, new: str) -> str:
    return sentence.replace(printable(old), printable(new), 1)


def _digest(paths: Sequence[Path]) -> str:
    """16 hex digits that change with the files, and with what pillow makes of them."""
    from PIL import Image, ImageFile

    reader = [
        PIL.__version__,
        Image.MAX_IMAGE_PIXELS,
        ImageFile.LOAD_TRUNCATED_IMAGES,
        *sorted(Image.registered_extensions().items()),
    ]
    with suppress(OSError):  # a frozen program comes without its text
        reader.append(inspect.getsource(decode))
    digest = hashlib.sha256(f"{reader}\n".encode())
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            dates = f"{status.st_mtime_ns} {status.st_ctime_ns}"
            digest.update(f"{status.st_size} {dates} ".encode())
        digest.update(os.fsencode(_in_class(path)) + b"\n")
    return digest.hexdigest()[:16]


def _decode_all(paths: Sequence[Path]) -> dict[Path, str]:
    blocks = [paths[i : i + BLOCK] for i in range(0, len(paths), BLOCK)]
    one_large = threading.Lock()
    bad: dict[Path, str] = {}
    with (
        ONE_POOL,
        warnings.catch_warnings(),
        ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_THREADS)) as threads,
    ):
        # of pillow, about what it could read all the same
        warnings.simplefilter("ignore")
        for found in threads.map(lambda x: _decode(x, one_large), blocks):
            bad |= found
    return {
        path: _renamed(sentence, str(path), _in_class(path))
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
