"""CIFAR-10 from trained weights: few shots, a probe and fine-tuning compared.

    python tools/cifar_jpeg.py FOLDER cifar10-jpeg75.npz
    vitedu train cifar10-finetune data=cifar10-jpeg75.npz --tier cpu --out RUN
    python benchmarks/cifar10_transfer.py cifar10-jpeg75.npz RUN

Features of the embedded ViT-Ti/16, its weights as they are, of images enlarged
to 128 pixels, which is what the recipe takes, and to 224. From them the paper's
closed-form classifier with 1, 5, 10 and 25 images of each class (three draws),
beside it the nearest mean of the same images; then the closed form from all of
the recipe's 10,000 images, and a linear probe on these. Last the fine-tuned
network of RUN. All of them answer the same 2,000 test images. The table is
printed and written to vitedu/results/cifar10-transfer.json.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from recorded import result_fields

import vitedu
from vitedu import results
from vitedu.data import Split, load_dataset
from vitedu.evaluate import (
    Features,
    accuracy,
    features,
    fewshot_accuracy,
    fewshot_curve,
    linear_probe,
    sample_shots,
)
from vitedu.evaluate.fewshot import SEEDS

TARGET = Path(__file__).parents[1] / "vitedu/results/cifar10-transfer.json"
NUM_TRAIN, NUM_TEST = 10_000, 2_000
POOL = 1_000  # training images that the few are drawn from
SIDE = 128  # the recipe's


def features_of(data: Split, side: int) -> Features:
    """Frozen features of images enlarged to `side` pixels, as the recipe's."""
    model = vitedu.load("ViT-Ti/16", image_size=side)
    model.preprocess = replace(
        model.preprocess, crop=None, interpolation="bicubic"
    )
    return features(model, data)


def nearest_mean(few: Features, test: Features) -> float:
    """How many of `test` are nearest to the mean of their class, in percent."""
    means = torch.stack(
        [
            few.features[few.labels == label].mean(dim=0)
            for label in few.labels.unique()
        ]
    )
    answers = torch.cdist(test.features, means).argmin(dim=1)
    return 100 * (answers == test.labels).double().mean().item()


def percent(name: str, *accuracies: float) -> dict[str, Any]:
    """A metric by its name, printed; several draws are kept beside the mean."""
    values = [round(each, 2) for each in accuracies]
    mean = round(sum(values) / len(values), 2)
    print(f"{name:28} {mean:6.2f}%  {values}", flush=True)
    return {name: {"value": mean, "unit": "percent", "draws": values}}


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="the FILE.npz of tools/cifar_jpeg.py")
    parser.add_argument("run", help="the folder of a run of cifar10-finetune")
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    begin = time.perf_counter()
    data = load_dataset("cifar10", data=options.data)
    # the file has the classes by turns
    train, test = data.train.first(NUM_TRAIN), data.test.first(NUM_TEST)
    metrics: dict[str, Any] = {}
    network = vitedu.load(options.run)
    for side in (SIDE, 224):
        x, xt = features_of(train, side), features_of(test, side)
        pool = x.take(torch.arange(POOL))
        for point in fewshot_curve(network, pool, xt):
            name = f"fewshot_{point.shots}/{side}px"
            metrics |= percent(name, *point.accuracies)
            nearest = [
                nearest_mean(pool.take(rows), xt)
                for rows in (
                    sample_shots(pool.labels, point.shots, seed)
                    for seed in SEEDS
                )
            ]
            name = f"nearest_mean_{point.shots}/{side}px"
            metrics |= percent(name, *nearest)
        closed_form = fewshot_accuracy(network, x, xt)
        metrics |= percent(f"closed_form/{side}px", closed_form)
        probe = linear_probe(network, x).accuracy(network, xt)
        metrics |= percent(f"probe/{side}px", probe)
    metrics |= percent("finetune/128px", accuracy(network, test).accuracy)
    results.write(
        options.out,
        {
            **result_fields(
                "cifar10-transfer",
                "python benchmarks/cifar10_transfer.py cifar10-jpeg75.npz RUN",
                time.perf_counter() - begin,
            ),
            "config": {
                "model": "ViT-Ti/16",
                "num_train": NUM_TRAIN,
                "shots_drawn_from": POOL,
                "draws": list(SEEDS),
                "finetune": results.read_file(
                    Path(options.run) / "result.json"
                )["config"],
            },
            "metrics": metrics,
            "dataset": {
                "name": "CIFAR-10 (JPEG 75)",
                "digest": data.digest,
                "num_train": NUM_TRAIN,
                "num_test": NUM_TEST,
            },
            "notes": "the copy of CIFAR-10 is lossy (JPEG, quality 75)",
        },
    )


if __name__ == "__main__":
    main()
