"""A ViT, a ResNet and a hybrid at equal compute on growing data, three seeds.

    python benchmarks/resnets_on_shapes.py

Each learns from 1,000, 3,000, 10,000 and 30,000 drawn shapes of 64 x 64 pixels,
on a GPU if there is one, and is judged on 2,000 others. Steps times
multiply-adds of an image are the same for all three on as many images. The
steps are so many that each knows its training images in the end, and on how
many of them it is right stands beside. The ResNet also learns by SGD, the
question of the paper's Table 7. Each network and optimizer has the best of
growing rates on 1,000 of 3,000 training images, held out, after all the steps
of that row; a rate at the edge is followed by one further on. Each training
leaves a file in `runs/race`; what has one is not repeated, and several of these
may run at once. `vitedu/results/resnets-on-shapes.json` has the rows whose
three seeds are there.
"""

import statistics
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from kept import kept, read
from recorded import result_fields

from vitedu import budget, results
from vitedu.data import Augment, Dataset, Split, load_dataset
from vitedu.errors import UserError
from vitedu.evaluate import accuracy
from vitedu.model import Hybrid, ResNetConfig, SinCos2D, ViTConfig
from vitedu.train import TrainConfig, find_device, fit, recipe

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "vitedu/results/resnets-on-shapes.json"
RUNS = ROOT / "runs/race"
DEVICE = find_device("auto")
SEEDS = (0, 1, 2)
BATCH = 128
# Steps of the ViT; the others' by operations.
STEPS = {"1k": 3_000, "3k": 6_000, "10k": 12_000, "30k": 20_000}
CHOOSING, HELD_OUT = "3k", 1_000
CHUNK = 500  # images of an evaluation at once


def plain(**fields: object) -> ViTConfig:
    """A small ViT on 64 words, with the mean of them for a head."""
    return ViTConfig(
        image_size=64,
        num_classes=10,
        num_heads=4,
        pool="mean",
        class_token=False,
        position=SinCos2D(),
        **fields,
    )


NETWORKS = {
    "vit": plain(patch_size=8, embed_dim=96, depth=4, mlp_dim=192),
    "resnet": ResNetConfig(
        family="bit-v1",
        image_size=64,
        num_classes=10,
        width=0.5,
        layers=(1, 1, 1),
    ),
    "hybrid": plain(
        stem=Hybrid(layers=(1, 1), width=0.5),
        patch_size=1,
        embed_dim=64,
        depth=2,
        mlp_dim=128,
    ),
}


# the first rates of each; further ones follow where the best is at an edge
RATES = {
    ("vit", "adamw"): (1e-3, 5e-4, 2e-3),
    ("resnet", "adamw"): (8e-3, 4e-3, 1.6e-2, 2e-3),
    ("hybrid", "adamw"): (4e-3, 2e-3, 8e-3, 1e-3),
    ("resnet", "sgd"): (0.3, 0.1, 1.0),
}


class Row(NamedTuple):
    """One line of the table: three trainings."""

    network: str
    images: str
    optimizer: str = "adamw"

    @property
    def name(self) -> str:
        """As its metric is called: "resnet-10k-sgd"."""
        name = f"{self.network}-{self.images}"
        return name if self.optimizer == "adamw" else f"{name}-sgd"

    @property
    def count(self) -> int:
        """The images to learn from."""
        return 1_000 * int(self.images.removesuffix("k"))

    @property
    def steps(self) -> int:
        """As many as make the operations of the ViT's."""
        ours, the_vits = (
            budget.macs(NETWORKS[each]) for each in (self.network, "vit")
        )
        return round(STEPS[self.images] * the_vits / ours)


SGD = Row("resnet", "10k", "sgd")
# in order of worth
ROWS = [
    *(Row(network, "10k") for network in NETWORKS),
    SGD,
    *(Row(network, size) for size in ("3k", "1k") for network in NETWORKS),
    *(Row(network, "30k") for network in NETWORKS),
]


@cache
def shapes(images: str) -> Dataset:
    """Drawn once; a larger set begins with every smaller."""
    return load_dataset(f"shapes-{images}", image_size=64, num_classes=10)


def settings(row: Row, lr: float, seed: int) -> TrainConfig:
    """What all rows have in common, and what is this one's."""
    return replace(
        recipe("shapes-small", "cpu"),
        model=NETWORKS[row.network],
        dataset=f"shapes-{row.images}",
        augment=Augment(shift=4, flip=True),
        steps=row.steps,
        batch_size=BATCH,
        optimizer=row.optimizer,
        lr=lr,
        betas=(0.9, 0.999),
        weight_decay=0.05 if row.optimizer == "adamw" else 1e-4,
        ema=None,
        precision="tf32" if DEVICE.type == "cuda" else "fp32",
        seed=seed,
        device=str(DEVICE),
        threads=1,
        log_every=100,
        save_every=row.steps,
    )


def trained(
    row: Row, lr: float, seed: int, learned: Split, test: Split
) -> dict[str, float]:
    """Percent right of new images, and of those it learned from."""
    run = fit(settings(row, lr, seed), train=learned, test=test, progress=False)
    known = accuracy(run.model, learned, batch_size=CHUNK).accuracy
    tested = run.result["metrics"]["test_accuracy"]["value"]
    return {"test": tested, "train": known}


