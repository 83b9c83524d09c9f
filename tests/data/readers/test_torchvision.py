"""torchvision's data sets by name, made small, read by its own classes."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from vitedu import UserError
from vitedu.compat import import_torchvision
from vitedu.data import (
    ArraySource,
    ImageSource,
    PreprocessSpec,
    Split,
    as_source,
    evaluation_part,
    find_images,
    folder_of,
    load_folder,
)
from vitedu.data.catalogue import CATALOGUE, sets_of
from vitedu.data.open import known_classes
from vitedu.data.readers.torchvision import TorchvisionReader

# torchvision takes seconds to import
pytestmark = pytest.mark.slow

SPEC = PreprocessSpec(image_size=8, mean=0.0, std=1 / 255)


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    monkeypatch.setenv("VITEDU_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))


def write(path, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((9, 9, 3), value, np.uint8)).save(path)


def food101(root, count=3):
    """Food-101 as torchvision unpacks it, of two dishes."""
    listed = {"train": {}, "test": {}}
    for label, name in enumerate(("apple_pie", "ramen")):
        for i in range(count):
            write(root / f"food-101/images/{name}/{i}.jpg", 90 * label + i)
        listed["train"][name] = [f"{name}/{i}" for i in range(count - 1)]
        listed["test"][name] = [f"{name}/{count - 1}"]
    meta = root / "food-101/meta"
    meta.mkdir()
    for part, names in listed.items():
        (meta / f"{part}.json").write_text(json.dumps(names))
    return root


def eurosat(root):
    for label, name in enumerate(("Forest", "River")):
        for i in range(5):
            write(root / f"eurosat/2750/{name}/{i}.jpg", 90 * label + i)
    return root


def test_sun397_comes_in_the_order_of_its_names(tmp_path):
    root = tmp_path / "data/sun397/SUN397"
    names = [f"{name}/sun_{i}" for name in ("abbey", "bar") for i in range(9)]
    for name in reversed(names):
        write(root / f"{name[0]}/{name}.jpg")
    (root / "ClassName.txt").write_text("/a/abbey\n/b/bar\n")
    pictures = find_images(folder_of("sun397"))
    assert pictures.labels.tolist() == [0] * 9 + [1] * 9
    files = [file.stem for file in pictures.reader.dataset._image_files]
    assert files == [f"sun_{i}" for i in range(9)] * 2


def test_every_set_is_a_class_of_torchvision():
    import_torchvision()
    from torchvision import datasets

    for name in sets_of("torchvision"):
        known = CATALOGUE[name]
        assert issubclass(
            getattr(datasets, known.torchvision), datasets.VisionDataset
        )
        assert "train" in (known.splits or {"train"})


@pytest.mark.parametrize("place", ["data", "cache"])
def test_a_set_is_found_by_name_in_the_usual_places(tmp_path, place):
    food101(tmp_path / place / "food101")
    folder = folder_of("food101")
    dataset = load_folder(folder)
    assert (dataset.name, dataset.class_names) == (
        "food101",
        ("apple_pie", "ramen"),
    )
    assert dataset.train.labels.tolist() == [0, 0, 1, 1]
    assert dataset.test.labels.tolist() == [0, 1]
    assert known_classes(str(folder), num_classes=0) == dataset.class_names
    assert str(evaluation_part(folder)) == "torchvision:food101:test"


def test_a_set_is_found_where_data_says(tmp_path):
    place = food101(tmp_path / "mine")
    dataset = load_folder(folder_of("food101", str(place)))
    assert len(dataset.train) == 4
    with pytest.raises(UserError, match="doesn't have Food-101"):
        load_folder(folder_of("food101", str(tmp_path / "nowhere")))


def test_pictures_of_ones_own_stand_in_for_a_named_set(tmp_path):
    write(tmp_path / "mine/train/a/x.jpg")
    write(tmp_path / "mine/train/b/x.jpg")
    assert folder_of("food101", str(tmp_path / "mine")) == tmp_path / "mine"


def test_of_a_set_of_one_part_a_share_is_held_out(tmp_path):
    eurosat(tmp_path / "data/eurosat")
    dataset = load_folder(folder_of("eurosat"))
    assert (len(dataset.train), len(dataset.test)) == (8, 2)


def test_a_part_is_a_source(tmp_path):
    food101(tmp_path / "data/food101")
    source = as_source("torchvision:food101:train", preprocess=SPEC)
    [(images, labels)] = source.batches(batch_size=9)
    assert images.shape == (4, 3, 8, 8)
    assert labels.tolist() == [0, 0, 1, 1]
    with pytest.raises(UserError, match="several parts"):
        as_source("torchvision:food101", preprocess=SPEC)


def test_a_broken_picture_is_left_out_and_named(tmp_path):
    root = food101(tmp_path / "data/food101")
    (root / "food-101/images/ramen/0.jpg").write_bytes(b"no picture")
    pictures = find_images("torchvision:food101:train")
    assert pictures.labels.tolist() == [0, 0, 1]
    assert "torchvision:food101:train[2]" in pictures.skipped[0]


def test_a_picture_that_was_mended_is_taken_again(tmp_path):
    root = food101(tmp_path / "data/food101", count=60)
    path = root / "food-101/images/ramen/0.jpg"
    path.write_bytes(b"no picture")
    assert len(find_images("torchvision:food101:train")) == 117
    write(path)
    assert len(find_images("torchvision:food101:train")) == 118


def test_offline_a_set_that_is_nowhere_is_one_sentence():
    with pytest.raises(UserError, match=r"Flowers-102 is not in .*OFFLINE=1"):
        load_folder(folder_of("flowers102"))


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 3, 1, 2)])
def test_what_torchvision_has_in_memory_lives_on_the_device(axes):
    """SVHN and STL-10 come as arrays, with the channels first."""
    pixels = np.arange(2 * 6 * 8 * 3, dtype=np.uint8).reshape(2, 6, 8, 3)
    dataset = SimpleNamespace(data=pixels.transpose(axes))
    labels = torch.tensor([0, 1])
    reader = TorchvisionReader(dataset, "torchvision:svhn:train", labels)
    split = Split("svhn", reader, labels, ("0", "1"))
    assert split.images.shape == (2, 3, 6, 8)
    assert (split[1][0] == pixels[1]).all()
    whole = as_source(split, preprocess=PreprocessSpec((6, 8)))
    assert isinstance(whole, ArraySource)
    assert isinstance(as_source(split, preprocess=SPEC), ImageSource)
