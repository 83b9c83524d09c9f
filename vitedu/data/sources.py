"""Where a named data set lies on this computer, and how it gets here.

Looked for in four places, the first that has it wins: the path given (`data=`), the
folder in $VITEDU_DATA, the cache, and last a download into the cache, which
VITEDU_OFFLINE=1 forbids. This module alone reads those three variables for data.

`folder = locate("mnist").path`
"""

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from vitedu.data.listing import contents
from vitedu.errors import UserError, did_you_mean

CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 30


class Location(NamedTuple):
    """A data set that was found: the folder or file that holds it, and which step."""

    path: Path
    origin: str  # "data=...", "$VITEDU_DATA", "cache" or "package"


class MissingDataError(UserError):
    """A named data set is in none of the places, and could not be downloaded."""


@dataclass(frozen=True)
class NamedSet:
    """What is known about a data set that has a name."""

    title: str
    folder: str  # its place inside $VITEDU_DATA and inside the cache
    # Layouts in which it may lie inside a folder, each a path and the files it needs
    # (with or without .gz); no files: the path is itself the file.
    layouts: tuple[tuple[str, tuple[str, ...]], ...]
    md5: dict[str, str]  # of the files to download
    mirrors: tuple[str, ...]


_IDX_FILES = (
    *("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    *("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
)
_CIFAR_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
_CIFAR_BINARY = tuple(f"{name}.bin" for name in _CIFAR_BATCHES)

CATALOGUE = {
    "mnist": NamedSet(
        title="MNIST",
        folder="mnist",
        layouts=((".", _IDX_FILES), ("MNIST/raw", _IDX_FILES)),
        md5={
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
    ),
    "fashion-mnist": NamedSet(
        title="Fashion-MNIST",
        folder="fashion-mnist",
        layouts=((".", _IDX_FILES), ("FashionMNIST/raw", _IDX_FILES)),
        md5={
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
        mirrors=(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
    ),
    "cifar10": NamedSet(
        title="CIFAR-10",
        folder="cifar10",
        layouts=(
            ("cifar-10-batches-bin", _CIFAR_BINARY),
            (".", _CIFAR_BINARY),
            ("cifar-10-batches-py", _CIFAR_BATCHES),
            (".", _CIFAR_BATCHES),
            ("cifar-10-binary.tar.gz", ()),
            ("cifar-10-python.tar.gz", ()),
        ),
        # The binary form: the other one is a pickle.
        md5={"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
        mirrors=("https://www.cs.toronto.edu/~kriz/",),
    ),
}


def locate(
    name: str,
    *,
    data: str | Path | None = None,
    mirrors: tuple[str, ...] | None = None,
) -> Location:
    """Find a data set by the four steps; the last one downloads it into the cache.

    `data` is a folder (or the archive itself): given one, no other place is looked
    at. `mirrors` replaces the listed addresses, each ending in "/".
    UserError: an unknown name, a `data` that does not hold the set, a cache that
    cannot be written; MissingDataError: found nowhere and not to be downloaded.
    """
    location = _present(name, data)
    if location is not None:
        return location
    named = CATALOGUE[name]
    folder = cache_folder() / named.folder
    if is_offline():
        raise MissingDataError(
            f"{named.title} is not in {_places(named)}, and VITEDU_OFFLINE=1 forbids "
            f"the download; unset it, put {_files(named)} into {folder}"
            f"{_or_digits(named)}"
        )
    _make_folder(folder)
    for file_name, md5 in named.md5.items():
        if not (folder / file_name).is_file():
            _download(named, file_name, md5, folder, mirrors or named.mirrors)
    return Location(_found(named, folder), "cache")


def holds(name: str, path: Path) -> bool:
    """Whether a folder has all files of the set; False for names without files."""
    named = CATALOGUE.get(name)
    return named is not None and _found(named, path) is not None


def where() -> dict[str, Location | None]:
    """Which step has each named set, without a download; None: it is nowhere here."""
    return {name: _present(name, None) for name in ("digits", *CATALOGUE)}


def cache_folder() -> Path:
    """$VITEDU_CACHE, else the folder for caches of this platform; it may not exist."""
    if os.environ.get("VITEDU_CACHE"):
        return Path(os.environ["VITEDU_CACHE"]).expanduser()
    if sys.platform == "win32":
        local = (
            os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        )
        return Path(local) / "vitedu" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "vitedu"
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "vitedu"
    )


def _present(name: str, data: str | Path | None) -> Location | None:
    """Steps 1 to 3; the digits of the package need none of them."""
    if name == "digits":
        if data is not None:
            raise unfit(
                f"digits lies in the package; leave out data={data}", data
            )
        return Location(
            resources.files("vitedu.data") / "digits.npz", "package"
        )
    if name not in CATALOGUE:
        known = ("digits", *CATALOGUE)
        raise UserError(
            f"there is no data set {name!r}; {did_you_mean(name, known)}"
        )
    named = CATALOGUE[name]
    if data is not None:
        found = _given(named, Path(data).expanduser())
        return Location(found, f"data={data}")
    if os.environ.get("VITEDU_DATA"):
        found = _found(named, Path(os.environ["VITEDU_DATA"], named.folder))
        if found is not None:
            return Location(found, "$VITEDU_DATA")
    found = _found(named, cache_folder() / named.folder)
    return None if found is None else Location(found, "cache")


def unfit(sentence: str, data: str | Path) -> UserError:
    """`sentence`, which says what `data` should not be here, and what it holds."""
    path = Path(data).expanduser()
    if not os.path.exists(path):
        return UserError(
            f"data={data} does not exist; give a folder with a folder of pictures for "
            "each class, or FILE.npz"
        )
    if not path.is_dir():
        return UserError(sentence)
    return UserError(
        f"{sentence}, which holds {contents(path)}, or give pictures: class folders, "
        "in train/ and val/ or alone"
    )


def _given(named: NamedSet, path: Path) -> Path:
    """Step 1: a folder in one of the layouts, or the file of one that is a file."""
    if not os.path.exists(path):
        raise UserError(
            f"data={path} does not exist; give the folder of {named.title}'s files, "
            "or one of pictures"
        )
    if os.path.isdir(path):
        found = _found(named, path)
        if found is not None:
            return found
        raise UserError(
            f"data={path} holds {contents(path)}; give the folder of {named.title}'s "
            f"files ({_files(named)}), or pictures: class folders, in train/ and val/ "
            "or alone"
        )
    if any(not files for _, files in named.layouts):
        return path
    raise UserError(
        f"data={path} is a file; give the folder of {named.title}'s files"
    )


def _found(named: NamedSet, folder: Path) -> Path | None:
    """The first layout that is whole inside `folder`."""
    for place, files in named.layouts:
        path = folder / place
        if all(
            os.path.isfile(path / file) or os.path.isfile(path / f"{file}.gz")
            for file in files
        ) and (files or os.path.isfile(path)):
            return path
    return None


def _files(named: NamedSet) -> str:
    """All files that a download would bring, for a sentence."""
    *others, last = named.md5
    return f"{', '.join(others)} and {last}" if others else last


def _places(named: NamedSet) -> str:
    """Where a set was looked for, as a user would name it."""
    root = os.environ.get("VITEDU_DATA")
    meaning = Path(root, named.folder) if root else "VITEDU_DATA is not set"
    cache = cache_folder() / named.folder
    return f"$VITEDU_DATA/{named.folder} ({meaning}) or the cache ({cache})"


def is_offline() -> bool:
    """Whether VITEDU_OFFLINE forbids downloads."""
    return os.environ.get("VITEDU_OFFLINE", "") not in ("", "0")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(folder, error) from error


def _not_writable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"cannot write {path}: {error.strerror or error}; "
        "make room there, or set VITEDU_CACHE to a folder that can be written"
    )


def _download(
    named: NamedSet,
    file_name: str,
    md5: str,
    folder: Path,
    mirrors: tuple[str, ...],
) -> None:
    """Bring one file from the first mirror that has it whole.

    Written under a name of its own and renamed once its checksum is right, so that
    processes which fill one cache do not meet, and nothing half-written bears the name.
    """
    reasons = []
    for mirror in mirrors:
        url = mirror + file_name
        try:
            _fetch(url, folder / file_name, md5)
            return
        except _MirrorError as error:
            reasons.append(f"{url}: {error}")
    raise MissingDataError(
        f"{named.title} could not be downloaded ({'; '.join(reasons)}); "
        f"put {_files(named)} into {folder} yourself{_or_digits(named)}"
    )


def _or_digits(named: NamedSet) -> str:
    """The way out that sets of their form have."""
    return ", or pass fallback=digits" if "MNIST" in named.title else ""


class _MirrorError(Exception):
    """Why one mirror failed; the next may not."""


def _fetch(url: str, target: Path, md5: str) -> None:
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        with open(part, "xb") as file:
            digest = hashlib.md5(usedforsecurity=False)
            for chunk in _chunks(url):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != md5:
            raise _MirrorError(f"md5 is {digest.hexdigest()}, should be {md5}")
        os.replace(part, target)
    except (
        OSError
    ) as error:  # _chunks turns those of the network into _MirrorError
        raise _not_writable(target, error) from error
    finally:
        part.unlink(missing_ok=True)


def _chunks(url: str) -> Iterator[bytes]:
    """The bytes behind an address, piece by piece."""
    request = urllib.request.Request(url, headers={"User-Agent": "vitedu"})
    try:
        with urllib.request.urlopen(
            request, timeout=TIMEOUT_SECONDS
        ) as response:
            expected = response.headers.get("Content-Length")
            received = 0
            while chunk := response.read(CHUNK_BYTES):
                received += len(chunk)
                yield chunk
    except urllib.error.HTTPError as error:
        error.close()
        raise _MirrorError(str(error)) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _MirrorError(
            str(error).strip("<>") or type(error).__name__
        ) from error
    if expected is not None and received != int(expected):
        raise _MirrorError(f"ended after {received} of {expected} bytes")
