"""A run that is killed or stopped comes to the same end as one that is not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vitedu.cli.train import Interrupt
from vitedu.results import read_file

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_and_resume.py"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_same_signal_sent_twice_at_once_is_one(capfd, number):
    with Interrupt() as interrupt:
        assert not interrupt.is_requested()
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert interrupt.is_requested()
    assert capfd.readouterr().err.count("stopping") == 1


def test_a_later_signal_stops_at_once(on_the_keyboard):
    with pytest.raises(KeyboardInterrupt), Interrupt() as interrupt:
        signal.raise_signal(signal.SIGTERM)
        interrupt.received -= 2  # as if two seconds had passed
        signal.raise_signal(signal.SIGINT)


def test_signals_are_as_before_when_the_run_is_over():
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with Interrupt():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.slow
def test_killed_and_stopped_runs_end_in_the_same_bytes(tmp_path):
    result = tmp_path / "kill-and-resume.json"
    words = ["--kills", "3", "--terms", "1", "--steps", "30"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words, "--result", str(result)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SCRIPT.parents[1])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    metrics = read_file(result)["metrics"]
    assert metrics["equal_runs"]["value"] == 2
    assert metrics["sigkills"]["value"] == 3
    # the second of the three waits for a checkpoint that is being written
    assert metrics["sigkills_in_a_write"]["value"] <= 3
