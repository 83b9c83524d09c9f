"""What goes wrong outside the code: each time a sentence, and nothing lost."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import vitedu
from tests.cli.small import SMOKE, write_model, write_picture, write_pictures
from vitedu.cli import main
from vitedu.cli.main import COMMANDS
from vitedu.train.run_folder import RunFolder

ROOT = Path(vitedu.__file__).parents[1]


@pytest.fixture
def here(here):
    """A folder with weights, a picture and pictures in class folders."""
    write_model("w.safetensors", ("ants", "bees"))
    write_pictures(here / "photos", ants=3, bees=3)
    write_picture(here / "a.png")
    return here


# --- what the system refuses


@pytest.mark.slow
def test_fresh_is_offered_only_where_it_helps(here, sentence):
    assert main([*SMOKE, "--out", "run"]) == 0
    said = sentence(*SMOKE, "--out", "run", "seed=5")
    assert said.endswith("(--out DIR trains elsewhere, --fresh starts again)")
    # files of others, which --fresh leaves where they are
    assert "--fresh" not in sentence(*SMOKE, "--out", "photos")
    with RunFolder("run").locked():
        said = sentence(*SMOKE, "--out", "run", "--fresh")
    assert "another process" in said and "--fresh" not in said


def test_unreadable_pictures_are_counted(here, capsys, answer):
    (here / "photos/ants/0.png").write_bytes(b"no picture")
    found = answer("evaluate", "w.safetensors", "photos")
    assert found["num_images"] == 5
    (skipped,) = found["skipped"]
    assert "0.png" in skipped
    assert main(["evaluate", "w.safetensors", "photos"]) == 0
    assert "note: 1 of 6 pictures is left out" in capsys.readouterr().err


# --- words and options


def test_behind_two_dashes_everything_is_a_word(here, capsys):
    (here / "a.png").rename(here / "--top")
    assert main(["predict", "w.safetensors", "--json", "--", "--top"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["predictions"]
    assert found["image"] == "--top"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_can_complete_commands_options_and_recipes(capsys, shell):
    pytest.importorskip("shtab")
    assert main(["--print-completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "--resume" in script and "mnist-tiny" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


# --- the environment


@pytest.mark.slow
def test_curves_are_drawn_whatever_windows_matplotlib_is_told_to_open(
    here, process
):
    done = process.run(*SMOKE, "--out", "run", MPLBACKEND="no such thing")
    assert (done.code, "could not be drawn" in done.err) == (0, False)
    assert (here / "run/curves.png").is_file()


def test_curves_that_cannot_be_drawn_do_not_end_a_run(
    here, monkeypatch, capsys
):
    def broken(history):
        raise ValueError("no fonts")

    monkeypatch.setattr("vitedu.figures.curves", broken)
    assert main([*SMOKE, "--out", "run"]) == 0
    assert "curves.png could not be drawn: no fonts" in capsys.readouterr().err


@pytest.mark.slow
def test_a_gpu_out_of_memory_is_one_sentence_and_the_run_goes_on(
    here, monkeypatch, sentence
):
    def full(*arguments, **options):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patched:
        patched.setattr("vitedu.cli.train.fit", full)
        patched.setattr(torch.cuda, "mem_get_info", lambda _: (0, 10**9))
        patched.setattr(torch.cuda, "memory_reserved", lambda _: 10**9)
        said = sentence(*SMOKE, "--out", "run")
    assert "doesn't fit into the 1.0 GB that cpu has free; add micro_" in said
    assert main([*SMOKE, "--out", "run", "micro_batch_size=4"]) == 0


@pytest.mark.slow
def test_ctrl_c_during_the_import_ends_without_a_traceback(tmp_path):
    package = tmp_path / "vitedu"  # one that takes a minute to import
    package.mkdir()
    (package / "__init__.py").touch()
    slow = "import time\nprint('importing', flush=True)\ntime.sleep(60)\n"
    (package / "cli.py").write_text(slow)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    # what was started in the background of a shell ignores Ctrl-C
    program = "import signal, vitedu_command as c; "
    program += "signal.signal(signal.SIGINT, signal.default_int_handler); "
    child = subprocess.Popen(
        [sys.executable, "-c", f"{program} c.main()", "info"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
        text=True,
    )
    assert child.stdout.readline() == "importing\n"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    # shells call it 130
    assert child.returncode == -signal.SIGINT
    assert out == "" and "Traceback" not in err
