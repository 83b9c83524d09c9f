"""Pictures with boxes: the embedded twelve, a folder, the authors' clone."""

import os
from importlib import resources
from pathlib import Path

import pytest
import torch
from PIL import Image

from vitedu import UserError
from vitedu.cli import main
from vitedu.data import load_boxes

FOLDER = resources.files("vitedu.data") / "bccd"
ROOT = Path(__file__).parents[3]


def test_twelve_pictures_of_the_package_stand_in(here):
    found = load_boxes("bccd")
    assert found.origin == "package"
    assert [len(part.paths) for part in found[:3]] == [8, 2, 2]
    assert found.class_names == ("RBC", "WBC", "Platelets")
    for part in found[:3]:
        for path, boxes, labels in zip(*part, strict=True):
            with Image.open(path) as picture:
                assert picture.size == (640, 480)
            assert (
                boxes.shape == (len(labels), 4) and boxes.dtype == torch.float
            )
            assert (boxes[:, 2:] > boxes[:, :2]).all() and boxes.min() >= 0
            assert (boxes[:, 2:] <= torch.tensor([640, 480])).all()
            assert set(labels.tolist()) <= {0, 1, 2}


def test_a_box_without_area_is_left_out_and_named(here):
    [said] = load_boxes("bccd").left_out
    assert (
        "a box without area in BloodImage_00343.jpg (RBC at 181, 329)" in said
    )


def test_the_package_has_less_than_a_megabyte_of_it_and_its_licence():
    files = [path for path in Path(str(FOLDER)).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    assert "Copyright (c) 2017 shenggan" in (FOLDER / "LICENSE").read_text()
    assert "vitedu/data/bccd/" in (ROOT / "NOTICE").read_text()


@pytest.fixture
def clone(tmp_path):
    """As the authors' repository has it."""
    folder = tmp_path / "clone"
    parts = folder / "BCCD/ImageSets/Main"
    parts.mkdir(parents=True)
    for part, names in (("train", "a\nb\n"), ("val", "c\n"), ("test", "")):
        (parts / f"{part}.txt").write_text(names)
    (folder / "test.csv").write_text(
        "filename,cell_type,xmin,xmax,ymin,ymax\n"
        "a.jpg,WBC,1,3,2,5\nc.jpg,RBC,0,1,0,1\na.jpg,Platelets,0,7,0,8\n"
        "c.jpg,RBC,4,4,5,6\n"
    )
    return folder


def test_the_authors_own_files_are_read(clone):
    found = load_boxes("bccd", data=clone)
    pictures = clone / "BCCD/JPEGImages"
    assert found.train.paths == (pictures / "a.jpg", pictures / "b.jpg")
    assert found.train.boxes[0].tolist() == [[1, 2, 3, 5], [0, 0, 7, 8]]
    assert found.train.labels[0].tolist() == [1, 2]
    assert found.train.boxes[1].shape == (0, 4)
    assert found.test.paths == ()
    assert found.left_out == (
        "test.csv, line 5: a box without area in c.jpg (RBC at 4, 5)",
    )


def test_what_vitedu_data_holds_comes_first(clone, monkeypatch):
    monkeypatch.setenv("VITEDU_DATA", str(clone.parent))
    clone.rename(clone.parent / "bccd")
    assert load_boxes("bccd").origin == "$VITEDU_DATA"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a.jpg,Virus,1,3,2,5", "is no box; it needs a file, a class (RBC"),
        ("a.jpg,RBC,1,3,two,5", "line 6"),
        ("a.jpg,RBC,1", "is no box"),
    ],
)
def test_a_line_that_is_no_box_is_one_sentence(clone, line, said):
    with open(clone / "test.csv", "a") as file:
        file.write(line + "\n")
    with pytest.raises(UserError) as error:
        load_boxes("bccd", data=clone)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_info_lists_it(capsys, here):
    assert main(["info", "data"]) == 0
    assert "bccd" in capsys.readouterr().out


@pytest.mark.skipif("VITEDU_DATA" not in os.environ, reason="no real data")
def test_the_embedded_pictures_and_boxes_are_those_of_the_data_folder():
    full = Path(os.environ["VITEDU_DATA"], "bccd")
    found = load_boxes("bccd", data=full)
    assert [len(part.paths) for part in found[:3]] == [205, 87, 72]
    assert len(found.left_out) == 2
    ours = load_boxes("bccd", data=str(FOLDER))
    for part, whole in zip(ours[:3], found[:3], strict=True):
        for path, boxes, labels in zip(*part, strict=True):
            row = [each.name for each in whole.paths].index(path.name)
            assert path.read_bytes() == whole.paths[row].read_bytes()
            assert torch.equal(boxes, whole.boxes[row])
            assert torch.equal(labels, whole.labels[row])
