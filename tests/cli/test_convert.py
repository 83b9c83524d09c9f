"""`vitedu convert`, and what the other commands make of foreign weights."""

import json

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


def test_a_folder_for_timm_is_written_and_said_in_one_line(here, capsys):
    assert main(["convert", "w.safetensors", "t", "--to", "timm"]) == 0
    out, err = capsys.readouterr()
    assert out == "t: 20 arrays of w.safetensors (vitedu) as timm\n"
    assert err == ""
    one, other = load("w.safetensors"), load("t")
    images = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(one(images), other(images))


def test_json_says_what_was_written(here, capsys):
    words = ["convert", "w.safetensors", "h", "--to", "hf", "--json"]
    assert main(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["dialect"], answer["format"]) == ("vitedu", "hf")
    assert (answer["source"], answer["target"]) == ("w.safetensors", "h")
    assert answer["num_arrays"] == 24
    assert answer["config"]["embed_dim"] == 24
    assert answer["notes"] == []


def test_a_folder_with_another_programs_config_is_evaluated(here, answer):
    assert main(["convert", "w.safetensors", "h", "--to", "hf"]) == 0
    write_pictures(here / "photos", **dict.fromkeys("01234", 1))
    assert answer("evaluate", "h", "photos")["num_images"] == 5


def test_what_is_lost_is_told_on_stderr(here, capsys):
    assert main(["convert", "w.safetensors", "w.npz", "--to", "npz"]) == 0
    out, err = capsys.readouterr()
    assert "warning" not in out
    assert "warning: w.npz: npz has no place for gelu='exact'" in err
    assert "moves the logits of two images of noise by up to" in err


def test_what_the_source_cannot_say_is_a_word(here, capsys):
    words = ["convert", "w.safetensors", "w.pth", "--to", "torchvision"]
    assert main(words) == 0
    words = ["convert", "w.pth", "v.safetensors", "--to", "vitedu"]
    assert main(words) == 2
    assert "give num_heads=" in capsys.readouterr().err
    assert main([*words, "num_heads=3"]) == 0
    assert load("v.safetensors").config == load("w.safetensors").config


# --- what the other commands make of foreign weights


@pytest.fixture
def foreign(here):
    """A file that says neither its heads nor its preprocessing; a picture."""
    save_file(load_file("w.safetensors"), "theirs.safetensors")
    write_picture(here / "a.png", size=(20, 24))
    return here


def test_what_a_file_cannot_say_is_a_word_of_every_command(foreign, capsys):
    assert main(["predict", "theirs.safetensors", "a.png"]) == 2
    assert "give num_heads=" in capsys.readouterr().err
    words = ["predict", "theirs.safetensors", "a.png", "num_heads=3", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)["predictions"]
    assert [each["image"] for each in found] == ["a.png"]
    words = ["info", "theirs.safetensors", "num_heads=3", "image_size=24"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "dialect                   timm" in out
    assert "resized                   pos_embed" in out


def test_a_warning_of_loading_is_one_line_on_stderr(foreign, capsys):
    assert main(["info", "theirs.safetensors", "num_heads=3"]) == 0
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and err.startswith("vitedu: warning: ")
    assert "mean and std 0.5 are assumed" in err
    assert "class_names               none" in out
    assert "file                      theirs.safetensors" in out


def test_info_takes_the_size_of_a_model_too(here, capsys):
    assert main(["info", "ViT-B/16", "image_size=384", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == 577
    assert main(["info", "data", "image_size=384"]) == 2
    assert "image_size belongs to a model" in capsys.readouterr().err
