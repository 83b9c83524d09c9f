"""A ViT, a ResNet and a hybrid at equal compute on growing data, three seeds.

    python benchmarks/resnets_on_shapes.py [--long]

Each learns from 1,000, 3,000 and 10,000 drawn shapes of 64 x 64 pixels, on a
GPU if there is one, and is judged on 2,000 others. Steps times multiply-adds of
an image are the same for all three on as many images: 1,500 steps of the ViT,
in batches of 64, or with --long as many that it knows its training images in
the end, in batches of 128 (by `device_loop`, whose updates are graphs on a
GPU). In the short ones the ResNet also learns by SGD, the question of the
paper's Table 7. Each network and optimizer has the best of growing rates on
1,000 of 3,000 training images, held out; a rate at the edge is followed by one
further on. Each training leaves a file in `runs`; what has one is not repeated,
and several of these may run at once. The rows whose three seeds are there are
in `vitedu/results/resnets-on-shapes.json` or `resnets-long.json`; with --rates
the latter has what the rates reached, n = 1.
"""

import argparse
import statistics
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from device_loop import right, train
from kept import climb, kept_with_time, read
from recorded import result_fields

from vitedu import budget, results
from vitedu.data import Augment, Dataset, Split, load_dataset
from vitedu.errors import UserError
from vitedu.evaluate import accuracy
from vitedu.model import (
    Hybrid,
    ResNetConfig,
    SinCos2D,
    ViTConfig,
    new_network,
)
from vitedu.train import TrainConfig, find_device, fit, recipe

ROOT = Path(__file__).parents[1]
DEVICE = find_device("auto")
SEEDS = (0, 1, 2)
CHOOSING, HELD_OUT = "3k", 1_000
CHUNK = 500  # images of an evaluation at once
Pair = tuple[Split, Split]  # to learn from, to test on


class Length(NamedTuple):
    """How long the trainings are."""

    name: str
    batch: int
    steps: dict[str, int]  # of the ViT by images; the others' by operations
    choosing: int  # steps of the ViT to choose a rate

    @property
    def folder(self) -> Path:
        """What is kept of the trainings."""
        return ROOT / "runs" / self.name


SHORT = Length(
    "resnets-on-shapes", 64, dict.fromkeys(("1k", "3k", "10k"), 1_500), 600
)
LONG = Length(
    "resnets-long",
    128,
    {"1k": 3_000, "3k": 6_000, "10k": 12_000},
    6_000,
)


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

    def steps(self, of_vit: int) -> int:
        """As many as make the operations of the ViT's."""
        ours, the_vits = (
            budget.macs(NETWORKS[each]) for each in (self.network, "vit")
        )
        return round(of_vit * the_vits / ours)


SGD = Row("resnet", "10k", "sgd")
# in order of worth
ROWS = [
    *(Row(network, "10k") for network in NETWORKS),
    SGD,
    *(Row(network, size) for size in ("3k", "1k") for network in NETWORKS),
]
# the dear ones last
LONG_ROWS = [Row(net, size) for size in ("3k", "1k", "10k") for net in NETWORKS]


@cache
def shapes(images: str) -> Dataset:
    """Drawn once; a larger set begins with every smaller."""
    return load_dataset(f"shapes-{images}", image_size=64, num_classes=10)


def settings(
    row: Row, lr: float, seed: int, how: Length, steps: int
) -> TrainConfig:
    """What all rows have in common, and what is this one's."""
    return replace(
        recipe("shapes-small", "cpu"),
        model=NETWORKS[row.network],
        dataset=f"shapes-{row.images}",
        augment=Augment(shift=4, flip=True),
        steps=row.steps(steps),
        batch_size=how.batch,
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
        save_every=steps,
    )


def trained(
    row: Row, lr: float, seed: int, how: Length, steps: int, data: Pair
) -> dict[str, Any]:
    """Percent right of new images, and of those it learned from."""
    learned, test = data
    config = settings(row, lr, seed, how, steps)
    if how is LONG:
        return in_graphs(config, learned, test)
    run = fit(
        config,
        train=learned,
        test=test,
        progress=False,
    )
    known = accuracy(run.model, learned, batch_size=CHUNK).accuracy
    tested = run.result["metrics"]["test_accuracy"]["value"]
    return {"test": tested, "train": known}


def in_graphs(
    config: TrainConfig, learned: Split, test: Split
) -> dict[str, Any]:
    """The same of a training in which every update is a graph."""
    torch.set_float32_matmul_precision("high")  # TF32
    torch.manual_seed(config.seed)
    model = new_network(config.model).to(DEVICE).train()
    images, labels = (x.to(DEVICE) for x in (learned.images, learned.labels))
    train(
        model,
        images,
        labels,
        lr=config.lr,
        steps=config.steps,
        seed=config.seed,
        batch=config.batch_size,
    )
    model.eval()
    unseen = right(model, test.images.to(DEVICE), test.labels.to(DEVICE))
    return {"test": unseen, "train": right(model, images, labels)}


def held_out(row: Row, lr: float, how: Length) -> dict[str, Any]:
    """By which a rate is chosen: the last third of the training images."""
    learned = row.count - HELD_OUT
    images = shapes("10k").train.first(row.count)
    rest = images.take(range(learned, row.count))
    try:
        both = images.first(learned), rest
        return trained(row, lr, 0, how, how.choosing, both)
    except UserError as error:
        if "loss became" not in str(error):
            raise
        return {"test": 0.0, "train": 0.0}


