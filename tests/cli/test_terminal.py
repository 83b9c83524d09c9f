"""What a run shows: its five lines, its bar on a terminal, lines elsewhere."""

import json
import os
import re
import signal
import struct
import time

import pytest
import torch

from tests.cli.small import SMOKE, TINY
from vitedu.cli import main, progress
from vitedu.train.run_folder import RunFolder

pytestmark = pytest.mark.slow  # processes, terminals and signals


@pytest.fixture
def on_terminal(process):
    """Run a command on a terminal; its exit code, and each state of a line."""

    def run(columns, *words):
        fcntl = pytest.importorskip("fcntl", reason="no terminals on Windows")
        import pty
        import termios

        ours, theirs = pty.openpty()
        size = struct.pack("HHHH", 24, columns, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        name = os.ttyname(theirs)
        # COLUMNS, which pytest-xdist sets, would go before the size of the
        # terminal
        streams = {"stdin": name, "stdout": name, "stderr": name}
        process.start(*words, COLUMNS="", **streams)
        # only when the command has opened it
        written = os.read(ours, 65536)
        os.close(theirs)
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux: the other end is closed
                part = b""
            if not part:
                break
            written += part
        os.close(ours)
        lines = re.split(r"[\r\n]+", written.decode())
        code = process.wait().code
        return code, [line.rstrip() for line in lines if line.strip()]

    return run


# --- five lines


def test_five_lines_stand_before_a_run(here, capsys):
    assert main([*SMOKE, "lr=0.002", "threads=1", "--out", "runs/mine"]) == 0
    data, model, device, plan, run, *rest = capsys.readouterr().err.splitlines()
    assert data.startswith("data ") and "512 images to train" in data
    assert "500 to test; 10 classes: 0, 1, 2, ..." in data
    # patches 400, class token 8, positions 136, the block's norms 32, attention
    # 288 and MLP 144, the last norm 16, the head 90
    assert model.startswith("model   1 block, 8 wide, 7x7 patches of 28x28")
    assert model.endswith(" 1,114 weights")
    assert device.startswith("device ") and device.endswith(", 1 thread")
    assert "cpu, fp32" in device
    assert plan.startswith("plan ") and "20 steps, batch size 64" in plan
    assert "learning rate 0.002" in plan
    assert run.startswith("run ") and "runs/mine" in run
    assert "not as in the recipe: " in run and "lr=0.002" in run
    assert all(line.startswith("step ") for line in rest)
    kept = json.loads((here / "runs/mine/config.json").read_text())
    assert (kept["lr"], kept["schedule"]) == (0.002, "cosine")


# --- the bar


def test_the_bar_is_never_wider_than_the_terminal(here, on_terminal):
    code, lines = on_terminal(20, *SMOKE, "--out", "r")
    bars = [line for line in lines if "%|" in line]
    assert code == 0 and bars
    assert max(map(len, bars)) < 20


def test_a_run_on_a_terminal(here, on_terminal):
    words = [*SMOKE, "validation=0.2", "steps=200", "log_every=100"]
    # 500 test images in 16 batches, and a note that one process needs no
    # sharding
    words += ["batch_size=16", "shard=true", "--out", "r"]
    code, lines = on_terminal(78, *words)
    bars = [line for line in lines if "%|" in line]
    first_bar = lines.index(bars[0])
    assert code == 0
    # the lines before the run are broken to fit, and a note stands below them
    # once
    assert first_bar >= 5
    assert max(map(len, lines)) < 78, max(lines, key=len)
    note = "note    shard=true has no effect: there is one process"
    assert lines.count(note) == 1 and lines.index(note) == first_bar - 1
    # the bar shows loss and accuracies, and that it is evaluating
    assert any(
        re.search(r"loss \S+  acc [\d.]+%  val [\d.]+%", line) for line in bars
    )
    assert any(re.search(r"  test [\d.]+%", line) for line in bars)
    assert any("  evaluating  " in line for line in bars)
    assert "evaluating" not in bars[-1]
    # it moves before the first measurement
    unmeasured = [line for line in bars if "loss" not in line]
    assert any(" left" in line and " img/s" in line for line in unmeasured)


def test_elsewhere_first_and_last_measurement_make_a_line(here, capsys):
    main([*SMOKE, "log_every=2"])
    err = capsys.readouterr().err
    assert "\r" not in err and "%|" not in err  # no bar
    lines = [x for x in err.splitlines() if x.startswith("step ")]
    assert [line.split(":")[0] for line in lines] == [
        "step 2 of 20",
        "step 20 of 20",
        "step 20 of 20",  # with the test part
    ]
    assert "loss " in lines[0] and "train accuracy " in lines[0]
    assert " images/s" in lines[0] and "test accuracy " in lines[-1]


def test_elsewhere_a_minute_without_a_measurement_makes_a_line(
    here, capsys, monkeypatch
):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr(progress.Reporter, "every", 0.0)
    main([*SMOKE, "log_every=20"])
    err = capsys.readouterr().err
    assert re.search(r"step 3 of 20: 00:\d\d left, [\d,]+ images/s\n", err)
    assert "step 2 of 20: " in err
    assert "not as in the recipe" in err
    main(["train", "digits", "--tier", "smoke"])
    assert "not as in the recipe" not in capsys.readouterr().err


# --- stopping and going on


@pytest.fixture
def stopped(process):
    """Send a signal to a long run in its course; what is left of it."""

    def run(folder, number, *words):
        words = [*words, "--out", folder, "epochs=2000", "log_every=1"]
        child = process.start("train", "digits", *TINY, *words)
        log = folder / "log.jsonl"
        while not (log.exists() and log.stat().st_size > 500):
            time.sleep(0.02)
        os.kill(child, number)
        done = process.wait()
        assert "stopping after this step and saving; repeat to" in done.err
        return done

    return run


def test_sigterm_saves_and_is_no_failure(here, stopped):
    done = stopped(here / "run", signal.SIGTERM, "--json")
    assert done.code == 0
    assert json.loads(done.out)["status"] == "interrupted"
    result = json.loads((here / "run/result.json").read_text())
    assert result["status"] == "interrupted"
    saved = torch.load(here / "run/checkpoint.pt", weights_only=True)["step"]
    last = (here / "run/log.jsonl").read_text().splitlines()[-1]
    assert saved == json.loads(last)["step"]


def test_ctrl_c_saves_and_says_that_the_run_can_go_on(here, stopped):
    done = stopped(here / "run", signal.SIGINT)
    assert done.code == 130
    assert re.fullmatch(
        r"interrupted at step [\d,]+ of 80,000 and saved; the same command "
        r"goes on: \S+/run\n",
        done.out,
    )
    step = torch.load(here / "run/checkpoint.pt", weights_only=True)["step"]
    assert f"at step {step:,} of" in done.out
    folder = RunFolder(here / "run")
    assert folder.finished(folder.read_config()) is None


def test_only_a_finished_run_is_said_to_be_one(here, capsys):
    words = [*SMOKE, "--out", "run"]
    assert main(words) == 0
    assert "finished; --fresh repeats it" not in capsys.readouterr().err
    written = (here / "run/result.json").stat().st_mtime_ns
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "run in run was already finished; --fresh" in err
    assert "test accuracy" in out
    assert (here / "run/result.json").stat().st_mtime_ns == written
    # as after Ctrl-C, which leaves weights too
    result = json.loads((here / "run/result.json").read_text())
    result["status"] = "interrupted"
    (here / "run/result.json").write_text(json.dumps(result))
    assert main(words) == 0
    err = capsys.readouterr().err
    assert "finished" not in err and "going on at step 20" in err