def held_out(row: Row, lr: float) -> dict[str, float]:
    """By which a rate is chosen: the last third of the training images."""
    learned = row.count - HELD_OUT
    images = shapes("10k").train.first(row.count)
    rest = images.take(range(learned, row.count))
    images = images.first(learned)
    try:
        return trained(row, lr, 0, images, rest)
    except UserError as error:
        if "loss became" not in str(error):
            raise
        return {"test": 0.0, "train": 0.0}


def climb(network: str, optimizer: str) -> dict[float, float] | None:
    """What each rate reached; None: another process is at one of them."""
    row = Row(network, CHOOSING, optimizer)
    waiting, reached = list(RATES[network, optimizer]), {}
    while waiting:
        found = {
            lr: kept(
                RUNS / f"rate-{network}-{optimizer}-{lr:g}.json",
                partial(held_out, row, lr),
                DEVICE,
            )
            for lr in waiting
        }
        if None in found.values():
            return None
        reached |= {lr: each["found"]["test"] for lr, each in found.items()}
        best = max(reached, key=reached.__getitem__)
        waiting = []
        if best == max(reached):
            waiting.append(2 * best)
        elif best == min(reached):
            waiting.append(best / 2)
    return reached


def train_row(row: Row, lr: float, seed: int) -> dict[str, float]:
    """One training of the table."""
    data = shapes("30k" if row.images == "30k" else "10k")
    return trained(row, lr, seed, data.train.first(row.count), data.test)


def metric(
    row: Row, runs: list[dict[str, Any]], tried: dict[float, float]
) -> dict[str, Any]:
    """One row of the table."""
    tested = [run["found"]["test"] for run in runs]
    return {
        "value": statistics.mean(tested),
        "unit": "percent of 2,000 test images",
        "per_seed": tested,
        "train_per_seed": [run["found"]["train"] for run in runs],
        "weights": budget.parameters(NETWORKS[row.network]).total,
        "macs_per_image": budget.macs(NETWORKS[row.network]),
        "steps": row.steps,
        "lr": max(tried, key=tried.__getitem__),
        "held_out_by_lr": {str(lr): tried[lr] for lr in sorted(tried)},
        "seconds_per_seed": [run["seconds"] for run in runs],
    }


def work() -> bool:
    """Measure what nobody else is at; whether all of it is there."""
    is_whole = True
    # rates first, so that nobody has to wait for them for long
    tried = {key: climb(*key) for key in RATES}
    for row in ROWS:
        rates = tried[row.network, row.optimizer]
        if rates is None:
            rates = climb(row.network, row.optimizer)
        if rates is None:
            is_whole = False
            continue
        tried[row.network, row.optimizer] = rates
        lr = max(rates, key=rates.__getitem__)
        runs = [
            kept(
                RUNS / f"{row.name}-{seed}.json",
                partial(train_row, row, lr, seed),
                DEVICE,
            )
            for seed in SEEDS
        ]
        if None in runs:
            is_whole = False
        else:
            record()
    return is_whole


def known_rates(row: Row) -> dict[float, float]:
    """What is kept of a network's rates."""
    files = RUNS.glob(f"rate-{row.network}-{row.optimizer}-*.json")
    return {
        float(file.stem.split("-", 3)[3]): read(file)["found"]["test"]
        for file in files
    }


def record() -> None:
    """Write the rows that are whole, by the machine that measured them."""
    found: dict[Row, list[dict[str, Any]]] = {}
    for row in ROWS:
        runs = [read(RUNS / f"{row.name}-{seed}.json") for seed in SEEDS]
        if None not in runs:
            found[row] = runs
    metrics = {
        row.name: metric(row, runs, known_rates(row))
        for row, runs in found.items()
    }
    everything = [read(path) for path in RUNS.glob("*.json")]
    config = settings(ROWS[0], RATES["vit", "adamw"][0], seed=0)
    first = next(iter(found.values()))[0]
    result = {
        **result_fields(
            TARGET.stem,
            "python benchmarks/resnets_on_shapes.py",
            sum(each["seconds"] for each in everything),
        ),
        **{each: first[each] for each in ("hardware", "versions", "commit")},
        "config": config.to_json(),
        "metrics": metrics,
        "seeds": list(SEEDS),
        "dataset": {
            "name": "shapes",
            "digest": shapes("10k").digest,
            "num_train": 10_000,
            "num_test": 2_000,
        },
        "notes": "config and digest are those of the ViT on 10,000 images; "
        "rates by 1,000 of 3,000 held out, n = 1; seconds are those of all "
        "trainings, with others on the same card",
    }
    if "NVIDIA" in first["hardware"]:
        result["tier"] = "gpu"
    adam = Row("resnet", SGD.images).name
    if {SGD.name, adam} <= metrics.keys():
        result["reproduces"] = {
            "row": "table-7",
            "scale": "small",
            "ours": f"AdamW {metrics[adam]['value']:.1f}, "
            f"SGD {metrics[SGD.name]['value']:.1f}: a ResNet, "
            "10,000 drawn shapes, no transfer",
            "paper": None,
            "n": len(SEEDS),
        }
    results.write(TARGET, result)


def main() -> None:
    """Measure and record until all rows are whole."""
    while not work():
        time.sleep(2)


if __name__ == "__main__":
    main()
