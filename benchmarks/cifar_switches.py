"""Which parts of `cifar10-scratch` matter: one switch at a time, small scale.

    python benchmarks/cifar_switches.py cifar10-jpeg75.npz [SWITCH ...]

A network of 0.3 M weights sees 3,000 images 40 times each and is judged on
3,000 others, both of the training part; n = 1. Each switch undoes or adds one
thing. What comes out is written to `vitedu/results/cifar-switches.json` after
each run, and a run that stands there is not repeated. `tools/cifar_jpeg.py`
makes the file.
"""

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from vitedu import results
from vitedu.data import Augment, load_dataset
from vitedu.model import Learned1D
from vitedu.train import TrainConfig, fit, recipe

TARGET = Path(__file__).parents[1] / "vitedu/results/cifar-switches.json"
NUM_TRAIN, NUM_HELD_OUT, EPOCHS = 3_000, 3_000, 40


def augmented(config: TrainConfig, **changes: object) -> TrainConfig:
    """`config` with fields of its augmentation changed."""
    return replace(config, augment=replace(config.augment, **changes))


def modelled(config: TrainConfig, **changes: object) -> TrainConfig:
    """`config` with fields of its model changed."""
    return replace(config, model=replace(config.model, **changes))


SWITCHES: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    "recipe": lambda c: c,
    "no RandAugment": lambda c: augmented(c, rand_layers=0),
    "no augmentation": lambda c: replace(c, augment=Augment()),
    "with mixup and cutmix": lambda c: replace(c, mixup=0.8, cutmix=1.0),
    "no warm-up": lambda c: replace(c, warmup=0.0),
    "no weight decay": lambda c: replace(c, weight_decay=0.0),
    "no average of the weights": lambda c: replace(c, ema=None),
    "learned positions": lambda c: modelled(c, position=Learned1D()),
    "class token": lambda c: modelled(c, pool="token", class_token=True),
}


def small(data: str) -> TrainConfig:
    """The recipe at tier cpu with RandAugment, smaller, of another length."""
    config = modelled(
        recipe("cifar10-scratch", "cpu"), embed_dim=96, depth=4, mlp_dim=192
    )
    config = augmented(config, rand_layers=2)
    return replace(config, data=data, epochs=EPOCHS, max_images=None)


def write_parts(source: str, target: Path) -> str:
    """Images to learn from and to judge by, from the training part; digest."""
    train = load_dataset("cifar10", data=source).train
    images = train.images.permute(0, 2, 3, 1).numpy()
    stop = NUM_TRAIN + NUM_HELD_OUT
    parts = {"train": slice(NUM_TRAIN), "test": slice(NUM_TRAIN, stop)}
    np.savez(
        target,
        **{f"x_{part}": images[rows] for part, rows in parts.items()},
        **{f"y_{part}": train.labels[rows] for part, rows in parts.items()},
    )
    return load_dataset("cifar10", data=target).digest


def main() -> None:
    """Run what was asked for and is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("switches", nargs="*", default=list(SWITCHES))
    options = parser.parse_args()
    metrics, seconds = {}, 0.0
    if TARGET.exists():
        before = results.read_file(TARGET)
        metrics, seconds = before["metrics"], before["wall_seconds"]
    source = Path(options.data)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "parts.npz"
        digest = write_parts(options.data, file)
        config = small(str(file))
        for name in options.switches:
            if name in metrics:
                continue
            run = fit(SWITCHES[name](config))
            reached = run.result["metrics"]["test_accuracy"]
            metrics[name] = reached
            seconds += run.result["wall_seconds"]
            print(f"{name:28} {reached['value']:.2f} %", flush=True)
            result = {
                "schema": results.SCHEMA,
                "status": "finished",
                "name": "cifar-switches",
                "command": f"python benchmarks/cifar_switches.py {source.name}",
                "config": replace(config, data=None).to_json(),
                "tier": "cpu",
                "metrics": metrics,
                "seeds": [config.seed],
                "dataset": {
                    "name": source.stem,
                    "digest": digest,
                    "num_train": NUM_TRAIN,
                    "num_test": NUM_HELD_OUT,
                },
                **results.machine(torch.device("cpu")),
                "date": datetime.now(UTC).date().isoformat(),
                "wall_seconds": round(seconds, 1),
            }
            results.write(TARGET, result)


if __name__ == "__main__":
    main()
