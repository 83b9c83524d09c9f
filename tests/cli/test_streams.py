"""stdout, stderr and the terminal: what the command does when they fail it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

import vitedu
from vitedu.cli import main
from vitedu.cli.talk import Droppable, abandon
from vitedu.model import ViT, ViTConfig
from vitedu.weights import checkpoint_of, write_weights

pytestmark = pytest.mark.slow  # processes whose streams fail them

TRAIN = (
    "train digits --tier smoke --out run model.depth=1 model.embed_dim=8 "
    "model.num_heads=2 model.mlp_dim=8"
).split()
linux = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="no /dev/full on this system"
)


def a_model(path, class_names=(), change=None):
    """A file with a small model for pictures of 16 pixels."""
    torch.manual_seed(0)
    sizes = {"image_size": 16, "patch_size": 8, "embed_dim": 24, "depth": 1}
    config = ViTConfig(**sizes, num_heads=3, mlp_dim=32, num_classes=2)
    model = ViT(config)
    torch.nn.init.normal_(model.head.weight)
    model.class_names = class_names
    with torch.no_grad():
        if change is not None:
            change(model)
    write_weights(path, checkpoint_of(model))


def a_picture(path):
    """A picture of 16 pixels."""
    Image.new("RGB", (16, 16), (200, 90, 10)).save(path)


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


def test_a_run_does_not_need_its_stderr(here, process):
    done = process.run(*TRAIN, "--json", stderr=None)
    assert done.code == 0
    assert json.loads(done.out)["status"] == "finished"
    # nothing that was opened in place of stderr was written to
    lines = (here / "run/log.jsonl").read_text().splitlines()
    assert all(json.loads(line) for line in lines)


def test_a_bar_does_not_need_its_terminal(monkeypatch):
    from tqdm import tqdm

    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream, open(os.devnull, "w") as nowhere:
        talk = Droppable(stream, nowhere)
        assert list(tqdm(range(3), file=talk, mininterval=0)) == [0, 1, 2]
        talk.write("all\n")
        talk.flush()


@linux
def test_a_reader_that_left_costs_no_descriptor(here):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream, open(os.devnull, "w") as nowhere:
        talk = Droppable(stream, nowhere)
        before = os.listdir("/proc/self/fd")
        for _ in range(20):
            talk.write("a line\n")
            talk.flush()
            abandon(stream)
        assert os.listdir("/proc/self/fd") == before


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


def test_an_answer_without_a_stdout_is_one_sentence(here, process):
    done = process.run("info", "digits", stdout=None)
    line = "vitedu: cannot print the answer: stdout is closed\n"
    assert (done.code, done.err) == (2, line)


@linux
def test_a_run_is_saved_before_its_answer_meets_a_full_disk(here, process):
    done = process.run(*TRAIN, stdout="/dev/full")
    line = "vitedu: cannot print the answer: No space left on device\n"
    assert done.code == 2 and done.err.endswith(line)
    assert vitedu.load("run").config.embed_dim == 8


# --- letters


def test_a_terminal_that_is_not_utf8_gets_every_answer(here, process):
    a_model("w.safetensors", ("Käfer", "蜂"))
    name = os.fsdecode(b"caf\xe9.png")
    a_picture(name)
    os.rename(name, "cafe.png")
    words = ["predict", "w.safetensors", "cafe.png"]
    done = process.run(*words, PYTHONIOENCODING="ascii")
    assert done.code == 0
    assert r"K\xe4fer" in done.out and r"\u8702" in done.out
    done = process.run("info", "Käfer", PYTHONIOENCODING="ascii")
    assert done.code == 2 and r"K\xe4fer" in done.err


def test_a_name_that_is_not_utf8_is_printed(here, capsys):
    a_model("w.safetensors")
    name = os.fsdecode(b"caf\xe9.png")
    a_picture(name)
    assert main(["predict", "w.safetensors", name]) == 0
    assert capsys.readouterr().out.startswith(r"caf\xe9.png  class ")


def test_control_characters_are_escaped(here, capsys):
    a_model("w.safetensors", ("\x1b[31mred", "two\nlines"))
    picture = "\x1b]0;title\x07.png"
    a_picture(picture)
    assert main(["predict", "w.safetensors", picture]) == 0
    out = capsys.readouterr().out
    assert r"\x1b[31mred" in out and r"two\nlines" in out
    assert out.startswith(r"\x1b]0;title\x07.png") and out.count("\n") == 1
    assert main(["info", "w.safetensors"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    folder = here / "photos"
    for index, name in enumerate(("\x1b[31mant", "bee")):
        (folder / name).mkdir(parents=True)
        for count in range(4):
            color = (9 * count, 99 * index, 200)
            Image.new("RGB", (16, 16), color).save(
                folder / name / f"{count}.png"
            )
    words = [*TRAIN, f"data={folder}", "dataset=photos"]
    main([*words, "model.in_channels=3", "model.image_size=16"])
    assert "\x1b" not in "".join(capsys.readouterr())


# --- JSON


def too_large(model):
    """Finite weights that overflow in float32."""
    model.head.weight.fill_(3e38)


@pytest.mark.parametrize("words", [["a.png"], ["a.png", "--json"]])
def test_predict_never_answers_nan(here, capsys, words):
    a_model("w.safetensors", change=too_large)
    a_picture("a.png")
    assert main(["predict", "w.safetensors", *words]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("vitedu: the model answers NaN or infinity")
    if "--json" in words:
        assert "answers NaN" in json.loads(out)["error"]
    else:
        assert out == ""


def test_evaluate_never_answers_nan(here, capsys):
    a_model("w.safetensors", ("a", "b"), too_large)
    for name in ("a", "b"):
        (here / "photos" / name).mkdir(parents=True)
        a_picture(here / "photos" / name / "x.png")
    assert main(["evaluate", "w.safetensors", "photos", "--json"]) == 2
    out, err = capsys.readouterr()
    assert "the loss of w.safetensors is nan" in err
    assert json.loads(out)["error"] in err


@pytest.mark.parametrize(
    "words",
    [
        ["trian"],
        ["train"],
        ["predict", "--top", "x", "w", "a.png"],
        ["info", "--devise"],
    ],
)
def test_json_is_json_after_every_mistake(here, capsys, words):
    assert main([*words, "--json"]) == 2
    out, err = capsys.readouterr()
    assert err == f"vitedu: {json.loads(out)['error']}\n"


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
    from vitedu.cli import COMMANDS

    def bug(options):
        raise ZeroDivisionError("a bug")

    monkeypatch.setitem(COMMANDS, "info", COMMANDS["info"]._replace(run=bug))
    with pytest.raises(ZeroDivisionError):
        main(["info", "--json"])
    assert json.loads(capsys.readouterr().out) == {"error": "a bug"}


# --- warnings


def test_a_warning_of_another_package_is_one_line(here, capsys, monkeypatch):
    import warnings

    from vitedu.cli import COMMANDS
    from vitedu.cli.answer import Answer

    def warn(options):
        warnings.warn("pillow says\n\x1b[31mthis", UserWarning, stacklevel=1)
        return Answer({}, "done")

    monkeypatch.setitem(COMMANDS, "info", COMMANDS["info"]._replace(run=warn))
    assert main(["info"]) == 0
    err = capsys.readouterr().err
    assert err == "vitedu: warning: pillow says\\n\\x1b[31mthis\n"
