"""Recipes: they build, keep to their sizes, and run at tier smoke."""

from dataclasses import replace

import pytest
import torch

from vitedu import budget
from vitedu.errors import UserError
from vitedu.model import ViT
from vitedu.train import RECIPES, fit, recipe
from vitedu.train.config import TIERS
from vitedu.train.recipes import LARGE
from vitedu.train.recipes.imagenet import SIZES, TABLE_3

# What each promises: exactly so many weights, or at most.
EXACTLY = {"mnist-seed": 7_850, "mnist-tiny": 7_850}
AT_MOST = {
    "mnist-small": 1_000_000,
    "shapes-small": 1_200_000,
    "digits": 200_000,
    "cifar10-scratch": 10_000_000,
    "paper-imagenet": 100_000_000,
    "paper-imagenet21k": 110_000_000,
    "paper-jft": 110_000_000,
    "imagenet-s16": 25_000_000,
    "deit-s": 23_000_000,
    "finetune": 6_000_000,
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
    with torch.device("meta"):
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
    if name in ("cifar10-scratch", "finetune"):
        lengths |= {"dataset"}
    if name in LARGE:
        lengths |= {"model", "preprocess", "dataset", "batch_size"}
    smoke, full = recipe(name, "smoke").to_json(), recipe(name, "cpu").to_json()
    differing = {each for each in full if smoke[each] != full[each]}
    assert differing <= lengths | {"tier"}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_recipe_keeps_its_kind_at_tier_smoke(name):
    smoke, full = recipe(name, "smoke").model, recipe(name, "gpu").model
    for field in ("stem", "position", "block", "pool", "class_token", "gelu"):
        assert getattr(smoke, field) == getattr(full, field)
    assert bool(smoke.pre_logits) == bool(full.pre_logits)


ROWS = [(name, model) for name, rows in TABLE_3.items() for model in rows]


@pytest.mark.parametrize(("dataset", "model"), ROWS)
def test_table_3_as_a_configuration(dataset, model):
    # paper, Table 3 and appendix B.1
    config = recipe(f"paper-{dataset}", "gpu", model)
    num_images, num_classes = SIZES[dataset]
    assert (config.batch_size, config.betas) == (4096, (0.9, 0.999))
    steps = config.epochs * num_images / 4096
    assert config.warmup * steps == pytest.approx(10_000, rel=0.005)
    assert config.model.num_classes == num_classes
    assert config.model.pre_logits == config.model.embed_dim
    wanted = {
        "imagenet": ("cosine", 0.3, 0.1, 1.0),
        "imagenet21k": ("linear", 0.03, 0.1, None),
        "jft": ("linear", 0.1, 0.0, None),
    }[dataset]
    found = config.schedule, config.weight_decay, config.model.dropout
    assert (*found, config.max_grad_norm) == wanted


@pytest.mark.parametrize(("dataset", "model"), ROWS)
def test_every_row_of_table_3_can_be_tried(dataset, model):
    config = recipe(f"paper-{dataset}", "smoke", model).model
    with torch.device("meta"):
        network = ViT(config)
        images = torch.empty(2, 3, *config.image_size)
    assert network(images).shape == (2, 10)


def test_a_row_that_is_not_there_is_said():
    with pytest.raises(UserError, match=r"no row for 'ViT-H/14' on imagenet"):
        recipe("paper-imagenet", "gpu", "ViT-H/14")
    with pytest.raises(UserError, match=r"model=ViT-B/16 chooses a row of"):
        recipe("digits", "cpu", "ViT-B/16")


def offered(config):
    """With the digits in place of MNIST; shapes are always here."""
    return replace(config, fallback="digits", device="cpu")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_trains(name, offline):
    # the number of images is cut further, for time
    config = replace(recipe(name, "smoke"), steps=2, max_images=32)
    run = fit(offered(config), "run")
    assert run.result["status"] == "finished"
    assert run.result["name"] == name
    assert 0 <= run.result["metrics"]["test_accuracy"]["value"] <= 100


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_runs_at_tier_smoke(name, offline):
    run = fit(offered(recipe(name, "smoke")), "run")
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
