"""Which parts of a recipe matter on CIFAR-10: one switch at a time, 3 seeds.

    python benchmarks/cifar_switches.py cifar10-jpeg75.npz [SWITCH ...]

A ViT of 0.3 M weights with patches of 8 pixels sees 5,000 images 20 times each
("x4": 80 times) and is judged on 5,000 others, both of the training part. Each
switch undoes or adds one thing. The accuracy on the images it learned from, as
they are, stands beside. What comes out is written to
`vitedu/results/cifar-switches.json` whenever a switch has its three seeds, and
what stands there is not repeated. `tools/cifar_jpeg.py` makes the file.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from reached import Reached, reach
from recorded import result_fields

from vitedu import budget, results
from vitedu.data import Augment, load_dataset
from vitedu.model import Learned1D
from vitedu.train import TrainConfig, recipe
from vitedu.train.fit import Start

TARGET = Path(__file__).parents[1] / "vitedu/results/cifar-switches.json"
NUM_TRAIN, NUM_HELD_OUT, EPOCHS, LONGER = 5_000, 5_000, 20, 4
SEEDS = (0, 1, 2)


def augmented(config: TrainConfig, **changes: object) -> TrainConfig:
    """`config` with fields of its augmentation changed."""
    return replace(config, augment=replace(config.augment, **changes))


def modelled(config: TrainConfig, **changes: object) -> TrainConfig:
    """`config` with fields of its model changed."""
    return replace(config, model=replace(config.model, **changes))


def longer(config: TrainConfig) -> TrainConfig:
    """`config` for four times as many epochs."""
    return replace(config, epochs=LONGER * config.epochs)


def tutorial(config: TrainConfig) -> TrainConfig:
    """What a first tutorial does: Adam at one rate, and nothing besides."""
    model = replace(
        config.model, pool="token", class_token=True, position=Learned1D()
    )
    return replace(
        config,
        model=model,
        augment=Augment(),
        optimizer="adam",
        betas=(0.9, 0.999),
        weight_decay=0.0,
        schedule="constant",
        warmup=0.0,
        max_grad_norm=None,
        label_smoothing=0.0,
        ema=None,
    )


def mixed(config: TrainConfig) -> TrainConfig:
    """`config` with mixup and cutmix as in the recipe's tier gpu."""
    return replace(config, mixup=0.8, cutmix=1.0)


SWITCHES: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    "tutorial": tutorial,
    "recipe": lambda c: c,
    "no augmentation": lambda c: replace(c, augment=Augment()),
    "with mixup and cutmix": mixed,
    "with mixup": lambda c: replace(c, mixup=0.8),
    "no warm-up": lambda c: replace(c, warmup=0.0),
    "constant rate": lambda c: replace(c, schedule="constant"),
    "no label smoothing": lambda c: replace(c, label_smoothing=0.0),
    "no average of the weights": lambda c: replace(c, ema=None),
    "with stochastic depth": lambda c: modelled(c, drop_path=0.1),
    "no weight decay": lambda c: replace(c, weight_decay=0.0),
    "decay of everything": lambda c: c,  # see `decay_everything`
    "patches of 4 pixels": lambda c: modelled(c, patch_size=4),
    "with RandAugment": lambda c: augmented(c, rand_layers=2),
    "x4": longer,
    "with mixup and cutmix x4": lambda c: longer(mixed(c)),
}


def small(data: str) -> TrainConfig:
    """The recipe at tier cpu with larger patches and fewer weights."""
    config = modelled(
        recipe("cifar10-scratch", "cpu"),
        patch_size=8,
        embed_dim=96,
        depth=4,
        mlp_dim=192,
    )
    return replace(config, data=data, epochs=EPOCHS, max_images=None)


def decay_everything(start: Start) -> None:
    """Let biases, norms and positions decay as kernels do."""
    for group in start.state.optimizer.param_groups:
        group["weight_decay"] = start.config.weight_decay


def train_switch(name: str, seed: int, data: str) -> Reached:
    """One run of the switch called `name`; its test images are held out."""
    torch.set_num_threads(1)
    config = replace(SWITCHES[name](small(data)), seed=seed, threads=1)
    start = decay_everything if name == "decay of everything" else None
    return reach(config, on_start=start)


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


def metrics_of(reached: dict[str, dict[int, Reached]]) -> dict[str, dict]:
    """A metric for each switch that has all seeds, in the order of SWITCHES."""
    metrics = {}
    for name in SWITCHES:
        if len(reached.get(name, ())) < len(SEEDS):
            continue
        runs = [reached[name][seed] for seed in SEEDS]
        config = SWITCHES[name](small("none"))
        metrics[name] = {
            "value": statistics.mean(run.test for run in runs),
            "unit": "percent of 5,000 held out",
            "per_seed": [run.test for run in runs],
            "train_per_seed": [run.train for run in runs],
            "seconds_per_seed": [run.seconds for run in runs],
            "epochs": config.epochs,
            "macs_per_image": budget.macs(config.model),
        }
    return metrics


def recorded(target: Path) -> dict[str, dict[int, Reached]]:
    """The runs that stand in `target`."""
    if not target.exists():
        return {}
    return {
        name: {
            seed: Reached(*numbers)
            for seed, *numbers in zip(
                SEEDS,
                metric["per_seed"],
                metric["train_per_seed"],
                metric["seconds_per_seed"],
                strict=True,
            )
        }
        for name, metric in results.read_file(target)["metrics"].items()
    }


def finished(
    wanted: list[tuple[str, int]], data: str, processes: int
) -> Iterator[tuple[str, int, Reached]]:
    """The runs as they end, several at a time."""
    spawn = get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        runs = {pool.submit(train_switch, *run, data): run for run in wanted}
        for run in as_completed(runs):
            yield *runs[run], run.result()


def main() -> None:
    """Run what was asked for and is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("switches", nargs="*", default=list(SWITCHES))
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    reached = recorded(TARGET)
    wanted = [
        (name, seed)
        for name in options.switches
        for seed in SEEDS
        if name not in reached
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "parts.npz"
        digest = write_parts(options.data, file)
        for name, seed, run in finished(wanted, str(file), options.processes):
            reached.setdefault(name, {})[seed] = run
            print(
                f"{name:28} seed {seed}: {run.test:.2f}%, on what it "
                f"learned from {run.train:.2f}%, {run.seconds:.0f} s",
                flush=True,
            )
            if len(reached[name]) == len(SEEDS):
                write_result(reached, Path(options.data), digest)


def write_result(
    reached: dict[str, dict[int, Reached]], source: Path, digest: str
) -> None:
    """Write the switches that are whole, old and new."""
    metrics = metrics_of(reached)
    seconds = [
        second
        for metric in metrics.values()
        for second in metric["seconds_per_seed"]
    ]
    result = {
        **result_fields(
            TARGET.stem,
            f"python benchmarks/cifar_switches.py {source.name}",
            sum(seconds),
        ),
        "config": replace(small("none"), data=None).to_json(),
        "metrics": metrics,
        "seeds": list(SEEDS),
        "dataset": {
            "name": source.stem,
            "digest": digest,
            "num_train": NUM_TRAIN,
            "num_test": NUM_HELD_OUT,
        },
        "notes": "judged on images held out of the training part",
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
