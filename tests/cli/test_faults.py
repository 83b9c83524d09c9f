"""What goes wrong outside the code: each time a sentence, and nothing lost."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

import vitedu
import vitedu_command
from vitedu.cli import main
from vitedu.cli.main import COMMANDS
from vitedu.model import ViT, ViTConfig
from vitedu.train.run_folder import RunFolder
from vitedu.weights import checkpoint_of, write_weights

TINY = [
    "model.embed_dim=8",
    "model.depth=1",
    "model.num_heads=2",
    "model.mlp_dim=8",
]
SMOKE = ["train", "digits", *TINY, "--tier", "smoke"]
ROOT = Path(vitedu.__file__).parents[1]


@pytest.fixture
def here(here):
    """A folder with weights, a picture and pictures in class folders."""
    torch.manual_seed(0)
    sizes = {"image_size": 16, "patch_size": 8, "embed_dim": 24, "depth": 1}
    model = ViT(ViTConfig(**sizes, num_heads=3, mlp_dim=32, num_classes=2))
    torch.nn.init.normal_(model.head.weight)
    model.class_names = ("ants", "bees")
    write_weights(here / "w.safetensors", checkpoint_of(model))
    for name, green in (("ants", 0), ("bees", 200)):
        (here / "photos" / name).mkdir(parents=True)
        for index in range(3):
            image = Image.new("RGB", (16, 16), (40 * index, green, 9))
            image.save(here / "photos" / name / f"{index}.png")
    image.save(here / "a.png")
    return here


# --- what the system refuses

BAD_PATHS = [
    "~nosuchuser/x",
    "",
    "n" * 300,
    "loop",
    "pipe",
    "w.safetensors/x",
    "a\0b",
]


@pytest.mark.parametrize(
    "words",
    [
        "info PATH",
        "predict PATH a.png",
        "predict w.safetensors PATH",
        "evaluate PATH digits",
        "evaluate w.safetensors PATH",
        "evaluate w.safetensors digits data=PATH",
        "evaluate w.safetensors photos labels=PATH",
        "convert PATH target --to timm",
        "convert w.safetensors PATH --to timm",
        "train digits --out PATH",
        "train digits --out PATH --fresh",
        "train --resume PATH",
        "train shapes-small data=PATH",
        "train finetune weights=PATH data=photos",
        "train finetune weights=w.safetensors data=PATH",
        "bench PATH",
    ],
)
def test_a_bad_path_is_one_sentence_for_every_command(here, sentence, words):
    (here / "loop").symlink_to("loop")
    os.mkfifo(here / "pipe")
    before = sorted(here.iterdir())
    for path in BAD_PATHS:
        typed = [word.replace("PATH", path) for word in words.split()]
        assert len(sentence(*typed)) > len("vitedu: ")
    assert sorted(here.iterdir()) == before


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="the administrator may read everything",
)
@pytest.mark.parametrize(
    "words",
    [
        "info secret",
        "predict w.safetensors secret/a.png",
        "evaluate w.safetensors secret",
        "train digits --out secret",
        "train digits --out secret --fresh",
        "train --resume secret",
        "train shapes-small data=secret",
    ],
)
def test_a_folder_without_permission_is_one_sentence(here, sentence, words):
    (here / "secret").mkdir(mode=0)
    assert "ermission denied" in sentence(*words.split())


def test_fresh_leaves_other_files_where_they_are(here, sentence):
    line = sentence(*SMOKE, "--out", "photos", "--fresh")
    assert "photos is not a run folder" in line
    assert (here / "photos/ants/0.png").is_file()


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


def test_what_pillow_warns_of_is_read_in_silence(here, capsys, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 16 * 16 - 1)
    assert main(["predict", "w.safetensors", "a.png"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_unreadable_pictures_are_counted(here, capsys, answer):
    (here / "photos/ants/0.png").write_bytes(b"no picture")
    found = answer("evaluate", "w.safetensors", "photos")
    assert found["num_images"] == 5
    (skipped,) = found["skipped"]
    assert "0.png" in skipped
    assert main(["evaluate", "w.safetensors", "photos"]) == 0
    assert "note: 1 of 6 pictures is left out" in capsys.readouterr().err


# --- numbers


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("train digits model.depth=20000", "at most 4096"),
        ("train digits model.embed_dim=4000000 model.num_heads=4", "of memory"),
        ("train digits epochs=" + 5000 * "9", "epochs must be a whole number"),
        ("train digits num_workers=1" + 30 * "0", "at most 1024"),
        ("train digits lr=1e400", "lr must be a number"),
        ("predict w.safetensors a.png image_size=800000", "of memory"),
        ("predict w.safetensors a.png --top " + 5000 * "9", "--top"),
        ("info ViT-B/16 image_size=1" + 30 * "0", "too large"),
        ("bench ViT-S/16 mlp_dim=4000000000", "of memory"),
        ("bench ViT-S/16 --batch 1000000000", "take a smaller batch"),
        ("bench ViT-S/16 --threads 1000000000", "at most 1024"),
        ("bench ViT-S/16 --rounds 1000000000", "at most 1000000"),
    ],
    ids=lambda text: text[:40],
)
def test_a_number_beyond_all_measure_is_one_sentence(
    here, sentence, words, part
):
    line = sentence(*words.split())
    assert part in line and len(line) < 2200


# --- words and options


def test_behind_two_dashes_everything_is_a_word(here, capsys, sentence):
    (here / "a.png").rename(here / "--top")
    assert main(["predict", "w.safetensors", "--json", "--", "--top"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["predictions"]
    assert found["image"] == "--top"
    assert "what follows -- is never an option" in sentence(
        "predict", "w.safetensors", "-x.jpg"
    )


def test_an_empty_name_is_no_overview(sentence):
    assert "'' is not a model, a recipe, a file" in sentence("info", "")


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        (["train", "digits", "--steps", "5"], "steps=5"),
        (["train", "digits", "--log-every=5"], "log_every=5"),
        (["train", "digits", "--model.depth", "4"], "model.depth=4"),
        (["predict", "w", "a.png", "--image-size", "16"], "image_size=16"),
        (["evaluate", "w", "--data", "photos"], "data=photos"),
        (["bench", "ViT-S/16", "--depth", "3"], "depth=3"),
        (["train", "digits", "--steps"], "steps=VALUE"),
    ],
)
def test_a_setting_that_is_typed_as_an_option(sentence, words, setting):
    line = sentence(*words)
    assert line.endswith(f"settings have no dashes: {setting}")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_can_complete_commands_options_and_recipes(capsys, shell):
    pytest.importorskip("shtab")
    assert main(["--print-completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "--resume" in script and "mnist-tiny" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_completion_names_what_it_needs(monkeypatch, sentence):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "pip install shtab" in sentence("--print-completion", "bash")


def test_completion_for_an_unknown_shell(sentence):
    pytest.importorskip("shtab")
    assert "did you mean 'bash'" in sentence("--print-completion", "bsh")


# --- the environment


def test_a_local_rank_alone_is_one_sentence(here, monkeypatch, sentence):
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.delenv("RANK", raising=False)
    assert "LOCAL_RANK" in sentence(*SMOKE)


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


def test_ctrl_c_during_the_import_ends_without_a_traceback(tmp_path):
    package = tmp_path / "vitedu"  # one that takes a minute to import
    package.mkdir()
    (package / "__init__.py").touch()
    slow = "import time\nprint('importing', flush=True)\ntime.sleep(60)\n"
    (package / "cli.py").write_text(slow)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    child = subprocess.Popen(
        [sys.executable, "-c", "import vitedu_command as c; c.main()", "info"],
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


def test_a_handler_of_ctrl_c_that_is_not_pythons_is_left_alone(
    monkeypatch, capsys
):
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    monkeypatch.setattr(sys, "argv", ["vitedu", "--version"])
    assert vitedu_command.main() == 0
    assert capsys.readouterr().out == f"{vitedu.__version__}\n"
