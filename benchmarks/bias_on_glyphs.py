"""A ViT and a ResNet on puzzles of two glyphs: which, or the same?

    python benchmarks/bias_on_glyphs.py

Each learns from 300 to 10,000 pictures of 16 x 16 pixels, or from 32,000 that
it sees once, with glyphs on the grid of its patches or anywhere, and is judged
on 2,000 others. An image costs them about as much (1.3 M multiply-adds), and
all have the same steps. For each question a network has the best of growing
rates on 1,000 of 3,000 training images, held out. A hybrid, a ViT with patches
of 2, a second alphabet and a longer training are single rows. Each training
leaves a file in `runs/glyphs`; what has one is not repeated, and several of
these may run at once. `vitedu/results/bias-on-glyphs.json` has the rows whose
three seeds are there.
"""

import json
import os
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from recorded import result_fields

from vitedu import budget, results
from vitedu.data import Augment, glyphs, load_dataset
from vitedu.data.array_sets import NUM_TEST
from vitedu.evaluate import accuracy
from vitedu.model import Hybrid, ResNetConfig, SinCos2D, ViTConfig
from vitedu.model.network import Network, NetworkConfig
from vitedu.pictures import PreprocessSpec
from vitedu.train import TrainConfig, fit, recipe
from vitedu.train.data import Sources, open_sources

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "vitedu/results/bias-on-glyphs.json"
RUNS = ROOT / "runs/glyphs"
SEEDS = (0, 1, 2)
STEPS, BATCH = 500, 64
TASKS = ("same", "same-off", "which", "which-off")
SIZES = ("300", "1k", "3k", "10k", "32k")
RATES = (1e-3, 2e-3, 4e-3, 8e-3)


def plain(**fields: object) -> ViTConfig:
    """A small ViT with the mean of its patches for a head."""
    sizes = {"embed_dim": 56, "depth": 3, "num_heads": 4, "mlp_dim": 112}
    return ViTConfig(
        **{
            "image_size": 16,
            "patch_size": 4,
            "in_channels": 1,
            "num_classes": 2,
            "pool": "mean",
            "class_token": False,
            "position": SinCos2D(),
            **sizes,
            **fields,
        }
    )


NETWORKS = {
    "vit": plain(),
    "resnet": ResNetConfig(
        family="bit-v1",
        image_size=16,
        in_channels=1,
        num_classes=2,
        width=0.5,
        layers=(1, 1, 1),
    ),
    # a ResNet's root alone: words that overlap
    "hybrid": plain(stem=Hybrid(layers=(), width=0.5), patch_size=1),
    "vit-2": plain(patch_size=2, embed_dim=24, mlp_dim=48),
}


class Row(NamedTuple):
    """One line of the table: three trainings."""

    network: str
    task: str
    size: str
    steps: int = STEPS
    alphabet: str = ""  # or "-new"

    @property
    def dataset(self) -> str:
        question, *off = self.task.split("-")
        return "-".join([f"glyphs-{question}{self.alphabet}", *off, self.size])

    @property
    def name(self) -> str:
        """As its metric is called: "vit-same-off-1k"."""
        name = f"{self.network}-{self.task}{self.alphabet}-{self.size}"
        return name if self.steps == STEPS else f"{name}-{self.steps}-steps"


BOTH = ("vit", "resnet")
ROWS = [
    *(Row(n, t, s) for s in ("1k", "10k") for t in TASKS for n in BOTH),
    Row("hybrid", "same-off", "10k"),
    Row("vit-2", "same-off", "10k"),
    *(Row(n, t, "32k") for t in TASKS for n in BOTH),
    Row("resnet", "same", "10k", 4 * STEPS),
    *(Row(n, t, "10k", alphabet="-new") for t in TASKS for n in BOTH),
    *(Row(n, t, s) for s in ("3k", "300") for t in TASKS for n in BOTH),
    *(Row("hybrid", t, "10k") for t in TASKS if t != "same-off"),
]


def settings(row: Row, lr: float, seed: int) -> TrainConfig:
    """What all rows have in common, and what is this one's."""
    return replace(
        recipe("digits", "cpu"),
        model=NETWORKS[row.network],
        dataset=row.dataset,
        preprocess=PreprocessSpec(
            image_size=(16, 16), in_channels=1, mean=(0.5,), std=(0.25,)
        ),
        augment=Augment(),
        epochs=None,
        steps=row.steps,
        batch_size=BATCH,
        lr=lr,
        warmup=0.1,
        max_grad_norm=1.0,
        seed=seed,
        threads=1,
        log_every=100,
    )


def kept(name: str, compute: Callable[[], dict]) -> dict | None:
    """What the file of this name has; None: another process is at it."""
    path = RUNS / f"{name}.json"
    if not path.exists():
        RUNS.mkdir(parents=True, exist_ok=True)
        claim = path.with_suffix(f".{os.getpid()}")
        if any(alive(each) for each in RUNS.glob(f"{name}.[0-9]*")):
            return None
        claim.touch()
        found = compute()
        claim.write_text(json.dumps(found))
        claim.rename(path)
        print(name, found, flush=True)
    return json.loads(path.read_text())


