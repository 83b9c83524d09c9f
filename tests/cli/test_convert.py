"""`vitedu convert`, and what the other commands make of foreign weights."""

import json

import pytest
import torch

from vitedu import PreprocessSpec, load
from vitedu.cli import main
from vitedu.model import ViT, ViTConfig
from vitedu.weights import Checkpoint, write_weights


@pytest.fixture
def here(here):
    """An empty folder to work in, with one file of weights."""
    sizes = {"image_size": 16, "patch_size": 8, "embed_dim": 24, "depth": 1}
    config = ViTConfig(**sizes, num_heads=3, mlp_dim=32, num_classes=5)
    torch.manual_seed(0)
    model = ViT(config)
    torch.nn.init.normal_(model.head.weight)
    checkpoint = Checkpoint(config, model.state_dict(), PreprocessSpec(16), ())
    write_weights(here / "w.safetensors", checkpoint)
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
        (
            ["w.safetensors", "t"],
            "TARGET and --to FORMAT; known: vitedu, npz",
        ),
        (["w.safetensors", "--to", "timm"], "needs WEIGHTS, TARGET and --to"),
        (["w.safetensors", "a", "b", "--to", "timm"], "needs WEIGHTS, TARGET"),
        (["w.safetensors", "t", "--to", "tim"], "did you mean 'timm'"),
        (["w.safetensors", "t", "--into", "timm"], "did you mean '--to'"),
        (["absent.npz", "t", "--to", "timm"], "absent.npz"),
        (["w.safetensors", "w.npz", "--to", "timm"], "written to a folder"),
        (
            ["w.safetensors", "t", "--to", "timm", "num_heads=two"],
            "num_heads must be a whole number of at least 1, got 'two'",
        ),
        (
            ["w.safetensors", "t", "--to", "timm", "image_size=16,x"],
            "image_size must be one number, or 2 whole numbers",
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


# --- what the other commands make of foreign weights


@pytest.fixture
def foreign(here):
    """A file that says neither its heads nor its preprocessing; a picture."""
    from PIL import Image
    from safetensors.torch import load_file, save_file

    save_file(load_file("w.safetensors"), "theirs.safetensors")
    Image.new("RGB", (20, 24), (200, 90, 10)).save("a.png")
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


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "theirs.safetensors", "a.png"],
        ["evaluate", "theirs.safetensors", "digits"],
    ],
    ids=["predict", "evaluate"],
)
@pytest.mark.parametrize(
    "fields, sentence",
    [
        (["num_heads=three"], "must be a whole number"),
        (["num_heads=3", "num_heads=3"], "num_heads= is given twice"),
        (["num_heads=3", "pool=none"], "logits for every token"),
        (["num_heads=3", "pool=nun"], "did you mean 'none'"),
    ],
    ids=["no number", "twice", "every token", "unknown pool"],
)
def test_a_wrong_word_is_one_sentence(foreign, capsys, words, fields, sentence):
    assert main([*words, *fields]) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("vitedu: ") and sentence in last


def test_info_takes_the_size_of_a_model_too(here, capsys):
    assert main(["info", "ViT-B/16", "image_size=384", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == 577
    assert main(["info", "data", "image_size=384"]) == 2
    assert "image_size belongs to a model" in capsys.readouterr().err
