"""What a person sees of a run in Python, and how they stop it."""

import builtins
import logging
import signal
from dataclasses import replace

import pytest

from tests.train.runs import SHORT, drawn, equal, stopper, weights
from vitedu.train import fit

CONFIG = replace(SHORT, log_every=1, threads=1)
GIVEN = {"train": drawn(30)}  # of which a fifth is held out: a note
HELD_OUT = "no test data were given with arrays, so 6 of its 30 pictures"


@pytest.fixture
def notebook(monkeypatch):
    """What IPython adds to Python, by which a notebook is known."""
    monkeypatch.setattr(builtins, "get_ipython", None, raising=False)


# --- notes and a bar


def test_a_notebook_shows_the_notes_and_a_bar(here, notebook, capfd):
    fit(CONFIG, **GIVEN)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count(f"note: {HELD_OUT}") == 1
    assert err.index("note: ") < err.rindex("100%|")
    assert "loss " in err and " test " in err


def test_without_a_bar_there_is_nothing(here, notebook, capfd):
    fit(CONFIG, progress=False, **GIVEN)
    assert capfd.readouterr() == ("", "")


def test_where_nobody_watches_only_a_program_that_asks_hears_the_notes(
    here, capfd, caplog
):
    fit(CONFIG, **GIVEN)
    assert caplog.messages == []
    caplog.set_level(logging.INFO, "vitedu")
    fit(CONFIG, "run", **GIVEN)
    fit(CONFIG, "run", **GIVEN)
    first, second = caplog.messages
    assert HELD_OUT in first and second == "the run in run was already finished"
    assert capfd.readouterr() == ("", "")


def test_notes_can_be_silenced_by_their_logger(here, notebook, capfd):
    logger = logging.getLogger("vitedu")
    logger.setLevel(logging.WARNING)
    fit(CONFIG, **GIVEN)
    logger.setLevel(logging.NOTSET)
    assert "note: " not in capfd.readouterr().err
    fit(CONFIG, **GIVEN)
    assert "note: " in capfd.readouterr().err


# --- Ctrl-C


def press_ctrl_c(progress):
    if progress.step == 3:
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_saves_and_the_same_line_goes_on(here, on_the_keyboard, capfd):
    with pytest.raises(KeyboardInterrupt) as stopped:
        fit(CONFIG, "run", on_progress=press_ctrl_c)
    said = "stopped at step 3 of 6 and saved in run; the same line goes on"
    assert str(stopped.value) == said
    assert "stopping after this step" in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    steps = []
    again = fit(CONFIG, "run", on_progress=lambda x: steps.append(x.step))
    assert steps == [4, 5, 6, 6]
    assert equal(again.model, fit(CONFIG, "whole").model)
    assert weights(here / "run") == weights(here / "whole")


def test_ctrl_c_ends_a_run_that_is_not_saved_at_once(here, on_the_keyboard):
    seen = []
    with pytest.raises(KeyboardInterrupt):
        fit(
            CONFIG, on_progress=press_ctrl_c, should_stop=lambda: seen.append(0)
        )
    assert len(seen) == 2


def test_a_program_that_handles_ctrl_c_itself_goes_on_to_do_so(here):
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
    run = fit(CONFIG, "run", on_progress=press_ctrl_c)
    signal.signal(signal.SIGINT, before)
    assert (run.result["status"], pressed) == ("finished", [1])


# --- the run


def test_a_run_has_its_accuracy_in_percent(here):
    run = fit(CONFIG, "run", should_stop=stopper(2))
    assert (run.accuracy, run.report) == (None, None)
    run = fit(CONFIG, "run")
    assert run.accuracy == run.result["metrics"]["test_accuracy"]["value"]
    assert fit(CONFIG, "run").accuracy == run.accuracy
