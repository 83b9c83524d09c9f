"""Recipes: a function from a tier to the whole configuration of a run.

`recipe("mnist-tiny", "cpu")` is a TrainConfig, which it names.
"""

from collections.abc import Callable
from dataclasses import replace

from vitedu.errors import UserError, unknown
from vitedu.train.config import TIERS, TrainConfig
from vitedu.train.recipes import imagenet, small, transfer, unlabelled

RECIPES: dict[str, Callable[..., TrainConfig]] = {
    "mnist-seed": small.mnist_seed,
    "mnist-tiny": small.mnist_tiny,
    "mnist-small": small.mnist_small,
    "digits": small.digits,
    "shapes-small": small.shapes_small,
    "cifar10-scratch": small.cifar10_scratch,
    "cifar10-finetune": transfer.cifar10_finetune,
    "mae-mnist": unlabelled.mae_mnist,
    "mpp-mnist": unlabelled.mpp_mnist,
    "mae-shapes": unlabelled.mae_shapes,
    "mae-cifar10": unlabelled.mae_cifar10,
    "mpp-cifar10": unlabelled.mpp_cifar10,
    "finetune": transfer.finetune,
    "ants-bees": transfer.ants_bees,
    "trashnet": transfer.trashnet,
    "trashnet-384": transfer.trashnet_384,
    "paper-imagenet": imagenet.paper_imagenet,
    "paper-imagenet21k": imagenet.paper_imagenet21k,
    "paper-jft": imagenet.paper_jft,
    "imagenet-s16": imagenet.imagenet_s16,
    "deit-s": imagenet.deit_s,
    "imagenet-b16-384": transfer.imagenet_b16_384,
    "imagenet-l16-384": transfer.imagenet_l16_384,
    "imagenet-l16-512": transfer.imagenet_l16_512,
    "mae-finetune-b16": transfer.mae_finetune_b16,
}
# rows of the paper's Table 3, of which `model` chooses one
WITH_ROWS = ("paper-imagenet", "paper-imagenet21k", "paper-jft")


def recipe(name: str, tier: str, model: str | None = None) -> TrainConfig:
    """The configuration called `name` at a tier ("smoke", "cpu" or "gpu").

    `model` chooses a row of the recipes of the paper's Table 3, such as
    "ViT-L/16". Tier smoke takes 512 images and 20 steps, for the ImageNet
    recipes of drawn shapes and two thin blocks, for those that begin with
    trained weights 64 images and 10 steps of the embedded ViT-Ti/16.
    UserError: the name, the tier or the row is unknown.
    """
    for what, value, known in (
        ("recipe", name, RECIPES),
        ("tier", tier, TIERS),
    ):
        if value not in known:
            raise unknown(what, value, known)
    if model is not None and name not in WITH_ROWS:
        raise UserError(
            f"model={model} chooses a row of {', '.join(WITH_ROWS)}; {name} "
            "has one model, whose fields are set like model.depth=4"
        )
    make = RECIPES[name]
    config = make(tier) if model is None else make(tier, model)
    config = replace(config, recipe=name, tier=tier)
    if tier != "smoke":
        return config
    if config.weights is not None:
        return transfer.tried(config)
    if config.dataset in imagenet.SIZES:
        config = imagenet.shrunk(config)
    return replace(
        config,
        epochs=None,
        steps=20,
        max_images=512,
        log_every=10,
        save_every=10,
    )
