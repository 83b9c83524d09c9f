"""`vitedu prepare` and what is done with its result."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.cli.small import write_pictures
from vitedu.cli import main


@pytest.fixture
def here(here):
    """A folder with pictures of two classes, in two parts."""
    for part in ("train", "val"):
        write_pictures(here / "pets" / part, ant=8, bee=8)
    return here


def test_it_answers_with_counts_and_where_to_go_on(here, capsys):
    (here / "pets/train/bee/x.jpg").write_bytes(b"no")
    assert main(["prepare", "pets", "small", "short_side=16"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("small: 32 pictures of 2 classes (16 in train, 16 in")
    end = " in 2 shards, 1 left out; train with data=small"
    assert out.rstrip().endswith(end)
    assert "left out: cannot read train/bee/x.jpg: it is not a pict" in err
    assert main(["prepare", "pets", "small", "short_side=16"]) == 0
    assert "small was finished already: 32 pictures" in capsys.readouterr().out
    assert main(["prepare", "pets", "plain", "format=folder"]) == 0
    assert " in folders, 1 left out" in capsys.readouterr().out


def test_json_has_counts_and_settings(here, answer):
    values = answer("prepare", "pets", "small", "shard_size=5", "quality=70")
    assert values["settings"] == {
        "format": "shards",
        "short_side": 256,
        "shard_size": 5,
        "quality": 70,
    }
    assert values["parts"]["train"]["counts"] == [8, 8]
    assert values["parts"]["train"]["shards"] == 4
    assert values["was_finished"] is False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_ctrl_c_leaves_what_is_done_and_says_how_to_go_on(process, here):
    write_pictures(here / "pets/train", (300, 320), ant=25, bee=25)
    words = ["prepare", "pets", "small", "shard_size=2", "num_workers=1"]
    number = process.start(*words)
    notes = here / "small" / ".unfinished"
    while not (notes.is_dir() and any(notes.glob("*.json"))):
        time.sleep(0.001)
    os.kill(number, signal.SIGINT)
    stopped = process.wait()
    assert stopped.code == 130
    assert "the same command goes on from here" in stopped.err
    assert not json.loads(Path("small/index.json").read_text())["complete"]
    assert not list(here.glob("small/*.part"))
    assert process.run(*words).code == 0
    assert json.loads(Path("small/index.json").read_text())["complete"]


@pytest.mark.slow
def test_a_model_is_trained_and_measured_on_shards(here, answer):
    answer("prepare", "pets", "small", "shard_size=5", "short_side=16")
    trained = answer(
        *("train", "finetune", "weights=shapes-small", "data=small"),
        *("steps=2", "--tier", "smoke", "--device", "cpu", "--out", "run"),
    )
    assert trained["dataset"]["num_train"] == trained["dataset"]["num_test"]
    assert answer("evaluate", "run")["num_images"] == 16
    assert answer("evaluate", "run", "small")["num_images"] == 16
    one = answer("evaluate", "run", "small/train-{000000..000003}.tar")
    assert one["num_images"] == 16
