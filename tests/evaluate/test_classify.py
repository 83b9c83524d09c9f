"""The likeliest classes of a picture: the real model, every kind of input."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import vitedu
from tests.evaluate.small import small
from vitedu import UserError, classify
from vitedu.data import photo
from vitedu.evaluate.classify import Guess, is_trained_by_sigmoid


@pytest.fixture(scope="module")
def real():
    return vitedu.load("ViT-Ti/16")


def pixels_of(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


@torch.no_grad()
def logits_of(model, image):
    return model.eval()(vitedu.preprocess(model, image))[0]


# --- the real model


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hopper", {"military uniform": 83}),
        ("cat", {"Egyptian cat": 84}),
        ("coffee", {"espresso": 91}),
        ("astronaut", {"bobsled": 42, "football helmet": 12}),
        ("rocket", {"drilling platform": 68}),
    ],
)
def test_the_real_model_names_the_photographs(real, name, expected):
    guesses = classify(real, photo(name))
    assert len(guesses) == 5
    for guess, (named, percent) in zip(guesses, expected.items(), strict=False):
        assert guess.name == named
        # decoders of JPEG differ in the last bit of a pixel
        assert 100 * guess.probability == pytest.approx(percent, abs=0.6)


@pytest.mark.slow
def test_three_lines_need_no_network_no_timm_and_no_other_file(tmp_path):
    photo("coffee").save(tmp_path / "photo.png")
    program = (
        "import socket, sys\n"
        "socket.socket.connect = None\n"
        "import vitedu\n"
        "model = vitedu.load('ViT-Ti/16')\n"
        "print(vitedu.classify(model, 'photo.png'))\n"
        "assert not {'timm', 'torchvision'} & sys.modules.keys()\n"
    )
    kept = {k: v for k, v in os.environ.items() if k != "VITEDU_DATA"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=kept | {"PYTHONPATH": str(vitedu.__path__[0] + "/..")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[Guess('espresso', 0.90")
    assert done.stderr == ""


def test_a_name_a_file_and_a_run_folder_are_loaded(real, tmp_path):
    want = classify(real, photo("coffee"))
    assert classify("ViT-Ti/16", photo("coffee")) == want
    model = small()
    path = vitedu.save(model, tmp_path / "model.safetensors")
    want = classify(model, photo("cat"))
    for place in (path, str(path), tmp_path):
        assert classify(place, photo("cat")) == want
    with pytest.raises(UserError, match="there are no weights"):
        classify("ViT-Ti/17", photo("cat"))


# --- what a picture may be


def test_every_form_of_a_picture_gets_the_same_answer(tmp_path):
    model, image = small(), photo("cat").resize((40, 30))
    image.save(tmp_path / "cat.png")
    want = classify(model, image)
    assert [type(guess) for guess in want] == [Guess] * 3
    for same in (
        str(tmp_path / "cat.png"),
        np.array(image),
        pixels_of(image) / 255,
        (tmp_path / "cat.png").read_bytes(),
    ):
        assert classify(model, same) == want


# --- names and numbers


def test_the_likeliest_come_first_and_all_add_up_to_one():
    model = small(num_classes=7)
    guesses = classify(model, photo("cat"), top=100)
    shares = logits_of(model, photo("cat")).softmax(0).sort(descending=True)
    found = [guess.probability for guess in guesses]
    assert found == pytest.approx(shares.values.tolist())
    assert [x.name for x in guesses] == [f"class {x}" for x in shares.indices]
    assert classify(model, photo("cat"), top=2) == guesses[:2]
    assert len(classify(model, photo("cat"))) == 5
    model.class_names = tuple("abcdefg")
    assert classify(model, photo("cat"))[0].name == "abcdefg"[shares.indices[0]]


def test_a_head_whose_biases_all_sank_was_trained_by_a_sigmoid():
    model = small(num_classes=7)
    assert not is_trained_by_sigmoid(model)
    nn.init.constant_(model.head.bias, -10.0)
    assert is_trained_by_sigmoid(model)
    guesses = classify(model, photo("cat"), top=7)
    shares = logits_of(model, photo("cat")).sigmoid().sort(descending=True)
    found = [guess.probability for guess in guesses]
    assert found == pytest.approx(shares.values.tolist())
    with torch.device("meta"):  # shapes without numbers
        model = vitedu.resnet("R50x1", num_classes=3, image_size=32)
    for value, is_sigmoid in ((0.0, False), (-10.0, True)):
        model.head.fc.bias = nn.Parameter(torch.full((3,), value))
        assert is_trained_by_sigmoid(model) is is_sigmoid


@pytest.mark.parametrize(
    ("bias", "loss_name", "is_sigmoid"),
    [(0, "sigmoid", True), (-10, "softmax", False), (0, "hinge", False)],
)
def test_a_model_that_knows_its_loss_is_not_judged_by_its_head(
    bias, loss_name, is_sigmoid
):
    model = small()
    nn.init.constant_(model.head.bias, bias)
    model.loss_name = loss_name
    assert is_trained_by_sigmoid(model) is is_sigmoid


def overflowing():
    """Finite weights, whose product isn't."""
    model = small()
    nn.init.constant_(model.norm.weight, 1e30)
    nn.init.constant_(model.head.weight, 1e30)
    return model


# --- the model


@pytest.mark.parametrize("is_training", [True, False])
def test_it_answers_without_dropout_and_stays_in_its_mode(is_training):
    model = small(dropout=0.5)
    want = classify(model, photo("cat"))
    model.train(is_training)
    model.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    assert classify(model, photo("cat")) == want
    assert [module.training for module in model.modules()] == modes
    assert all(weight.grad is None for weight in model.parameters())
