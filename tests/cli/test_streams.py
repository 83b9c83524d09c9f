"""stdout, stderr and the terminal: what the command does when they fail it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import vitedu
from tests.cli.small import SMOKE, write_model, write_picture, write_pictures
from vitedu.cli import main
from vitedu.cli.main import COMMANDS

pytestmark = pytest.mark.slow  # processes whose streams fail them

TRAIN = [*SMOKE, "--out", "run"]
linux = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="no /dev/full on this system"
)


# --- talk that nobody reads


def test_a_run_whose_reader_leaves_is_trained_to_its_end(here):
    root = Path(vitedu.__file__).parents[1]
    words = " ".join([sys.executable, "-m", "vitedu", *TRAIN, "log_every=1"])
    done = subprocess.run(
        ["bash", "-c", f"{words} 2>&1 | head -1; exit ${{PIPESTATUS[0]}}"],
        env=os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("data ") and done.stderr == ""
    # as of any program in a pipe: nobody has read its answer
    assert done.returncode == 141
    assert vitedu.load("run").config.embed_dim == 8


@linux
def test_a_signal_does_not_need_its_stderr(here, process):
    long = [*TRAIN, "steps=100000", "log_every=1"]
    child = process.start(*long, stderr="/dev/full")
    log = here / "run/log.jsonl"
    while not (log.exists() and log.stat().st_size > 500):
        pass
    os.kill(child, 2)
    assert process.wait().code == 130


# --- an answer that cannot be printed


@linux
def test_a_run_is_saved_before_its_answer_meets_a_full_disk(here, process):
    done = process.run(*TRAIN, stdout="/dev/full")
    line = "vitedu: cannot print the answer: No space left on device\n"
    assert done.code == 2 and done.err.endswith(line)
    assert vitedu.load("run").config.embed_dim == 8


# --- letters


def test_a_terminal_that_is_not_utf8_gets_every_answer(here, process):
    write_model("w.safetensors", ("Käfer", "蜂"))
    name = os.fsdecode(b"caf\xe9.png")
    write_picture(Path(name))
    words = ["predict", "w.safetensors", name]
    done = process.run(*words, PYTHONIOENCODING="ascii")
    assert done.code == 0 and done.out.startswith(r"caf\xe9.png  ")
    assert r"K\xe4fer" in done.out and r"\u8702" in done.out
    done = process.run("info", "Käfer", PYTHONIOENCODING="ascii")
    assert done.code == 2 and r"K\xe4fer" in done.err


def test_control_characters_are_escaped(here, capsys):
    write_model("w.safetensors", ("\x1b[31mred", "two\nlines"))
    picture = "\x1b]0;title\x07.png"
    write_picture(Path(picture))
    assert main(["predict", "w.safetensors", picture]) == 0
    out = capsys.readouterr().out
    assert r"\x1b[31mred" in out and r"two\nlines" in out
    assert out.startswith(r"\x1b]0;title\x07.png") and out.count("\n") == 1
    assert main(["info", "w.safetensors"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    folder = here / "photos"
    write_pictures(folder, **{"\x1b[31mant": 4, "bee": 4})
    words = [*TRAIN, f"data={folder}", "dataset=photos"]
    main([*words, "model.in_channels=3", "model.image_size=16"])
    assert "\x1b" not in "".join(capsys.readouterr())


# --- JSON


def too_large(model):
    """Finite weights that overflow in float32."""
    model.head.weight.fill_(3e38)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("predict", "the model answers NaN or infinity"),
        ("evaluate", "the loss of w.safetensors is nan"),
    ],
)
def test_nan_is_never_an_answer(here, capsys, command, said):
    write_model("w.safetensors", ("a", "b"), too_large)
    write_pictures(here / "photos", a=1, b=1)
    assert main([command, "w.safetensors", "photos", "--json"]) == 2
    out, err = capsys.readouterr()
    assert said in err and json.loads(out)["error"] in err


def test_of_several_processes_only_the_first_answers_in_json(
    monkeypatch, capsys
):
    monkeypatch.setenv("WORLD_SIZE", "2")
    answers = []
    for number in ("0", "1"):
        monkeypatch.setenv("RANK", number)
        monkeypatch.setenv("LOCAL_RANK", number)
        assert main(["trian", "--json"]) == 2
        out, err = capsys.readouterr()
        assert err.startswith(f"vitedu: process {number}: there is no command")
        answers.append(out)
    assert "error" in json.loads(answers[0]) and answers[1] == ""


def test_json_is_json_even_after_a_bug(here, capsys, monkeypatch):
    def bug(options):
        raise ZeroDivisionError("a bug")

    monkeypatch.setitem(COMMANDS, "info", COMMANDS["info"]._replace(run=bug))
    with pytest.raises(ZeroDivisionError):
        main(["info", "--json"])
    assert json.loads(capsys.readouterr().out) == {"error": "a bug"}
