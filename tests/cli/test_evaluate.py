"""`vitedu evaluate` on ImageNet's other test sets, and class by class."""

import csv
import json
import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

import vitedu
from tests.cli.small import write_model
from tests.evaluate.objectnet import write_objectnet
from tests.photographs import photographed
from vitedu.cli import main
from vitedu.data import prepare

pytestmark = pytest.mark.slow  # whole commands

CAT, COFFEE = 285, 967
PHOTOS = Path(vitedu.__file__).parent / "data" / "photos"
SAMPLE = Path(os.environ.get("VITEDU_DATA") or "/nowhere") / "imagenet-sample"


@pytest.fixture
def weights(here):
    """A file of a small model that takes everything for a cat, or a coffee."""

    def cats(model):
        model.head.weight *= 1e-3
        model.head.bias[CAT], model.head.bias[COFFEE] = 9.0, 8.0

    write_model("cats.safetensors", change=cats, num_classes=1000)
    return "cats.safetensors"


def put(photo, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(PHOTOS / f"{photo}.jpg", path)


@pytest.fixture
def pictures(here):
    """Two cats and a coffee, in folders as ImageNet-V2's."""
    for folder, name in ((CAT, "a"), (CAT, "b"), (COFFEE, "a")):
        put("cat", here / "v2" / str(folder) / f"{name}.jpg")
    return here / "v2"


@pytest.fixture
def validation(here):
    """ImageNet's first three validation pictures, and their labels."""
    for number, code in ((1, "n07920052"), (2, "n02124075"), (3, "n02124075")):
        name = f"ILSVRC2012_val_{number:08}.JPEG"
        put("coffee", here / "val" / code / name)
    labels = [[504, CAT], [0], *[[]] * 49_998]
    (here / "real.json").write_text(json.dumps(labels))
    return here / "val"


def test_photographs_are_turned_unless_they_are_to_be_ignored(
    here, weights, pictures, answer, sentence
):
    for path in pictures.rglob("*.jpg"):  # PNGs, whatever they are called
        with Image.open(path) as photo:
            path.write_bytes(photographed(photo, 1))
            turned = here / "turned" / path.relative_to(pictures)
            turned.parent.mkdir(parents=True, exist_ok=True)
            turned.write_bytes(photographed(photo, 6))
    upright = answer("evaluate", weights, pictures)["loss"]
    assert answer("evaluate", weights, "turned")["loss"] == upright
    words = "evaluate", weights, "turned", "orientation=ignore"
    assert answer(*words)["loss"] != upright
    assert "known: ignore, upright" in sentence(*words[:-1], "orientation=off")


def test_numbered_folders_are_imagenets_classes(weights, pictures, answer):
    found = answer("evaluate", weights, pictures)
    assert (found["num_correct"], found["num_images"]) == (2, 3)
    assert found["num_top5_correct"] == 3


def test_per_class_lists_the_classes_that_have_images(
    weights, pictures, answer, capsys
):
    found = answer("evaluate", weights, pictures, "--per-class")
    assert [
        (row["index"], row["class"], row["num_correct"], row["num_images"])
        for row in found["per_class"]
    ] == [(CAT, "Egyptian cat", 2, 2), (COFFEE, "espresso", 0, 1)]
    assert [row["accuracy"] for row in found["per_class"]] == [100.0, 0.0]
    assert found["mean_class_accuracy"] == 50.0
    assert main(["evaluate", weights, str(pictures), "--per-class"]) == 0
    first, *rows = capsys.readouterr().out.splitlines()
    assert first.endswith("mean of the classes 50.00%")
    assert rows == [
        "Egyptian cat  100.00%  2 of 2",
        "espresso        0.00%  0 of 1",
    ]


def test_real_labels_count_beside_the_first_ones(weights, validation, capsys):
    words = [weights, str(validation), "--real", "real.json"]
    assert main(["evaluate", *words]) == 0
    out = capsys.readouterr().out
    # the third picture is a cat by its folder, and has no label in ReaL
    assert f"top-1 66.67% (2 of 3 pictures of {validation})" in out
    assert out.endswith("ReaL 50.00% (1 of 2 pictures with a label)\n")


def test_real_labels_do_without_class_folders(weights, validation, answer):
    flat = validation.parent / "flat"
    flat.mkdir()
    for path in validation.glob("*/*"):
        shutil.move(path, flat)
    found = answer("evaluate", weights, flat, "--real", "real.json")
    assert (found["num_real_correct"], found["num_real_images"]) == (1, 2)
    assert found["real_accuracy"] == 50.0
    assert "accuracy" not in found and found["skipped"] == []


def test_shards_keep_the_names_that_real_labels_need(
    weights, validation, answer
):
    prepare(validation, "shards")
    found = answer("evaluate", weights, "shards", "--real", "real.json")
    assert (found["num_real_correct"], found["num_real_images"]) == (1, 2)


@pytest.fixture
def objectnet(here):
    return write_objectnet(here / "objectnet-1.0")


def test_digits_stand_in_for_mnist_if_asked(here, answer):
    found = answer("evaluate", "mnist-tiny", "mnist", "fallback=digits")
    assert found["dataset"]["name"] == "digits"
    assert (found["num_images"], found["num_correct"]) == (500, 492)


def test_objectnet_is_known_by_its_folder(weights, objectnet, answer):
    for folder in (objectnet, objectnet / "images"):
        found = answer("evaluate", weights, folder)
        assert (found["num_correct"], found["num_images"]) == (1, 3)
        assert (found["top5_accuracy"], found["num_classes"]) == (100.0, 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["val", "--real", "gone.json"], "gone.json does not exist"),
        (["v2", "--real", "real.json"], "isn't one of ImageNet's validation"),
        (["val", "--real", ""], "the path is empty; name a file"),
        (["objectnet-1.0", "--per-class"], "leave --real and --per-class"),
        (["objectnet-1.0", "--real", "real.json"], "ObjectNet's classes"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(
    weights, validation, pictures, objectnet, words, said, sentence
):
    assert said in sentence("evaluate", weights, *words)


def test_a_part_of_the_sample_is_as_right_as_timms(here, answer):
    """Of all 1,000, which take a minute, 813 are right and 960 among five."""
    if not SAMPLE.is_dir():
        pytest.skip("VITEDU_DATA/imagenet-sample is not there")
    with open(SAMPLE / "reference_top5.csv", newline="") as file:
        rows = list(csv.DictReader(file))[::20]
    with open(here / "labels.csv", "w", newline="") as file:
        table = csv.DictWriter(
            file, ["filename", "class_index"], extrasaction="ignore"
        )
        table.writeheader()
        table.writerows(rows)
    found = answer("evaluate", "ViT-Ti/16", SAMPLE, "labels=labels.csv")
    top_1 = sum(row["p1"] == row["class_index"] for row in rows)
    top_5 = sum(
        row["class_index"] in [row[f"p{k}"] for k in range(1, 6)]
        for row in rows
    )
    # two of the 1,000 have a margin that another machine may turn
    assert abs(found["num_correct"] - top_1) <= 1
    assert abs(found["num_top5_correct"] - top_5) <= 1
    assert found["num_images"] == 50
