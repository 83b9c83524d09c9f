"""Data sets of Hugging Face by name, from a disk, without a network."""

import io
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from PIL import Image

from vitedu import UserError
from vitedu.data import (
    ImageSource,
    PreprocessSpec,
    as_source,
    evaluation_part,
    find_images,
    folder_of,
    load_folder,
)
from vitedu.data.open import known_classes

pytestmark = [
    # the library alone takes a second to import
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("datasets") is None, reason="datasets isn't installed"
    ),
]

SPEC = PreprocessSpec(image_size=8, mean=0.0, std=1 / 255)
NAMES = ["ant", "bee"]


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    global datasets
    import datasets

    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")
    datasets.disable_progress_bars()


def encoded(value, **options):
    pixels = np.full((10, 12, 3), value, np.uint8)
    pixels[::2] = 255 - value
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG", **options)
    return content.getvalue()


def made(contents, labels, column="image", label="label", kind=None):
    kinds = {
        column: datasets.Image(),
        label: kind or datasets.ClassLabel(names=NAMES),
    }
    return datasets.Dataset.from_dict(
        {
            column: [
                None if x is None else {"bytes": x, "path": None}
                for x in contents
            ],
            label: labels,
        },
        features=datasets.Features(kinds),
    )


@pytest.fixture
def saved(tmp_path):
    """10 + 4 pictures in a train and a validation split, and a secret test."""
    splits = {
        "train": made([encoded(i) for i in range(10)], [0, 1] * 5),
        "validation": made([encoded(50 + i) for i in range(4)], [1, 0] * 2),
        "test": made([encoded(90)], [-1]),
    }
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "pets")
    return f"hf:{tmp_path / 'pets'}"


def test_the_splits_are_parts_and_a_secret_one_is_none(saved):
    dataset = load_folder(saved)
    assert (dataset.name, dataset.class_names) == ("pets", ("ant", "bee"))
    assert (len(dataset.train), len(dataset.test)) == (10, 4)
    assert dataset.validation is None
    assert dataset.train.labels.tolist() == [0, 1] * 5


def test_it_is_named_where_a_folder_would_be(saved):
    assert folder_of("imagenet", saved) == folder_of(saved)
    assert known_classes(str(saved), num_classes=0) == ("ant", "bee")
    assert str(evaluation_part(saved)) == f"{saved}:validation"
    assert len(find_images(f"{saved}:train")) == 10


def test_a_photograph_is_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    made([encoded(9, exif=exif)] * 2, [0, 1]).save_to_disk(tmp_path / "x")
    pictures = find_images(f"hf:{tmp_path / 'x'}")
    with Image.open(pictures[0][0]) as image:
        assert image.size == (12, 10)
    [(images, _)] = ImageSource(pictures, SPEC).batches(batch_size=2)
    with Image.open(io.BytesIO(encoded(9))) as plain:
        assert torch.equal(images[0], SPEC(plain.rotate(270, expand=True)))


def test_a_parquet_folder_is_read_by_the_library(tmp_path):
    split = made([encoded(i) for i in range(5)], [0, 1, 0, 1, 0], "img")
    (tmp_path / "data").mkdir()
    split.to_parquet(tmp_path / "data" / "train-00000-of-00001.parquet")
    pictures = find_images(f"hf:{tmp_path}")
    assert pictures.labels.tolist() == [0, 1, 0, 1, 0]
    assert pictures.class_names == ("ant", "bee")


def test_the_digest_follows_the_data_and_not_the_place(saved, tmp_path):
    first = load_folder(saved).digest
    (tmp_path / "pets").rename(tmp_path / "moved")
    assert load_folder(f"hf:{tmp_path / 'moved'}").digest == first


def test_broken_and_missing_pictures_are_left_out_and_named(tmp_path):
    contents = [encoded(0), b"no picture", None, encoded(1)[:60], encoded(2)]
    made(contents, [0, 1, 0, 1, 1]).save_to_disk(tmp_path / "x")
    pictures = find_images(f"hf:{tmp_path / 'x'}")
    assert pictures.labels.tolist() == [0, 1]
    no_picture, missing, _ = pictures.skipped
    assert "x[1]: it is not a picture that pillow can read" in no_picture
    assert "x[2]: it has no picture" in missing
    assert "3 of 5 pictures are left out" in pictures.notes[0]
    assert len(list(ImageSource(pictures, SPEC).batches(batch_size=1))) == 2


def test_other_names_of_the_columns_are_found_if_there_is_one_of_a_kind(
    tmp_path,
):
    made([encoded(1)] * 2, [0, 1], "photo", "animal").save_to_disk(
        tmp_path / "x"
    )
    assert find_images(f"hf:{tmp_path / 'x'}").class_names == ("ant", "bee")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"text": ["a"], "label": [0]}, "doesn't have a column of pictures"),
        (
            {"image": ["a.jpg"], "label": [0]},
            r"none of the pictures in .*first of 1: .*a\.jpg does not exist",
        ),
    ],
)
def test_a_set_without_pictures_is_one_sentence(tmp_path, columns, words):
    datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / "x")
    with pytest.raises(UserError, match=words):
        find_images(f"hf:{tmp_path / 'x'}")


@pytest.mark.parametrize(
    ("kind", "labels", "words"),
    [
        ("string", ["a", "b"], "class_encode_column"),
        ("int64", [0, -1], "has the label -1"),
        ("float32", [0.5, 1.0], "a label is one whole number"),
    ],
)
def test_labels_that_are_no_classes_are_refused(tmp_path, kind, labels, words):
    split = made([encoded(1)] * 2, labels, kind=datasets.Value(kind))
    split.save_to_disk(tmp_path / "x")
    with pytest.raises(UserError, match=words):
        find_images(f"hf:{tmp_path / 'x'}")


def test_an_unknown_split_is_named_with_those_that_are_there(saved):
    with pytest.raises(UserError, match=r"no split 'dev'; it has train, val"):
        find_images(f"{saved}:dev")


def test_offline_a_name_that_is_not_in_the_cache_is_one_sentence():
    with pytest.raises(UserError, match=r"cannot load hf:nobody/x.*OFFLINE=1"):
        find_images("hf:nobody/x")
    assert datasets.config.HF_HUB_OFFLINE in (False, None, 0)


def test_without_the_library_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    for opened in (find_images, load_folder):
        with pytest.raises(UserError, match="pip install datasets"):
            opened("hf:pets")


def test_an_empty_split_is_refused(tmp_path):
    made([], []).to_parquet(tmp_path / "train.parquet")
    with pytest.raises(UserError, match="hf:"):
        find_images(f"hf:{tmp_path}")


def test_a_streamed_set_is_refused_since_nothing_about_it_is_exact():
    stream = made([encoded(1)] * 2, [0, 1]).to_iterable_dataset()
    with pytest.raises(UserError, match=r"by index; .* nothing can be"):
        as_source(stream, preprocess=SPEC)
