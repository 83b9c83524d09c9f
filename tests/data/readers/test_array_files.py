"""idx files, npz files and CIFAR's batches: whole, or one sentence."""

import gzip
import io
import pickle
import tarfile
from hashlib import md5

import numpy as np
import pytest

from vitedu.compat import import_torchvision
from vitedu.data import load_dataset
from vitedu.data.catalogue import (
    CATALOGUE,
    CIFAR10_BATCHES,
    CIFAR100_BATCHES,
    MissingDataError,
)
from vitedu.data.readers.array_files import idx_array, npz_arrays
from vitedu.errors import UserError

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 4), dtype=np.uint8)
BATCHES = {"cifar10": CIFAR10_BATCHES, "cifar100": CIFAR100_BATCHES}
LAYOUTS = [
    (name, place, names)
    for name in BATCHES
    for place, names in CATALOGUE[name].layouts
]


def idx(array):
    shape = b"".join(side.to_bytes(4, "big") for side in array.shape)
    return bytes((0, 0, 8, array.ndim)) + shape + array.tobytes()


def test_an_idx_file_is_read_plain_or_compressed(tmp_path):
    (tmp_path / "plain").write_bytes(idx(IMAGES))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(idx(IMAGES)))
    for name in ("plain", "packed.gz"):
        assert np.array_equal(idx_array(tmp_path / name, ndim=3), IMAGES)


FLIPPED = bytearray(gzip.compress(idx(IMAGES), compresslevel=0))
FLIPPED[-20] ^= 1


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x", None, "x does not exist"),
        ("x", b"", "not an idx file of 3 axes: it begins with nothing"),
        ("x", b"<html>", "it begins with 3c 68 74 6d, not with 00 00 08 03"),
        ("x", idx(IMAGES[0]), "with 00 00 08 02, not with 00 00 08 03"),
        ("x", idx(IMAGES)[:-1], "has 75 bytes, but its header says 5x3x4, 76"),
        ("x", idx(IMAGES) + b"!", "has 77 bytes, but its header says 5x3x4"),
        ("x.gz", gzip.compress(idx(IMAGES)[:-1]), "has 75 bytes, but its hea"),
        ("x.gz", gzip.compress(idx(IMAGES))[:-9], "Compressed file ended"),
        ("x.gz", bytes(FLIPPED), "cannot read .*x.gz: CRC check failed"),
    ],
    ids=range(9),  # gzip writes the time
)
def test_a_damaged_idx_file_is_one_sentence(tmp_path, name, content, sentence):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=sentence):
        idx_array(tmp_path / name, ndim=3)


def npz(**changed):
    arrays = {"x_train": IMAGES, "y_train": [0], "x_test": IMAGES}
    arrays |= {"y_test": [0]} | changed
    content = io.BytesIO()
    np.savez(content, **{k: v for k, v in arrays.items() if v is not None})
    return content.getvalue()


WORN = bytearray(npz())
WORN[150] ^= 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "does not exist"),
        (b"text", r"is not an npz file; numpy\.savez writes one"),
        (pickle.dumps({"x_train": 1}), "is not an npz file"),
        (npz()[:-50], "is not an npz file"),
        (bytes(WORN), "cannot read .*npz: Bad CRC-32"),
        (npz(y_test=None, y=[1]), r"lacks y_test \(it has x_train, .*, y\)"),
        (npz(x_train=np.array([{}])), "set.npz can't be read .*; save numbers"),
    ],
)
def test_a_damaged_npz_is_one_sentence(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "set.npz").write_bytes(content)
    with pytest.raises(UserError, match=sentence):
        npz_arrays(tmp_path / "set.npz")


def batch_of(number, n=2):
    """Pixels (n, 3072) and labels (n,)."""
    random = np.random.default_rng(number)
    pixels = random.integers(0, 256, (n, 3072), dtype=np.uint8)
    return pixels, random.integers(0, 10, n, dtype=np.uint8)


