"""`vitedu train --dry-run`: what it says, and that it leaves nothing behind."""

import json
import os
import re
import signal
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from tests.cli.small import SMOKE, TINY, write_pictures
from tests.train.runs import Two
from vitedu.bench import trial
from vitedu.cli import main
from vitedu.train import fit, recipe

pytestmark = pytest.mark.slow  # whole commands

DIGITS = [*SMOKE, "--device", "cpu"]
DRY = [*DIGITS, "--dry-run"]


def train_in(folder):
    assert main([*DIGITS, "--out", str(folder)]) == 0


def shapes(*words):
    """A run on photos/, of one step."""
    words = ["shapes-small", "data=photos", *words]
    return ["train", *words, *TINY, "--tier", "smoke", "steps=1", "--dry-run"]


@pytest.fixture
def photos(here):
    """Pictures of two classes, ten to train on and two to test."""
    write_pictures(here / "photos/train", ants=3, bees=7)
    write_pictures(here / "photos/val", ants=1, bees=1)
    return here / "photos"


def everything(folder):
    """Every path below a folder with its content and date."""
    return {
        path: (path.is_file() and path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
    }


# --- what it says


def test_it_answers_in_rows_and_writes_nothing(here, capsys):
    before = everything(here)
    assert main(DRY) == 0
    assert everything(here) == before
    out, err = capsys.readouterr()
    rows = [line.split("  ")[0] for line in out.splitlines()]
    assert rows == ["classes", "memory", "training", "evaluation"]
    assert out.startswith("classes     10; ") and ": enough\n" in out
    assert "for 20 steps of " in out and "(median of 10 measured)" in out
    # what a run announces, after what it needs
    assert "model   1 block, 8 wide" in err
    assert err.startswith("memory  ") and ": enough\n" in err
    assert "log_every" not in err


def test_json_has_the_numbers(here, answer):
    values = answer(*DRY)
    assert values["dry_run"] is True
    assert values["memory"]["enough"] is True
    assert values["memory"]["needed"]["total"] < values["memory"]["available"]
    expected = values["time"]
    assert expected["measured_steps"] == 10
    assert expected["training_seconds"] == pytest.approx(
        20 * expected["step_seconds"]
    )
    assert 0 <= expected["data_wait"] <= 1
    data = values["data"]
    assert (data["num_train"], data["num_test"]) == (512, 500)
    assert data["smallest"]["count"] <= data["largest"]["count"]


def test_it_tells_of_class_sizes_and_of_unreadable_pictures(photos, capsys):
    (photos / "train/ants/broken.png").write_bytes(b"not a picture")
    assert main(shapes()) == 0
    out, err = capsys.readouterr()
    sizes = "3 images to train on in the smallest (ants), 7 in the largest (be"
    assert f"classes     2; {sizes}" in out
    assert "1 of 13 pictures" in err
    assert "taking at most 1 step to time them" in err
    assert "pictures    1 can't be read and are left out; the first: " in out
    assert "ants/broken.png" in out


def test_a_model_too_large_to_be_timed_is_not(photos, capsys):
    words = ["model.image_size=448", "model.patch_size=4", "batch_size=1"]
    words += ["model.embed_dim=256", "model.mlp_dim=1024", "model.depth=9"]
    command = ["train", "shapes-small", "data=photos", "threads=1", *words]
    assert main([*command, "--device", "cpu", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert "training  not timed: a single image would take about" in out
    assert "to time them" not in err


def test_a_step_of_fewer_images_is_scaled(here, answer, monkeypatch):
    monkeypatch.setattr(trial, "SLOWEST", 1e6)
    took = answer(*DRY, "batch_size=64")["time"]
    assert took["measured_images"] < took["batch_size"] == 64
    speed = 64 / took["step_seconds"]
    assert took["images_per_second"] == pytest.approx(speed)
    assert took["steps"] == 20


# --- memory that won't do


def test_memory_that_will_not_do_is_said_with_what_would(here, capsys):
    # over 50 MB of activations an image, for 2,500 images at a time
    words = ["batch_size=2500", "model.mlp_dim=100000", "steps=1"]
    words += ["--device", "cpu"]
    assert main(["train", "digits", *words, "--dry-run"]) == 0
    out, _ = capsys.readouterr()
    assert "not enough; add micro_batch_size=" in out
    assert "training" not in out


def test_a_batch_of_more_images_than_there_are_is_measured_as_all_of_them(
    here, capsys
):
    assert main([*DRY, "batch_size=1000000", "--json"]) == 0
    out, err = capsys.readouterr()
    took = json.loads(out)["time"]
    assert took["images_per_second"] * took["step_seconds"] < 2501
    assert re.search(r"1,000,000 \(all [\d,]+ images at once\)", err)


# --- what it leaves behind


def test_the_folder_of_a_run_stays_as_it_is(here):
    train_in(here / "run")
    before = everything(here)
    for more in ([], ["--fresh"], ["lr=0.1", "--fresh"]):
        assert main([*DRY, *more, "--out", "run"]) == 0
    assert main(["train", "--resume", "run", "--dry-run"]) == 0
    assert everything(here) == before


def test_a_finished_run_is_not_tried(here, capsys):
    train_in(here / "run")
    assert main(["train", "--resume", "run", "--dry-run"]) == 0
    assert "is finished; nothing would be done" in capsys.readouterr().out


def test_of_a_run_that_was_stopped_the_rest_is_timed(here, answer):
    stops = iter(range(100))
    config = replace(recipe("digits", "smoke"), log_every=4, threads=1)
    config = replace(config, device="cpu", precision="fp32")
    fit(config, "run", should_stop=lambda: next(stops) == 11)
    words = ["train", "--resume", "run", "--dry-run"]
    assert answer(*words)["time"]["steps"] == 8  # 12 of 20 are in the log


def test_several_processes_give_one_answer(here):
    assert Two(*DRY[1:]).answer()["time"]["measured_steps"] == 10
    assert not (here / "runs").exists()


# --- what a run would refuse


@pytest.mark.parametrize(
    "words",
    [
        ["train", "digit"],
        ["train", "digits", "lr=fast"],
        ["train", "finetune", "data=nowhere"],
        ["train", "mnist-tiny", "--device", "cpu"],
        ["train", "digits", "model.image_size=30", "model.patch_size=5"],
        ["train", "imagenet-b16-384", "data=photos", "--tier", "gpu"],
        ["train", "imagenet-b16-384", "--tier", "gpu"],
        ["train", "digits", "keep=best"],
        [*DIGITS, "--out", "mine"],
    ],
)
def test_what_a_run_refuses_is_refused_in_the_same_sentence(
    here, photos, words, sentence
):
    (here / "mine").mkdir()
    (here / "mine/letter.txt").touch()
    assert sentence(*words, "--dry-run") == sentence(*words)


def test_interrupting_it_is_clean(here, process):
    slow = ["model.embed_dim=256", "model.depth=4"]
    child = process.start("train", "digits", *slow, "--dry-run")
    while "to time them" not in (process.folder / "stderr").read_text():
        time.sleep(0.02)
    os.kill(child, signal.SIGINT)
    done = process.wait()
    assert done.code == 130
    assert done.out == "" and "Traceback" not in done.err
    assert not (here / "runs").exists()


def test_an_evaluation_between_two_steps_is_not_timed():
    state = SimpleNamespace(step=0, is_done=False)
    timed = trial.Trial(torch.device("cpu"), lambda start: None)
    timed.begun, timed.since = SimpleNamespace(state=state), time.perf_counter()
    timed.stepped()  # between two batches of an evaluation
    time.sleep(0.1)
    timed.stepped()
    state.step = 1
    timed.stepped()
    assert len(timed.seconds) == 1 and timed.seconds[0] < 0.1
