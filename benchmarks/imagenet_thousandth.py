"""A thousandth of ImageNet by the whole path: shards, recipe, second look.

    VITEDU_DATA=FOLDER python benchmarks/imagenet_thousandth.py

Of $VITEDU_DATA, `imagenet-sample-large` has one photograph of each class to
learn from, and `imagenet-val-1300` others to test on (see
imagenet_second_look.py). `vitedu.data.prepare` packs the thousand; the recipe
imagenet-b16-384 then trains on them, but for ViT-Ti/16 at SIZE pixels, 400
steps of 20 in place of 20,000 of 512: eight epochs as well. The head starts
from zeros; the weights below it have learned from ImageNet's labels before. The
rate is the one with the lowest cross-entropy on the first 300 of the 1,300; a
grid grows until its best rate has a worse one on either side. The other 1,000
are read by the run at that rate, of each of SEEDS.

Runs go to runs/imagenet-thousandth/ and aren't repeated; what is measured is
written to `vitedu/results/imagenet-thousandth.json`.
"""

import json
import operator
import shutil
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from imagenet_second_look import FOLDER, counted, photographs
from kept import climb
from recorded import result_fields

import vitedu
from vitedu import results
from vitedu.data import find_images, prepare
from vitedu.data.dataset import Split
from vitedu.evaluate import all_logits
from vitedu.files import read_json
from vitedu.train import TrainConfig, fit, recipe

NAME = "imagenet-thousandth"
RUNS = Path("runs") / NAME
SIZE = 128
TO_CHOOSE = 300
RATES = [0.01, 0.03, 0.1]  # each three times the one before
SEEDS = range(3)


def packed() -> Split:
    """The thousand photographs in a shard."""
    sample, folder = FOLDER.parent / "imagenet-sample-large", RUNS / "photos"
    if not folder.exists():
        for path in sorted(sample.glob("*.JPEG")):
            place = folder / path.name.partition("_")[0]
            place.mkdir(parents=True)
            shutil.copy(path, place)
    prepare(folder, RUNS / "packed", short_side=448, num_workers=1)
    return find_images(RUNS / "packed")


def settings(lr: float, seed: int) -> TrainConfig:
    """The recipe, a fiftieth as long, in batches of 20."""
    return replace(
        recipe("imagenet-b16-384", "gpu"),
        recipe="custom",
        tier="cpu",
        dataset="imagenet-sample-large",
        weights=None,
        steps=400,
        batch_size=20,
        lr=lr,
        precision="bf16",
        seed=seed,
        device="cpu",
        threads=1,
        num_workers=0,
        log_every=1,
        save_every=100,
    )


def network() -> vitedu.ViT:
    """ViT-Ti/16 that has forgotten the names."""
    model = vitedu.load("ViT-Ti/16", image_size=SIZE)
    torch.nn.init.zeros_(model.head.weight)
    torch.nn.init.zeros_(model.head.bias)
    model.preprocess = replace(model.preprocess, crop=None)
    return model


def finished(lr: float, seed: int, train: Split, test: Split) -> Path:
    """The folder of a run, tested on what the rate is chosen by."""
    out = RUNS / f"{lr:g}-{seed}"
    fit(
        settings(lr, seed),
        out,
        model=network(),
        train=train,
        test=test,
        progress=False,
    )
    return out


def main() -> None:
    """Train what is missing, test, record."""
    torch.set_num_threads(1)
    train = packed()
    pictures, right = photographs()
    numbers = range(len(right))
    to_choose, to_test = (
        pictures.take(numbers[:TO_CHOOSE]),
        pictures.take(numbers[TO_CHOOSE:]),
    )

    def loss(lr: float) -> float:
        out = finished(lr, 0, train, to_choose)
        metrics = read_json(out / "result.json")["metrics"]
        print(lr, metrics["test_accuracy"]["value"], flush=True)
        return metrics["test_loss"]["value"]

    losses = climb(loss, RATES, operator.neg, factor=3)
    best = min(losses, key=losses.__getitem__)
    found: dict[str, list[float]] = {}
    curves, seconds = [], 0.0
    for seed in SEEDS:
        out = finished(best, seed, train, to_choose)
        seconds += read_json(out / "result.json")["wall_seconds"]
        log = (out / "log.jsonl").read_text().splitlines()
        curves.append(
            [round(x["loss"], 4) for x in map(json.loads, log) if "loss" in x]
        )
        logits, labels = all_logits(out, to_test)
        answers = logits.argmax(dim=1)
        counts = counted(answers, labels, right[TO_CHOOSE:])
        print(best, seed, counts, flush=True)
        for name, value in counts.items():
            found.setdefault(name, []).append(value)
        seen = all_logits(out, train)
        learned = (seen.logits.argmax(dim=1) == seen.labels).sum().item()
        found.setdefault("train", []).append(learned)
    metrics: dict[str, Any] = {
        name: {
            "value": statistics.fmean(values),
            "unit": "of 1,000 photographs",
            "per_seed": values,
        }
        for name, values in found.items()
    }
    metrics["with a right class"] = {
        "value": sum(map(bool, right[TO_CHOOSE:])),
        "unit": "of 1,000 photographs",
    }
    metrics["loss"] = {
        "value": statistics.fmean(curve[-1] for curve in curves),
        "unit": "nats",
        "per_seed": [curve[-1] for curve in curves],
        "curves": curves,
    }
    command = f"python benchmarks/{NAME.replace('-', '_')}.py"
    result = {
        **result_fields(NAME, command, seconds),
        "config": settings(best, 0).to_json() | {"losses_by_rate": losses},
        "metrics": metrics,
        "seeds": list(SEEDS),
        "dataset": {
            "name": "imagenet-sample-large to learn from, 1,000 of ImageNet's "
            "validation photographs to test on",
            "digest": train.digest(),
            "num_train": len(train),
            "num_test": len(to_test),
        },
        "notes": "the weights below the head had learned from ImageNet's "
        "labels before; seconds are those of the runs at the chosen rate",
    }
    results.write(results.FOLDER / f"{NAME}.json", result)


if __name__ == "__main__":
    main()
