"""How far heads look after more data, and behind a ResNet: Figure 11, small.

    VITEDU_DATA=FOLDER python benchmarks/inside_locality.py
    python benchmarks/inside_locality.py --shapes

A ViT of three blocks learns from 300, 3,000 and 55,000 digits of MNIST, equally
many steps each; a hybrid, the same encoder behind one unit of a ResNet with the
same 7x7 grid of tokens, from 55,000. Three seeds. Each network has the best of
growing rates, up to the first that is worse than one before it, on the other
5,000 digits of the training part. Distances are measured on 128 test digits.
About ten minutes on one thread; a second call goes on where the first has
stopped (--runs). Written to `vitedu/results/inside-locality.json`.

With --shapes, the smallest ViT of `families.py` learns 1,000, 10,000 and
100,000 drawn shapes of 64 pixels with the rate and the steps of that table, and
distances are measured on 128 new shapes. About ten minutes a run, three runs a
seed; `inside-locality-shapes.json` has the seeds whose three runs are there.
"""

import argparse
import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import families
import numpy as np
import torch
from device_loop import normalised, train
from family_networks import BUILD, macs
from kept import kept, read
from recorded import result_fields

from vitedu import budget, results
from vitedu.data import load_dataset
from vitedu.evaluate import accuracy
from vitedu.interpret import attention_distance
from vitedu.model import Hybrid, SinCos2D, ViTConfig, record_attention
from vitedu.train import TrainConfig, fit, recipe
from vitedu.train.data import open_sources

TARGET = Path(__file__).parents[1] / "vitedu/results/inside-locality.json"
SEEDS = (0, 1, 2)
STEPS, CHOOSING = 600, 200
RATES = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)
MOST = 55_000  # of 60,000; by the others a rate is chosen
LOOKED_AT = 128  # test images on which distances are measured, as in the paper
UNIFORM = 14.44  # pixels, of a head that looks everywhere on this grid
ROWS = {
    "vit, 300": 300,
    "vit, 3,000": 3_000,
    "vit, 55,000": MOST,
    "hybrid, 55,000": MOST,
}
SHAPES = 1_000, 10_000, 100_000


def network(name: str) -> ViTConfig:
    """49 tokens of 4x4 pixels, or of a ResNet's map of 7x7 places."""
    model = replace(
        recipe("mnist-seed", "cpu").model,
        patch_size=4,
        embed_dim=64,
        depth=3,
        num_heads=4,
        mlp_dim=128,
        position=SinCos2D(),
        class_token=False,
        pool="mean",
    )
    if name == "vit":
        return model
    return replace(model, stem=Hybrid(layers=(1,), width=0.5), patch_size=1)


def config(name: str, data: Path, lr: float, seed: int = 0) -> TrainConfig:
    """One training."""
    return replace(
        recipe("mnist-seed", "cpu"),
        model=network(name),
        data=str(data),
        epochs=None,
        steps=STEPS,
        batch_size=64,
        optimizer="adamw",
        lr=lr,
        weight_decay=0.05,
        schedule="cosine",
        warmup=0.1,
        seed=seed,
        threads=1,
    )


def write_parts(runs: Path) -> None:
    """A file for each count of digits, and one to choose rates by."""
    runs.mkdir(parents=True, exist_ok=True)
    data = load_dataset("mnist")
    images, labels, *tests = (
        x.numpy()
        for part in (data.train, data.test)
        for x in (part.images[:, 0], part.labels)
    )
    counts = {str(count): (count, tests) for count in ROWS.values()}
    counts["rates"] = MOST, (images[MOST:], labels[MOST:])
    for name, (count, (x, y)) in counts.items():
        if not (target := runs / f"{name}.npz").exists():
            parts = {"x_train": images[:count], "y_train": labels[:count]}
            np.savez(target, **parts, x_test=x, y_test=y)


def climb(name: str, runs: Path) -> dict[float, float]:
    """What growing rates reach on held-out images, in percent."""
    tried: dict[float, float] = {}
    for lr in RATES:
        shorter = config(name, runs / "rates.npz", lr)
        run = fit(replace(shorter, steps=CHOOSING), runs / f"{name}-{lr}")
        tried[lr] = run.result["metrics"]["test_accuracy"]["value"]
        print(name, lr, tried[lr], flush=True)
        if tried[lr] < max(tried.values()):
            break
    return tried


def measure(row: str, tried: dict[float, float], runs: Path) -> dict[str, Any]:
    """Three seeds."""
    name, count = row.partition(",")[0], ROWS[row]
    lr = max(tried, key=tried.__getitem__)
    tests, learned, seconds, distances = [], [], [], []
    for seed in SEEDS:
        asked = config(name, runs / f"{count}.npz", lr, seed)
        run = fit(asked, runs / f"{name}-{count}-{seed}")
        sources = open_sources(asked, torch.device("cpu"))
        images, _ = next(iter(sources.test.batches(batch_size=LOOKED_AT)))
        with torch.no_grad(), record_attention(run.model) as maps:
            run.model(images)
        far = attention_distance(maps, (7, 7), 4)
        distances.append(far.double().round(decimals=2).tolist())
        tests.append(run.result["metrics"]["test_accuracy"]["value"])
        first = sources.train.batches(epoch=0, seed=0, batch_size=250)
        some = (batch for batch, _ in zip(first, range(20), strict=False))
        learned.append(accuracy(run.model, some).accuracy)
        seconds.append(run.result["wall_seconds"])
        print(row, seed, lr, tests[-1], learned[-1], seconds[-1])
        print(far.sort().values.round(decimals=1).tolist(), flush=True)
    return {
        "value": statistics.mean(tests),
        "unit": "percent of 10,000 test digits",
        "per_seed": tests,
        "train_per_seed": learned,
        "weights": budget.parameters(network(name)).total,
        "macs_per_image": budget.macs(network(name)),
        "lr": lr,
        "held_out_by_lr": {str(x): y for x, y in tried.items()},
        "distance_per_seed": distances,
        "seconds_per_seed": seconds,
    }


