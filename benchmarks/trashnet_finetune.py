"""What decides when 60 photographs of waste teach a trained ViT: 3 seeds.

    VITEDU_DATA=... python benchmarks/trashnet_finetune.py

ViT-Ti/16 learns TrashNet's six materials from the package's 60 photographs, 12
epochs in batches of 12, all weights, with warm-up, cosine and clipping alike:
by momentum and by AdamW from a head of zeros, each at a rate of its own, and by
momentum at its rate from PyTorch's random head. The rate is the one with the
lowest cross-entropy on the authors' 328 photographs with seed 0; a grid grows
until its best rate has a worse one on either side. Then two more seeds. The 431
test photographs are read once, by the runs at the chosen rate.

Runs go to runs/trashnet-finetune/ and aren't repeated; what is measured is
written to `vitedu/results/trashnet-finetune.json`.
"""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from recorded import result_fields
from torch import nn

import vitedu
from vitedu import results
from vitedu.data import folder_of, load_folder
from vitedu.evaluate import accuracy
from vitedu.files import read_json
from vitedu.train import TrainConfig, fit, recipe

TARGET = Path(results.__file__).parent / "trashnet-finetune.json"
RUNS = Path("runs/trashnet-finetune")
SEEDS = range(3)
WAYS = {  # rates, each three times the one before
    "momentum": [0.003, 0.01, 0.03],
    "adamw": [3e-5, 1e-4, 3e-4],
}
RANDOM_HEAD = "momentum, random head"


def settings(way: str, lr: float, seed: int) -> TrainConfig:
    """The recipe `trashnet`, for 60 photographs."""
    config = recipe("trashnet", "cpu")
    return replace(
        config,
        recipe="custom",
        dataset="trashnet-small",
        weights=None,
        epochs=12,
        batch_size=12,
        optimizer="adamw" if way == "adamw" else "sgd",
        lr=lr,
        precision="bf16",
        seed=seed,
        threads=1,
    )


def network(way: str, seed: int) -> vitedu.ViT:
    """ViT-Ti/16 with a head for six classes."""
    model = vitedu.load("ViT-Ti/16", num_classes=6)
    torch.manual_seed(seed)
    if way == RANDOM_HEAD:
        model.head = nn.Linear(192, 6)
    return model


def measured(way: str, lr: float, seed: int) -> Path:
    """The folder of a finished run, which is tested on the 328."""
    out = RUNS / f"{way.replace(', ', '-').replace(' ', '-')}-{lr:g}-{seed}"
    small, whole = (
        load_folder(folder_of(name)) for name in ("trashnet-small", "trashnet")
    )
    fit(
        settings(way, lr, seed),
        out,
        model=network(way, seed),
        train=small.train,
        test=whole.validation,
        progress=False,
    )
    return out


def on_validation(out: Path) -> tuple[float, float]:
    """Cross-entropy and accuracy in percent."""
    metrics = read_json(out / "result.json")["metrics"]
    return metrics["test_loss"]["value"], metrics["test_accuracy"]["value"]


def chosen_rate(way: str, rates: list[float]) -> float:
    """Extends `rates` until the best has a worse one on either side."""
    losses = {lr: on_validation(measured(way, lr, 0))[0] for lr in rates}
    print(way, losses, flush=True)
    best = min(losses, key=losses.__getitem__)
    if best == rates[0]:
        return chosen_rate(way, [float(f"{best / 3:.1g}"), *rates])
    if best == rates[-1]:
        return chosen_rate(way, [*rates, float(f"{best * 3:.1g}")])
    return best


def main() -> None:
    """Train what is missing, test, record."""
    torch.set_num_threads(1)
    small, whole = (
        load_folder(folder_of(name)) for name in ("trashnet-small", "trashnet")
    )
    metrics: dict[str, Any] = {}
    seconds = 0.0
    chosen = {way: chosen_rate(way, rates) for way, rates in WAYS.items()}
    for way, lr in {**chosen, RANDOM_HEAD: chosen["momentum"]}.items():
        found: dict[str, list[float]] = {}
        for seed in SEEDS:
            out = measured(way, lr, seed)
            seconds += read_json(out / "result.json")["wall_seconds"]
            model = vitedu.load(out)
            answers = {
                "train": accuracy(model, small.train).accuracy,
                "validation": on_validation(out)[1],
                "test": accuracy(model, whole.test).accuracy,
            }
            print(way, lr, seed, answers, flush=True)
            for part, value in answers.items():
                found.setdefault(part, []).append(value)
        for part, values in found.items():
            metrics[f"{part}/{way}"] = {
                "value": statistics.fmean(values),
                "unit": "percent",
                "per_seed": values,
                "lr": lr,
            }
    result = {
        **result_fields(
            TARGET.stem, "python benchmarks/trashnet_finetune.py", seconds
        ),
        "config": settings("momentum", 0.01, 0).to_json(),
        "metrics": metrics,
        "seeds": list(SEEDS),
        "dataset": {
            "name": "trashnet-small to learn from, trashnet to test on",
            "digest": whole.digest,
            "num_train": len(small.train),
            "num_test": len(whole.test),
        },
        "notes": "seconds are those of the runs at the chosen rates",
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
