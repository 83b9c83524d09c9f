"""Which classifier on few frozen features: means, least squares, a probe.

    VITEDU_DATA=... python benchmarks/few_shots.py [METHOD]

TrashNet's features (ViT-Ti/16 at 224 pixels, kept by `trashnet.py`): 1 to 100
photographs a class drawn from its 1,768, ten times, and the whole; tested on
its 431. The nearest mean, also of whitened features; least squares on whitened
features with the authors' l2 of 2^10, and with four others; logistic regression
whose l2 is chosen on a fifth of what it has, where that is possible. The same
draws for all, so differences are paired. Written to
`vitedu/results/few-shots.json`; with a METHOD, such as `whitened_mean`, only
that one is added to the file.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from recorded import result_fields
from trashnet import measured, percent, seeds_metric

import vitedu
from vitedu import results
from vitedu.data import folder_of, load_folder
from vitedu.evaluate import (
    Features,
    fewshot_accuracy,
    linear_probe,
    sample_shots,
)

TARGET = Path(results.__file__).parent / "few-shots.json"
SHOTS, SEEDS = (1, 2, 5, 10, 25, 32, 50, 75), range(10)
L2S = (1.0, 2.0**5, 2.0**10, 2.0**15, 2.0**20)
MODEL = "ViT-Ti/16"


def nearest_mean(train: Features, test: Features) -> float:
    x, y = train
    means = torch.stack([x[y == label].mean(dim=0) for label in y.unique()])
    return percent(
        torch.cdist(test.features, means).argmin(dim=1) == test.labels
    )


def whitened_mean(train: Features, test: Features) -> float:
    """The nearest mean, once each number has deviation 1 on what is known."""
    mean, std = (
        train.features.mean(dim=0),
        train.features.std(dim=0, correction=0) + 1e-5,
    )
    known, unseen = (
        Features((each.features - mean) / std, each.labels)
        for each in (train, test)
    )
    return nearest_mean(known, unseen)


def probe(train: Features, test: Features) -> float:
    return linear_probe(MODEL, train).accuracy(MODEL, test)


def by_formula(l2: float) -> Callable[[Features, Features], float]:
    return lambda train, test: fewshot_accuracy(MODEL, train, test, l2=l2)


def main() -> None:
    """Measure, print and record."""
    torch.set_num_threads(1)
    started = time.perf_counter()
    trashnet = load_folder(folder_of("trashnet"))
    parts, seconds = measured(trashnet, 224)
    train, test = parts["train"], parts["test"]
    methods = {"nearest_mean": nearest_mean, "whitened_mean": whitened_mean}
    methods |= {"probe": probe}
    methods |= {f"formula/{l2:g}": by_formula(l2) for l2 in L2S}
    only = sys.argv[1:]
    if only:
        methods = {name: methods[name] for name in only}
    metrics: dict[str, Any] = {}
    for name, method in methods.items():
        for shots in SHOTS:
            if name == "probe" and shots < 5:
                continue  # a fifth of so few is nothing
            drawn = (sample_shots(train.labels, shots, seed) for seed in SEEDS)
            found = [method(train.take(rows), test) for rows in drawn]
            unit = f"percent of 431, {shots} a class"
            metrics[f"{name}/{shots}"] = seeds_metric(found, unit)
        whole = method(train, test)
        metrics[f"{name}/all"] = {"value": whole, "unit": "percent of 431"}
    for name, metric in metrics.items():
        print(f"{name:24} {metric['value']:8.2f}", flush=True)
    if only:
        result = results.read_file(TARGET)
        result["metrics"] |= metrics
        results.write(TARGET, result)
        return
    result = {
        **result_fields(
            TARGET.stem,
            "python benchmarks/few_shots.py",
            seconds + time.perf_counter() - started,
        ),
        "seeds": list(SEEDS),
        "config": vitedu.load(MODEL).config.to_json(),
        "metrics": metrics,
        "dataset": {
            "name": "trashnet, re-encoded",
            "digest": trashnet.digest,
            "num_train": len(trashnet.train),
            "num_test": len(trashnet.test),
        },
        "notes": "seeds draw the photographs",
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
