"""`vitedu convert`, and what the other commands make of foreign weights."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.cli.small import write_model, write_picture, write_pictures
from vitedu import load
from vitedu.cli import main


@pytest.fixture
def here(here):
    """An empty folder to work in, with one file of weights."""
    write_model("w.safetensors", num_classes=5)
    return here


@pytest.mark.slow
def test_a_folder_for_timm_is_written_and_said_in_one_line(here, capsys):
    assert main(["convert", "w.safetensors", "t", "--to", "timm"]) == 0
    out, err = capsys.readouterr()
    assert out == "t: 20 arrays of w.safetensors (vitedu) as timm\n"
    assert err == ""
    one, other = load("w.safetensors"), load("t")
    images = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(one(images), other(images))


def test_json_says_what_was_written_and_it_is_evaluated(here, answer):
    found = answer("convert", "w.safetensors", "h", "--to", "hf")
    want = {"dialect": "vitedu", "format": "hf", "source": "w.safetensors"}
    want |= {"target": "h", "num_arrays": 24, "notes": []}
    assert {name: found[name] for name in want} == want
    assert found["config"]["embed_dim"] == 24
    # its config.json is another program's
    write_pictures(here / "photos", **dict.fromkeys("01234", 1))
    assert answer("evaluate", "h", "photos")["num_images"] == 5


@pytest.mark.slow
def test_a_program_is_written_and_its_largest_difference_said(here, capsys):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    words = ["convert", "w.safetensors", "w.onnx", "--to", "onnx"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    start = "w.onnx: 20 arrays of w.safetensors (vitedu) as onnx; its logits of"
    assert out.startswith(start) and "by up to" in out and err == ""


@pytest.mark.slow
def test_json_says_what_a_programs_user_needs(here, answer):
    found = answer("convert", "w.safetensors", "w.pt2", "--to", "torch-export")
    assert found["preprocess"]["image_size"] == [16, 16]
    assert found["class_names"] == list(load("w.safetensors").class_names)
    assert "differ from the model's by up to 0.0e+00" in found["notes"][-1]


def test_what_is_lost_is_told_on_stderr(here, capsys):
    assert main(["convert", "w.safetensors", "w.npz", "--to", "npz"]) == 0
    out, err = capsys.readouterr()
    assert "warning" not in out
    assert "warning: w.npz: npz has no place for gelu='exact'" in err
    assert "moves the logits of two images of noise by up to" in err


def test_what_the_source_cannot_say_is_a_word(here, sentence):
    words = ["convert", "w.safetensors", "w.pth", "--to", "torchvision"]
    assert main(words) == 0
    words = ["convert", "w.pth", "v.safetensors", "--to", "vitedu"]
    assert "give num_heads=" in sentence(*words)
    assert main([*words, "num_heads=3"]) == 0
    assert load("v.safetensors").config == load("w.safetensors").config


# --- what the other commands make of foreign weights


@pytest.fixture
def foreign(here):
    """A file that says neither its heads nor its preprocessing; a picture."""
    save_file(load_file("w.safetensors"), "theirs.safetensors")
    write_picture(here / "a.png", size=(20, 24))
    return here


def test_what_a_file_cannot_say_is_a_word(foreign, capsys, answer):
    words = ["predict", "theirs.safetensors", "a.png", "num_heads=3"]
    found = answer(*words)["predictions"]
    assert [each["image"] for each in found] == ["a.png"]
    words = ["info", "theirs.safetensors", "num_heads=3", "image_size=24"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "dialect                   timm" in out
    assert "resized                   pos_embed" in out
