"""CIFAR-10 from a folder of batches or an archive of them, binary or pickled.

`cifar10_arrays(Path("cifar-10-binary.tar.gz"))["x_test"].read()`

No more is read than CIFAR-10 is long, and nothing runs code from a file.
"""

import gzip
import io
import os
import pickle
import pickletools
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from vitedu.data.catalogue import CIFAR_BATCHES
from vitedu.data.formats import DAMAGE, StoredArray, damaged, in_memory
from vitedu.errors import UserError, readable_bytes, reason
from vitedu.files import check_regular

BATCH_BYTES = 1 << 25  # they have 31 MB
ARCHIVE_BYTES = 1 << 28  # all of them together have 186 MB


def cifar10_arrays(path: Path) -> dict[str, StoredArray]:
    """x_train, y_train, x_test, y_test of CIFAR-10, images (n, 3, 32, 32).

    `path` is a folder of batches or an archive of one, binary or pickled. No
    batch may be larger than CIFAR-10's are, so they are read at once.
    """
    batches = cifar_folder(path) if os.path.isdir(path) else cifar_archive(path)
    arrays = {}
    for part, names in (
        ("train", CIFAR_BATCHES[:-1]),
        ("test", CIFAR_BATCHES[-1:]),
    ):
        read = []
        for name in names:
            if f"{name}.bin" in batches:
                binary = batches.pop(f"{name}.bin")
                read.append(binary_batch(path, f"{name}.bin", binary))
            elif name in batches:
                read.append(pickled_batch(path, name, batches.pop(name)))
            else:
                raise UserError(f"{path} is not CIFAR-10: {name} is missing")
        pixels, labels = map(np.concatenate, zip(*read, strict=True))
        for key, array in (("x", pixels), ("y", labels)):
            arrays[f"{key}_{part}"] = in_memory(f"{path}: {key}_{part}", array)
    return arrays


def cifar_folder(folder: Path) -> dict[str, bytes]:
    """The batches in a folder, by name."""
    batches = {}
    for name in (*CIFAR_BATCHES, *(f"{name}.bin" for name in CIFAR_BATCHES)):
        path = folder / name
        if not os.path.lexists(path):
            continue
        if check_regular(path).st_size > BATCH_BYTES:
            raise too_large(path, BATCH_BYTES)
        try:
            batches[name] = path.read_bytes()
        except OSError as error:
            raise damaged(path, error) from error
    return batches


def cifar_archive(path: Path) -> dict[str, bytes]:
    """The batches in a .tar.gz, by name."""
    check_regular(path)
    try:
        # as a whole, and so to the end, where gzip keeps its checksum
        with gzip.open(path) as file:
            content = file.read(ARCHIVE_BYTES + 1)
        if len(content) > ARCHIVE_BYTES:
            raise too_large(path, ARCHIVE_BYTES)
        batches = {}
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if "_batch" not in name or not member.isfile():
                    continue
                if member.size > BATCH_BYTES:  # a sparse one may be of any size
                    raise too_large(Path(f"{path}: {name}"), BATCH_BYTES)
                batches[name] = archive.extractfile(member).read()
        return batches
    except UserError:
        raise
    except DAMAGE as error:
        raise damaged(path, error) from error


def too_large(path: Path, most: int) -> UserError:
    """The sentence about a file that is larger than CIFAR-10's."""
    return UserError(
        f"{path} has more than {readable_bytes(most)}, so it isn't CIFAR-10; "
        "fetch it again"
    )


def binary_batch(
    path: Path, name: str, content: bytes
) -> tuple[np.ndarray, np.ndarray]:
    """Records of a label and 3,072 pixels: red, green, blue planes, by row."""
    record = 1 + 3 * 32 * 32
    if not content or len(content) % record:
        raise UserError(
            f"{path}: {name} has {len(content):,} bytes, which is not a "
            f"multiple of {record:,}, the size of a record; fetch it again"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def pickled_batch(
    path: Path, name: str, content: bytes
) -> tuple[np.ndarray, np.ndarray]:
    """A batch as Python 2 pickled it: {"data": array, "labels": list}."""
    try:
        for opcode, argument, _ in pickletools.genops(content):
            # a slot of this number in a table would take as much memory
            if "PUT" in opcode.name and argument > len(content):
                raise ValueError(f"it names the slot {argument}")
        # latin1: the files were written by Python 2
        batch = ArraysOnly(io.BytesIO(content), encoding="latin1").load()
        *_, dtype, is_fortran, values = batch["data"].state
        if dtype.arguments[0] != "u1" or is_fortran:
            raise ValueError(f"its pixels are {dtype.arguments[0]}")
        if isinstance(values, str):
            values = values.encode("latin1")
        pixels = np.frombuffer(values, np.uint8).reshape(-1, 3, 32, 32)
        labels = np.array(batch["labels"])
        if len(pixels) != len(labels):
            raise ValueError(f"{len(pixels)} images, {len(labels)} labels")
    # A hostile or damaged pickle may raise nearly anything; all of it means one
    # thing.
    except Exception as error:
        raise UserError(
            f"{path}: {name} is not a CIFAR-10 batch ({reason(error)}); fetch "
            "it again"
        ) from error
    return pixels, labels


class Pickled:
    """Keeps what a pickle says about an array or type, and builds nothing.

    NumPy's own classes would take sizes and flags from the file on trust.
    """

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = ()

    def __setstate__(self, state: Any) -> None:
        self.state = state


class ArraysOnly(pickle.Unpickler):
    """Reads arrays and plain containers, and refuses every other name."""

    def find_class(self, module: str, name: str) -> Any:
        """What a name in the pickle stands for."""
        is_array = (module, name) in (("numpy", "ndarray"), ("numpy", "dtype"))
        # its module moved with NumPy 2
        modules = "numpy.core.multiarray", "numpy._core.multiarray"
        if is_array or (module in modules and name == "_reconstruct"):
            return Pickled
        raise pickle.UnpicklingError(
            f"it asks for {module}.{name}, not an array"
        )
