"""What a run is beside its recipe and the paper's table: for people to read.

`changed_settings(config)` is {"lr": (0.01, 0.5)}, the recipe's and the run's.
"""

from typing import Any

from vitedu import budget
from vitedu.errors import UserError, counted
from vitedu.model import (
    HYBRIDS,
    NAMES,
    RESNETS,
    ResNetConfig,
    ViTConfig,
    vit_config,
)
from vitedu.train.config import TrainConfig, differences, dotted
from vitedu.train.recipes import RECIPES, WITH_ROWS, recipe

# the fields that make a model of Table 1, for any images and classes
TABLE_1 = ("stem", "patch_size", "embed_dim", "depth", "num_heads", "mlp_dim")
# What a recipe cannot know of your data, what follows from the model, and what
# trained weights bring along.
OF_THE_DATA = (
    *("dataset", "data", "model.num_classes", "given"),
    *("preprocess.image_size", "preprocess.in_channels"),
)
OF_THE_MODEL = ("model.", "preprocess.")
NOT_OF_THE_MODEL = {"model.dropout", "model.drop_path"}


def model_line(config: TrainConfig) -> str:
    model = config.model
    height, width = model.image_size
    line = (
        f"{model_name(model)} of {height}x{width} images; "
        f"{budget.parameters(model).total:,} weights"
    )
    return f"{line}, from {config.weights}" if config.weights else line


def model_name(model: ViTConfig | ResNetConfig) -> str:
    """ "ViT-B/16", or its sizes if it has no name."""
    if isinstance(model, ResNetConfig):
        made_of = (model.family, model.layers, model.width)
        names = [name for name, row in RESNETS.items() if row == made_of]
        return names[0] if names else "a ResNet"
    for name in (*NAMES, *HYBRIDS):
        paper = vit_config(name)
        if all(getattr(model, x) == getattr(paper, x) for x in TABLE_1):
            return name
    height, width = model.patch_size
    return (
        f"{counted(model.depth, 'block')}, {model.embed_dim} wide, "
        f"{height}x{width} patches"
    )


def changed_settings(config: TrainConfig) -> dict[str, tuple[Any, Any]] | None:
    """The recipe's value and the run's, where a setting differs.

    None if the recipe no longer exists.
    """
    if config.recipe not in RECIPES:
        return None
    row = model_name(config.model) if config.recipe in WITH_ROWS else None
    try:
        original = recipe(config.recipe, config.tier, row)
    except UserError:  # a model that isn't a row of the paper's table
        original = recipe(config.recipe, config.tier)
    before, now = differences(original, config)
    left_out = {*OF_THE_DATA}
    if original.precision == "auto":  # which became what the device does best
        left_out.add("precision")
    if config.starts_trained:
        of_the_model = {name for name in now if name.startswith(OF_THE_MODEL)}
        left_out |= of_the_model - NOT_OF_THE_MODEL
    known = dict(dotted(config.to_json()))  # a ResNet has other fields
    return {
        name: (before[name], now[name])
        for name in now
        if name in known and name not in left_out
    }
