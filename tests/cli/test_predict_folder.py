"""`vitedu predict` on folders, and its table."""

import csv
import json
import os
from pathlib import Path

import pytest
from PIL import Image

import vitedu
from tests.cli.small import write_model
from vitedu.cli import main, progress

SHADES = {"b.png": 200, "a/2.png": 90, "a/10.png": 30, "a/deep/x.jpg": 255}
IN_ORDER = ["a/10.png", "a/2.png", "a/deep/x.jpg", "b.png"]
NAMES = ("=dark", "Käfer", "蜂")


@pytest.fixture
def here(here):
    """A model of three classes, and a folder of four pictures."""
    write_model("w.safetensors", NAMES, num_classes=3)
    for name, shade in SHADES.items():
        path = here / "album" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 24), (shade, 9, 9)).save(path)
    return here


def rows(path="out.csv"):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def tabled(*words):
    """The rows of the table that `vitedu predict` writes."""
    assert main(["predict", "w.safetensors", *words, "--csv", "out.csv"]) == 0
    return rows()


def test_a_folder_is_read_however_deep_in_the_order_of_names(here, answer):
    files = [os.path.join("album", *name.split("/")) for name in IN_ORDER]
    found = answer("predict", "w.safetensors", "album")
    assert [each["image"] for each in found["predictions"]] == files
    assert (found["num_pictures"], found["num_skipped"]) == (4, 0)
    assert [row["file"] for row in tabled("album")] == files


def test_a_table_says_what_classify_says_of_as_many_classes_as_asked(here):
    model = vitedu.load("w.safetensors")
    found = tabled("album", "--top", "2")
    header = "file class probability class_2 probability_2 error"
    assert [*found[0]] == header.split()
    for row in found:
        assert not row["error"]
        guesses = vitedu.classify(model, row["file"], top=2)
        for end, guess in zip(("", "_2"), guesses, strict=True):
            assert row[f"class{end}"].lstrip("'") == guess.name
            # float32, batches of another size; written with six digits
            share = float(row[f"probability{end}"])
            assert share == pytest.approx(guess.probability, abs=2e-6)


def test_unreadable_pictures_are_listed_and_the_others_go_on(here, capsys):
    (here / "album/a/11.png").write_bytes(b"no picture")
    (here / "album/c.jpg").symlink_to("nowhere.jpg")
    words = ["predict", "w.safetensors", "album", "--csv", "out.csv"]
    assert main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert answer["csv"] == "out.csv"
    assert (answer["num_pictures"], answer["num_skipped"]) == (4, 2)
    assert "11.png: it is not a picture" in answer["skipped"][0]
    assert "note: 2 of 6 pictures are left out" in err
    assert len(rows()) == 6
    bad = [row for row in rows() if row["error"]]
    assert [os.path.basename(row["file"]) for row in bad] == ["11.png", "c.jpg"]
    assert all(not row["class"] and not row["probability"] for row in bad)


def test_without_a_terminal_a_line_says_how_far_it_is(
    here, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    tabled("album")
    lines = capsys.readouterr().err.splitlines()
    assert [x.partition(",")[0] for x in lines] == [
        f"{n} of 4 pictures" for n in range(5)
    ]
    assert all(line.endswith(" left") for line in lines[1:-1])


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="the administrator may read everything",
)
def test_what_may_not_be_read_is_listed(here):
    (here / "album/secret").mkdir(mode=0)
    (here / "album/b.png").chmod(0)
    bad = [row["error"] for row in tabled("album") if row["error"]]
    assert len(bad) == 2 and all("ermission denied" in x for x in bad)


# --- names


def test_no_cell_of_a_table_begins_like_a_formula(here, monkeypatch):
    monkeypatch.chdir(here / "album")
    os.rename("b.png", "=cmd|' -C calc'!A0.png")
    words = ["predict", "../w.safetensors", "=cmd|' -C calc'!A0.png", "."]
    assert main([*words, "--csv", "out.csv"]) == 0
    with open("out.csv", newline="", encoding="utf-8") as file:
        found = list(csv.reader(file))
    for cell in (cell for row in found for cell in row):
        assert not cell.startswith(tuple("=+-@\t\r\n"))
    # and the file is still found by its name
    assert all(os.path.isfile(row[0]) for row in found[1:])
    assert any("'=dark" in row for row in found)
    # quoted, so that semicolons don't split it
    assert Path("out.csv").read_text().startswith('"file","class","probabil')


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ('Käfer, "蜂"; 🐝\n.png', 'Käfer, "蜂"; 🐝\n.png'),
        (os.fsdecode(b"caf\xe9.png"), r"caf\udce9.png"),
    ],
    ids=["utf-8", "latin-1"],
)
def test_names_of_any_script_are_written_in_utf_8(here, name, written):
    os.rename(here / "album/b.png", here / "album" / name)
    files = [row["file"] for row in tabled("album")]
    assert os.path.join("album", written) in files
