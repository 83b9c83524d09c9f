"""What people mistype and mistake: each time one sentence, and nothing lost."""

import os
import shlex
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from tests.cli.small import write_model, write_picture, write_pictures
from vitedu.cli import main
from vitedu.cli.output import rows_in

# a command, and a part of the sentence that it gets; `run` is one of digits
TABLE = Path(__file__).parents[1] / "tables/commands.txt"
MISTAKES = rows_in(TABLE.read_text())
BAD_PATHS = ["", "n" * 300, "loop", "pipe", "w.safetensors/x"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory, trained_once):
    """A folder with a run, weights and pictures."""
    folder = tmp_path_factory.mktemp("mistakes")
    shutil.copytree(trained_once, folder / "run")
    (folder / "half").mkdir()
    shutil.copy(folder / "run/config.json", folder / "half")
    write_model(folder / "w.safetensors", ("ants", "bees"))
    arrays = load_file(folder / "w.safetensors")
    save_file(arrays, folder / "theirs.safetensors")
    write_pictures(folder / "photos", ants=3, bees=3)
    write_picture(folder / "flat/x.png")
    write_picture(folder / "a.png")
    (folder / "empty").mkdir()
    (folder / "bad").mkdir()
    (folder / "bad/1.png").write_bytes(b"no picture")
    for path in ("notes.txt", "empty/notes.txt"):
        (folder / path).write_text("no picture")
    return folder


@pytest.fixture
def here(here, everything, monkeypatch):
    """That folder, which no mistake changes."""
    monkeypatch.chdir(everything)
    before = sorted(everything.rglob("*"))
    yield everything
    assert sorted(everything.rglob("*")) == before


@pytest.mark.parametrize(
    ("typed", "said"), MISTAKES, ids=lambda text: text[:50]
)
def test_a_mistake_is_one_sentence(here, sentence, typed, said):
    line = sentence(*shlex.split(typed))
    assert said in line and len(line) < 2200


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "info PATH",
        "predict PATH a.png",
        "predict w.safetensors PATH",
        "evaluate PATH digits",
        "evaluate w.safetensors PATH",
        "evaluate w.safetensors digits data=PATH",
        "evaluate w.safetensors photos labels=PATH",
        "convert PATH target --to timm",
        "convert w.safetensors PATH --to timm",
        "train digits --out PATH",
        "train digits --out PATH --fresh",
        "train --resume PATH",
        "train shapes-small data=PATH",
        "train finetune weights=PATH data=photos",
        "train finetune weights=w.safetensors data=PATH",
        "bench PATH",
    ],
)
def test_a_bad_path_is_one_sentence_for_every_command(here, sentence, words):
    (here / "loop").symlink_to("loop")
    os.mkfifo(here / "pipe")
    try:
        for path in BAD_PATHS:
            typed = [word.replace("PATH", path) for word in words.split()]
            assert len(sentence(*typed)) > len("vitedu: ")
    finally:
        (here / "loop").unlink()
        (here / "pipe").unlink()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="the administrator may read everything",
)
@pytest.mark.parametrize(
    "words",
    [
        "info secret",
        "predict w.safetensors secret/a.png",
        "evaluate w.safetensors secret",
        "train digits --out secret",
        "train digits --out secret --fresh",
        "train --resume secret",
        "train shapes-small data=secret",
    ],
)
def test_a_folder_without_permission_is_one_sentence(here, sentence, words):
    (here / "secret").mkdir(mode=0)
    try:
        assert "ermission denied" in sentence(*words.split())
    finally:
        (here / "secret").rmdir()


def test_an_old_table_stays_if_the_new_one_fails(here, sentence):
    table = here / "old.csv"
    words = ["predict", "w.safetensors", "--csv", "old.csv"]
    assert main([*words, "photos"]) == 0
    before = table.read_bytes()
    assert len(before.splitlines()) == 7
    sentence(*words, "gone.png")
    assert table.read_bytes() == before
    table.unlink()
