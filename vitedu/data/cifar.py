"""CIFAR-10 and CIFAR-100, binary or pickled, from a folder or an archive.

`cifar_arrays(Path("cifar-10-binary.tar.gz"), "cifar10")["x_test"].read()`

A pickle is only opened if its md5 is the published one.
"""

import gzip
import hashlib
import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np

from vitedu.compat import import_torchvision
from vitedu.data.catalogue import CIFAR10_BATCHES, CIFAR100_BATCHES
from vitedu.data.formats import DAMAGE, StoredArray, damaged, in_memory
from vitedu.errors import UserError
from vitedu.files import check_regular

BATCHES = {"cifar10": CIFAR10_BATCHES, "cifar100": CIFAR100_BATCHES}
NUM_LABELS = {"cifar10": 1, "cifar100": 2}  # coarse and fine
IMAGE_BYTES = 3 * 32 * 32


def cifar_arrays(path: Path, name: str) -> dict[str, StoredArray]:
    """x_train, y_train, x_test and y_test of "cifar10" or "cifar100".

    Images are (n, 3, 32, 32), the labels of CIFAR-100 its fine ones. `path` is
    a folder of batches or an archive of one.
    UserError: a batch is missing or damaged, or a pickle isn't the published
    one.
    """
    files = _from_folder(path) if os.path.isdir(path) else _from_archive(path)
    *train, test = BATCHES[name]
    arrays = {}
    for part, batches in (("train", train), ("test", [test])):
        read = [_batch(path, name, batch, files) for batch in batches]
        for key, each in zip("xy", zip(*read, strict=True), strict=True):
            where = f"{path}: {key}_{part}"
            arrays[f"{key}_{part}"] = in_memory(where, np.concatenate(each))
    return arrays


def _from_folder(folder: Path) -> dict[str, bytes]:
    """The files that are called like batches, by name."""
    names = [*CIFAR10_BATCHES, *CIFAR100_BATCHES]
    names = [file for name in names for file in (f"{name}.bin", name)]
    try:
        return {
            name: (folder / name).read_bytes()
            for name in names
            if os.path.isfile(folder / name)
        }
    except OSError as error:
        raise damaged(folder, error) from error


def _from_archive(path: Path) -> dict[str, bytes]:
    """All files of a .tar.gz, by the last part of their names."""
    check_regular(path)
    try:
        # as a whole, and so to the end, where gzip keeps its checksum
        with gzip.open(path) as file:
            content = io.BytesIO(file.read())
        with tarfile.open(fileobj=content) as archive:
            return {
                os.path.basename(member.name): file.read()
                for member in archive
                if (file := archive.extractfile(member)) is not None
            }
    except DAMAGE as error:
        raise damaged(path, error) from error


def _batch(
    path: Path, name: str, batch: str, files: dict[str, bytes]
) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) and labels (n,) of one batch."""
    if f"{batch}.bin" in files:
        return _records(
            files[f"{batch}.bin"], NUM_LABELS[name], f"{path}: {batch}.bin"
        )
    if batch in files:
        return _unpickled(files[batch], name, batch, f"{path}: {batch}")
    raise UserError(f"{path} is not {name}: {batch} is missing")


def _records(
    content: bytes, num_labels: int, where: str
) -> tuple[np.ndarray, np.ndarray]:
    """Records of labels and 3,072 pixels: red, green, blue planes, by row."""
    size = num_labels + IMAGE_BYTES
    if not content or len(content) % size:
        raise UserError(
            f"{where} has {len(content):,} bytes, which is not a multiple of "
            f"{size:,}, the size of a record; fetch it again"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, size)
    pixels = records[:, num_labels:].reshape(-1, 3, 32, 32)
    return pixels, records[:, num_labels - 1]


def _unpickled(
    content: bytes, name: str, batch: str, where: str
) -> tuple[np.ndarray, np.ndarray]:
    """A batch as Python 2 pickled it, whose md5 torchvision knows."""
    known = getattr(import_torchvision().datasets, name.upper())
    published = dict([*known.train_list, *known.test_list])
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 != published[batch]:
        raise UserError(
            f"{where} is not the published file (its md5 is {md5}, not "
            f"{published[batch]}), and a pickle could run any code; fetch it "
            "again"
        )
    values = pickle.loads(content, encoding="latin1")
    labels = values["labels" if name == "cifar10" else "fine_labels"]
    return values["data"].reshape(-1, 3, 32, 32), np.array(labels)
