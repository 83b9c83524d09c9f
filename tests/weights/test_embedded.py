"""The trained weights in the package are those that their recorded run made."""

import pytest
import torch

import vitedu
from vitedu import results
from vitedu.data import load_dataset, normalise
from vitedu.train import TrainConfig, recipe
from vitedu.weights.hub import EMBEDDED


@pytest.mark.parametrize("name", EMBEDDED)
def test_they_are_small_and_of_the_recipe_of_their_name(name):
    assert EMBEDDED[name].stat().st_size < 5_000_000
    model = vitedu.load(name)
    config = recipe(name, "cpu")
    assert model.config == config.model
    assert model.preprocess == config.preprocess
    assert len(model.class_names) == config.model.num_classes
    assert all(torch.isfinite(x).all() for x in model.state_dict().values())


@pytest.mark.parametrize("name", EMBEDDED)
def test_their_run_is_recorded_and_can_be_repeated(name):
    recorded = results.read(name)
    assert recorded["status"] == "finished" and recorded["tier"] != "smoke"
    assert recorded["command"].startswith(f"vitedu train {name}")
    config = TrainConfig.from_json(recorded["config"])
    assert config.identity() == recipe(name, recorded["tier"]).identity()


@pytest.mark.slow
@pytest.mark.parametrize("name", EMBEDDED)
def test_they_reach_what_was_recorded(name):
    recorded = results.read(name)
    model = vitedu.load(name)
    test = load_dataset(recorded["dataset"]["name"], max_images=500).test
    images = normalise(test.images.float(), model.preprocess)
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
