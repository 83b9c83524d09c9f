"""Find unreadable pictures before anything uses them.

Each picture is decoded once, by the code that reads it later and on all
processors, since no header tells that a file is truncated. So a run depends
only on the readable pictures: number, order, split and digest stay the same if
the others are deleted. Results are cached.

`bad = scan(paths.__getitem__, len(paths), files_key(paths))`
"""

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import PIL
from tqdm import tqdm

from vitedu.data.catalogue import cache_folder
from vitedu.data.dataset import Split
from vitedu.errors import UserError
from vitedu.files import read_json, replace_file
from vitedu.pictures import LARGE_PIXELS, UnreadablePicture, converted, opened

WORTH_KEEPING = 100  # pictures
BLOCK = 64  # pictures that a thread takes at a time
MOST_THREADS = 16  # past that they wait for Python's lock
BAR_AFTER = 2.0  # seconds
# Two pools at once would put back each other's warning filters.
ONE_POOL = threading.Lock()


def files_key(files: Iterable[Path], *more: object) -> str:
    """Hash of names, sizes and dates of files, and of pillow: 16 hex digits."""
    from PIL import Image, ImageFile

    Image.init()
    reader = [
        PIL.__version__,
        Image.MAX_IMAGE_PIXELS,
        ImageFile.LOAD_TRUNCATED_IMAGES,
        *sorted(Image.registered_extensions().items()),
        *more,
    ]
    digest = hashlib.sha256(f"{reader}\n".encode())
    for file in files:
        with suppress(OSError):
            status = os.stat(file)
            dates = f"{status.st_mtime_ns} {status.st_ctime_ns}"
            digest.update(f"{status.st_size} {dates} ".encode())
        digest.update(os.fsencode(f"{file.parent.name}/{file.name}\n"))
    return digest.hexdigest()[:16]


def scan(
    picture: Callable[[int], Any],
    num_pictures: int,
    key: str,
    rename: Callable[[int, str], str] = lambda _, sentence: sentence,
) -> dict[int, str]:
    """Rows of the pictures that can't be decoded, with the reason.

    From WORTH_KEEPING pictures on, the result is cached under `key`, with each
    sentence changed by `rename`. UserError: a file cannot be read at the
    moment; then nothing is left out and nothing cached.
    """

    def find() -> dict[int, str]:
        bad = undecodable(picture, num_pictures)
        return {row: rename(row, bad[row]) for row in sorted(bad)}

    if num_pictures < WORTH_KEEPING:
        return find()
    try:
        kept = cache_folder() / "unreadable" / f"{key}.json"
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


def undecodable(
    picture: Callable[[int], Any], num_pictures: int
) -> dict[int, str]:
    """Rows of the pictures that can't be decoded, with the reason.

    `picture` is called for every row, from several threads; a pillow image that
    it returns is decoded there. A terminal shows a bar.
    UserError: the system cannot read a file, or memory runs out.
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
        ThreadPoolExecutor(threads()) as pool,
        tqdm(
            total=num_pictures,
            desc="checking the pictures",
            unit="picture",
            delay=BAR_AFTER,
            disable=None,
            leave=False,
            dynamic_ncols=True,
        ) as bar,
    ):
        # pillow warns about files that it can read
        warnings.simplefilter("ignore")
        for found in pool.map(
            lambda block: _decode(picture, block, one_large), blocks
        ):
            bad |= found
            bar.update(min(BLOCK, num_pictures - bar.n))
    return bad


def leave_out(split: Split, bad: dict[int, str], where: object) -> Split:
    """`split` without the rows in `bad`. UserError: none is left."""
    if len(bad) == len(split):
        raise UserError(
            f"none of the {len(split):,} pictures in {where} can be read; "
            f"the first: {next(iter(bad.values()))}"
        )
    if not bad:
        return split
    rows = [row for row in range(len(split)) if row not in bad]
    return replace(split.take(rows), skipped=tuple(bad.values()))


def threads() -> int:
    return min(os.cpu_count() or 1, MOST_THREADS)


def _decode(
    picture: Callable[[int], Any],
    rows: Sequence[int],
    one_large: threading.Lock,
) -> dict[int, str]:
    """Why rows can't be decoded; one large picture at a time."""
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
