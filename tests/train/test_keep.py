"""keep="best", and what a run that is stopped leaves behind."""

import shutil
from contextlib import chdir
from dataclasses import replace

import pytest
import torch

import vitedu
from tests.train.runs import (
    SHORT,
    SMALL,
    equal,
    lines,
    stopper,
    weights,
    write_set,
)
from vitedu.errors import UserError
from vitedu.train import fit
from vitedu.train.checkpoint import read_saved

pytestmark = pytest.mark.slow  # each test trains

# 3 steps an epoch; a rate so high that accuracy goes up and down
BEST = replace(
    SHORT,
    model=replace(SMALL, dropout=0.1),
    steps=18,
    lr=0.05,
    schedule="constant",
    validation=0.4,
    keep="best",
    log_every=1,
)
AVERAGED = replace(BEST, ema=0.9)


# 40 + 11 noisy images
NOISY = {"train": 40, "noise": 200, "step": 25}


@pytest.fixture
def here(here):
    write_set(here, **NOISY)
    return here


def accuracies(run):
    """Validation accuracy by step."""
    return {
        line["step"]: line["validation_accuracy"]
        for line in run.history
        if "validation_accuracy" in line
    }


def best_step(run):
    """The last step with the highest validation accuracy."""
    measured = accuracies(run)
    return max(measured, key=lambda step: (measured[step], step))


# --- the best weights


@pytest.mark.parametrize("config", [BEST, AVERAGED], ids=["own", "averaged"])
def test_the_best_weights_are_those_of_a_run_that_ends_there(here, config):
    run = fit(config, "best")
    step = best_step(run)
    assert step < 18  # or there would be nothing to see
    # at a constant rate a shorter run is the beginning of a longer one
    shorter = fit(replace(config, steps=step, keep="last"))
    assert equal(shorter.model, run.model)


def test_of_equal_accuracies_the_later_is_kept(here):
    # a rate that changes no answer: all accuracies are equal
    run = fit(replace(BEST, lr=1e-12))
    assert len({*accuracies(run).values()}) == 1
    assert best_step(run) == 18
    assert "weights are those of step 18, the best" in run.result["notes"]


def test_the_result_and_the_file_are_of_the_best_weights(here):
    run = fit(BEST, "run")
    measured, step = accuracies(run), best_step(run)
    metrics = run.result["metrics"]
    assert metrics["validation_accuracy"]["value"] == measured[step]
    assert f"weights are those of step {step}, the best" in run.result["notes"]
    assert equal(vitedu.load("run"), run.model)
    assert weights(here / "run") == weights(here / "run", "best")
    last = fit(replace(BEST, keep="last"), "last")
    assert weights(here / "last") != weights(here / "run")
    assert accuracies(last) == measured


@pytest.mark.parametrize(
    "choice", [{"keep": "best"}, {"keep": "last", "patience": 2}]
)
def test_choosing_wants_something_to_choose_by(here, choice):
    with pytest.raises(
        UserError, match=r"to choose by; hold .* validation=0\.1"
    ):
        fit(replace(BEST, validation=0.0, **choice), "run")
    assert not (here / "run").exists()


def test_weights_that_are_not_finite_are_never_the_best(here):
    config = replace(
        BEST, optimizer="sgd", lr=1e30, save_every=1000, log_every=1000
    )
    with pytest.raises(UserError, match=r"model\.\S+ became nan or infinite"):
        fit(config, "run")
    assert not (here / "run" / "best.safetensors").exists()
    assert "validation_accuracy" not in (here / "run/log.jsonl").read_text()


# --- patience


@pytest.mark.parametrize("patience", [1, 2])
def test_a_run_ends_when_no_epoch_is_better_any_more(here, patience):
    # all accuracies are equal, and none is better than the first
    config = replace(BEST, lr=1e-12, patience=patience)
    run, end = fit(config, "run"), 3 + 3 * patience
    assert [*accuracies(run)] == [*range(3, end + 1, 3)]
    assert run.result["status"] == "finished"
    assert (
        f"ended at step {end} of 18, since patience={patience} "
        in (run.result["notes"])
    )
    assert f"weights are those of step {end}, the best" in run.result["notes"]
    again = fit(config, "run")
    assert again.result == run.result


