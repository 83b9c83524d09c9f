"""A run that is killed or stopped comes to the same end as one that is not."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from vitedu.cli import main
from vitedu.cli.train import Interrupt
from vitedu.results import read_file
from vitedu.train import fit
from vitedu.train.run_folder import RunFolder

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_and_resume.py"
WORDS = [
    *("train", "digits", "model.embed_dim=8", "model.depth=1"),
    *("model.num_heads=2", "model.mlp_dim=8", "model.dropout=0.1"),
    *("steps=30", "log_every=1", "validation=0.2", "ema=0.9"),
    *("--tier", "smoke", "--device", "cpu", "--json"),
]


def send_after_line(number, log, line):
    """Send this process the signal `number` once `log` has `line` lines."""

    def wait():
        while not log.exists() or log.read_text().count("\n") < line:
            time.sleep(0.001)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_request_to_end_saves_and_the_run_goes_on(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    folder = RunFolder("parts")
    thread = send_after_line(signal.SIGTERM, folder.log, 5)
    assert main([*WORDS, "--out", "parts"]) == 0
    thread.join()
    out, err = capfd.readouterr()
    assert json.loads(out)["status"] == "interrupted"
    assert "stopping after this step" in err
    assert folder.history()[-1]["step"] < 30
    config = folder.read_config()
    for name in ("parts", "whole"):
        assert fit(config, name).result["status"] == "finished"
    weights = folder.weights.read_bytes()
    assert weights == Path("whole/model.safetensors").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_same_signal_sent_twice_at_once_is_one(capfd, number):
    with Interrupt() as interrupt:
        assert not interrupt.is_requested()
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert interrupt.is_requested()
    assert capfd.readouterr().err.count("stopping") == 1


@pytest.fixture
def on_the_keyboard():
    """Ctrl-C as at a terminal: what is started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
    words = ["--kills", "3", "--terms", "1", "--steps", "20"]
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
