"""TrashNet's parts, and the 120 photographs of it that the package carries."""

import hashlib
import os
import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from tests.data.test_zips import zipped
from vitedu.cli import main
from vitedu.data import MissingDataError, folder_of, load_folder
from vitedu.data.catalogue import CATALOGUE, File
from vitedu.data.open import known_classes

ROOT = Path(__file__).parents[2]
REAL = Path(os.environ.get("VITEDU_DATA") or "/nowhere") / "trashnet"
NAMES = ("cardboard", "glass", "metal", "paper", "plastic", "trash")
TOOL = runpy.run_path(str(ROOT / "tools" / "trashnet.py"))


pytestmark = pytest.mark.usefixtures("here")


def paths_of(split):
    return [split[row][0] for row in range(len(split))]


def test_the_small_set_is_there_without_any_other_data():
    small = load_folder(folder_of("trashnet-small"))
    assert (small.name, small.class_names) == ("trashnet-small", NAMES)
    assert small.validation is None and small.notes == ()
    for split in (small.train, small.test):
        assert split.labels.bincount().tolist() == [10] * 6
    assert small.digest == "5350c4f1526811db"


def test_the_small_set_is_under_a_megabyte_and_in_the_wheel(monkeypatch):
    folder = folder_of("trashnet-small")
    sizes = [path.stat().st_size for path in folder.glob("*/*/*.jpg")]
    assert len(sizes) == 120 and sum(sizes) < 1_000_000
    assert len([x for x in folder.rglob("*") if x.is_file()]) == 120
    project = (ROOT / "pyproject.toml").read_text()
    for each in ("trashnet-small/*/*/*.jpg", "trashnet.LICENSE.txt"):
        assert f'\n    "{each}",\n' in project
    terms = folder.with_name("trashnet.LICENSE.txt").read_text()
    assert "MIT License" in terms and "What was changed" in terms
    notice = (ROOT / "NOTICE").read_text()
    assert "Gary Thung and Mindy Yang" in notice and "trashnet-small" in notice


def test_offline_the_whole_set_is_one_sentence_that_names_the_small_one():
    with pytest.raises(MissingDataError) as error:
        load_folder(folder_of("trashnet"))
    said = str(error.value)
    assert said.startswith("TrashNet is not in $VITEDU_DATA/trashnet (")
    assert "unset it, or sort https://github.com/garythung/" in said
    assert "or use trashnet-small, " in said and "\n" not in said
    assert known_classes("trashnet", num_classes=0) == NAMES


def test_a_download_is_sorted_by_the_authors_lists(
    tmp_path, monkeypatch, file_server
):
    parts = {"train": [1, 4], "val": [3], "test": [2]}
    pictures = [f"{x}/{x}{i}.jpg" for x in NAMES for i in range(1, 5)]
    stray = [("__MACOSX/dataset-resized/glass/._glass1.jpg", b"")]
    named = CATALOGUE["trashnet"]
    file_server.files = {
        named.files[0].name: zipped(pictures, stray, "dataset-resized"),
        **{
            named.splits[part]: "".join(
                f"{x}{i}.jpg 1\n" for x in NAMES for i in numbers
            ).encode()
            for part, numbers in parts.items()
        },
    }
    files = tuple(
        File(name, hashlib.sha256(content).hexdigest())
        for name, content in file_server.files.items()
    )
    mirrors = (f"{file_server.address}/good/",)
    entry = replace(named, files=files, mirrors=mirrors)
    monkeypatch.setitem(CATALOGUE, "trashnet", entry)
    monkeypatch.delenv("VITEDU_OFFLINE")
    dataset = load_folder(folder_of("trashnet"))
    assert dataset.class_names == NAMES
    found = (dataset.train, dataset.validation, dataset.test)
    for split, numbers in zip(found, parts.values(), strict=True):
        names = [path.name for path in paths_of(split)]
        assert names == [f"{x}{i}.jpg" for x in NAMES for i in numbers]
    assert os.listdir(tmp_path / "cache") == ["trashnet"]


@pytest.mark.slow
def test_both_are_listed_and_trained_on(tmp_path, monkeypatch, capsys):
    assert main(["info", "data"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in lines}
    assert rows["trashnet"].endswith("not here")
    assert "package: " in rows["trashnet-small"]
    out = ["--out", str(tmp_path / "run"), "--tier", "smoke"]
    fields = ["dataset=trashnet-small", "steps=2", "model.num_classes=6"]
    assert main(["train", "trashnet", *fields, *out]) == 0
    assert "60 images to train, 60 to test" in capsys.readouterr().err


def test_the_photographs_are_spread_over_the_authors_numbers():
    small = load_folder(folder_of("trashnet-small"))
    chosen = TOOL["spread"](small.train, 2)
    own = sorted(paths_of(small.train), key=TOOL["number"])
    glass = [path for path in own if path.parent.name == "glass"]
    assert chosen[2:4] == [glass[2], glass[7]]
    assert len(chosen) == 12


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="VITEDU_DATA has no trashnet/")
def test_the_real_set_has_its_authors_parts(tmp_path, monkeypatch):
    monkeypatch.setenv("VITEDU_DATA", str(REAL.parent))
    dataset = load_folder(folder_of("trashnet"))
    assert (dataset.name, dataset.class_names) == ("trashnet", NAMES)
    parts = (dataset.train, dataset.validation, dataset.test)
    assert [len(part) for part in parts] == [1768, 328, 431]
    TOOL["write"](tmp_path / "small")
    again = sorted((tmp_path / "small").glob("*/*/*"))
    carried = sorted(folder_of("trashnet-small").glob("*/*/*"))
    assert [x.parts[-3:] for x in again] == [x.parts[-3:] for x in carried]
