"""Download a file from the first mirror that has it, and check its digest.

`download(CATALOGUE["mnist"].files[0], Path("cache"), ("https://mirror/",))`
"""

import http.client
import os
import socket
import urllib.error
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from torch.hub import download_url_to_file

from vitedu.data.catalogue import File, NamedSet
from vitedu.errors import UserError, reason

SILENT_SECONDS = 30  # without a byte
# Raised by network or server; anything else comes from the disk.
NETWORK = (
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    RuntimeError,  # of torch: another digest
)


class MirrorError(Exception):
    """Every mirror failed."""


def download(file: File, folder: Path, mirrors: tuple[str, ...]) -> None:
    """Put `file` into `folder`, from the first mirror that has it.

    It is moved there once its digest is right, so several processes may fill
    the same cache, and a partial file is never taken for the whole.

    MirrorError: all failed, with each one's reason. UserError: the folder
    cannot be written.
    """
    reasons = []
    for mirror in mirrors:
        url = f"{mirror}{file.name}"
        try:
            with _patience(SILENT_SECONDS), beside(folder / file.name) as part:
                download_url_to_file(
                    url, str(part), file.sha256, progress=False
                )
                return os.replace(part, folder / file.name)
        except NETWORK as error:
            reasons.append(f"{url}: {reason(error).strip('<>')}")
    raise MirrorError("; ".join(reasons))


def download_folder(named: NamedSet, folder: Path) -> None:
    """`download` a zip and unpack it to `folder`, if no other process has."""
    [file] = named.files
    with beside(folder) as part:
        download(file, part.parent, named.mirrors)
        with zipfile.ZipFile(part.parent / file.name) as archive:
            above = f"{Path(file.name).stem}/"
            for name in archive.namelist():
                # its only .gif says "image not found"
                is_photo = name.lower().endswith((".jpg", ".jpeg"))
                if is_photo and name.startswith(above):
                    archive.extract(name, part.parent)
        with suppress(OSError):
            os.rename(part.parent / above, folder)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A temporary path, later moved to `path`. UserError: it can't be made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(
            prefix=f"{path.name}.", suffix=".part", dir=path.parent
        ) as folder:
            yield Path(folder) / path.name
    except NETWORK:
        raise
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {reason(error)}; make room there, or set "
            "VITEDU_CACHE to a folder that can be written"
        ) from error


@contextmanager
def _patience(seconds: float) -> Iterator[None]:
    """Set a timeout for each read from a socket; torch sets none."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
