"""A ViT, a small ResNet and a hybrid on two glyphs: which, or the same?

    python benchmarks/bias_on_glyphs.py

The hybrid is the ResNet with one block of a ViT in place of its last block.
Each learns from 1,000 or 10,000 pictures of 16 x 16 pixels, with glyphs on the
grid of its patches or anywhere, in 300 or 1,200 steps, and is judged on 2,000
others. An image costs all about as much (1.4 M multiply-adds). For each
question a network has the best of growing rates on 1,000 of 3,000 training
images, held out, after 300 steps. Each training leaves a file in `runs/glyphs`;
what has one is not repeated, and several of these may run at once.
`vitedu/results/bias-on-glyphs.json` has the rows whose seeds are all there, and
`bias-hybrid.json` those of the hybrid, with three seeds and not five; take one
out to have it measured anew.
"""

import hashlib
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from recorded import result_fields
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from vitedu import budget, results
from vitedu.data import glyphs
from vitedu.model import SinCos2D, ViT, ViTConfig
from vitedu.plain import warmup_cosine

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "vitedu/results/bias-on-glyphs.json"
HYBRID = TARGET.with_stem("bias-hybrid")
RUNS = ROOT / "runs/glyphs"
SEEDS = (0, 1, 2, 3, 4)
STEPS, BATCH = 300, 64
SIZES = {"1k": 1_000, "10k": 10_000}
RATES = (2e-3, 4e-3, 8e-3)
NUM_TEST = 2_000
DRAW = {"same": glyphs.same_or_different, "which": glyphs.which}


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


class Row(NamedTuple):
    """One line of the table: three trainings."""

    network: str
    task: str
    size: str
    steps: int = STEPS

    @property
    def name(self) -> str:
        """As its metric is called: "vit-same-off-10k-1200-steps"."""
        name = f"{self.network}-{self.task}-{self.size}"
        return name if self.steps == STEPS else f"{name}-{self.steps}-steps"

    def pictures(
        self, count: int, seed: int, alphabet: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Values around 0, and labels."""
        question, *off = self.task.split("-")
        drawn = DRAW[question](
            count, on_grid=not off, seed=seed, alphabet=alphabet
        )
        return (drawn.images - 128.0) / 64, drawn.labels


BOTH = ("vit", "resnet")
OFF, LONG = ("which-off", "same-off"), 4 * STEPS
ROWS = [
    *(Row(n, t, "10k", LONG) for t in OFF for n in BOTH),
    *(Row(n, t, "10k") for t in ("which", "same", *OFF) for n in BOTH),
    *(Row(n, "same", "1k") for n in BOTH),
    *(Row("hybrid", t, "10k", LONG) for t in reversed(OFF)),
    *(Row("hybrid", t, "10k") for t in (*OFF, "same", "which")),
]


def kept(
    name: str, compute: Callable[[], dict], folder: Path = RUNS
) -> dict | None:
    """What the file of this name has; None: another process is at it."""
    path = folder / f"{name}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if any(alive(each) for each in folder.glob(f"{name}.[0-9]*")):
            return None
        claim = path.with_suffix(f".{os.getpid()}")
        claim.touch()
        claim.write_text(json.dumps(compute()))
        claim.rename(path)
        print(name, path.read_text()[:500], flush=True)
    return json.loads(path.read_text())


def alive(claim: Path) -> bool:
    try:
        os.kill(int(claim.suffix[1:]), 0)
    except ProcessLookupError:
        claim.unlink(missing_ok=True)
        return False
    return True


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


def held_out(row: Row, lr: float) -> dict:
    """Accuracy on a third of 3,000 images, by which a rate is chosen."""
    images, labels = row.pictures(3_000, 0)
    data = images[:2_000], labels[:2_000]
    model, seconds = learned(NETWORKS[row.network], data, lr, STEPS, 0)
    value = percent(right(model, images[2_000:], labels[2_000:]))
    return {"value": value, "seconds": seconds}


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
        found = kept(f"rate-{name}-{lr:g}", partial(held_out, lr))
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


def train_row(row: Row, lr: float, seed: int) -> dict:
    """One training: new pictures, those it learned from, other glyphs."""
    data = row.pictures(SIZES[row.size], 0)
    model, seconds = learned(NETWORKS[row.network], data, lr, row.steps, seed)
    images, labels = row.pictures(NUM_TEST, 1)
    tested = right(model, images, labels)
    reached = {
        "test": percent(tested),
        "train": percent(right(model, data[0][:1000], data[1][:1000])),
        "seconds": seconds,
    }
    if row.task.startswith("same"):
        other = row.pictures(NUM_TEST, 1, alphabet=1)
        # two equal glyphs have an even number of bright pixels together
        even = (images > 0.5).sum(dim=(1, 2, 3)) % 2 == 0
        reached |= {
            "other": percent(right(model, *other)),
            "equal": percent(tested[labels == 1]),
            "even": percent(tested[(labels == 0) & even]),
            "odd": percent(tested[~even]),
        }
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


def seeds_of(row: Row) -> tuple[int, ...]:
    """All of them; three of the hybrid."""
    return SEEDS[:3] if row.network == "hybrid" else SEEDS


def target_of(row: Row) -> Path:
    """The record that has this row."""
    return HYBRID if row.network == "hybrid" else TARGET


def write_result(
    target: Path, seeds: tuple[int, ...], metrics: dict[str, dict]
) -> None:
    """Write the rows that are whole, in their order."""
    seconds = [sum(each["seconds_per_seed"]) for each in metrics.values()]
    images = Row("vit", "same", "10k").pictures(SIZES["10k"], 0)[0]
    digest = hashlib.sha256(images.numpy().tobytes()).hexdigest()[:16]
    result = {
        **result_fields(
            target.stem, "python benchmarks/bias_on_glyphs.py", sum(seconds)
        ),
        "config": {"batch_size": BATCH, "weight_decay": 0.05, "warmup": 0.1},
        "metrics": metrics,
        "seeds": list(seeds),
        "dataset": {
            "name": "glyphs",
            "digest": digest,
            "num_train": SIZES["10k"],
            "num_test": NUM_TEST,
        },
        "notes": "the digest is that of glyphs-same-10k; train is of the first "
        "1,000 pictures; other is an alphabet that it never saw; odd and even "
        "are different pairs by their number of bright pixels",
    }
    results.write(target, result)


def main() -> None:
    """Choose the rates, train what is not there yet, record."""
    known = {
        target: results.read(target.stem)["metrics"] if target.exists() else {}
        for target in (TARGET, HYBRID)
    }
    for row in ROWS:
        metrics = known[target_of(row)]
        if row.name in metrics:
            continue
        rates = climb(f"{row.network}-{row.task}", partial(held_out, row), 50)
        if rates is None:
            continue
        lr = max(rates, key=rates.__getitem__)
        seeds = seeds_of(row)
        runs = [
            kept(f"{row.name}-{seed}", partial(train_row, row, lr, seed))
            for seed in seeds
        ]
        if None not in runs:
            build = NETWORKS[row.network]
            metrics[row.name] = metric(build, 16, row.steps, runs, rates)
            write_result(target_of(row), seeds, metrics)


if __name__ == "__main__":
    main()
