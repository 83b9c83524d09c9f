"""What the words of `vitedu train` mean: a configuration and a folder."""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vitedu.cli.words import split_words
from vitedu.errors import UserError
from vitedu.files import user_path
from vitedu.train import RECIPES, TrainConfig, find_device, override, recipe
from vitedu.train.config import MAY_DIFFER, differences
from vitedu.train.finetune import finetune_config, tier_of, with_weights
from vitedu.train.precision import concrete
from vitedu.train.run_folder import RunFolder
from vitedu.train.sources import class_names_of


class Plan(NamedTuple):
    """What is to be trained, and where."""

    config: TrainConfig
    out: Path
    changed: dict[str, Any]  # against the recipe


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan that a command line describes. UserError: it makes no sense."""
    names, fields = split_words(options.words)
    if "recipe" in fields:
        raise UserError("recipe= is not a setting; name the recipe after train")
    if options.device != "auto":
        fields.setdefault("device", options.device)
    if len(names) > 1:
        raise UserError(f"train takes one recipe, got {', '.join(names)}")
    if options.resume is not None:
        return resumed(options, names, fields)
    if not names:
        raise UserError(
            f"train needs a recipe; known: {', '.join(sorted(RECIPES))}"
        )
    tier = tier_for(options, fields.pop("tier", options.tier))
    original, config = configured(names[0], tier, fields)
    _, changed = differences(on_device(original), config)
    if "model.num_classes" not in fields:  # counted
        changed.pop("model.num_classes", None)
    out = Path("runs") / f"{config.recipe}-{config.digest()}"
    if options.out is not None:
        out = user_path(options.out)
    return Plan(config, out, changed)


def configured(
    name: str, tier: str, fields: dict[str, str]
) -> tuple[TrainConfig, TrainConfig]:
    """A recipe as it is, and with the fields that were given.

    Unless it is given, the number of classes is taken from the data.
    """
    if name == "finetune":
        dataset = fields.pop("dataset", None)
        weights, data = fields.pop("weights", None), fields.pop("data", None)
        original = finetune_config(weights, data, tier, dataset=dataset)
        return original, on_device(override(original, fields))
    original = recipe(name, tier, fields.pop("model", None))
    if original.weights is not None and "weights" in fields:
        original = with_given_weights(original, fields)
    config = override(original, fields)
    if "model.num_classes" not in fields:
        num_classes = len(class_names_of(config))
        if num_classes != config.model.num_classes:
            model = replace(config.model, num_classes=num_classes)
            config = replace(config, model=model)
    return original, on_device(config)


def with_given_weights(
    config: TrainConfig, fields: dict[str, str]
) -> TrainConfig:
    """A recipe with other trained weights, which are taken out of `fields`."""
    weights = fields.pop("weights")
    if weights == config.weights:
        return config
    named = {x: fields[x] for x in ("dataset", "data") if x in fields}
    num_classes = len(class_names_of(override(config, named)))
    return with_weights(config, weights, num_classes)


def resumed(
    options: argparse.Namespace, names: list[str], fields: dict[str, str]
) -> Plan:
    """The configuration in the folder; only what may differ can be changed."""
    if options.fresh or options.out is not None or options.tier is not None:
        raise UserError(
            "--resume uses the run's own folder and tier; leave out --fresh, "
            "--out and --tier"
        )
    out = user_path(options.resume)
    config = RunFolder(out).read_config()
    if names and names[0] != config.recipe:
        raise UserError(
            f"{out} contains a run of {config.recipe}, not of {names[0]}"
        )
    new = on_device(override(config, fields))
    _, changed = differences(config, new)
    if changed:
        raise UserError(
            f"{' and '.join(changed)} cannot change when a run goes on; only "
            f"{', '.join(MAY_DIFFER)} can"
        )
    return Plan(new, out, {})


def on_device(config: TrainConfig) -> TrainConfig:
    """`config` with the device and the precision that "auto" means here."""
    device = find_device(config.device)
    return concrete(replace(config, device=str(device)), device)


def tier_for(options: argparse.Namespace, name: str | None = None) -> str:
    """`name`, else $VITEDU_TIER; else gpu on an accelerator, cpu without."""
    return name or os.environ.get("VITEDU_TIER") or tier_of(options.device)
