"""Chapter 5's ladder with twenty seeds: which of its changes bring something?

    VITEDU_DATA=FOLDER python benchmarks/mnist_ladder.py

The chapter's own network, images and six rungs (7,850 weights, two epochs of
50,000 digits, judged on the 10,000 held out), a row of twenty seeds each; the
page itself has time for three. Half an hour on one thread.
"""

import time
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from recorded import result_fields
from torch import Tensor, nn

from vitedu import results
from vitedu.data import load_dataset
from vitedu.plain import ViT, accuracy, train

TARGET = Path(__file__).parents[1] / "vitedu/results/mnist-ladder.json"
SEEDS = range(20)
EPOCHS = 2


def tutorial(
    model: nn.Module, images: Tensor, labels: Tensor, epochs: int, lr: float
) -> None:
    """Adam at a constant rate."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


class Shift(nn.Module):
    """Moves each image of (b, c, h, w) by up to a pixel along each axis."""

    def forward(self, images: Tensor) -> Tensor:
        steps = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        moved = torch.stack([images.roll(step, (2, 3)) for step in steps])
        chosen = torch.randint(9, (len(images),))
        return moved[chosen, torch.arange(len(images))]


def centre(pixels: Tensor) -> Tensor:
    """From 0..1 to -1..1."""
    return 2 * pixels - 1


as_is, fall = nn.Identity(), partial(train, warmup=0.0)
RUNGS = {
    "0.001, constant": (0.001, tutorial, as_is, as_is),
    "0.01, constant": (0.01, tutorial, as_is, as_is),
    "+ cosine": (0.01, fall, as_is, as_is),
    "+ warm-up": (0.01, train, as_is, as_is),
    "+ pixels around 0": (0.01, train, centre, as_is),
    "+ shifts": (0.01, train, centre, Shift()),
}


def main() -> None:
    """Run all, and write them."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    began = time.perf_counter()
    data = load_dataset("mnist")
    images, labels = data.train.images / 255, data.train.labels
    order = torch.randperm(len(images))
    held_out, learn = order.tensor_split([len(order) // 6])
    mistakes: dict[str, list[float]] = {name: [] for name in RUNGS}
    for seed in SEEDS:
        for name, (lr, loop, scale, shift) in RUNGS.items():
            torch.manual_seed(seed)
            model = ViT(
                28, 7, 1, 10, embed_dim=16, depth=2, num_heads=2, mlp_dim=64
            )
            runner = nn.Sequential(shift, model)
            loop(runner, scale(images[learn]), labels[learn], EPOCHS, lr)
            right = accuracy(model, scale(images[held_out]), labels[held_out])
            mistakes[name].append(round(100 - 100 * right, 2))
        last = ", ".join(f"{each[-1]:.2f}" for each in mistakes.values())
        print(f"seed {seed}: {last}", flush=True)
    command = "python benchmarks/mnist_ladder.py"
    result = {
        **result_fields(TARGET.stem, command, time.perf_counter() - began),
        "config": {"model": "chapter 5", "epochs": EPOCHS, "batch_size": 64},
        "metrics": {
            name: {
                "value": sum(values) / len(values),
                "unit": "percent of the held-out digits misread",
                "per_seed": values,
            }
            for name, values in mistakes.items()
        },
        "seeds": list(SEEDS),
        "dataset": {
            "name": "mnist",
            "digest": data.digest,
            "num_train": len(learn),
            "num_test": len(held_out),
        },
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
