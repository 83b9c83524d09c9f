"""A small ViT, ResNet and hybrid, and how one of them is trained.

The hybrid is the ResNet with one block of a ViT in place of its last block. A
picture of 16 x 16 pixels costs all about as much (1.4 M multiply-adds).
`glyphs_by_number` and `shuffled_digits` measure with them.
"""

import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from kept import kept
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from vitedu import budget
from vitedu.model import SinCos2D, ViT, ViTConfig
from vitedu.plain import warmup_cosine

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "runs/glyphs"
BATCH = 64
RATES = (2e-3, 4e-3, 8e-3)


class Block(nn.Module):
    """Two convolutions of 3 x 3 beside a shortcut: (b, c, h, w) -> halved."""

    def __init__(self, c: int, d: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c, d, 3, 2, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(8, d)
        self.conv2 = nn.Conv2d(d, d, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(8, d)
        self.shortcut = nn.Conv2d(c, d, 1, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.shortcut(x) + self.norm2(self.conv2(y)))


def resnet(num_classes: int = 2) -> nn.Module:
    """A convolution of 3 x 3, and three blocks that halve the picture."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.GroupNorm(8, 16),
        nn.ReLU(),
        Block(16, 24),
        Block(24, 48),
        Block(48, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, num_classes),
    )


def vit(**fields: object) -> ViT:
    """A small ViT with the mean of its patches for a head."""
    known = {"image_size": 16, "patch_size": 4, "in_channels": 1}
    known |= {"num_classes": 2, "pool": "mean", "class_token": False}
    known |= {"embed_dim": 56, "depth": 3, "num_heads": 4, "mlp_dim": 112}
    return ViT(ViTConfig(**(known | {"position": SinCos2D()} | fields)))


class Stem(nn.Module):
    """The ResNet without its last block: (b, 1, 16, 16) -> (b, 16, 48)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = resnet()[:5]

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).flatten(2).mT


def hybrid() -> ViT:
    """One block of a ViT over the 16 places of the ResNet's map."""
    model = vit(embed_dim=48, depth=1, mlp_dim=96)
    model.patch_embed = Stem()
    return model


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "vit": vit,
    "resnet": resnet,
    "hybrid": hybrid,
}


def train(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    lr: float,
    steps: int,
    seed: int,
) -> None:
    """AdamW with warm-up and cosine, epoch after epoch."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    order = torch.empty(0, dtype=torch.int64)
    for step in range(steps):
        if len(order) < BATCH:
            more = torch.randperm(len(images), generator=generator)
            order = torch.cat([order, more])
        batch, order = order[:BATCH], order[BATCH:]
        for group in optimizer.param_groups:
            group["lr"] = warmup_cosine(step + 1, lr, steps + 1, steps // 10)
        loss = F.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def right(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Which answers are right: (n,) bool."""
    answers = [model(part).argmax(dim=1) for part in images.split(250)]
    return torch.cat(answers) == labels


def percent(right: Tensor) -> float:
    return round(100 * right.double().mean().item(), 2)


def learned(
    build: Callable[[], nn.Module],
    data: tuple[Tensor, Tensor],
    lr: float,
    steps: int,
    seed: int,
) -> tuple[nn.Module, float]:
    """A trained network, and the seconds that it took."""
    started = time.perf_counter()
    torch.manual_seed(seed)
    model = build().train()
    train(model, *data, lr, steps, seed)
    return model.eval(), round(time.perf_counter() - started, 1)


def climb(
    name: str, held_out: Callable[[float], dict], guess: float
) -> dict[float, float] | None:
    """What each rate reached; further ones while the last is the best.

    Not where nothing is learned, as then any rate may be the best.
    """
    reached: dict[float, float] = {}
    waiting = list(RATES)
    while waiting:
        lr = waiting.pop(0)
        found = kept(RUNS / f"rate-{name}-{lr:g}.json", partial(held_out, lr))
        if found is None:
            return None
        reached[lr] = found["value"]
        best = max(reached, key=reached.__getitem__)
        if not waiting and reached[best] > 1.1 * guess:
            if best == max(reached):
                waiting.append(2 * best)
            elif best == min(reached):
                waiting.append(best / 2)
    return reached


def macs(build: Callable[[], nn.Module], side: int) -> int:
    """Multiply-adds of convolutions and matrix products for an image."""
    model, rest = build(), 0
    if isinstance(model, ViT):
        rest = budget.macs(model.config)
        if not isinstance(model.patch_embed, Stem):
            return rest
        config = model.config  # less the patches that it doesn't have
        rest -= (
            config.num_patches
            * math.prod(config.patch_size)
            * (config.embed_dim)
        )
        model = model.patch_embed
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, 1, side, side))
    return rest + counter.get_total_flops() // 2


def metric(
    build: Callable[[], nn.Module],
    side: int,
    steps: int,
    runs: list[dict],
    rates: dict[float, float],
) -> dict:
    """One row of the table."""
    keys = ("train", "other", "equal", "even", "odd", "seconds")
    return {
        "value": statistics.mean(run["test"] for run in runs),
        "unit": "percent of the test images",
        "per_seed": [run["test"] for run in runs],
        **{
            f"{key}_per_seed": [run[key] for run in runs]
            for key in keys
            if key in runs[0]
        },
        "weights": sum(x.numel() for x in build().parameters()),
        "macs_per_image": macs(build, side),
        "steps": steps,
        "lr": max(rates, key=rates.__getitem__),
        "held_out_by_lr": {str(lr): value for lr, value in rates.items()},
    }
