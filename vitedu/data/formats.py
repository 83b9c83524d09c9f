"""Reading the files in which small data sets come: idx, CIFAR-10's batches, npz.

Every reader returns numpy arrays, or raises a UserError that names the file and what is
wrong with it. None of them runs code from a file.

`pixels = read_idx(Path("mnist/train-images-idx3-ubyte.gz"), ndim=3)  # (n, h, w)`
"""

import gzip
import io
import pickle
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from vitedu.errors import UserError

# What reading a damaged file may raise.
DAMAGE = (OSError, EOFError, zlib.error, ValueError, MemoryError)
NPZ_ARRAYS = ("x_train", "y_train", "x_test", "y_test")


def read_idx(path: Path, *, ndim: int) -> np.ndarray:
    """An array of uint8 from an idx file, plain or .gz; `ndim` axes are expected.

    The format: two zero bytes, a type (8 is uint8), the number of axes, each axis as
    four bytes (big-endian), then the values.
    """
    try:
        with (
            gzip.open(path)
            if path.suffix == ".gz"
            else open(path, "rb") as file
        ):
            content = file.read()
    except DAMAGE as error:
        raise _damaged(path, error) from error
    header = 4 + 4 * ndim
    if content[:4] != bytes((0, 0, 8, ndim)) or len(content) < header:
        raise UserError(
            f"{path} is no idx file of {ndim} axes: it begins with "
            f"{content[:4].hex(' ') or 'nothing'}, should with 00 00 08 {ndim:02x}"
        )
    shape = tuple(int(side) for side in np.frombuffer(content[4:header], ">u4"))
    expected = header + int(np.prod(shape, dtype=object))
    if len(content) != expected:
        raise UserError(
            f"{path} holds {len(content):,} bytes, but its header says "
            f"{'x'.join(map(str, shape))}, {expected:,} bytes; fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_cifar10(path: Path) -> dict[str, np.ndarray]:
    """x_train, y_train, x_test, y_test of CIFAR-10, images (n, 3, 32, 32).

    `path` is a folder of batches or an archive of one; both forms of the batches are
    read, the binary one and the pickled one.
    """
    batches = _cifar_folder(path) if path.is_dir() else _cifar_archive(path)
    arrays = {}
    for part, names in (
        ("train", [f"data_batch_{i}" for i in range(1, 6)]),
        ("test", ["test_batch"]),
    ):
        missing = [
            n for n in names if n not in batches and f"{n}.bin" not in batches
        ]
        if missing:
            raise UserError(
                f"{path} holds no CIFAR-10: {missing[0]} is not in it"
            )
        read = [
            _binary_batch(path, f"{name}.bin", batches[f"{name}.bin"])
            if f"{name}.bin" in batches
            else _pickled_batch(path, name, batches[name])
            for name in names
        ]
        arrays[f"x_{part}"] = np.concatenate([pixels for pixels, _ in read])
        arrays[f"y_{part}"] = np.concatenate([labels for _, labels in read])
    return arrays


def _cifar_folder(path: Path) -> dict[str, bytes]:
    batches = {}
    for file in sorted(path.iterdir()):
        if "_batch" in file.name and file.is_file():
            try:
                batches[file.name] = file.read_bytes()
            except OSError as error:
                raise _damaged(file, error) from error
    return batches


def _cifar_archive(path: Path) -> dict[str, bytes]:
    batches = {}
    try:
        with (
            gzip.open(path) as file,
            tarfile.open(fileobj=file, mode="r:") as archive,
        ):
            for member in archive:
                name = member.name.rpartition("/")[2]
                if "_batch" in name and member.isfile():
                    batches[name] = archive.extractfile(member).read()
            while file.read(
                1 << 20
            ):  # to the end, where gzip keeps its checksum
                pass
    except (*DAMAGE, tarfile.TarError) as error:
        raise _damaged(path, error) from error
    return batches


def _binary_batch(
    path: Path, name: str, content: bytes
) -> tuple[np.ndarray, ...]:
    """Records of one label and 3,072 pixels: red, green, blue planes, row by row."""
    record = 1 + 3 * 32 * 32
    if not content or len(content) % record:
        raise UserError(
            f"{path}: {name} holds {len(content):,} bytes, which is no number of "
            f"records of {record:,}; fetch it again"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)


class _ArraysOnly(pickle.Unpickler):
    """Rebuilds numpy arrays and plain containers, and refuses every other name."""

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            # its module moved with numpy 2; the function itself is found either way
            ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[
                0
            ],
            ("numpy._core.multiarray", "_reconstruct"): np.empty(
                0
            ).__reduce__()[0],
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, not an array"
            )
        return known[module, name]


def _pickled_batch(
    path: Path, name: str, content: bytes
) -> tuple[np.ndarray, ...]:
    try:
        # latin1: the files were written by Python 2
        batch = _ArraysOnly(io.BytesIO(content), encoding="latin1").load()
        pixels = np.asarray(batch["data"]).reshape(-1, 3, 32, 32)
        labels = np.asarray(batch["labels"])
    # A hostile or damaged pickle may raise nearly anything; all of it means one thing.
    except Exception as error:
        raise UserError(
            f"{path}: {name} is no CIFAR-10 batch ({error}); fetch it again"
        ) from error
    return pixels, labels


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """x_train, y_train, x_test, y_test and perhaps class_names.

    Images (n, h, w, c) come back as (n, c, h, w), all else as it is stored.
    UserError: not an npz, damaged, one of the four missing, or Python objects inside.
    """
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise UserError(
                    f"{path} is no npz file; numpy.savez writes one"
                )
            with np.load(file, allow_pickle=False) as archive:
                arrays = {
                    name: archive[name]
                    for name in (*NPZ_ARRAYS, "class_names")
                    if name in archive
                }
                held = ", ".join(archive) or "nothing"
    except (*DAMAGE, zipfile.BadZipFile) as error:
        if isinstance(error, UserError):
            raise
        raise _damaged(path, error) from error
    missing = [name for name in NPZ_ARRAYS if name not in arrays]
    if missing:
        raise UserError(
            f"{path} has no {', '.join(missing)} (it has {held}); "
            "it needs x_train, y_train, x_test and y_test"
        )
    for name, array in arrays.items():
        if not isinstance(
            array, np.ndarray
        ):  # numpy hands out what is no array as bytes
            raise UserError(
                f"{path}: {name} is no array; numpy.savez writes them"
            )
        if name.startswith("x_") and array.ndim == 4:
            arrays[name] = array.transpose(0, 3, 1, 2)
    return arrays


def _damaged(path: Path, error: Exception) -> UserError:
    reason = (
        getattr(error, "strerror", None) or str(error) or type(error).__name__
    )
    return UserError(f"{path} cannot be read: {reason.strip().rstrip('.')}")
