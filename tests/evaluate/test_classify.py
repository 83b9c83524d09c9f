"""The likeliest classes of a picture: the real model, every kind of input."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import vitedu
from vitedu import UserError, classify
from vitedu.data import PreprocessSpec, photo
from vitedu.evaluate.classify import Guess, is_trained_by_sigmoid

TINY = {
    "image_size": 8,
    "patch_size": 4,
    "embed_dim": 8,
    "depth": 1,
    "num_heads": 2,
    "mlp_dim": 16,
}


@pytest.fixture(scope="module")
def real():
    return vitedu.load("ViT-Ti/16")


def tiny(num_classes=3, channels=3, **fields):
    torch.manual_seed(0)
    model = vitedu.vit(
        "ViT-Ti/16",
        num_classes=num_classes,
        in_channels=channels,
        **TINY | fields,
    )
    if num_classes:
        nn.init.normal_(model.head.weight)
    model.preprocess = PreprocessSpec(image_size=8, in_channels=channels)
    return model


def pixels_of(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


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


def test_the_books_square_is_a_military_uniform_too(real):
    square = photo("hopper").crop((0, 20, 512, 532))
    best = classify(real, square)[0]
    assert best.name == "military uniform"
    assert 100 * best.probability == pytest.approx(75, abs=0.6)
    small = classify(real, square.resize((224, 224)))[0]
    assert small.name == "military uniform"
    assert 100 * small.probability == pytest.approx(74, abs=0.6)


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


def test_a_name_a_file_and_a_run_folder_are_loaded(tmp_path):
    want = classify(vitedu.load("ViT-Ti/16"), photo("coffee"))
    assert want[0].name == "espresso"
    assert classify("ViT-Ti/16", photo("coffee")) == want
    model = tiny()
    path = vitedu.save(model, tmp_path / "model.safetensors")
    want = classify(model, photo("cat"))
    for place in (path, str(path), tmp_path):
        assert classify(place, photo("cat")) == want
    with pytest.raises(UserError, match="there are no weights"):
        classify("ViT-Ti/17", photo("cat"))


# --- what a picture may be


def test_every_form_of_a_picture_gets_the_same_answer(tmp_path):
    model, image = tiny(), photo("cat").resize((40, 30))
    image.save(tmp_path / "cat.png")
    want = classify(model, image)
    assert [type(guess) for guess in want] == [Guess] * 3
    for same in (
        tmp_path / "cat.png",
        str(tmp_path / "cat.png"),
        np.array(image),
        pixels_of(image),
        pixels_of(image) / 255,
        (pixels_of(image) / 255).double().requires_grad_(),
        image.convert("RGBA"),
        (tmp_path / "cat.png").read_bytes(),
    ):
        assert classify(model, same) == want
    with open(tmp_path / "cat.png", "rb") as file:
        assert classify(model, file) == want


def test_a_grey_model_takes_a_grey_picture():
    model, image = tiny(channels=1), photo("cat").convert("L")
    want = classify(model, image)
    assert classify(model, torch.from_numpy(np.array(image))[None]) == want
    with pytest.raises(UserError, match=r"is \(1, h, w\), got \(3, 8, 8\)"):
        classify(model, torch.zeros(3, 8, 8))


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("gone.jpg", "gone.jpg does not exist"),
        (__file__, "it is not a picture"),
        (None, "an array or a tensor, got NoneType"),
        ([[1.0]], "takes one picture, got a list of 1"),
        (torch.zeros(1, 3, 8, 8), "is (3, h, w), got (1, 3, 8, 8)"),
        (torch.zeros(8, 8, 3), "is (3, h, w), got (8, 8, 3)"),
        (torch.zeros(3, 0, 8), "is (3, h, w), got (3, 0, 8)"),
        (torch.full((3, 8, 8), -1.0), "0..1, got -1..-1"),
        (torch.full((3, 8, 8), 255.0), "0..1, got 255..255"),
        (torch.full((3, 8, 8), torch.nan), "0..1, got nan..nan"),
        (torch.zeros(3, 8, 8, dtype=torch.int64), "got torch.int64"),
    ],
)
def test_what_is_no_picture_gets_one_sentence(image, said):
    with pytest.raises(UserError) as error:
        classify(tiny(), image)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("top", [0, -1, 2.5, "3"])
def test_top_is_a_whole_number_from_1(top):
    with pytest.raises(UserError, match="top="):
        classify(tiny(), photo("cat"), top)


# --- names and numbers


def test_the_likeliest_come_first_and_all_add_up_to_one():
    model = tiny(num_classes=7)
    guesses = classify(model, photo("cat"), top=100)
    shares = [guess.probability for guess in guesses]
    assert len(shares) == 7 and shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1)
    assert classify(model, photo("cat"), top=2) == guesses[:2]
    assert len(classify(model, photo("cat"))) == 5


def test_names_are_the_models_or_numbers():
    model = tiny()
    logits = model.eval()(vitedu.preprocess(model, photo("cat")))
    best = logits.argmax().item()
    assert classify(model, photo("cat"))[0].name == f"class {best}"
    model.class_names = ("ant", "bee", "cat")
    assert classify(model, photo("cat"))[0].name == "ant bee cat".split()[best]


def test_a_head_whose_biases_all_sank_was_trained_by_a_sigmoid():
    model = tiny(num_classes=7)
    assert not is_trained_by_sigmoid(model)
    nn.init.constant_(model.head.bias, -10.0)
    assert is_trained_by_sigmoid(model)
    guesses = classify(model, photo("cat"), top=7)
    logits = model.eval()(vitedu.preprocess(model, photo("cat")))[0]
    shares = logits.sigmoid().sort(descending=True).values
    assert [x.probability for x in guesses] == pytest.approx(shares.tolist())


def test_a_resnets_head_is_looked_at_too():
    with torch.device("meta"):  # shapes without numbers
        model = vitedu.resnet("R50x1", num_classes=3, image_size=32)
    for value, is_sigmoid in ((0.0, False), (-10.0, True)):
        model.head.fc.bias = nn.Parameter(torch.full((3,), value))
        assert is_trained_by_sigmoid(model) is is_sigmoid


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"num_classes": 0}, "no head"), ({"pool": "none"}, "for every token")],
)
def test_a_model_that_names_no_class_says_so(fields, said):
    with pytest.raises(UserError, match=said):
        classify(tiny(**fields), photo("cat"))


def test_a_model_without_preprocessing_says_what_to_set():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(3))
    with pytest.raises(ValueError, match=r"set model\.preprocess"):
        classify(model, photo("cat"))


def test_a_new_model_prepares_pictures_as_the_authors_do():
    model = vitedu.vit("ViT-Ti/16", **TINY)
    assert model.preprocess == PreprocessSpec(model.config.image_size)
    assert classify(model.eval(), photo("cat"))[0].name.startswith("class ")


# --- the model


@pytest.mark.parametrize("is_training", [True, False])
def test_it_answers_without_dropout_and_stays_in_its_mode(is_training):
    model = tiny(dropout=0.5)
    want = classify(model.eval(), photo("cat"))
    model.train(is_training)
    model.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    assert classify(model, photo("cat")) == want
    assert [module.training for module in model.modules()] == modes
    assert all(weight.grad is None for weight in model.parameters())


def test_it_answers_in_the_models_dtype():
    want = {x.name: x.probability for x in classify(tiny(), photo("cat"))}
    model = tiny().bfloat16()
    for guess in classify(model, photo("cat")):
        assert guess.probability == pytest.approx(want[guess.name], abs=0.02)
    assert model.head.weight.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("bias", "loss_name"), [(0.0, "sigmoid"), (-10.0, "softmax")]
)
def test_a_model_that_knows_its_loss_is_not_judged_by_its_head(bias, loss_name):
    model = tiny(num_classes=7)
    nn.init.constant_(model.head.bias, bias)
    model.loss_name = loss_name
    assert is_trained_by_sigmoid(model) is (loss_name == "sigmoid")


def test_a_loss_of_somebody_elses_model_says_nothing():
    model = nn.Linear(2, 2)
    model.loss_name = "hinge"
    assert not is_trained_by_sigmoid(model)


def test_an_answer_of_nan_is_one_sentence():
    model = tiny()
    # finite, and their product overflows
    nn.init.constant_(model.norm.weight, 1e30)
    nn.init.constant_(model.head.weight, 1e30)
    with pytest.raises(UserError, match="answers NaN or infinity"):
        classify(model, torch.rand(3, 8, 8))