def nearest(metric: dict[str, Any]) -> str:
    """Of the first block: the mean over heads, by seed, and its spread."""
    means = [statistics.mean(far[0]) for far in metric["distance_per_seed"]]
    return f"{statistics.mean(means):.1f} ± {statistics.stdev(means):.1f}"


def learn_shapes(count: int, seed: int) -> dict[str, Any]:
    """One run of `families.py`'s ViT, and how far its heads look."""
    lr = results.read("families")["metrics"]["vit-6-100k"]["lr"]
    images, labels = (each[:count] for each in families.pictures("train"))
    test = families.pictures("test")
    torch.manual_seed(seed)
    model = BUILD["vit-6"]()
    started = time.process_time()
    train(
        model,
        images,
        labels,
        lr=lr,
        steps=families.STEPS,
        seed=seed,
        batch=families.BATCH,
    )
    spent = round(time.process_time() - started, 1)
    with torch.no_grad(), record_attention(model) as maps:
        model(normalised(test[0][:LOOKED_AT]))
    far = attention_distance(maps, (8, 8), 8)
    return {
        "lr": lr,
        "test": families.score(model, *test)["right"],
        "train": families.score(model, images[:1000], labels[:1000])["right"],
        "distance": far.double().round(decimals=2).tolist(),
        "cpu_seconds": spent,
    }


def shapes(runs: Path) -> None:
    """Every run, seed after seed; the record after each seed."""
    files = {
        (count, seed): runs / f"shapes-{count}-{seed}.json"
        for seed in SEEDS
        for count in SHAPES
    }
    for (count, seed), path in files.items():
        kept(path, partial(learn_shapes, count, seed))
        if count < max(SHAPES):
            continue
        seeds = SEEDS[: seed + 1]
        found = {k: [read(files[k, i]) for i in seeds] for k in SHAPES}
        if all(None not in each for each in found.values()):
            record_shapes(found)


def record_shapes(found: dict[int, list[dict[str, Any]]]) -> None:
    """Write down runs by the number of shapes, one for each seed."""
    metrics = {
        f"vit, {count:,}": {
            "value": statistics.mean(run["test"] for run in each),
            "unit": "percent of 10,000 new shapes",
            "per_seed": [run["test"] for run in each],
            "train_per_seed": [run["train"] for run in each],
            "weights": sum(x.numel() for x in BUILD["vit-6"]().parameters()),
            "macs_per_image": macs("vit-6"),
            "lr": each[0]["lr"],
            "distance_per_seed": [run["distance"] for run in each],
        }
        for count, each in found.items()
    }
    runs = [run for each in found.values() for run in each]
    spent = sum(run["cpu_seconds"] for run in runs)
    name = f"{TARGET.stem}-shapes"
    command = "python benchmarks/inside_locality.py --shapes"
    result = {
        **result_fields(name, command, spent),
        "config": {"steps": families.STEPS, "batch": families.BATCH},
        "metrics": metrics,
        "seeds": list(SEEDS[: len(found[SHAPES[0]])]),
        "dataset": {
            "name": "shapes",
            "digest": read(families.RUNS / "train-0.json")["digest"],
            "num_train": max(SHAPES),
            "num_test": 10_000,
        },
        "notes": "the rate is that of families.json; seconds are of one core",
    }
    results.write(TARGET.with_stem(name), result)


def main() -> None:
    """Train what is not there yet, record what is whole."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/locality"))
    parser.add_argument("--shapes", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.shapes:
        shapes(options.runs)
        return
    write_parts(options.runs)
    metrics: dict[str, dict[str, Any]] = {}
    tried: dict[str, dict[float, float]] = {}
    for row in ROWS:
        name = row.partition(",")[0]
        if name not in tried:
            tried[name] = climb(name, options.runs)
        metrics[row] = measure(row, tried[name], options.runs)
    spent = sum(sum(each["seconds_per_seed"]) for each in metrics.values())
    command = "python benchmarks/inside_locality.py"
    dataset = load_dataset("mnist")
    vit, hybrid = (nearest(metrics[row]) for row in list(ROWS)[2:])
    result = {
        **result_fields(TARGET.stem, command, spent),
        "config": config(
            "vit", Path("55000.npz"), metrics[row]["lr"]
        ).to_json(),
        "metrics": metrics,
        "seeds": list(SEEDS),
        "dataset": {
            "name": "mnist",
            "digest": dataset.digest,
            "num_train": MOST,
            "num_test": len(dataset.test.labels),
        },
        "notes": "the config is the ViT's, of 55,000 digits",
        "reproduces": {
            "row": "figure-11",
            "scale": "small",
            "ours": f"first block, mean of heads, MNIST: ViT {vit}, hybrid "
            f"{hybrid} of {UNIFORM:.1f} pixels",
            "paper": None,
            "n": len(SEEDS),
        },
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