def rates_of(
    network: str, optimizer: str, how: Length
) -> dict[float, dict[str, Any]] | None:
    """What each rate reached; None: another process is at one of them."""
    row = Row(network, CHOOSING, optimizer)

    def measure(lr: float) -> dict[str, Any] | None:
        return kept_with_time(
            how.folder / f"rate-{network}-{optimizer}-{lr:g}.json",
            partial(held_out, row, lr, how),
            DEVICE,
        )

    return climb(measure, RATES[network, optimizer], right_of)


def right_of(run: dict[str, Any]) -> float:
    """Percent of a trained network."""
    return run["found"]["test"]


def best_of(rates: dict[float, dict[str, Any]]) -> float:
    return max(rates, key=lambda lr: right_of(rates[lr]))


def train_row(row: Row, lr: float, seed: int, how: Length) -> dict[str, Any]:
    """One training of the table."""
    data = shapes("10k")
    both = data.train.first(row.count), data.test
    return trained(row, lr, seed, how, how.steps[row.images], both)


def metric(
    row: Row,
    steps: int,
    runs: list[dict[str, Any]],
    rates: dict[float, dict[str, Any]],
) -> dict[str, Any]:
    """One row of the table; of a single run without seeds."""
    tested = [run["found"]["test"] for run in runs]
    known = [run["found"]["train"] for run in runs]
    found = {
        "value": statistics.mean(tested),
        "unit": "percent of new images",
        "train": statistics.mean(known),
        "weights": budget.parameters(NETWORKS[row.network]).total,
        "macs_per_image": budget.macs(NETWORKS[row.network]),
        "steps": row.steps(steps),
        "lr": best_of(rates),
        "held_out_by_lr": {
            str(lr): rates[lr]["found"]["test"] for lr in sorted(rates)
        },
        "train_by_lr": {
            str(lr): rates[lr]["found"]["train"] for lr in sorted(rates)
        },
    }
    if len(runs) > 1:
        found |= {"per_seed": tested, "train_per_seed": known}
        found["seconds_per_seed"] = [run["seconds"] for run in runs]
    return found


def work(how: Length) -> bool:
    """Measure what nobody else is at; whether all of it is there."""
    rows = ROWS if how is SHORT else LONG_ROWS
    metrics = {}
    # rates first, so that nobody has to wait for them for long
    for row in rows[: len(RATES)]:
        rates_of(row.network, row.optimizer, how)
    for row in rows:
        rates = rates_of(row.network, row.optimizer, how)
        if rates is None:
            continue
        lr = best_of(rates)
        runs = [
            kept_with_time(
                how.folder / f"{row.name}-{seed}.json",
                partial(train_row, row, lr, seed, how),
                DEVICE,
            )
            for seed in SEEDS
        ]
        if None not in runs:
            steps = how.steps[row.images]
            metrics[row.name] = metric(row, steps, runs, rates)
            record(how, metrics, runs[0])
    return len(metrics) == len(rows)


def record_rates(how: Length) -> None:
    """In place of rows that aren't there, what the rates reached."""
    metrics, best = {}, None
    for network, optimizer in RATES:
        row = Row(network, "2k", optimizer)  # 1,000 of 3,000 are held out
        start = f"rate-{network}-{optimizer}-"
        rates = {
            float(path.stem.removeprefix(start)): read(path)
            for path in how.folder.glob(f"{start}*.json")
        }
        if rates:
            best = rates[best_of(rates)]
            metrics[row.name] = metric(row, how.choosing, [best], rates)
    record(how, metrics, best)


def record(how: Length, metrics: dict[str, Any], first: dict[str, Any]) -> None:
    """Write the rows that are there, by the machine that measured them."""
    everything = [read(x) for x in how.folder.glob("*.json")]
    flags = " --long" if how is LONG else ""
    lr = RATES["vit", "adamw"][0]
    config = settings(ROWS[0], lr, 0, how, how.steps["10k"])
    is_gpu = "NVIDIA" in first["hardware"]
    if is_gpu:
        config = replace(config, device="cuda", precision="tf32")
    result = {
        **result_fields(
            how.name,
            f"python benchmarks/resnets_on_shapes.py{flags}",
            sum(each["seconds"] for each in everything),
        ),
        **{each: first[each] for each in ("hardware", "versions", "commit")},
        "config": config.to_json(),
        "metrics": metrics,
        "seeds": list(SEEDS) if "per_seed" in str(metrics) else [0],
        "dataset": {
            "name": "shapes",
            "digest": shapes("10k").digest,
            "num_train": 10_000,
            "num_test": 2_000,
        },
        "notes": "config and digest are those of the ViT on 10,000 images; "
        "rates by 1,000 of 3,000 held out, n = 1; rows without seeds are the "
        "best of them, on those 1,000; seconds are those of all runs, "
        "with others on the same machine",
    }
    if is_gpu:
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
    results.write(results.FOLDER / f"{how.name}.json", result)


def main() -> None:
    """Measure and record until all rows are whole."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="to the end")
    parser.add_argument("--rates", action="store_true", help="only record them")
    options = parser.parse_args()
    how = LONG if options.long else SHORT
    if options.rates:
        record_rates(how)
        return
    while not work(how):
        time.sleep(2)


if __name__ == "__main__":
    main()
