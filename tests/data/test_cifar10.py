import io
import pickle
import tarfile

import numpy as np
import pytest

from vitedu.data.cifar10 import cifar10_arrays
from vitedu.errors import UserError

BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


def read_cifar10(path):
    return {key: each.read() for key, each in cifar10_arrays(path).items()}


def cifar_batch(number, n=2):
    """Pixels (n, 3072) and labels (n,) of one batch."""
    random = np.random.default_rng(number)
    pixels = random.integers(0, 256, (n, 3072), dtype=np.uint8)
    return pixels, random.integers(0, 10, n)


def binary_batch(number):
    pixels, labels = cifar_batch(number)
    return np.hstack([labels[:, None].astype(np.uint8), pixels]).tobytes()


def pickled_batch(number):
    pixels, labels = cifar_batch(number)
    return pickle.dumps({"data": pixels, "labels": labels.tolist()}, protocol=4)


def tar_gz(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"cifar-10/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


BINARY = {f"{name}.bin": binary_batch(i) for i, name in enumerate(BATCHES)}


@pytest.mark.parametrize("form", ["binary", "pickled"])
@pytest.mark.parametrize("packed", [False, True])
def test_every_form_of_cifar10_is_the_same_data(tmp_path, form, packed):
    files = BINARY
    if form == "pickled":
        files = {name: pickled_batch(i) for i, name in enumerate(BATCHES)}
    path = tmp_path
    if packed:
        path = tmp_path / "cifar.tar.gz"
        path.write_bytes(tar_gz(files))
    else:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
    got = read_cifar10(path)
    batches = [cifar_batch(i) for i in range(6)]
    pixels = np.concatenate([batch[0] for batch in batches]).reshape(
        -1, 3, 32, 32
    )
    labels = np.concatenate([batch[1] for batch in batches])
    assert np.array_equal(got["x_train"], pixels[:10])
    assert np.array_equal(got["y_train"], labels[:10])
    assert np.array_equal(got["x_test"], pixels[10:])
    assert np.array_equal(got["y_test"], labels[10:])


def test_a_pickle_written_by_python_2_and_old_numpy_is_read(tmp_path):
    # what the published files hold: numpy.core names, bytes as text, protocol 2
    batch = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\n"
        b"cnumpy\nndarray\n"
        b"K\x00\x85U\x01b\x87R(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\n"
        b"U\x02u1K\x00K\x01"
        b"\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + (3072).to_bytes(4, "little")
        + bytes(range(256)) * 12
        + b"tbU\x06labels]K\x07au."
    )
    for name in BATCHES:
        (tmp_path / name).write_bytes(batch)
    got = read_cifar10(tmp_path)
    assert got["y_test"].tolist() == [7]
    assert got["x_test"].ravel().tolist() == [*range(256)] * 12


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    class Hostile:
        def __reduce__(self):
            return open, (str(tmp_path / "touched"), "w")

    for name in BATCHES:
        (tmp_path / name).write_bytes(pickle.dumps({"data": Hostile()}))
    with pytest.raises(
        UserError, match=r"data_batch_1 is not a CIFAR-10 batch .*open"
    ):
        read_cifar10(tmp_path)
    assert not (tmp_path / "touched").exists()


def test_a_pickle_of_something_else_is_refused(tmp_path):
    for name in BATCHES:
        (tmp_path / name).write_bytes(pickle.dumps({"fine_labels": [1]}))
    with pytest.raises(UserError, match="data_batch_1 is not a CIFAR-10 batch"):
        read_cifar10(tmp_path)


def test_a_batch_cut_short_is_named(tmp_path):
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(
        tar_gz(BINARY | {"data_batch_3.bin": binary_batch(2)[:-1]})
    )
    with pytest.raises(UserError, match=r"data_batch_3\.bin has 6,145 bytes"):
        read_cifar10(path)


def test_an_archive_without_a_batch_names_it(tmp_path):
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(tar_gz({n: b for n, b in BINARY.items() if "_4" not in n}))
    with pytest.raises(
        UserError, match="is not CIFAR-10: data_batch_4 is missing"
    ):
        read_cifar10(path)


def test_an_archive_cut_short_is_named(tmp_path):
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(tar_gz(BINARY)[:-4])  # all files whole, the checksum cut
    with pytest.raises(
        UserError, match=r"cannot read .*cifar\.tar\.gz: Compressed"
    ):
        read_cifar10(path)