def test_patience_changes_nothing_before_the_end(here):
    whole = accuracies(fit(BEST))
    part = accuracies(fit(replace(BEST, patience=1)))
    assert part == {step: whole[step] for step in part}
    assert len(part) < len(whole)
    assert accuracies(fit(replace(BEST, patience=6))) == whole


@pytest.mark.parametrize("line", [4, 9, 12, 13])
def test_a_run_that_ends_early_may_be_killed_at_any_line(here, line):
    config = replace(BEST, lr=1e-12, patience=2, save_every=4, ema=0.9)
    fit(config, "whole")
    with pytest.raises(Killed):
        fit(config, "parts", on_progress=killer(line))
    fit(config, "parts")
    assert weights(here / "parts") == weights(here / "whole")
    assert lines(here / "parts") == lines(here / "whole")


# --- killed and resumed


class Killed(Exception):
    pass


def killer(line):
    """An on_progress that ends the run once the log has so many lines."""
    counter = iter(range(1, 1000))

    def kill(progress):
        if next(counter) == line:
            raise Killed

    return kill


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    write_set(folder, **NOISY)
    with chdir(folder):
        fit(replace(AVERAGED, save_every=4), "whole")
    return folder / "whole"


# before the first save, around a validation, after a save, in the last epoch
@pytest.mark.parametrize("line", [1, 4, 5, 8, 14, 23, 24])
def test_a_run_killed_at_any_line_ends_on_the_same_best_bytes(
    here, whole, line
):
    config = replace(AVERAGED, save_every=4)
    with pytest.raises(Killed):
        fit(config, "parts", on_progress=killer(line))
    fit(config, "parts")
    assert weights(here / "parts") == weights(whole)
    assert lines(here / "parts") == lines(whole)


def test_a_run_killed_between_weights_and_line_ends_on_the_same_bytes(here):
    # saved after every step, so that it goes on right where the line is lacking
    config = replace(AVERAGED, save_every=1)
    step = best_step(fit(config, "whole"))

    def kill(progress):
        if progress.step == step and "validation_loss" in progress.line:
            raise Killed

    with pytest.raises(Killed):
        fit(config, "parts", on_progress=kill)
    folder = here / "parts"
    assert read_saved(folder / "checkpoint.pt")["step"] == step
    log = (folder / "log.jsonl").read_text().splitlines(keepends=True)
    assert "validation_loss" in log[-1]
    (folder / "log.jsonl").write_text("".join(log[:-1]))
    fit(config, "parts")
    assert weights(folder) == weights(here / "whole")
    assert lines(folder) == lines(here / "whole")


def test_best_weights_that_a_later_step_wrote_do_not_count(here):
    # the log is ahead of the checkpoint, and so are the weights beside it
    config = replace(AVERAGED, save_every=4)
    fit(config, "whole")
    with pytest.raises(Killed):
        fit(config, "parts", on_progress=killer(20))
    shutil.copy("whole/best.safetensors", "parts/best.safetensors")
    fit(config, "parts")
    assert weights(here / "parts") == weights(here / "whole")


# --- what a stopped run leaves


@pytest.mark.parametrize("ema", [None, 0.9], ids=["own", "averaged"])
def test_a_stopped_run_leaves_a_model_that_loads(here, ema):
    config = replace(BEST, keep="last", ema=ema)
    run = fit(config, "run", should_stop=stopper(5))
    assert run.result["status"] == "interrupted"
    saved = read_saved(here / "run" / "checkpoint.pt")
    now = saved["model"] if ema is None else saved["ema"]["average"]
    model = vitedu.load("run")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, now[name])
        assert torch.equal(tensor, run.model.state_dict()[name])
    assert model.class_names == ("0", "1", "2")
    assert model.preprocess == config.preprocess
    assert not run.model.training
