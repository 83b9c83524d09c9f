import gzip
import pickle

import numpy as np
import pytest

from vitedu.data.formats import idx_array, npz_arrays
from vitedu.errors import UserError

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 4), dtype=np.uint8)


def read_idx(path, ndim):
    return idx_array(path, ndim=ndim).read()


def read_npz(path):
    return {key: each.read() for key, each in npz_arrays(path).items()}


def idx(array):
    shape = b"".join(side.to_bytes(4, "big") for side in array.shape)
    return bytes((0, 0, 8, array.ndim)) + shape + array.tobytes()


def test_an_idx_file_is_read_plain_or_compressed(tmp_path):
    (tmp_path / "plain").write_bytes(idx(IMAGES))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(idx(IMAGES)))
    for name in ("plain", "packed.gz"):
        assert np.array_equal(read_idx(tmp_path / name, ndim=3), IMAGES)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not an idx file of 3 axes: it begins with nothing"),
        (b"<html>", "it begins with 3c 68 74 6d, not with 00 00 08 03"),
        (idx(IMAGES[0]), "it begins with 00 00 08 02, not with 00 00 08 03"),
        (idx(IMAGES)[:9], "it begins with 00 00 08 03"),
        (
            idx(IMAGES)[:-1],
            "has 75 bytes, but its header says 5x3x4, 76 bytes",
        ),
        (
            idx(IMAGES) + b"!",
            "has 77 bytes, but its header says 5x3x4, 76 bytes",
        ),
        (
            bytes((0, 0, 8, 3)) + b"\xff" * 12,
            "has 16 bytes, but its header says",
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
        UserError, match=r"cannot read .*cut\.gz: Compressed file end"
    ):
        read_idx(tmp_path / "cut.gz", ndim=3)


def test_a_compressed_file_with_a_flipped_bit_is_named(tmp_path):
    content = bytearray(gzip.compress(idx(IMAGES), compresslevel=0))
    content[-20] ^= 1
    (tmp_path / "worn.gz").write_bytes(content)
    with pytest.raises(
        UserError, match=r"cannot read .*worn\.gz: CRC check failed"
    ):
        read_idx(tmp_path / "worn.gz", ndim=3)


def test_a_missing_idx_file_is_named(tmp_path):
    with pytest.raises(UserError, match="images does not exist"):
        read_idx(tmp_path / "images", ndim=3)


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
        UserError, match=r"lacks y_train, y_test \(it has x_train, y, x_test\)"
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
        UserError, match=r"set\.npz: x_train holds Python objects"
    ):
        read_npz(tmp_path / "set.npz")


@pytest.mark.parametrize(
    "content", [b"", b"text", pickle.dumps({"x_train": 1})]
)
def test_what_is_no_npz_is_said_to_be_none(tmp_path, content):
    (tmp_path / "set.npz").write_bytes(content)
    with pytest.raises(
        UserError, match=r"set\.npz is not an npz file; numpy\.savez"
    ):
        read_npz(tmp_path / "set.npz")


def test_a_damaged_npz_is_named(tmp_path):
    path = tmp_path / "set.npz"
    np.savez(path, x_train=IMAGES, y_train=[0], x_test=IMAGES, y_test=[0])
    content = bytearray(path.read_bytes())
    content[150] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"cannot read .*set\.npz: Bad CRC-32"):
        read_npz(path)


def test_a_missing_npz_is_named(tmp_path):
    with pytest.raises(UserError, match=r"set\.npz does not exist"):
        read_npz(tmp_path / "set.npz")