def alive(claim: Path) -> bool:
    try:
        os.kill(int(claim.suffix[1:]), 0)
    except ProcessLookupError:
        claim.unlink(missing_ok=True)
        return False
    return True


def held_out(row: Row, lr: float) -> dict:
    """Accuracy on a third of 3,000 images, by which a rate is chosen."""
    config = replace(
        settings(row._replace(size="3k"), lr, 0), steps=STEPS, validation=1 / 3
    )
    run = fit(config, progress=False)
    return {
        "value": run.result["metrics"]["validation_accuracy"]["value"],
        "seconds": run.result["wall_seconds"],
    }


def climb(
    name: str, held_out: Callable[[float], dict]
) -> dict[float, float] | None:
    """What each rate reached; further ones while the last is the best.

    Not where nothing is learned, as then any rate may be the best.
    """
    reached: dict[float, float] = {}
    waiting = list(RATES)
    while waiting:
        lr = waiting.pop(0)
        found = kept(f"rate-{name}-{lr:g}", partial(held_out, lr))
        if found is None:
            return None
        reached[lr] = found["value"]
        best = max(reached, key=reached.__getitem__)
        if not waiting and reached[best] > 60:
            if best == max(reached):
                waiting.append(2 * best)
            elif best == min(reached):
                waiting.append(best / 2)
    return reached


def train_row(row: Row, lr: float, seed: int) -> dict:
    """One training: new pictures, those it learned from, other glyphs."""
    config = settings(row, lr, seed)
    run = fit(config, progress=False)
    small = row if row.size in ("300", "1k") else row._replace(size="1k")
    sources = {"train": sources_of(small).train}
    if row.task.startswith("same"):
        other = "" if row.alphabet else "-new"
        sources["other"] = sources_of(small._replace(alphabet=other)).test
    reached = {
        name: accuracy(
            run.model, source.batches(epoch=0, seed=0, batch_size=250)
        ).accuracy
        for name, source in sources.items()
    }
    if row.task.startswith("same"):
        reached |= by_count(run.model, row)
    return reached | {
        "test": run.result["metrics"]["test_accuracy"]["value"],
        "seconds": run.result["wall_seconds"],
    }


@torch.no_grad()
def by_count(model: Network, row: Row) -> dict:
    """Percent right among equal pairs, and others with an even or odd count.

    Of bright pixels: two equal glyphs have an even number of them together.
    """
    test = glyphs.named(row.dataset, NUM_TEST)[1]
    says = model((test.images / 255 - 0.5) / 0.25).argmax(dim=1)
    even = (test.images > 160).sum(dim=(1, 2, 3)) % 2 == 0
    right, same = says == test.labels, test.labels == 1
    groups = {"equal": same, "even": ~same & even, "odd": ~even}
    return {k: 100 * right[g].double().mean().item() for k, g in groups.items()}


def sources_of(row: Row) -> Sources:
    return open_sources(settings(row, RATES[0], 0), torch.device("cpu"))


def metric(
    model: NetworkConfig, steps: int, runs: list[dict], rates: dict
) -> dict:
    """One row of the table."""
    more = ("other", "equal", "even", "odd")
    return {
        "value": statistics.mean(run["test"] for run in runs),
        "unit": "percent of the test images",
        "per_seed": [run["test"] for run in runs],
        "train_per_seed": [run["train"] for run in runs],
        **{
            f"{key}_per_seed": [run[key] for run in runs]
            for key in more
            if key in runs[0]
        },
        "weights": budget.parameters(model).total,
        "macs_per_image": budget.macs(model),
        "steps": steps,
        "lr": max(rates, key=rates.__getitem__),
        "held_out_by_lr": {str(lr): value for lr, value in rates.items()},
        "seconds_per_seed": [run["seconds"] for run in runs],
    }


def write_result(metrics: dict[str, dict]) -> None:
    """Write the rows that are whole, in their order."""
    config = settings(ROWS[0], RATES[1], seed=0)
    seconds = [sum(each["seconds_per_seed"]) for each in metrics.values()]
    result = {
        **result_fields(
            TARGET.stem, "python benchmarks/bias_on_glyphs.py", sum(seconds)
        ),
        "config": config.to_json(),
        "metrics": metrics,
        "seeds": list(SEEDS),
        "dataset": {
            "name": "glyphs",
            "digest": load_dataset("glyphs-same-10k").digest,
            "num_train": 10_000,
            "num_test": 2_000,
        },
        "notes": "config is that of the ViT on 1,000 pictures of glyphs-same, "
        "the digest of 10,000; train is of the first 1,000 pictures",
    }
    results.write(TARGET, result)


def main() -> None:
    """Choose the rates, train what is not there yet, record."""
    metrics = {}
    for row in ROWS:
        rates = climb(f"{row.network}-{row.task}", partial(held_out, row))
        if rates is None:
            continue
        lr = max(rates, key=rates.__getitem__)
        runs = [
            kept(f"{row.name}-{seed}", partial(train_row, row, lr, seed))
            for seed in SEEDS
        ]
        if None not in runs:
            model = NETWORKS[row.network]
            metrics[row.name] = metric(model, row.steps, runs, rates)
            write_result(metrics)


if __name__ == "__main__":
    main()
