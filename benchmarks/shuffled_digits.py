"""A ViT and a ResNet on 2,500 digits, as they are and in shuffled pieces.

    python benchmarks/shuffled_digits.py

All pictures are cut into pieces of 4 x 4 pixels, the ViT's patches, which are
put back in one fixed random order. An image costs both networks as much, and
all have the same steps. Each has the best of growing rates for either kind of
picture, on 500 of the digits, held out. Trainings are kept as
`bias_on_glyphs` keeps them; `vitedu/results/shuffled-digits.json` has what came
out.
"""

from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import torch
from bias_on_glyphs import RATES, SEEDS, climb, kept, metric, plain
from einops import rearrange
from recorded import result_fields
from torch import Tensor

from vitedu import results
from vitedu.data import Augment, load_dataset
from vitedu.evaluate import accuracy
from vitedu.model import ResNetConfig
from vitedu.train import TrainConfig, fit, recipe

TARGET = Path(__file__).parents[1] / "vitedu/results/shuffled-digits.json"
STEPS = 300
NETWORKS = {
    "vit": plain(image_size=28, num_classes=10, embed_dim=60, mlp_dim=120),
    "resnet": ResNetConfig(
        family="bit-v1",
        image_size=28,
        in_channels=1,
        num_classes=10,
        width=0.5,
        layers=(1, 1, 1),
    ),
}


def shuffled(images: Tensor) -> Tensor:
    """The 49 pieces of all pictures in one other order."""
    generator = torch.Generator().manual_seed(3)
    order = torch.randperm(49, generator=generator)
    cut = "b c (r p) (s q) -> b (r s) c p q"
    pieces = rearrange(images, cut, p=4, q=4)[:, order]
    return rearrange(pieces, "b (r s) c p q -> b c (r p) (s q)", r=7)


def digits(order: str) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Images and labels to train on, and to test on."""
    parts = load_dataset("digits").train, load_dataset("digits").test
    change = shuffled if order == "shuffled" else Tensor.clone
    return tuple((change(part.images), part.labels) for part in parts)


def settings(network: str, lr: float, seed: int) -> TrainConfig:
    return replace(
        recipe("digits", "cpu"),
        model=NETWORKS[network],
        augment=Augment(),
        epochs=None,
        steps=STEPS,
        lr=lr,
        max_grad_norm=1.0,
        seed=seed,
        threads=1,
        log_every=100,
    )


def held_out(network: str, order: str, lr: float) -> dict:
    config = settings(network, lr, 0)
    train, test = digits(order)
    run = fit(config, train=train, test=test, validation=0.2, progress=False)
    return {
        "value": run.result["metrics"]["validation_accuracy"]["value"],
        "seconds": run.result["wall_seconds"],
    }


def train_once(network: str, order: str, lr: float, seed: int) -> dict:
    config = settings(network, lr, seed)
    train, test = digits(order)
    run = fit(config, train=train, test=test, progress=False)
    return {
        "test": run.result["metrics"]["test_accuracy"]["value"],
        "train": accuracy(run.model, train).accuracy,
        "seconds": run.result["wall_seconds"],
    }


def main() -> None:
    """Choose the rates, train what is not there yet, record."""
    metrics = {}
    for order, network in product(("plain", "shuffled"), NETWORKS):
        name = f"{network}-{order}"
        rates = climb(name, partial(held_out, network, order))
        if rates is None:
            return
        lr = max(rates, key=rates.__getitem__)
        runs = [
            kept(
                f"{name}-{seed}", partial(train_once, network, order, lr, seed)
            )
            for seed in SEEDS
        ]
        if None in runs:
            return
        metrics[name] = metric(NETWORKS[network], STEPS, runs, rates)
    seconds = [sum(each["seconds_per_seed"]) for each in metrics.values()]
    dataset = load_dataset("digits")
    result = {
        **result_fields(
            TARGET.stem, "python benchmarks/shuffled_digits.py", sum(seconds)
        ),
        "config": settings("vit", RATES[1], 0).to_json(),
        "metrics": metrics,
        "seeds": list(SEEDS),
        "dataset": {
            "name": "digits",
            "digest": dataset.digest,
            "num_train": len(dataset.train),
            "num_test": len(dataset.test),
        },
        "notes": "config is that of the ViT",
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
