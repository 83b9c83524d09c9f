"""CIFAR-10 as packed JPEGs, unpacked."""

import io
import os
from pathlib import Path

import cifar_jpeg
import numpy as np
import pytest
from PIL import Image

from vitedu.data import load_dataset
from vitedu.errors import UserError

REAL_DATA = os.environ.get("VITEDU_DATA", "")


def jpeg(color):
    file = io.BytesIO()
    Image.new("RGB", (32, 32), color).save(file, "JPEG", quality=75)
    return file.getvalue()


def packed(colors):
    """Plain images of some colours as the data set keeps them."""
    files = [jpeg(color) for color in colors]
    length = files[0].index(b"\xff\xda")  # where the scan begins
    scans = [file[length:-2] for file in files]
    return {
        "header": np.frombuffer(files[0][:length], np.uint8),
        "lengths": np.array([len(scan) for scan in scans], np.uint16),
        "scans": np.frombuffer(b"".join(scans), np.uint8),
        "labels": np.arange(len(colors), dtype=np.uint8),
        "class_names": np.array(["red", "green", "blue"]),
    }


COLORS = ((200, 10, 10), (10, 200, 10), (10, 10, 200))


@pytest.fixture
def folder(tmp_path):
    for part in ("train", "test"):
        np.savez(tmp_path / f"{part}.npz", **packed(COLORS))
    return tmp_path


def test_every_image_is_what_its_file_shows():
    images = cifar_jpeg.decode(packed(COLORS))
    assert images.shape == (3, 32, 32, 3) and images.dtype == np.uint8
    for image, color in zip(images, COLORS, strict=True):
        expected = np.asarray(Image.open(io.BytesIO(jpeg(color))))
        assert np.array_equal(image, expected)


def test_the_command_writes_what_train_reads(folder, capsys):
    target = folder / "cifar.npz"
    cifar_jpeg.main([str(folder), str(target)])
    assert "3 + 3 images" in capsys.readouterr().out
    data = load_dataset("cifar10", data=target)
    assert data.train.images.shape == (3, 3, 32, 32)
    assert data.class_names == ("red", "green", "blue")
    assert data.test.labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "end", "sentence"),
    [
        ("lengths", 2, "is damaged"),
        ("scans", -5, "is damaged"),
        ("header", 50, "image 0 isn't a JPEG"),
    ],
)
def test_damage_is_reported(name, end, sentence):
    arrays = packed(COLORS)
    arrays[name] = arrays[name][:end]
    with pytest.raises(UserError, match=sentence):
        cifar_jpeg.decode(arrays)


def test_a_missing_or_foreign_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*train\.npz"):
        cifar_jpeg.unpack(tmp_path, tmp_path / "out.npz")
    np.savez(tmp_path / "train.npz", x=np.zeros(3))
    with pytest.raises(UserError, match="header"):
        cifar_jpeg.unpack(tmp_path, tmp_path / "out.npz")
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.slow
def test_the_real_copy_is_close_to_the_lossless_sample():
    packed_file = Path(REAL_DATA) / "cifar10-jpeg" / "train.npz"
    sample_file = Path(REAL_DATA) / "cifar10-sample" / "cifar10_sample.npz"
    if not REAL_DATA or not packed_file.is_file():
        pytest.skip("VITEDU_DATA names no folder with cifar10-jpeg/")
    arrays = cifar_jpeg.read(packed_file)
    # interleaved by class
    few = 600
    for name in ("lengths", "labels"):
        arrays[name] = arrays[name][:few]
    arrays["scans"] = arrays["scans"][: int(arrays["lengths"].sum())]
    images = cifar_jpeg.decode(arrays).astype(np.float32)
    sample = np.load(sample_file)["x_train"].astype(np.float32)
    # each lossless image has its copy somewhere among these
    small = images.reshape(few, -1)
    nearest = [
        np.abs(small - one.reshape(1, -1)).mean(axis=1).min()
        for one in sample[:20]
    ]
    assert np.median(nearest) < 10
