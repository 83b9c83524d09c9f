"""`vitedu convert`: from one file to another in one line."""

import json

import pytest
import torch

from vitedu import PreprocessSpec, load
from vitedu.cli import main
from vitedu.model import ViT, ViTConfig
from vitedu.weights import Checkpoint, write_weights


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in, with one file of weights."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    sizes = {"image_size": 16, "patch_size": 8, "embed_dim": 24, "depth": 1}
    config = ViTConfig(**sizes, num_heads=3, mlp_dim=32, num_classes=5)
    torch.manual_seed(0)
    model = ViT(config)
    torch.nn.init.normal_(model.head.weight)
    checkpoint = Checkpoint(config, model.state_dict(), PreprocessSpec(16), ())
    write_weights(tmp_path / "w.safetensors", checkpoint)
    return tmp_path


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


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["w.safetensors", "t"], "--to FORMAT, of which there are vitedu, npz"),
        (["w.safetensors", "--to", "timm"], "wants WEIGHTS, TARGET and --to"),
        (["w.safetensors", "a", "b", "--to", "timm"], "wants WEIGHTS, TARGET"),
        (["w.safetensors", "t", "--to", "tim"], "did you mean 'timm'"),
        (["w.safetensors", "t", "--into", "timm"], "did you mean '--to'"),
        (["absent.npz", "t", "--to", "timm"], "absent.npz"),
        (["w.safetensors", "w.npz", "--to", "timm"], "written to a folder"),
        (
            ["w.safetensors", "t", "--to", "timm", "num_heads=two"],
            "must be whole numbers",
        ),
        (
            ["w.safetensors", "t", "--to", "timm", "image_size=16,x"],
            "must be whole numbers",
        ),
        (
            ["w.safetensors", "t", "--to", "timm", "num_heads=2"],
            "says itself that num_heads is 3, not 2",
        ),
        (
            ["w.safetensors", "t", "--to", "timm", "image_size=16,24"],
            "says itself that image_size is (16, 16), not (16, 24)",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_code_2(here, capsys, words, sentence):
    before = sorted(here.iterdir())
    assert main(["convert", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and err.startswith("vitedu: ")
    assert sentence in err
    assert sorted(here.iterdir()) == before


def test_the_help_names_it_and_its_formats(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "convert WEIGHTS TARGET --to FORMAT" in out
    assert all(name in out for name in ("timm", "hf", "torchvision", "npz"))
