"""A small ResNet and ViT on 2,500 digits, as they are and in shuffled pieces.

    python benchmarks/shuffled_digits.py

All pictures are cut into pieces of 4 x 4 pixels, which are put back in one
fixed random order. The ViT costs as much as the ResNet, and all have the same
steps. Its positions are fixed sines and cosines, or, in pieces too, a learned
table that starts at random, as loud. Each has the best of growing rates for its
kind of picture, on 500 of the digits, held out. Trainings are kept as
`small_networks` keeps them; `vitedu/results/shuffled-digits.json` has what came
out.
"""

from functools import partial
from pathlib import Path

import torch
from einops import rearrange
from kept import kept
from recorded import result_fields
from small_networks import (
    RUNS,
    climb,
    learned,
    metric,
    percent,
    resnet,
    right,
    vit,
)
from torch import Tensor

from vitedu import results
from vitedu.data import load_dataset
from vitedu.model import Learned1D, ViT

TARGET = Path(__file__).parents[1] / "vitedu/results/shuffled-digits.json"
SEEDS = (0, 1, 2)
STEPS = 200
LOUD = 0.7  # the root mean square of sines and cosines
FOR_DIGITS = {"image_size": 28, "num_classes": 10}


def vit_table() -> ViT:
    """The ViT with a learned row for each patch, drawn at random."""
    model = vit(**FOR_DIGITS, position=Learned1D())
    torch.nn.init.normal_(model.pos_embed, std=LOUD)
    return model


NETWORKS = {
    "resnet": partial(resnet, 10),
    "vit": partial(vit, **FOR_DIGITS),
    "vit-table": vit_table,
}
ROWS = (
    ("resnet", "plain"),
    ("resnet", "shuffled"),
    ("vit", "plain"),
    ("vit-table", "plain"),
    ("vit-table", "shuffled"),
)


def shuffled(images: Tensor) -> Tensor:
    """The 49 pieces of all pictures in one other order."""
    generator = torch.Generator().manual_seed(3)
    order = torch.randperm(49, generator=generator)
    cut = "b c (r p) (s q) -> b (r s) c p q"
    pieces = rearrange(images, cut, p=4, q=4)[:, order]
    return rearrange(pieces, "b (r s) c p q -> b c (r p) (s q)", r=7)


def digits(order: str, part: str) -> tuple[Tensor, Tensor]:
    """Values around 0, and labels, of the part "train" or "test"."""
    found = getattr(load_dataset("digits"), part)
    images = found.images / 127.5 - 1
    return shuffled(images) if order == "shuffled" else images, found.labels


def held_out(network: str, order: str, lr: float) -> dict:
    """Accuracy on a fifth of the digits, by which a rate is chosen."""
    images, labels = digits(order, "train")
    data = images[500:], labels[500:]
    model, seconds = learned(NETWORKS[network], data, lr, STEPS, 0)
    value = percent(right(model, images[:500], labels[:500]))
    return {"value": value, "seconds": seconds}


def train_once(network: str, order: str, lr: float, seed: int) -> dict:
    data = digits(order, "train")
    model, seconds = learned(NETWORKS[network], data, lr, STEPS, seed)
    return {
        "test": percent(right(model, *digits(order, "test"))),
        "train": percent(right(model, *data)),
        "seconds": seconds,
    }


def write_result(metrics: dict[str, dict]) -> None:
    """Write the rows that are whole."""
    seconds = [sum(each["seconds_per_seed"]) for each in metrics.values()]
    dataset = load_dataset("digits")
    result = {
        **result_fields(
            TARGET.stem, "python benchmarks/shuffled_digits.py", sum(seconds)
        ),
        "config": {"batch_size": 64, "weight_decay": 0.05, "warmup": 0.1},
        "metrics": metrics,
        "seeds": list(SEEDS),
        "dataset": {
            "name": "digits",
            "digest": dataset.digest,
            "num_train": len(dataset.train),
            "num_test": len(dataset.test),
        },
    }
    results.write(TARGET, result)


def main() -> None:
    """Choose the rates, train what is not there yet, record."""
    metrics = {}
    for network, order in ROWS:
        name = f"{network}-{order}"
        rates = climb(name, partial(held_out, network, order), 10)
        if rates is None:  # another process is at it
            continue
        lr = max(rates, key=rates.__getitem__)
        runs = [
            kept(
                RUNS / f"{name}-{seed}.json",
                partial(train_once, network, order, lr, seed),
            )
            for seed in SEEDS
        ]
        if None in runs:
            continue
        metrics[name] = metric(NETWORKS[network], 28, STEPS, runs, rates)
        write_result(metrics)


if __name__ == "__main__":
    main()
