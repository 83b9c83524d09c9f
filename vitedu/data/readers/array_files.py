"""Files of arrays: MNIST's idx, CIFAR's batches, FILE.npz.

`npz_arrays(Path("digits.npz"))["x_train"]`

All give x_train, y_train, x_test and y_test: uint8 images as `open_pair` takes
them, labels (n,). No code from a file is run: a pickle of CIFAR is opened only
if its md5 is the published one.
"""

import gzip
import hashlib
import io
import math
import os
import pickle
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy import ndarray as Array

from vitedu.compat import import_torchvision
from vitedu.data.catalogue import CIFAR10_BATCHES, CIFAR100_BATCHES
from vitedu.errors import UserError, reason
from vitedu.files import check_regular

KEYS = ("x_train", "y_train", "x_test", "y_test")
# Raised when a damaged file is read.
DAMAGE: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
DAMAGE += (zipfile.BadZipFile, tarfile.TarError)
BATCHES = {"cifar10": CIFAR10_BATCHES, "cifar100": CIFAR100_BATCHES}
NUM_LABELS = {"cifar10": 1, "cifar100": 2}  # coarse and fine


def idx_arrays(folder: Path, names: tuple[str, ...]) -> dict[str, Array]:
    arrays = {}
    for key, name in zip(KEYS, names, strict=True):
        path = folder / name
        if not os.path.isfile(path):
            path = path.with_name(f"{name}.gz")
        arrays[key] = idx_array(path, ndim=3 if key.startswith("x_") else 1)
    return arrays


def idx_array(path: Path, *, ndim: int) -> Array:
    """The uint8 array with `ndim` axes in an idx file.

    The format: two zero bytes, a type (8 is uint8), the number of axes, each
    axis as four bytes (big-endian), then the values.
    """
    check_regular(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as f:
            content = f.read()
    except DAMAGE as error:
        raise damaged(path, error) from error
    start = 4 + 4 * ndim
    if content[:4] != bytes((0, 0, 8, ndim)) or len(content) < start:
        raise UserError(
            f"{path} is not an idx file of {ndim} axes: it begins with "
            f"{content[:4].hex(' ') or 'nothing'}, not with 00 00 08 {ndim:02x}"
        )
    shape = np.frombuffer(content[4:start], ">u4").tolist()
    expected = start + math.prod(shape)
    if len(content) != expected:
        raise UserError(
            f"{path} has {len(content):,} bytes, but its header says "
            f"{'x'.join(map(str, shape))}, {expected:,} bytes; fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def npz_arrays(path: Path) -> dict[str, Array]:
    check_regular(path)
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path} is not an npz file; numpy.savez writes one")
    try:
        with (
            open(path, "rb") as opened,
            np.load(opened, allow_pickle=False) as file,
        ):
            found = ", ".join(file) or "nothing"
            wanted = (*KEYS, "class_names")
            arrays = {key: file[key] for key in wanted if key in file}
    except DAMAGE as error:
        raise damaged(path, error) from error
    except ValueError as error:
        raise UserError(
            f"{path} can't be read ({reason(error)}); save numbers, and "
            "class_names as texts"
        ) from error
    if missing := [key for key in KEYS if key not in arrays]:
        raise UserError(
            f"{path} lacks {', '.join(missing)} (it has {found}); it needs "
            "x_train, y_train, x_test and y_test"
        )
    for key in ("x_train", "x_test"):
        if arrays[key].dtype != np.uint8:
            raise UserError(
                f"{path}: {key} is {arrays[key].dtype}, should be uint8 "
                "(pixels in 0..255)"
            )
    return arrays


def cifar_arrays(path: Path, name: str) -> dict[str, Any]:
    """The arrays of "cifar10", or of "cifar100" with fine labels."""
    *train, test = BATCHES[name]
    files = _files(path, [*train, test])
    arrays: dict[str, Any] = {}
    for part, batches in (("train", train), ("test", [test])):
        read = [_batch(path, name, batch, files) for batch in batches]
        images, labels = zip(*read, strict=True)
        arrays[f"x_{part}"] = torch.from_numpy(np.concatenate(images))
        arrays[f"y_{part}"] = np.concatenate(labels)
    return arrays


def _files(path: Path, batches: list[str]) -> dict[str, bytes]:
    if os.path.isdir(path):
        names = [*batches, *(f"{batch}.bin" for batch in batches)]
        found = [path / name for name in names if os.path.isfile(path / name)]
        return {file.name: file.read_bytes() for file in found}
    try:
        # as a whole, and so to the end, where gzip keeps its checksum
        with gzip.open(path) as packed:
            content = io.BytesIO(packed.read())
        with tarfile.open(fileobj=content) as archive:
            return {
                os.path.basename(member.name): file.read()
                for member in archive
                if (file := archive.extractfile(member)) is not None
            }
    except DAMAGE as error:
        raise damaged(path, error) from error


def _batch(
    path: Path, name: str, batch: str, files: Mapping[str, bytes]
) -> tuple[Array, Array]:
    """Images (n, 3, 32, 32), planes of red, green and blue, and labels (n,)."""
    content, num_labels = files.get(f"{batch}.bin"), NUM_LABELS[name]
    if content:
        size = num_labels + 3 * 32 * 32  # of a record
        if len(content) % size:
            raise UserError(
                f"{path}: {batch}.bin has {len(content):,} bytes, which is not "
                f"a multiple of {size:,}, the size of a record; fetch it again"
            )
        records = np.frombuffer(content, np.uint8).reshape(-1, size)
        pixels = records[:, num_labels:].reshape(-1, 3, 32, 32)
        return pixels, records[:, num_labels - 1]
    if batch not in files:
        raise UserError(f"{path} is not {name}: {batch} is missing")
    # a pickle of Python 2, opened only if torchvision knows its md5
    known = getattr(import_torchvision().datasets, name.upper())
    published = dict([*known.train_list, *known.test_list])[batch]
    md5 = hashlib.md5(files[batch], usedforsecurity=False).hexdigest()
    if md5 != published:
        raise UserError(
            f"{path}: {batch} is not the published file (its md5 is {md5}, not "
            f"{published}), and a pickle could run any code; fetch it again"
        )
    values = pickle.loads(files[batch], encoding="latin1")
    labels = values["labels" if name == "cifar10" else "fine_labels"]
    return values["data"].reshape(-1, 3, 32, 32), np.array(labels)


def damaged(path: Path, error: Exception) -> UserError:
    return UserError(f"cannot read {path}: {reason(error).strip().rstrip('.')}")
