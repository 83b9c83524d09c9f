"""Recipes: they build, keep to their sizes, and run at tier smoke."""

import functools
import os
from dataclasses import replace

import pytest
import torch

from vitedu import budget
from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig, new_network
from vitedu.train import RECIPES, fit, recipe
from vitedu.train.config import TIERS
from vitedu.train.data import data_classes
from vitedu.train.finetune import finetune_config
from vitedu.train.recipes.imagenet import SIZES, TABLE_3, smoke_size
from vitedu.train.recipes.transfer import TABLE_4
from vitedu.weights.hub import EMBEDDED

# at most so many weights
WEIGHTS = {
    "mnist-seed": 7_850,
    "mnist-tiny": 7_850,
    "mnist-small": 1_000_000,
    "shapes-small": 1_200_000,
    "digits": 200_000,
    "cifar10-scratch": 10_000_000,
    "paper-imagenet": 100_000_000,
    "paper-imagenet21k": 110_000_000,
    "paper-jft": 110_000_000,
    "imagenet-s16": 25_000_000,
    "deit-s": 23_000_000,
    "mae-mnist": 170_000,
    "mpp-mnist": 140_000,
    "mae-shapes": 400_000,
    "mae-cifar10": 11_000_000,
    "mpp-cifar10": 10_000_000,
}
# from trained weights
TRAINED = {
    "finetune": 6_000_000,
    "ants-bees": 6_000_000,
    "trashnet": 6_000_000,
    "trashnet-384": 6_000_000,
    "cifar10-finetune": 87_000_000,
    "imagenet-b16-384": 87_000_000,
    "imagenet-l16-384": 305_000_000,
    "imagenet-l16-512": 306_000_000,
    "mae-finetune-b16": 87_000_000,
}
# too large for a smoke test as they are
LARGE = [name for name in WEIGHTS if recipe(name, "gpu").dataset in SIZES]


@functools.cache
def built_count(config):
    """The weights of a network; recipes share some, and tiers most."""
    with torch.device("meta"):
        model = new_network(config)
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_keeps_to_its_number_of_weights(name):
    for tier in TIERS:
        config = recipe(name, tier)
        assert (config.recipe, config.tier) == (name, tier)
        count = built_count(config.model)
        assert count == budget.parameters(config.model).total
        assert count <= (WEIGHTS | TRAINED)[name]
        assert count == 7_850 or name not in ("mnist-seed", "mnist-tiny")


def test_the_seed_is_what_a_first_tutorial_does():
    config = recipe("mnist-seed", "cpu")
    assert (config.optimizer, config.lr) == ("adam", 1e-3)
    assert (config.schedule, config.warmup) == ("constant", 0.0)
    assert (config.batch_size, config.epochs) == (64, 15)
    assert (config.preprocess.mean, config.preprocess.std) == ((0.0,), (1.0,))
    assert config.augment.is_off
    assert config.weight_decay == config.label_smoothing == 0.0
    assert config.ema is config.max_grad_norm is None


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
    if "cifar10" in name:
        lengths |= {"dataset"}
    if name in LARGE or name in TRAINED:
        lengths |= {"model", "preprocess", "dataset", "batch_size"}
    if name in TRAINED:
        lengths |= {"weights"}
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


# the others differ from these in their sizes
@pytest.mark.parametrize(
    ("dataset", "model"),
    [("imagenet", "ViT-B/32"), ("jft", "ViT-H/14"), ("jft", "R50+ViT-L/16")],
)
def test_every_kind_of_row_of_table_3_can_be_tried(dataset, model):
    config = recipe(f"paper-{dataset}", "smoke", model).model
    with torch.device("meta"):
        network = ViT(config)
        images = torch.empty(2, 3, *config.image_size)
    assert network(images).shape == (2, 10)


# Paper, Table 4, as it is printed: steps, and the rates to choose from.
PRINTED = {
    "imagenet": (20_000, {0.003, 0.01, 0.03, 0.06}),
    "cifar100": (10_000, {0.001, 0.003, 0.01, 0.03}),
    "cifar10": (10_000, {0.001, 0.003, 0.01, 0.03}),
    "oxford-pets": (500, {0.001, 0.003, 0.01, 0.03}),
    "flowers102": (500, {0.001, 0.003, 0.01, 0.03}),
    "vtab": (2_500, {0.01}),
}
FINETUNED = {
    # the images' side, the average's decay, the classes
    "imagenet-b16-384": ("imagenet", 384, None, 1_000),
    "imagenet-l16-384": ("imagenet", 384, None, 1_000),
    "imagenet-l16-512": ("imagenet", 512, 0.9999, 1_000),
    "cifar10-finetune": ("cifar10", 384, None, 10),
}


def test_table_4_is_the_printed_one():
    assert {x: (row[0], {*row[1]}) for x, row in TABLE_4.items()} == PRINTED


