"""How hard procedural `shapes` is: three models on 1,000 to 100,000 images.

    python benchmarks/shapes_difficulty.py

A linear model on pixels, a small CNN and the ViT of `shapes-small`, 64 x 64
pixels, 10 classes, no augmentation, AdamW with a cosine schedule, bfloat16; n =
1. What they reach on 2,000 images of another seed is printed and written to
`vitedu/results/shapes-difficulty.json`.
"""

import argparse
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import torch
from recorded import result_fields
from torch import nn

from vitedu import results
from vitedu.data import Augment
from vitedu.evaluate import accuracy
from vitedu.model import ViT
from vitedu.train import TrainConfig, TrainState, recipe, train_step
from vitedu.train.data import open_sources
from vitedu.train.optimizer import optimizer_of
from vitedu.train.precision import build_precision
from vitedu.train.schedule import build_schedule

# images: updates of 64
STEPS = {1_000: 1_000, 10_000: 2_000, 100_000: 4_000}
RATES = {"linear": 1e-4, "cnn": 2e-3, "vit": 1e-3}


def build(name: str, config: TrainConfig) -> nn.Module:
    """One of the three models, images (b, 3, 64, 64) -> logits (b, 10)."""
    torch.manual_seed(config.seed)
    if name == "linear":
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 10))
    if name == "vit":
        return ViT(config.model)
    layers: list[nn.Module] = []
    widths = (3, 24, 48, 96, 128)
    for before, after in pairwise(widths):
        layers += [
            nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10)]
    return nn.Sequential(*layers, *head)


def reach(name: str, num_images: int) -> tuple[float, int, TrainConfig, dict]:
    """Test accuracy (percent), weights, configuration, data of one training."""
    config = replace(
        recipe("shapes-small", "cpu"),
        dataset=f"shapes-{num_images // 1000}k",
        augment=Augment(),
        batch_size=64,
        epochs=None,
        steps=STEPS[num_images],
        lr=RATES[name],
        betas=(0.9, 0.999),
        warmup=0.1,
        max_grad_norm=None,
        ema=None,
        precision="bf16",
    )
    device = torch.device("cpu")
    sources = open_sources(config, device)
    model = build(name, config).train()
    state = TrainState(
        config=config,
        model=model,
        optimizer=optimizer_of(model, config),
        schedule=build_schedule(
            "cosine", config.lr, config.steps, config.warmup
        ),
        precision=build_precision(config.precision, device),
    )
    epoch = 0
    while state.step < config.steps:
        for batch in sources.train.batches(epoch=epoch, seed=0, batch_size=64):
            train_step(state, batch)
            if state.step == config.steps:
                break
        epoch += 1
    measured = accuracy(model, sources.test.batches(batch_size=250))
    dataset = {
        "name": "shapes",
        "digest": sources.dataset.digest,
        "num_train": num_images,
        "num_test": measured.num_images,
    }
    return (
        measured.accuracy,
        sum(p.numel() for p in model.parameters()),
        config,
        dataset,
    )


def main() -> None:
    """Train the nine models, print and record what they reach."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    started = time.perf_counter()
    metrics = {}
    for num_images in STEPS:
        for name in RATES:
            value, weights, config, dataset = reach(name, num_images)
            metrics[f"{name}_{num_images // 1000}k"] = {
                "value": value,
                "unit": "percent of 2,000 test images",
                "per_seed": [value],
                "weights": weights,
                "steps": config.steps,
                "lr": config.lr,
            }
            print(f"{num_images:>7} {name:<7} {value:.1f}%", flush=True)
    result = {
        **result_fields(
            "shapes-difficulty",
            "python benchmarks/shapes_difficulty.py",
            time.perf_counter() - started,
        ),
        "config": config.to_json(),
        "metrics": metrics,
        "dataset": dataset,
        "notes": "config and dataset are those of the last training; n = 1",
    }
    results.write(
        Path(results.__file__).parent / "shapes-difficulty.json", result
    )


if __name__ == "__main__":
    main()
