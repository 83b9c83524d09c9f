"""Lot 6: trained weights on ants and bees, and on CIFAR-10, three seeds each.

Weights are those in the package, ViT-Ti/16, because nothing is downloaded. If
`--data` has `weights/` with a file of ViT-B/16, CIFAR-10 is learned by that.
"""

import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lots import Options, Outcome, in_pieces, tell
from lots.pictures import ants_and_bees, cifar
from vitedu.data import Augment
from vitedu.model import vit_config
from vitedu.pictures import PreprocessSpec
from vitedu.train import TrainConfig, fit, recipe

SEEDS = (0, 1, 2)
NO_DATA = {"name": "none", "digest": "none", "num_train": 0, "num_test": 0}
LARGE = "*vit_base_patch16*"  # a file of ViT-B/16
STEPS, SIDE = 500, 224


def run(options: Options) -> Iterator[Outcome]:
    """Yield what is measured so far after every run."""
    seeds = SEEDS[:1] if options.smoke else SEEDS
    configs = {"ants-bees": ants(options), "cifar10-finetune": small(options)}
    pieces = {
        f"{name}-{seed}": partial(trained, f"{name}-{seed}", config, seed)
        for name, config in configs.items()
        for seed in seeds
    }
    tuned, large = configs["cifar10-finetune"], large_weights(options)
    note = (
        f"CIFAR-10 as JPEG of quality 75, {tuned.steps} steps at "
        f"{tuned.model.image_size[0]} pixels from "
        f"{large.name if large else tuned.weights}, not the recipe's ViT-B/16 "
        "of ImageNet-21k at 384"
    )
    yield from in_pieces(options, pieces, partial(outcome, configs, note))


def ants(options: Options) -> TrainConfig:
    """The recipe as it is."""
    config = replace(
        recipe("ants-bees", "gpu"),
        dataset=str(ants_and_bees(options)),
        num_workers=0 if options.smoke else 8,
        device=str(options.device),
    )
    return reduced(config) if options.smoke else config


def small(options: Options) -> TrainConfig:
    """`cifar10-finetune` at tier gpu, as far as the weights and minutes go."""
    config = recipe("cifar10-finetune", "gpu")
    weights = large_weights(options)
    config = replace(
        config,
        data=str(cifar(options)),
        # from 32 pixels there is little to gain by 384
        model=vit_config(
            "ViT-B/16" if weights else "ViT-Ti/16",
            image_size=SIDE,
            num_classes=10,
        ),
        weights=str(weights) if weights else "ViT-Ti/16",
        preprocess=PreprocessSpec(interpolation="bicubic"),
        augment=Augment(crop=0.5, flip=True),
        steps=STEPS,
        warmup=0.05,
        num_workers=0 if options.smoke else 14,
        device=str(options.device),
    )
    return reduced(config) if options.smoke else config


def reduced(config: TrainConfig) -> TrainConfig:
    """Two steps on few small pictures."""
    return replace(
        config,
        model=replace(config.model, image_size=(32, 32)),
        weights="ViT-Ti/16",
        epochs=None,
        steps=2,
        batch_size=4,
        max_images=12,
        precision="fp32",
        threads=1,
        log_every=1,
    )


def large_weights(options: Options) -> Path | None:
    """A file of ViT-B/16's weights, if the data have one."""
    if options.data is None:
        return None
    found = sorted((options.data / "weights").glob(LARGE))
    return found[0] if found else None


def trained(
    name: str, config: TrainConfig, seed: int, out: Path | None = None
) -> dict[str, Any]:
    """Accuracy, seconds and speed of one run, kept in `out` if it is given."""
    run = fit(replace(config, seed=seed), out)
    lines = [line for line in run.history if "images_per_second" in line]
    settled = lines[len(lines) // 2 :]
    found = {
        "accuracy": run.result["metrics"]["test_accuracy"]["value"],
        "seconds": run.result["wall_seconds"],
        "wait": run.result.get("data_wait", 0.0),
        "speed": statistics.median(x["images_per_second"] for x in settled),
        "dataset": run.result["dataset"],
    }
    tell(
        f"{name}: {found['accuracy']:.2f}%, "
        f"{found['seconds']:.1f} s, {found['speed']:,.0f} images/s, "
        f"{100 * found['wait']:.0f}% waiting"
    )
    return found


def outcome(
    configs: dict[str, TrainConfig],
    note: str,
    done: dict[str, dict[str, Any]],
    still_open: list[str],
) -> Outcome:
    """What the runs say, as a recorded result."""
    metrics: dict[str, Any] = {}
    notes, dataset = [], None
    for name in configs:
        runs = {
            key: values
            for key, values in done.items()
            if key.rpartition("-")[0] == name and "away" not in values
        }
        if not runs:
            continue
        reached = [values["accuracy"] for values in runs.values()]
        metrics[name] = {
            "value": statistics.mean(reached),
            "unit": "percent",
            "runs": reached,
        }
        for what, unit in (
            ("seconds", "seconds of training"),
            ("speed", "images per second"),
        ):
            found = statistics.median(x[what] for x in runs.values())
            metrics[f"{name}/{what}"] = {"value": found, "unit": unit}
        waited = statistics.median(x["wait"] for x in runs.values())
        metrics[f"{name}/data_wait"] = {
            "value": 100 * waited,
            "unit": "percent of time",
        }
        dataset = next(iter(runs.values()))["dataset"]
    notes += [
        f"{key}: {values['away']}"
        for key, values in done.items()
        if "away" in values
    ]
    notes.append(note)
    return Outcome(
        config={
            name: replace(config, data=None).to_json()
            for name, config in configs.items()
        },
        metrics=metrics,
        dataset=dataset or NO_DATA,
        open=still_open,
        notes="; ".join(notes),
    )
