"""`cifar10-scratch` at tier cpu, and a small CNN that learns for as long.

    python benchmarks/cifar_scratch.py cifar10-jpeg75.npz

The plain ViT of the recipe learns from 5,000 images for 20 epochs. Then a CNN
of four convolutions learns from the same images, moved and mirrored, for as
many seconds of one thread, at Adam's usual rate. Both are tested on 5,000
images; n = 1. What the ViT reaches there after every fifth epoch is its curve;
nothing was chosen by it. Written to `vitedu/results/cifar10-scratch-cpu.json`.
`tools/cifar_jpeg.py` makes the file.
"""

import argparse
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from vitedu import results
from vitedu.data import Augment
from vitedu.evaluate import accuracy
from vitedu.train import TrainConfig, recipe
from vitedu.train.data import Sources, open_sources
from vitedu.train.fit import Loop
from vitedu.train.journal import evaluate
from vitedu.train.start import build_state

TARGET = Path(__file__).parents[1] / "vitedu/results/cifar10-scratch-cpu.json"
CURVE_EPOCHS = 5
DEVICE = torch.device("cpu")


def train_vit(config: TrainConfig, sources: Sources) -> tuple[dict, float]:
    """Metrics of the recipe's run, with its curve; seconds of training."""
    state = build_state(config, sources.train, DEVICE)
    loop = Loop(state, sources)
    metrics, measuring = {}, 0.0

    def look() -> bool:
        nonlocal measuring
        epochs, rest = divmod(state.step, CURVE_EPOCHS * state.epoch_steps)
        if rest == 0:
            began = time.process_time()
            found = evaluate(state, sources.test, lambda: False)
            reached = percent(found.accuracy)
            metrics[f"vit_after_{CURVE_EPOCHS * epochs}_epochs"] = reached
            metrics["vit"] = reached
            measuring += time.process_time() - began
        return False

    began = time.process_time()
    loop.run(look)
    return metrics, time.process_time() - began - measuring


def small_cnn(num_classes: int) -> nn.Module:
    """Four convolutions with batch norm, 32x32 to 2x2, mean, a dense layer."""
    layers: list[nn.Module] = []
    widths = (3, 32, 64, 128, 256)
    for before, after in pairwise(widths):
        layers += [
            nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *head, nn.Linear(widths[-1], num_classes))


def train_cnn(sources: Sources, seconds: float) -> tuple[dict, int]:
    """Its metrics after so many seconds of training, and the epochs it had."""
    torch.manual_seed(0)
    model = small_cnn(sources.train.num_classes).train()
    optimizer = torch.optim.Adam(model.parameters())
    began, epoch = time.process_time(), 0
    while time.process_time() - began < seconds:
        for images, labels in sources.train.batches(
            epoch=epoch, seed=0, batch_size=64
        ):
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        epoch += 1
    reached = accuracy(model, sources.test.batches(batch_size=256))
    return {"cnn": percent(reached.accuracy)}, epoch


def percent(value: float) -> dict:
    """A metric."""
    return {"value": value, "unit": "percent", "per_seed": [value]}


def main() -> None:
    """Train both and write what they reach."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = recipe("cifar10-scratch", "cpu")
    config = replace(
        config, data=str(options.data), device="cpu", precision="fp32"
    )
    metrics, seconds = train_vit(config, open_sources(config, DEVICE))
    print(metrics, f"{seconds:.0f} s", flush=True)
    moved = replace(config, augment=Augment(shift=4, flip=True))
    sources = open_sources(moved, DEVICE)
    cnn, epochs = train_cnn(sources, seconds)
    print(cnn, f"{epochs} epochs", flush=True)
    result = {
        "schema": results.SCHEMA,
        "status": "finished",
        "name": TARGET.stem,
        "command": f"python benchmarks/cifar_scratch.py {options.data.name}",
        "config": replace(config, data=options.data.name).to_json(),
        "tier": "cpu",
        "metrics": metrics | cnn,
        "seeds": [config.seed],
        "dataset": {
            "name": sources.dataset.name,
            "digest": sources.dataset.digest,
            "num_train": len(sources.train),
            "num_test": len(sources.test),
        },
        **results.machine(DEVICE),
        "date": datetime.now(UTC).date().isoformat(),
        "wall_seconds": round(2 * seconds, 1),
        "notes": f"the CNN had {epochs} epochs in the seconds of the ViT's 20",
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
