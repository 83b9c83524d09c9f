"""A ViT, a ResNet and a hybrid at equal compute on growing data, three seeds.

    python benchmarks/resnets_on_shapes.py [--processes 2]

Each learns from 1,000, 3,000 and 10,000 drawn shapes of 64 x 64 pixels and is
judged on 2,000 others. Steps times multiply-adds of an image are the same for
all three, whatever the number of images. The ResNet also learns by SGD, the
question of the paper's Table 7. Each network and optimizer has the best of
growing rates, up to the first that is worse than one before it, on 1,000 of
3,000 training images, held out, after 40% of the steps. What comes out is
written to `vitedu/results/resnets-on-shapes.json` whenever a row has its three
seeds, and what stands there is not repeated.
"""

import argparse
import statistics
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch
from reached import Reached, reach
from recorded import result_fields

from vitedu import budget, results
from vitedu.data import Augment
from vitedu.model import Hybrid, ResNetConfig, SinCos2D, ViTConfig
from vitedu.train import TrainConfig, fit, recipe
from vitedu.train.data import open_sources

TARGET = Path(__file__).parents[1] / "vitedu/results/resnets-on-shapes.json"
SEEDS = (0, 1, 2)
# Steps of the ViT, to train and to choose a rate; the others' by operations.
STEPS, CHOOSING, BATCH = 1500, 600, 64
IMAGES = ("1k", "3k", "10k")


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


RATES = {
    "adamw": (5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2),
    "sgd": (0.03, 0.1, 0.3, 1.0, 3.0),
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


ROWS = [Row(network, images) for images in IMAGES for network in NETWORKS]
ROWS.append(Row("resnet", IMAGES[-1], "sgd"))


def steps_of(network: str, of_vit: int = STEPS) -> int:
    """As many steps as make the operations of the ViT's."""
    ours = budget.macs(NETWORKS[network])
    return round(of_vit * budget.macs(NETWORKS["vit"]) / ours)


def settings(row: Row, lr: float, seed: int) -> TrainConfig:
    """What all rows have in common, and what is this one's."""
    return replace(
        recipe("shapes-small", "cpu"),
        model=NETWORKS[row.network],
        dataset=f"shapes-{row.images}",
        augment=Augment(shift=4, flip=True),
        steps=steps_of(row.network),
        batch_size=BATCH,
        optimizer=row.optimizer,
        lr=lr,
        betas=(0.9, 0.999),
        weight_decay=0.05 if row.optimizer == "adamw" else 1e-4,
        ema=None,
        precision="fp32",
        seed=seed,
        threads=1,
        log_every=100,
    )


def held_out(row: Row, lr: float) -> float:
    """Accuracy on a third of 3,000 images, by which a rate is chosen."""
    steps = steps_of(row.network, CHOOSING)
    config = settings(row, lr, seed=0)
    config = replace(config, steps=steps, validation=1 / 3)
    return fit(config).result["metrics"]["validation_accuracy"]["value"]


def climb(row: Row) -> dict[float, float]:
    """What growing rates reach, until one is worse than one before it."""
    tried: dict[float, float] = {}
    for lr in RATES[row.optimizer]:
        tried[lr] = held_out(row, lr)
        if tried[lr] < max(tried.values()):
            break
    return tried


def train_row(row: Row, lr: float, seed: int) -> Reached:
    """One training of the table; a set of shapes begins with every smaller."""
    return reach(settings(row, lr, seed), dataset="shapes-1k")


def choose_rates(
    pool: ProcessPoolExecutor, metrics: dict[str, dict]
) -> dict[tuple[str, str], dict[float, float]]:
    """For each network and optimizer what its rates reached, in percent."""
    known = {
        (row.network, row.optimizer): {
            float(lr): value
            for lr, value in metrics[row.name]["held_out_by_lr"].items()
        }
        for row in ROWS
        if row.name in metrics
    }
    asked = {
        (row.network, row.optimizer): row._replace(images="3k")
        for row in ROWS
        if (row.network, row.optimizer) not in known
    }
    runs = {key: pool.submit(climb, row) for key, row in asked.items()}
    return known | {key: run.result() for key, run in runs.items()}


def metric(row: Row, runs: list[Reached], tried: dict[float, float]) -> dict:
    """One row of the table."""
    return {
        "value": statistics.mean(run.test for run in runs),
        "unit": "percent of 2,000 test images",
        "per_seed": [run.test for run in runs],
        "train_per_seed": [run.train for run in runs],
        "weights": budget.parameters(NETWORKS[row.network]).total,
        "macs_per_image": budget.macs(NETWORKS[row.network]),
        "steps": steps_of(row.network),
        "lr": max(tried, key=tried.__getitem__),
        "held_out_by_lr": {str(lr): value for lr, value in tried.items()},
        "seconds_per_seed": [run.seconds for run in runs],
    }


def finished_rows(
    pool: ProcessPoolExecutor,
    rows: list[Row],
    tried: dict[tuple[str, str], dict[float, float]],
) -> Iterator[tuple[Row, list[Reached]]]:
    """The rows as they end, three seeds each."""
    runs = {}
    for row in rows:
        rates = tried[row.network, row.optimizer]
        lr = max(rates, key=rates.__getitem__)
        for seed in SEEDS:
            runs[pool.submit(train_row, row, lr, seed)] = row, seed
    reached: dict[Row, dict[int, Reached]] = {}
    for run in as_completed(runs):
        row, seed = runs[run]
        seeds = reached.setdefault(row, {})
        seeds[seed] = run.result()
        print(row.name, seed, seeds[seed], flush=True)
        if len(seeds) == len(SEEDS):
            yield row, [seeds[seed] for seed in SEEDS]


def write_result(metrics: dict[str, dict]) -> None:
    """Write the rows that are whole, in their order."""
    config = settings(ROWS[0], RATES["adamw"][1], seed=0)
    dataset = open_sources(config, torch.device("cpu")).dataset
    order = [row.name for row in ROWS if row.name in metrics]
    seconds = [sum(metrics[name]["seconds_per_seed"]) for name in order]
    result = {
        **result_fields(
            TARGET.stem, "python benchmarks/resnets_on_shapes.py", sum(seconds)
        ),
        "config": config.to_json(),
        "metrics": {name: metrics[name] for name in order},
        "seeds": list(SEEDS),
        "dataset": {
            "name": "shapes",
            "digest": dataset.digest,
            "num_train": 10_000,
            "num_test": 2_000,
        },
        "notes": "config and digest are those of the ViT on 1,000 images",
    }
    if ROWS[-1].name in metrics:
        adam = Row("resnet", IMAGES[-1]).name
        result["reproduces"] = {
            "row": "table-7",
            "scale": "small",
            "ours": f"AdamW {metrics[adam]['value']:.1f}, "
            f"SGD {metrics[ROWS[-1].name]['value']:.1f}: a ResNet, "
            "10,000 drawn shapes, no transfer",
            "paper": None,
            "n": len(SEEDS),
        }
    results.write(TARGET, result)


def main() -> None:
    """Choose the rates, train what is not there yet, record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    metrics = results.read_file(TARGET)["metrics"] if TARGET.exists() else {}
    rows = [row for row in ROWS if row.name not in metrics]
    spawn = get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=spawn) as pool:
        tried = choose_rates(pool, metrics)
        print(tried, flush=True)
        for row, runs in finished_rows(pool, rows, tried):
            rates = tried[row.network, row.optimizer]
            metrics[row.name] = metric(row, runs, rates)
            write_result(metrics)


if __name__ == "__main__":
    main()
