"""Arrays in idx and npz files, of which only the headers are read at first.

So shapes and types can be compared with each other, and sizes with the memory
that is free, before any value is read or unpacked. Nothing runs code from a
file.

`images = idx_array(Path("mnist/train-images-idx3-ubyte.gz"), ndim=3)`
`images.shape` is (60000, 28, 28), and `images.read()` the pixels.
"""

import gzip
import math
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vitedu.errors import UserError, check_memory, readable_bytes, reason
from vitedu.files import check_regular

# What reading a damaged file may raise.
DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    MemoryError,
    RuntimeError,
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
)
KEYS = ("x_train", "y_train", "x_test", "y_test")
CHUNK_BYTES = 1 << 20
MOST_NAMES_BYTES = 10**8  # for the class names in an npz


class StoredArray(NamedTuple):
    """An array in a file, of which only the header was read."""

    where: str  # for messages: "a.npz: x_train"
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], np.ndarray]  # UserError: the file is damaged

    @property
    def num_bytes(self) -> int:
        """What the values take in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


def in_memory(where: str, array: np.ndarray) -> StoredArray:
    """An array that is in memory already."""
    return StoredArray(where, array.shape, array.dtype, lambda: array)


def idx_arrays(folder: Path, names: tuple[str, ...]) -> dict[str, StoredArray]:
    """x_train, y_train, x_test, y_test from the idx files of these names."""
    arrays = {}
    for key, name in zip(KEYS, names, strict=True):
        path = folder / name
        if not os.path.isfile(path):
            path = path.with_name(f"{name}.gz")
        arrays[key] = idx_array(path, ndim=3 if key.startswith("x_") else 1)
    return arrays


def idx_array(path: Path, *, ndim: int) -> StoredArray:
    """An array of uint8 in an idx file, plain or .gz; `ndim` axes are expected.

    The format: two zero bytes, a type (8 is uint8), the number of axes, each
    axis as four bytes (big-endian), then the values.
    """
    size = check_regular(path).st_size
    header_bytes = 4 + 4 * ndim
    try:
        with opened(path) as file:
            header = file.read(header_bytes)
    except DAMAGE as error:
        raise damaged(path, error) from error
    if header[:4] != bytes((0, 0, 8, ndim)) or len(header) < header_bytes:
        raise UserError(
            f"{path} is not an idx file of {ndim} axes: it begins with "
            f"{header[:4].hex(' ') or 'nothing'}, not with 00 00 08 {ndim:02x}"
        )
    shape = tuple(int(side) for side in np.frombuffer(header[4:], ">u4"))
    expected = header_bytes + math.prod(shape)
    is_packed = path.suffix == ".gz"
    # what cannot be compressed grows by less than 1 %
    if size > expected * 1.01 + 1000 if is_packed else size != expected:
        raise wrong_length(path, shape, expected, f"has {size:,} bytes")

    def read() -> np.ndarray:
        check_memory(expected, str(path))
        values = np.empty(expected - header_bytes, np.uint8)
        view, count = memoryview(values), 0
        try:
            with opened(path) as file:
                file.read(header_bytes)
                while got := file.readinto(view[count : count + CHUNK_BYTES]):
                    count += got
                goes_on = bool(file.read(1))
        except DAMAGE as error:
            raise damaged(path, error) from error
        if count < len(values) or goes_on:
            end = "goes on" if goes_on else f"ends after {count:,}"
            raise wrong_length(path, shape, expected, end)
        return values.reshape(shape)

    return StoredArray(str(path), shape, np.dtype(np.uint8), read)


def opened(path: Path) -> Any:
    """A file as a stream of bytes, unpacked if it is a .gz."""
    return gzip.open(path) if path.suffix == ".gz" else open(path, "rb")


def wrong_length(
    path: Path, shape: tuple[int, ...], expected: int, found: str
) -> UserError:
    """The sentence about an idx file longer or shorter than its header says."""
    return UserError(
        f"{path} {found}, but its header says {'x'.join(map(str, shape))}, "
        f"{expected:,} bytes; fetch it again"
    )


def npz_arrays(path: Path) -> dict[str, StoredArray]:
    """x_train, y_train, x_test, y_test and perhaps class_names.

    Images (n, h, w, c) come as (n, c, h, w), everything else as it is stored.
    UserError: not an npz, damaged, one of the four missing, or Python objects
    inside.
    """
    check_regular(path)
    try:
        if not zipfile.is_zipfile(path):
            raise UserError(
                f"{path} is not an npz file; numpy.savez writes one"
            )
        with zipfile.ZipFile(path) as archive:
            members = {
                member.filename.removesuffix(".npy"): member
                for member in archive.infolist()
            }
            missing = [key for key in KEYS if key not in members]
            if missing:
                found = ", ".join(members) or "nothing"
                raise UserError(
                    f"{path} lacks {', '.join(missing)} (it has {found}); "
                    "it needs x_train, y_train, x_test and y_test"
                )
            return {
                key: npz_array(path, archive, key, members[key])
                for key in (*KEYS, "class_names")
                if key in members
            }
    except UserError:
        raise
    except DAMAGE as error:
        raise damaged(path, error) from error


def npz_array(
    path: Path, archive: zipfile.ZipFile, key: str, member: zipfile.ZipInfo
) -> StoredArray:
    """One array of an npz; its header must agree with its file's size."""
    where = f"{path}: {key}"
    with archive.open(member) as file:
        try:
            shape, dtype = npy_header(file)
        except ValueError as error:
            raise UserError(
                f"{where} is not an array ({reason(error)}); numpy.savez "
                "writes them"
            ) from error
        header_bytes = file.tell()
    if dtype.hasobject:
        raise UserError(
            f"{where} holds Python objects, which are not read; save numbers"
        )
    num_bytes = math.prod(shape) * dtype.itemsize
    if (
        min(shape, default=0) < 0
        or header_bytes + num_bytes != member.file_size
    ):
        raise UserError(
            f"{where} takes {member.file_size - header_bytes:,} bytes, but its "
            f"header says {dtype} of shape {shape}, {num_bytes:,} bytes; save "
            "it again"
        )
    if key == "class_names" and num_bytes > MOST_NAMES_BYTES:
        raise UserError(
            f"{where} has {readable_bytes(num_bytes)}, too many for class names"
        )
    has_channels_last = key.startswith("x_") and len(shape) == 4

    def read() -> np.ndarray:
        # with channels first it is there twice for a moment
        check_memory((1 + has_channels_last) * num_bytes, where)
        try:
            with zipfile.ZipFile(path) as again, again.open(member) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
                # to the end, where the checksum is
                while file.read(CHUNK_BYTES):
                    pass
        except DAMAGE as error:
            raise damaged(path, error) from error
        if has_channels_last:
            array = np.ascontiguousarray(array.transpose(0, 3, 1, 2))
        return array

    if has_channels_last:
        shape = (shape[0], shape[3], *shape[1:3])
    return StoredArray(where, shape, dtype, read)


def npy_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type at the start of an npy file. ValueError: it isn't one."""
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError(f"its version is {version}")
    shape, _, dtype = readers[version](file)
    return shape, dtype


def damaged(path: Path, error: Exception) -> UserError:
    """The sentence about a file that cannot be read to its end."""
    return UserError(f"cannot read {path}: {reason(error).strip().rstrip('.')}")
