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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import PIL

from vitedu import pictures
from vitedu.data.sources import cache_folder
from vitedu.errors import UserError, printable
from vitedu.files import read_json, replace_file
from vitedu.pictures import LARGE_PIXELS, UnreadablePicture, converted, opened

if TYPE_CHECKING:
    from PIL.Image import Image

WORTH_KEEPING = 100
BLOCK = 64  # pictures that a thread takes at a time
MOST_THREADS = 16  # past that they wait for Python's lock
# Two pools at once would put back each other's warning filters.
ONE_POOL = threading.Lock()


def unreadable(paths: Sequence[Path], folder: Path) -> dict[Path, str]:
    """Those of `paths` that cannot be read, each with a sentence that says why.

    The sentence names a file as it is below `folder`.
    UserError: the system cannot read a file, or there isn't enough memory to
    find out.
    """
    above = f"{folder.as_posix()}/"
    return {
        path: _renamed(
            sentence, _in_class(path), path.as_posix().removeprefix(above)
        )
        for path, sentence in _known(paths).items()
    }


def _known(paths: Sequence[Path]) -> dict[Path, str]:
    """From the cache if there; a sentence names a file in its class folder."""
    rows = {path: row for row, path in enumerate(paths)}

    def find() -> dict[int, str]:
        return {rows[path]: why for path, why in _decode_all(paths).items()}

    digest = "" if len(paths) < WORTH_KEEPING else _digest(paths)
    found = remembered(digest, len(paths), find)
    return {path: found[row] for path, row in rows.items() if row in found}


def remembered(
    digest: str, num_pictures: int, find: Callable[[], dict[int, str]]
) -> dict[int, str]:
    """What `find` finds out about pictures, kept in the cache by `digest`.

    Not of fewer than WORTH_KEEPING.
    """
    if num_pictures < WORTH_KEEPING:
        return find()
    try:
        kept = cache_folder() / "unreadable" / f"{digest}.json"
    except UserError:  # nobody knows where it would be
        return find()
    with suppress(UserError, ValueError):
        known = read_json(kept)
        return {int(row): str(known[row]) for row in known}
    bad = find()
    with suppress(OSError, UserError):  # then it is found out again next time
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_file(kept, json.dumps(bad))
    return bad


def _in_class(path: Path) -> str:
    """A name that is the same whichever folder above it was opened."""
    return f"{path.parent.name}/{path.name}"


def _renamed(sentence: str, old: str, new: str) -> str:
    return sentence.replace(printable(old), printable(new), 1)


def _digest(paths: Sequence[Path]) -> str:
    """16 hex digits that change with the files and with pillow's decoding."""
    from PIL import Image, ImageFile

    reader = [
        PIL.__version__,
        Image.MAX_IMAGE_PIXELS,
        ImageFile.LOAD_TRUNCATED_IMAGES,
        *sorted(Image.registered_extensions().items()),
    ]
    with suppress(OSError):  # a frozen program comes without its text
        reader.append(inspect.getsource(pictures))
    digest = hashlib.sha256(f"{reader}\n".encode())
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            dates = f"{status.st_mtime_ns} {status.st_ctime_ns}"
            digest.update(f"{status.st_size} {dates} ".encode())
        digest.update(os.fsencode(_in_class(path)) + b"\n")
    return digest.hexdigest()[:16]


def _decode_all(paths: Sequence[Path]) -> dict[Path, str]:
    return {
        paths[row]: _renamed(sentence, str(paths[row]), _in_class(paths[row]))
        for row, sentence in undecodable(paths.__getitem__, len(paths)).items()
    }


def undecodable(
    picture: Callable[[int], "Path | bytes | BinaryIO | Image"],
    num_pictures: int,
) -> dict[int, str]:
    """Rows of the pictures that cannot be decoded, and why in a sentence.

    `picture` is called for every row, by several threads; what it returns as an
    Image of pillow was decoded there.
    UserError: as `unreadable`.
    """
    from PIL import Image

    Image.init()  # all plug-ins, before threads would load them side by side
    rows = range(num_pictures)
    blocks = [rows[i : i + BLOCK] for i in range(0, num_pictures, BLOCK)]
    one_large = threading.Lock()
    bad: dict[int, str] = {}
    with (
        ONE_POOL,
        warnings.catch_warnings(),
        ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_THREADS)) as threads,
    ):
        # of pillow, about what it could read all the same
        warnings.simplefilter("ignore")
        for found in threads.map(
            lambda block: _decode(picture, block, one_large), blocks
        ):
            bad |= found
    return bad


def _decode(
    picture: Callable[[int], "Path | bytes | BinaryIO | Image"],
    rows: Sequence[int],
    one_large: threading.Lock,
) -> dict[int, str]:
    """What is wrong with those that fail; one large picture at a time."""
    from PIL import Image

    bad = {}
    for row in rows:
        try:
            content = picture(row)
            if isinstance(content, Image.Image):
                continue
            with opened(content) as image:
                is_large = image.width * image.height >= LARGE_PIXELS
                with one_large if is_large else nullcontext():
                    converted(image, 3)
        except UnreadablePicture as error:
            bad[row] = str(error)
    return bad
