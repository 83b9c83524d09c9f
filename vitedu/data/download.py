"""Downloading a file, checked for size and digest, in limited time.

`download(CATALOGUE["mnist"].files[0], Path("cache"),
("https://example.org/",))`
"""

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from vitedu.data.catalogue import File
from vitedu.errors import UserError, readable_bytes, reason

CHUNK_BYTES = 1 << 20
SILENT_SECONDS = 30  # without a byte
SLOWEST = 20_000  # bytes per second, after a minute to begin with


class MirrorError(Exception):
    """Why one mirror failed; another one may work."""


def download(
    file: File,
    folder: Path,
    mirrors: tuple[str, ...],
    *,
    seconds: float | None = None,
) -> None:
    """Put `file` into `folder`, from the first mirror that has it.

    It is written under a random name and renamed once its digest is right:
    processes that fill the same cache don't disturb each other, and nothing
    half-written is ever taken for the file. `seconds`: how long a mirror may
    take in all.

    MirrorError: all of them failed, with each one's reason. UserError: the
    folder cannot be written.
    """
    if seconds is None:
        seconds = 60 + file.num_bytes / SLOWEST
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error) from error
    reasons = []
    for mirror in mirrors:
        url = mirror + file.name
        try:
            return fetch(url, file, folder, seconds)
        except MirrorError as error:
            reasons.append(f"{url}: {error}")
    raise MirrorError("; ".join(reasons))


def fetch(url: str, file: File, folder: Path, seconds: float) -> None:
    """The same from one address."""
    part = folder / f"{file.name}.{uuid.uuid4().hex}.part"
    digest = hashlib.sha256()
    try:
        with open(part, "xb") as output:
            for chunk in received(url, file.num_bytes, seconds):
                digest.update(chunk)
                output.write(chunk)
        if digest.hexdigest() != file.sha256:
            raise MirrorError(
                f"sha256 is {digest.hexdigest()}, should be {file.sha256}"
            )
        os.replace(part, folder / file.name)
    # `received` turns those of the network into MirrorError
    except OSError as error:
        raise not_writable(folder / file.name, error) from error
    finally:
        with suppress(OSError):  # where it could not be made
            part.unlink(missing_ok=True)


def not_writable(path: Path, error: OSError) -> UserError:
    """The sentence about a cache that refuses a file."""
    return UserError(
        f"cannot write {path}: {reason(error)}; make room there, or set "
        "VITEDU_CACHE to a folder that can be written"
    )


def received(
    url: str, num_bytes: int, seconds: float, *, is_exact: bool = True
) -> Iterator[bytes]:
    """The bytes behind an address, which have to be `num_bytes` in all.

    Or, if the size isn't known exactly, at most as many.
    """
    end = time.monotonic() + seconds
    request = urllib.request.Request(url, headers={"User-Agent": "vitedu"})
    count = 0
    try:
        with urllib.request.urlopen(request, timeout=SILENT_SECONDS) as answer:
            # read1, since read waits until all of a chunk is there
            while chunk := answer.read1(CHUNK_BYTES):
                count += len(chunk)
                if count > num_bytes:
                    break
                yield chunk
                if time.monotonic() > end:
                    raise MirrorError(
                        f"only {readable_bytes(count)} of "
                        f"{readable_bytes(num_bytes)} came in {seconds:.0f} "
                        "seconds"
                    )
    except urllib.error.HTTPError as error:
        error.close()
        raise MirrorError(str(error)) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise MirrorError(reason(error).strip("<>")) from error
    if count > num_bytes:
        raise MirrorError(f"sent more than the file's {num_bytes:,} bytes")
    if is_exact and count < num_bytes:
        raise MirrorError(f"ended after {count:,} of {num_bytes:,} bytes")
