"""Recipes: they build, keep to their sizes, and run at tier smoke."""

from dataclasses import replace

import pytest

from vitedu import budget
from vitedu.errors import UserError
from vitedu.model import ViT
from vitedu.train import RECIPES, fit, recipe
from vitedu.train.config import TIERS

# What each promises: exactly so many weights, or at most.
EXACTLY = {"mnist-seed": 7_850, "mnist-tiny": 7_850}
AT_MOST = {
    "mnist-small": 1_000_000,
    "shapes-small": 1_200_000,
    "digits": 200_000,
}


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A computer without MNIST."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VITEDU_DATA", raising=False)
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("VITEDU_OFFLINE", "1")


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_its_name_and_tier(name, tier):
    config = recipe(name, tier)
    assert (config.recipe, config.tier) == (name, tier)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_keeps_to_its_number_of_weights(name, tier):
    model = ViT(recipe(name, tier).model)
    count = sum(weight.numel() for weight in model.parameters())
    assert count == budget.parameters(model.config).total
    assert count == EXACTLY.get(name, count)
    assert count <= AT_MOST.get(name, count)


def test_every_recipe_promises_a_number_of_weights():
    assert EXACTLY.keys() | AT_MOST.keys() == RECIPES.keys()


def test_seed_and_tiny_have_the_same_layers():
    seed, tiny = (
        recipe("mnist-seed", "cpu").model,
        recipe("mnist-tiny", "cpu").model,
    )
    sizes = (
        "image_size",
        "patch_size",
        "embed_dim",
        "depth",
        "num_heads",
        "mlp_dim",
    )
    for name in sizes:
        assert getattr(seed, name) == getattr(tiny, name)


def test_the_seed_is_what_a_first_tutorial_does():
    config = recipe("mnist-seed", "cpu")
    assert (config.optimizer, config.lr, config.schedule) == (
        "adam",
        1e-3,
        "constant",
    )
    assert (config.batch_size, config.epochs, config.validation) == (
        64,
        15,
        0.0,
    )
    assert (config.preprocess.mean, config.preprocess.std) == ((0.0,), (1.0,))
    assert config.augment.is_off
    assert config.warmup == config.weight_decay == config.label_smoothing == 0.0
    assert config.max_images is config.ema is config.max_grad_norm is None


def test_tiny_takes_no_more_epochs_than_the_seed():
    assert recipe("mnist-tiny", "cpu").epochs == 15


@pytest.mark.parametrize("name", RECIPES)
def test_no_final_run_holds_images_out(name):
    # recipes are chosen on a held-out part; what is recorded uses all of it
    assert recipe(name, "gpu").validation == 0.0
    assert recipe(name, "gpu").max_images is None


@pytest.mark.parametrize(
    "name", ["mnist-seed", "mnist-tiny", "mnist-small", "digits"]
)
def test_the_small_recipes_are_the_same_on_every_machine(name):
    assert replace(recipe(name, "gpu"), tier="cpu") == recipe(name, "cpu")


@pytest.mark.parametrize("name", RECIPES)
def test_smoke_is_at_most_20_steps_and_512_images(name):
    config = recipe(name, "smoke")
    assert config.steps <= 20
    assert config.max_images <= 512
    assert config.log_every <= config.steps


@pytest.mark.parametrize("name", RECIPES)
def test_smoke_differs_in_its_length_alone(name):
    lengths = {"epochs", "steps", "max_images", "log_every", "save_every"}
    smoke, full = recipe(name, "smoke").to_json(), recipe(name, "cpu").to_json()
    differing = {each for each in full if smoke[each] != full[each]}
    assert differing <= lengths | {"tier"}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_trains(name, offline):
    # the digits in place of MNIST; the number of images is cut further, for time
    config = replace(
        recipe(name, "smoke"),
        steps=2,
        max_images=32,
        fallback="digits",
        device="cpu",
    )
    run = fit(config, "run")
    assert run.result["status"] == "finished"
    assert run.result["name"] == name
    assert 0 <= run.result["metrics"]["test_accuracy"]["value"] <= 100


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_runs_at_tier_smoke(name, offline):
    run = fit(
        replace(recipe(name, "smoke"), fallback="digits", device="cpu"), "run"
    )
    assert run.result["status"] == "finished"
    assert run.history[-1]["step"] <= 20
    assert run.result["dataset"]["num_train"] <= 512
    assert run.result["dataset"]["num_test"] <= 512


def test_without_its_data_mnist_says_what_to_do(offline):
    with pytest.raises(UserError, match="pass fallback=digits"):
        fit(recipe("mnist-seed", "smoke"))


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("mnist-tiy", "mnist-tiny"),
        ("digit", "digits"),
        ("MNIST-SEED", "mnist-seed"),
    ],
)
def test_an_unknown_recipe_names_the_nearest(name, near):
    with pytest.raises(
        UserError, match=f"no recipe {name!r}; did you mean .*{near}"
    ):
        recipe(name, "cpu")


def test_a_name_like_no_recipe_lists_them_all():
    with pytest.raises(UserError, match="known: ") as error:
        recipe("zzz", "cpu")
    assert all(name in str(error.value) for name in RECIPES)


def test_an_unknown_tier_names_the_nearest():
    with pytest.raises(UserError, match="no tier 'smok'; did you mean 'smoke'"):
        recipe("digits", "smok")