def files_of(name, is_binary):
    """The batches of a set as files, from the name to the content."""
    files = {}
    for number, batch in enumerate(BATCHES[name]):
        pixels, labels = batch_of(number)
        if is_binary:
            coarse = [labels[:, None] + 1] if name == "cifar100" else []
            rows = np.hstack([*coarse, labels[:, None], pixels])
            files[f"{batch}.bin"] = rows.tobytes()
        else:
            key = "fine_labels" if name == "cifar100" else "labels"
            values = {"data": pixels, key: labels.tolist()}
            files[batch] = pickle.dumps(values, protocol=2)
    return files


def tar_gz(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"cifar/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


@pytest.fixture
def publish(monkeypatch):
    """Takes these files for the ones whose checksums torchvision knows."""

    def publish(name, files):
        kind = getattr(import_torchvision().datasets, name.upper())
        *train, test = [[k, md5(v).hexdigest()] for k, v in files.items()]
        monkeypatch.setattr(kind, "train_list", train)
        monkeypatch.setattr(kind, "test_list", [test])

    return publish


@pytest.mark.parametrize(("name", "place", "names"), LAYOUTS)
def test_every_layout_is_the_same_data(tmp_path, publish, name, place, names):
    is_binary = "bin" in f"{place} {names}"
    files = files_of(name, is_binary)
    if not is_binary:
        publish(name, files)
    if names:
        (tmp_path / place).mkdir(exist_ok=True)
        for file in names:
            (tmp_path / place / file).write_bytes(files[file])
    else:
        (tmp_path / place).write_bytes(tar_gz(files))
    found = load_dataset(name, data=tmp_path)
    batches = [batch_of(number) for number in range(len(files))]
    pixels = np.concatenate(
        [each.reshape(-1, 3, 32, 32) for each, _ in batches]
    )
    labels = np.concatenate([each for _, each in batches])
    assert np.array_equal(found.train.images, pixels[:-2])
    assert np.array_equal(found.test.images, pixels[-2:])
    assert found.train.labels.tolist() == labels[:-2].tolist()
    assert found.test.labels.tolist() == labels[-2:].tolist()
    assert found.class_names == CATALOGUE[name].class_names


def test_a_pickle_that_isnt_the_published_one_is_never_opened(tmp_path):
    class Hostile:
        def __reduce__(self):
            return open, (str(tmp_path / "touched"), "w")

    for name in CIFAR10_BATCHES:
        (tmp_path / name).write_bytes(pickle.dumps({"data": Hostile()}))
    with pytest.raises(
        UserError, match=r"data_batch_1 is not the published file .* any code"
    ):
        load_dataset("cifar10", data=tmp_path)
    assert not (tmp_path / "touched").exists()


BINARY = files_of("cifar10", is_binary=True)
CUT = BINARY | {"data_batch_3.bin": BINARY["data_batch_3.bin"][:-1]}
LACKING = {k: v for k, v in BINARY.items() if "_4" not in k}
STRANGE = BINARY | {"test_batch.bin": b"\xff" * 3073}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"<html>", "cannot read .*tar.gz: Not a gzipped file"),
        (tar_gz(BINARY)[:-4], "cannot read .*tar.gz: Compressed file ended"),
        (tar_gz(CUT), r"data_batch_3.bin has 6,145 bytes"),
        (tar_gz(LACKING), "is not cifar10: data_batch_4 is missing"),
        (tar_gz(STRANGE), "has the label 255, but there are 10 classes"),
    ],
)
def test_what_is_there_but_damaged_is_an_error_that_no_fallback_hides(
    tmp_path, monkeypatch, content, sentence
):
    monkeypatch.setenv("VITEDU_DATA", str(tmp_path))
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10/cifar-10-binary.tar.gz").write_bytes(content)
    with pytest.raises(UserError, match=sentence) as error:
        load_dataset("cifar10", fallback="digits")
    assert not isinstance(error.value, MissingDataError)
