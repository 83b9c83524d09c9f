"""Recipes: a function from a tier to the whole configuration of a run.

`RECIPES["mnist-tiny"]("cpu")` is a TrainConfig.
"""

from dataclasses import replace

from vitedu.errors import UserError, did_you_mean
from vitedu.train.config import TIERS, TrainConfig
from vitedu.train.recipes.digits import digits
from vitedu.train.recipes.mnist import mnist_seed, mnist_small, mnist_tiny
from vitedu.train.recipes.shapes import shapes_small

RECIPES = {
    "mnist-seed": mnist_seed,
    "mnist-tiny": mnist_tiny,
    "mnist-small": mnist_small,
    "digits": digits,
    "shapes-small": shapes_small,
}


def recipe(name: str, tier: str) -> TrainConfig:
    """The configuration called `name` at a tier ("smoke", "cpu" or "gpu").

    At tier smoke it is cut down to 512 images and 20 steps: proof that it runs.
    UserError: the name or the tier is unknown.
    """
    if name not in RECIPES:
        raise UserError(
            f"there is no recipe {name!r}; " + did_you_mean(name, RECIPES)
        )
    if tier not in TIERS:
        raise UserError(
            f"there is no tier {tier!r}; " + did_you_mean(tier, TIERS)
        )
    config = RECIPES[name](tier)
    if tier == "smoke":
        config = replace(
            config,
            epochs=None,
            steps=20,
            max_images=512,
            log_every=10,
            save_every=10,
        )
    return config
