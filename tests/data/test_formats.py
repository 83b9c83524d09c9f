import gzip
import io
import pickle
import tarfile

import numpy as np
import pytest

from vitedu.data.formats import read_cifar10, read_idx, read_npz
from vitedu.errors import UserError

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 4), dtype=np.uint8)
BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


def idx(array):
    shape = b"".join(side.to_bytes(4, "big") for side in array.shape)
    return bytes((0, 0, 8, array.ndim)) + shape + array.tobytes()


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


def test_an_idx_file_is_read_plain_or_compressed(tmp_path):
    (tmp_path / "plain").write_bytes(idx(IMAGES))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(idx(IMAGES)))
    for name in ("plain", "packed.gz"):
        assert np.array_equal(read_idx(tmp_path / name, ndim=3), IMAGES)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "no idx file of 3 axes: it begins with nothing"),
        (b"<html>", "it begins with 3c 68 74 6d, should with 00 00 08 03"),
        (idx(IMAGES[0]), "it begins with 00 00 08 02, should with 00 00 08 03"),
        (idx(IMAGES)[:9], "it begins with 00 00 08 03"),
        (
            idx(IMAGES)[:-1],
            "holds 75 bytes, but its header says 5x3x4, 76 bytes",
        ),
        (
            idx(IMAGES) + b"!",
            "holds 77 bytes, but its header says 5x3x4, 76 bytes",
        ),
        (
            bytes((0, 0, 8, 3)) + b"\xff" * 12,
            "holds 16 bytes, but its header says",
        ),
    ],
)
def test_a_bad_idx_file_is_named_with_what_is_wrong(
    tmp_path, content, sentence
):
    (tmp_path / "images").write_bytes(content)
    with pytest.raises(UserError, match=rf"images.* {sentence}"):
        read_idx(tmp_path / "images", ndim=3)


def test_a_compressed_file_cut_short_is_named(tmp_path):
    (tmp_path / "cut.gz").write_bytes(gzip.compress(idx(IMAGES))[:-9])
    with pytest.raises(
        UserError, match=r"cut\.gz cannot be read: Compressed file end"
    ):
        read_idx(tmp_path / "cut.gz", ndim=3)


def test_a_compressed_file_with_a_flipped_bit_is_named(tmp_path):
    content = bytearray(gzip.compress(idx(IMAGES), compresslevel=0))
    content[-20] ^= 1
    (tmp_path / "worn.gz").write_bytes(content)
    with pytest.raises(
        UserError, match=r"worn\.gz cannot be read: CRC check failed"
    ):
        read_idx(tmp_path / "worn.gz", ndim=3)


def test_a_missing_idx_file_is_named(tmp_path):
    with pytest.raises(UserError, match="images cannot be read: No such file"):
        read_idx(tmp_path / "images", ndim=3)


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
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        b"K\x00\x85U\x01b\x87R(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01"
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
        UserError, match=r"data_batch_1 is no CIFAR-10 batch .*open"
    ):
        read_cifar10(tmp_path)
    assert not (tmp_path / "touched").exists()


def test_a_pickle_of_something_else_is_refused(tmp_path):
    for name in BATCHES:
        (tmp_path / name).write_bytes(pickle.dumps({"fine_labels": [1]}))
    with pytest.raises(UserError, match="data_batch_1 is no CIFAR-10 batch"):
        read_cifar10(tmp_path)


def test_a_batch_cut_short_is_named(tmp_path):
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(
        tar_gz(BINARY | {"data_batch_3.bin": binary_batch(2)[:-1]})
    )
    with pytest.raises(UserError, match=r"data_batch_3\.bin holds 6,145 bytes"):
        read_cifar10(path)


def test_an_archive_without_a_batch_names_it(tmp_path):
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(tar_gz({n: b for n, b in BINARY.items() if "_4" not in n}))
    with pytest.raises(
        UserError, match="holds no CIFAR-10: data_batch_4 is not in"
    ):
        read_cifar10(path)


def test_an_archive_cut_short_is_named(tmp_path):
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(tar_gz(BINARY)[:-4])  # all files whole, the checksum cut
    with pytest.raises(UserError, match=r"cifar\.tar\.gz cannot be read"):
        read_cifar10(path)


def test_npz_images_come_back_with_channels_first(tmp_path):
    colour = np.random.default_rng(0).integers(
        0, 256, (2, 4, 5, 3), dtype=np.uint8
    )
    grey, path = colour[..., 0], tmp_path / "set.npz"
    labels = {"y_train": [0, 1], "y_test": [1, 0], "class_names": ["a", "b"]}
    np.savez(path, x_train=colour, x_test=grey, **labels)
    got = read_npz(path)
    assert np.array_equal(got["x_train"], colour.transpose(0, 3, 1, 2))
    assert np.array_equal(got["x_test"], grey)
    assert got["class_names"].tolist() == ["a", "b"]


def test_an_npz_without_an_array_names_it_and_what_there_is(tmp_path):
    np.savez(tmp_path / "set.npz", x_train=IMAGES, y=[1], x_test=IMAGES)
    with pytest.raises(
        UserError, match=r"has no y_train, y_test \(it has x_train, y, x_test\)"
    ):
        read_npz(tmp_path / "set.npz")


def test_an_npz_of_python_objects_is_refused(tmp_path):
    objects = np.array([{}], dtype=object)
    np.savez(
        tmp_path / "set.npz",
        x_train=objects,
        y_train=[0],
        x_test=[0],
        y_test=[0],
    )
    with pytest.raises(
        UserError, match=r"set\.npz cannot be read: Object arrays"
    ):
        read_npz(tmp_path / "set.npz")


@pytest.mark.parametrize(
    "content", [b"", b"text", pickle.dumps({"x_train": 1})]
)
def test_what_is_no_npz_is_said_to_be_none(tmp_path, content):
    (tmp_path / "set.npz").write_bytes(content)
    with pytest.raises(
        UserError, match=r"set\.npz is no npz file; numpy\.savez"
    ):
        read_npz(tmp_path / "set.npz")


def test_a_damaged_npz_is_named(tmp_path):
    path = tmp_path / "set.npz"
    np.savez(path, x_train=IMAGES, y_train=[0], x_test=IMAGES, y_test=[0])
    content = bytearray(path.read_bytes())
    content[150] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"set\.npz cannot be read: Bad CRC-32"):
        read_npz(path)


def test_a_missing_npz_is_named(tmp_path):
    with pytest.raises(
        UserError, match=r"set\.npz cannot be read: No such file"
    ):
        read_npz(tmp_path / "set.npz")
