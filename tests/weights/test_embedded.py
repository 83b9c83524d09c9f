"""The trained weights in the package: a recorded run's, and the real model."""

import json
import os
from pathlib import Path

import pytest
import torch

import vitedu
from vitedu import results
from vitedu.data import load_dataset, normalise
from vitedu.data.imagenet import imagenet_classes
from vitedu.evaluate.accuracy import mean_loss
from vitedu.train import TrainConfig, recipe
from vitedu.weights import read_weights
from vitedu.weights.files import read_safetensors
from vitedu.weights.hub import EMBEDDED

REAL = "ViT-Ti/16"
TRAINED = sorted(EMBEDDED.keys() - {REAL})  # by a recipe of this repository


@pytest.mark.parametrize("name", TRAINED)
def test_they_are_small_and_of_the_recipe_of_their_name(name):
    assert EMBEDDED[name].stat().st_size < 5_000_000
    model = vitedu.load(name)
    config = recipe(name, "cpu")
    assert model.config == config.model
    assert model.preprocess == config.preprocess
    assert len(model.class_names) == config.model.num_classes
    assert all(torch.isfinite(x).all() for x in model.state_dict().values())


@pytest.mark.parametrize("name", TRAINED)
def test_their_run_is_recorded_and_can_be_repeated(name):
    recorded = results.read(name)
    assert recorded["status"] == "finished" and recorded["tier"] != "smoke"
    assert recorded["command"].startswith(f"vitedu train {name}")
    config = TrainConfig.from_json(recorded["config"])
    assert config.identity() == recipe(name, recorded["tier"]).identity()


# of MNIST's test images, 1,000 are in the package
IN_PACKAGE = {"mnist-tiny": "digits", "mae-mnist": "digits"}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_they_reach_what_was_recorded(name):
    recorded = results.read(name)
    model = vitedu.load(name)
    data = IN_PACKAGE.get(name, recorded["dataset"]["name"])
    test = load_dataset(data, max_images=500).test
    images = normalise(test.images.float(), model.preprocess)
    if not model.config.num_classes:  # learned without labels
        found = mean_loss(model, [(images, test.labels)]).loss
        assert found == pytest.approx(
            recorded["metrics"]["test_loss"]["value"], rel=0.05
        )
        return
    with torch.no_grad():
        right = (model(images).argmax(dim=1) == test.labels).float().mean()
    expected = recorded["metrics"]["test_accuracy"]["value"]
    # the first 500 of 2,000: three standard errors
    spread = (expected * (100 - expected) / 500) ** 0.5
    assert abs(100 * float(right) - expected) <= 3 * spread + 0.1


def test_a_folder_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shapes-small").mkdir()
    with pytest.raises(vitedu.UserError, match="shapes-small"):
        vitedu.load("shapes-small")


def test_the_real_model_is_ready_for_use():
    model = vitedu.load(REAL)
    assert model.config == vitedu.vit_config(REAL)
    assert not model.training
    assert {x.dtype for x in model.parameters()} == {torch.float32}
    spec = model.preprocess
    assert (spec.mean, spec.std) == ((0.5,) * 3, (0.5,) * 3)
    assert (spec.interpolation, spec.crop) == ("bicubic", 0.9)
    assert model.class_names == imagenet_classes().names
    report = model.load_report
    assert report.source == str(EMBEDDED[REAL])
    assert (report.dialect, len(report.loaded)) == ("vitedu", 152)
    assert report.dropped == report.new == report.notes == ()


def test_its_file_is_16_bits_and_holds_no_name_twice():
    size = EMBEDDED[REAL].stat().st_size
    arrays, metadata = read_safetensors(EMBEDDED[REAL])
    assert {x.dtype for x in arrays.values()} == {torch.float16}
    numbers = sum(x.numel() for x in arrays.values())
    assert numbers == 5_717_416 and size < 2 * numbers + 20_000
    assert json.loads(metadata["vitedu"])["class_names"] == "imagenet-1k"


@pytest.mark.skipif("VITEDU_DATA" not in os.environ, reason="no real data")
def test_it_is_the_file_it_was_made_from():
    (source,) = Path(os.environ["VITEDU_DATA"], "weights").glob("vit_tiny*")
    theirs = vitedu.load(source)
    ours = vitedu.load(REAL)
    assert theirs.preprocess == ours.preprocess
    assert theirs.class_names == ours.class_names
    assert theirs.config == ours.config
    stored = read_safetensors(source)[0]
    packaged = read_weights(EMBEDDED[REAL]).state_dict
    assert stored.keys() == packaged.keys()
    assert all(torch.equal(stored[name], packaged[name]) for name in stored)
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], tensor)
