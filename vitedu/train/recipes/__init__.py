"""Recipes: a function from a tier to the whole configuration of a run.

`RECIPES["mnist-tiny"]("cpu")` is a TrainConfig.
"""

from collections.abc import Callable
from dataclasses import replace

from vitedu.errors import UserError, did_you_mean
from vitedu.train.config import TIERS, TrainConfig
from vitedu.train.recipes.cifar import cifar10_finetune, cifar10_scratch
from vitedu.train.recipes.finetune import ants_bees, finetune, tried
from vitedu.train.recipes.imagenet import (
    deit_s,
    imagenet_s16,
    paper_imagenet,
    paper_imagenet21k,
    paper_jft,
    shrunk,
)
from vitedu.train.recipes.small import (
    digits,
    mnist_seed,
    mnist_small,
    mnist_tiny,
    shapes_small,
)
from vitedu.train.recipes.transfer import (
    imagenet_b16_384,
    imagenet_l16_384,
    imagenet_l16_512,
    mae_finetune_b16,
)

RECIPES: dict[str, Callable[..., TrainConfig]] = {
    "mnist-seed": mnist_seed,
    "mnist-tiny": mnist_tiny,
    "mnist-small": mnist_small,
    "digits": digits,
    "shapes-small": shapes_small,
    "cifar10-scratch": cifar10_scratch,
    "cifar10-finetune": cifar10_finetune,
    "finetune": finetune,
    "ants-bees": ants_bees,
    "paper-imagenet": paper_imagenet,
    "paper-imagenet21k": paper_imagenet21k,
    "paper-jft": paper_jft,
    "imagenet-s16": imagenet_s16,
    "deit-s": deit_s,
    "imagenet-b16-384": imagenet_b16_384,
    "imagenet-l16-384": imagenet_l16_384,
    "imagenet-l16-512": imagenet_l16_512,
    "mae-finetune-b16": mae_finetune_b16,
}
# rows of the paper's Table 3, of which `model` chooses one
WITH_ROWS = ("paper-imagenet", "paper-imagenet21k", "paper-jft")
# too large for a smoke test as they are
LARGE = (*WITH_ROWS, "imagenet-s16", "deit-s")


def recipe(name: str, tier: str, model: str | None = None) -> TrainConfig:
    """The configuration called `name` at a tier ("smoke", "cpu" or "gpu").

    `model` chooses a row of the recipes of the paper's Table 3, such as
    "ViT-L/16". Tier smoke takes 512 images and 20 steps, and for the ImageNet
    recipes drawn shapes and two thin blocks, which proves that the recipe runs.
    Recipes that begin with trained weights take 64 small images and 10 steps of
    the embedded ViT-Ti/16 instead.
    UserError: the name, the tier or the row is unknown.
    """
    for what, value, known in (
        ("recipe", name, RECIPES),
        ("tier", tier, TIERS),
    ):
        if value not in known:
            raise UserError(
                f"there is no {what} {value!r}; " + did_you_mean(value, known)
            )
    if model is not None and name not in WITH_ROWS:
        raise UserError(
            f"model={model} chooses a row of {', '.join(WITH_ROWS)}; {name} "
            "has one model, whose fields are set like model.depth=4"
        )
    config = RECIPES[name](*(x for x in (tier, model) if x is not None))
    if tier != "smoke":
        return config
    if config.weights is not None:
        return tried(config)
    if name in LARGE:
        config = shrunk(config)
    return replace(
        config,
        epochs=None,
        steps=20,
        max_images=512,
        log_every=10,
        save_every=10,
    )
