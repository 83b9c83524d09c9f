"""CIFAR-10 as packed JPEGs, unpacked."""

import io

import cifar_jpeg
import numpy as np
import pytest
from PIL import Image

from vitedu.data import load_dataset
from vitedu.errors import UserError


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