@pytest.mark.parametrize("name", FINETUNED)
def test_table_4_as_a_configuration(name):
    # paper, Table 4, section 4.1 (Polyak, 512) and appendix B.1.1
    dataset, side, ema, num_classes = FINETUNED[name]
    steps, rates = PRINTED[dataset]
    config = recipe(name, "gpu")
    assert (config.steps, config.epochs) == (steps, None)
    assert config.lr in rates
    assert (config.optimizer, config.betas[0]) == ("sgd", 0.9)
    assert (config.batch_size, config.schedule) == (512, "cosine")
    assert (config.weight_decay, config.max_grad_norm) == (0.0, 1.0)
    assert config.model.image_size == (side, side)
    assert (config.ema, config.model.num_classes) == (ema, num_classes)
    assert config.model.dropout == config.label_smoothing == 0.0
    # the authors' public code
    assert config.warmup * config.steps == pytest.approx(500)
    assert (config.augment.crop, config.augment.flip) == (0.05, True)
    assert config.preprocess.crop is None
    assert config.preprocess.interpolation == "bilinear"


def test_what_maes_authors_fine_tune_with():
    # He et al., Table 9, and their code
    config = recipe("mae-finetune-b16", "gpu")
    assert (config.optimizer, config.lr) == ("adamw", 2e-3)
    assert (config.epochs, config.batch_size) == (100, 1_024)
    assert (config.weight_decay, config.layer_decay) == (0.05, 0.65)
    assert config.warmup * config.epochs == pytest.approx(5)
    assert (config.mixup, config.cutmix) == (0.8, 1.0)
    assert (config.label_smoothing, config.augment.erase) == (0.1, 0.25)
    assert (config.augment.rand_layers, config.augment.rand_magnitude) == (2, 9)
    assert (config.model.drop_path, config.model.pool) == (0.1, "mean")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_from_trained_weights_says_which(name):
    weights = recipe(name, "gpu").weights
    assert (weights is not None) == (name in TRAINED)
    if weights is not None:
        assert weights in EMBEDDED or weights.startswith("timm/")


@pytest.mark.parametrize("name", TRAINED)
def test_tier_smoke_of_trained_weights_needs_no_network(name):
    config = recipe(name, "smoke")
    assert config.weights == "ViT-Ti/16"
    assert (config.model.embed_dim, config.model.depth) == (192, 12)
    full = recipe(name, "gpu")
    for field in ("pool", "drop_path"):
        assert getattr(config.model, field) == getattr(full.model, field)
    for field in ("augment", "optimizer", "lr", "mixup", "ema", "layer_decay"):
        assert getattr(config, field) == getattr(full, field) or (
            name == "cifar10-finetune"  # another run on a CPU
        )


def test_ants_and_bees_are_fine_tuned_as_any_folder(tmp_path):
    for name in ("ants", "bees"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").touch()
    folder = str(tmp_path)
    own = finetune_config("ViT-Ti/16", folder, "cpu")
    named = recipe("ants-bees", "cpu")
    same = replace(named, recipe="finetune", dataset=folder)
    assert same == own


def test_ants_and_bees_are_found_by_their_name():
    data = os.environ.get("VITEDU_DATA", "")
    if not os.path.isdir(os.path.join(data, "ants-bees")):
        pytest.skip("VITEDU_DATA names no folder with ants-bees/")
    assert data_classes(recipe("ants-bees", "cpu")) == ("ants", "bees")


@pytest.mark.parametrize(
    ("image_size", "patch_size", "small"),
    [
        (16800, 14, (56, 56)),
        (16800, 16, (64, 64)),
        (16800, 100, (100, 100)),
        ((28, 300), (7, 10), (28, 60)),  # not enlarged
    ],
)
def test_small_images_are_of_whole_patches(image_size, patch_size, small):
    config = ViTConfig(image_size=image_size, patch_size=patch_size)
    assert smoke_size(config) == small


QUICK = ("mnist-tiny", "paper-jft")


@pytest.mark.parametrize(
    "name",
    [
        x if x in QUICK else pytest.param(x, marks=pytest.mark.slow)
        for x in RECIPES
    ],
)
def test_every_recipe_trains(name, here):
    # the number of images is cut further, for time
    config = replace(recipe(name, "smoke"), steps=2, max_images=32)
    # digits in place of MNIST; shapes are always here
    run = fit(replace(config, fallback="digits", device="cpu"), "run")
    assert run.result["status"] == "finished"
    assert run.result["name"] == name
    measured = "test_accuracy" if config.needs_labels else "test_loss"
    assert 0 <= run.result["metrics"][measured]["value"] <= 100


@pytest.mark.slow
@pytest.mark.parametrize("is_archive", [False, True])
def test_shapes_stand_in_for_no_cifar_but_not_for_a_damaged_one(
    here, tmp_path, is_archive
):
    assert recipe("cifar10-scratch", "smoke").dataset == "shapes-1k"
    folder, said = tmp_path / "cache" / "cifar10", "255"
    if is_archive:
        folder.mkdir(parents=True)
        said = "cifar-10-binary.tar.gz"
        (folder / said).write_text("not found")
    else:
        folder /= "cifar-10-batches-bin"
        folder.mkdir(parents=True)
        names = [f"data_batch_{number}.bin" for number in range(1, 6)]
        for name in (*names, "test_batch.bin"):
            (folder / name).write_bytes(b"\xff" * 3073 * 10_000)
    with pytest.raises(UserError, match=said):
        fit(replace(recipe("cifar10-scratch", "smoke"), device="cpu"))


def test_without_its_data_mnist_says_what_to_do(here):
    with pytest.raises(UserError, match="pass fallback=digits"):
        fit(recipe("mnist-seed", "smoke"))
