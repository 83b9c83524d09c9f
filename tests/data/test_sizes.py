"""Files that claim, or unpack to, far too much: memory stays small."""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib

import numpy as np
import pytest

from vitedu.data.catalogue import CIFAR_BATCHES

BLOCK = 1 << 22
IMAGES = np.zeros((5, 3, 4), np.uint8)
LABELS = np.zeros(5, np.uint8)
CHILD = """
import json, resource, sys
from pathlib import Path
from vitedu.data import load_dataset
from vitedu.data.formats import idx_array
from vitedu.errors import UserError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
folder, answers = Path(sys.argv[1]), {}
for path in sorted(folder.iterdir()):
    try:
        if path.suffix == ".npz":
            load_dataset(str(path))
        elif path.name.startswith("cifar"):
            load_dataset("cifar10", data=path)
        else:
            idx_array(path, ndim=3).read()
    except UserError as error:
        answers[path.name] = str(error)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([answers, (after - before) * 1024]))
"""


def packed(start, num_zeros):
    """A deflate stream of `start` and zeros, without packing all of those."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(BLOCK)) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + block * (num_zeros // BLOCK) + packer.flush()


def gz(start, num_zeros):
    head = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    return head + packed(start, num_zeros) + bytes(8)


def idx(*shape):
    return bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape)


def sparse(path, start, num_bytes):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(start)
        file.truncate(num_bytes)


def npy_header(shape):
    file = io.BytesIO()
    description = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, description)
    return file.getvalue()


def npz_with_labels(num_labels, num_images=5):
    """An npz of few images, whose y_train is `num_labels` zeros, packed."""
    content, header = io.BytesIO(), npy_header((num_labels,))
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("y_train.npy", packed(header, num_labels))
        arrays = {"x_train": IMAGES, "x_test": IMAGES, "y_test": LABELS}
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.save(file, array)
        [first, *_] = archive.infolist()
        start = first.header_offset
    content = bytearray(content.getvalue())
    # what was stored is declared as packed, and as long as it unpacks to
    content[start + 8 : start + 10] = struct.pack("<H", zipfile.ZIP_DEFLATED)
    entry = content.index(b"PK\x01\x02")
    content[entry + 10 : entry + 12] = struct.pack("<H", zipfile.ZIP_DEFLATED)
    num_bytes = len(header) + num_labels
    content[entry + 24 : entry + 28] = struct.pack("<I", num_bytes)
    return bytes(content)


class Huge:
    """Pickled as an array of 10 GB without its bytes."""

    def __reduce__(self):
        rebuild = np.empty(0).__reduce__()[0]
        return rebuild, (np.ndarray, (10**10,), b"b")


def cifar_of(batch):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name in CIFAR_BATCHES:
            member = tarfile.TarInfo(name)
            member.size = len(batch)
            archive.addfile(member, io.BytesIO(batch))
    return content.getvalue()


def write_attacks(folder):
    small = idx(5, 3, 4) + IMAGES.tobytes()
    sparse(folder / "sparse-images", idx(60, 10**6, 10**3), 16 + 60 * 10**9)
    sparse(folder / "longer-images", small, 60 * 10**9)
    sparse(folder / "padded.gz", gz(small, 0), 60 * 10**9)
    (folder / "claims.gz").write_bytes(gz(idx(10**6, 10**3, 10**3), 0))
    (folder / "bomb.gz").write_bytes(gz(idx(1000, 80, 80), 4 * 10**9))
    (folder / "labels.npz").write_bytes(npz_with_labels(4 * 10**9))
    for name in CIFAR_BATCHES:
        sparse(folder / "cifar-sparse" / f"{name}.bin", b"", 60 * 10**9)
    tar = tarfile.TarInfo("data_batch_1.bin")
    tar.size = 4 * 10**9
    (folder / "cifar-bomb.tar.gz").write_bytes(gz(tar.tobuf(), 4 * 10**9))
    pickled = pickle.dumps({"data": Huge(), "labels": [0]})
    (folder / "cifar-array.tar.gz").write_bytes(cifar_of(pickled))
    slot = b"\x80\x02}r\xff\xff\xff\x7f."  # in slot 2^31 of the pickle's memory
    (folder / "cifar-slot.tar.gz").write_bytes(cifar_of(slot))


SENTENCES = {
    "sparse-images": "needs 60.0 GB of memory, and ",
    "longer-images": "has 60,000,000,000 bytes, but its header says 5x3x4",
    "padded.gz": "has 60,000,000,000 bytes, but its header says 5x3x4",
    "claims.gz": "needs 1.0 TB of memory, and ",
    "bomb.gz": "goes on, but its header says 1000x80x80, 6,400,016",
    "labels.npz": "x_train has 5 images, but ",
    "cifar-sparse": "so it isn't CIFAR-10",
    "cifar-bomb.tar.gz": "so it isn't CIFAR-10",
    "cifar-array.tar.gz": "data_batch_1 is not a CIFAR-10 batch",
    "cifar-slot.tar.gz": "it names the slot 2147483647",
}


@pytest.mark.slow
def test_a_size_taken_on_trust_is_a_sentence_and_under_a_gigabyte(tmp_path):
    write_attacks(tmp_path)
    path = os.pathsep.join(sys.path)
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    answers, peak = json.loads(child.stdout)
    assert set(answers) == set(SENTENCES)
    for name, sentence in SENTENCES.items():
        assert sentence in answers[name]
    assert peak < 10**9
