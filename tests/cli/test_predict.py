"""`vitedu predict`, `info`, `evaluate` with the real model, offline."""

import shutil

import pytest

from vitedu.cli import main
from vitedu.data import photo
from vitedu.data.imagenet import imagenet_classes

REAL = "ViT-Ti/16"


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Two photographs."""
    folder = tmp_path_factory.mktemp("photographs")
    for name in ("cat", "coffee"):
        photo(name).save(folder / f"{name}.png", compress_level=1)
    return folder


@pytest.fixture
def here(here, photographs):
    """A folder with copies of them."""
    return shutil.copytree(photographs, here, dirs_exist_ok=True)


def test_predict_names_photographs(here, capsys):
    assert main(["predict", REAL, "cat.png", "coffee.png"]) == 0
    out, err = capsys.readouterr()
    cat, coffee = out.splitlines()
    assert cat.startswith("cat.png     Egyptian cat 8") and err == ""
    assert coffee.startswith("coffee.png  espresso 9")
    assert cat.count("%") == coffee.count("%") == 5


def test_predict_answers_in_json(here, answer):
    found = answer("predict", REAL, "coffee.png", "--top", "2")
    assert answer("info", REAL)["weights"].endswith("vit-ti-16.safetensors")
    (prediction,) = found["predictions"]
    assert (found["weights"], prediction["image"]) == (REAL, "coffee.png")
    first, second = prediction["top"]
    assert (first["class"], first["index"]) == ("espresso", 967)
    assert 0.9 < first["probability"] < 0.92 > second["probability"]


@pytest.mark.slow
def test_evaluate_reads_class_folders_by_name_and_by_code(here, answer):
    classes = imagenet_classes()
    for naming in classes:
        folder = here / naming[0]
        for index, name in ((285, "cat"), (967, "coffee")):
            (folder / naming[index]).mkdir(parents=True)
            photo(name).save(folder / naming[index] / "photo.png")
        found = answer("evaluate", REAL, folder)
        assert (found["num_correct"], found["num_images"]) == (2, 2)


def test_evaluate_alone_asks_for_pictures_even_inside_a_run(here, sentence):
    (here / "config.json").write_text("{}")  # of another model
    said = sentence("evaluate", REAL)
    assert "name a data set or a folder of pictures" in said
