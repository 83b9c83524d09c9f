"""How much of a sheet a ViT reads once digits have been everywhere.

    VITEDU_DATA=... python benchmarks/digits_anywhere.py

Chapter 14's small ViT and small ResNet learn digits of 14 x 14 pixels that are
put anywhere on sheets of 28 x 28, at a new random place each time: 250, 2,500
or 25,000 digits of MNIST, two million sheets of each kind. They are judged on
1,000 new digits at each of the 15 x 15 places, and on as many of those that
they learned from. A network has the best of growing rates by 1,000 other
digits, learning from 2,500. Trainings are on a GPU if there is one, and each is
kept in `runs/digits-anywhere`; several processes share the work.
`vitedu/results/digits-anywhere.json` has the rows whose three seeds are there,
with the mean map of each; with --rates what the rates reached, n = 1.

With --corner: does what a network has learned of nine digits at all places help
with the tenth? In each of three runs, 25,000 digits are put anywhere, but those
of one kind only at the 4 x 4 places in the upper left corner; then each kind is
read at each place.
`vitedu/results/digits-one-in-the-corner.json` has the three runs' mean.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from device_loop import updates
from kept import climb, kept_with_time, read
from recorded import result_fields
from torch import Tensor, nn

from vitedu import results
from vitedu.data import load_dataset
from vitedu.model.bottleneck import Bottleneck
from vitedu.model.convolution import StdConv2d
from vitedu.plain import ViT, warmup_cosine
from vitedu.train import find_device

TARGET = Path(results.__file__).parent / "digits-anywhere.json"
RUNS = Path(__file__).parents[1] / "runs/digits-anywhere"
DEVICE = find_device("auto")
SEEDS = (0, 1, 2)
SIZES = (250, 2_500, 25_000)
STEPS, BATCH = 4_000, 512
NUM_TEST, CHOOSING = 1_000, 2_500
RATES = (2e-3, 4e-3, 1e-3)
PLACES = 15  # in a row, and in a column
CORNER = 4  # places in a row that a digit of one kind is kept to
CORNERED = (2, 5, 8)  # which kind, in the three runs


def vit() -> nn.Module:
    """Two encoder blocks on 7 x 7 patches of 4 pixels."""
    return ViT(28, 4, 1, 10, embed_dim=64, depth=2, num_heads=4, mlp_dim=128)


def resnet() -> nn.Module:
    """A root and two blocks, the mean of all places, and a head."""
    return nn.Sequential(
        StdConv2d(1, 32, 3, 2),
        nn.GroupNorm(32, 32, eps=1e-6),
        nn.ReLU(),
        Bottleneck(32, 32, 2),
        Bottleneck(128, 32),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {"vit": vit, "resnet": resnet}


@cache
def digits() -> dict[str, tuple[Tensor, Tensor]]:
    """Digits (n, 14, 14) from 0 to 1 and labels: to learn, to choose, to test.

    The first are in a random order that is always the same.
    """
    found = load_dataset("mnist")
    order = torch.randperm(60_000, generator=torch.Generator().manual_seed(0))
    parts = {
        "learn": (found.train, order[: max(SIZES)]),
        "choose": (found.train, order[-NUM_TEST:]),
        "test": (found.test, torch.arange(NUM_TEST)),
    }
    small = {}
    for name, (split, rows) in parts.items():
        images = F.avg_pool2d(split.images[rows] / 255, 2)[:, 0]
        small[name] = images.to(DEVICE), split.labels[rows].to(DEVICE)
    return small


def at(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """(b, 14, 14) at places (b,) of empty sheets: (b, 1, 28, 28)."""
    sheets = torch.zeros(len(images), 28, 28, device=images.device)
    steps = torch.arange(14, device=images.device)
    each = torch.arange(len(images), device=images.device)[:, None, None]
    down = rows[:, None, None] + steps[:, None]
    right = columns[:, None, None] + steps
    sheets[each, down, right] = images
    return sheets[:, None]


def train(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    lr: float,
    seed: int,
    cornered: int | None = None,
) -> None:
    """AdamW with warm-up and cosine on sheets that are new at each step.

    Digits with the label `cornered` are only put near the upper left corner.
    """
    model.train()
    rate = torch.tensor(0.0, device=DEVICE)
    optimizer = torch.optim.AdamW(
        model.parameters(), rate, fused=True, capturable=rate.is_cuda
    )
    generator = torch.Generator().manual_seed(seed)
    size = STEPS, BATCH
    drawn = [
        torch.randint(most, size, generator=generator).to(DEVICE)
        for most in (len(images), PLACES, PLACES)
    ]
    now = [each[0].clone() for each in drawn]

    def gradients_and_step() -> None:
        which, rows, columns = now
        if cornered is not None:
            near = labels[which] == cornered
            rows, columns = (
                torch.where(near, x % CORNER, x) for x in (rows, columns)
            )
        logits = model(at(images[which], rows, columns))
        F.cross_entropy(logits, labels[which]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    update = updates(gradients_and_step, optimizer, DEVICE)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"].fill_(warmup_cosine(step, lr, STEPS, STEPS // 10))
        for place, values in zip(now, drawn, strict=True):
            place.copy_(values[step])
        update()


@torch.no_grad()
def reading(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """How many digits it reads at each place, in percent: (15, 15)."""
    shares = torch.zeros(PLACES, PLACES, device=DEVICE)
    for i, j in product(range(PLACES), repeat=2):
        rows, columns = (torch.full_like(labels, x) for x in (i, j))
        answers = model(at(images, rows, columns)).argmax(dim=1)
        shares[i, j] = 100 * (answers == labels).float().mean()
    return shares.cpu()


def trained(
    network: str,
    size: int,
    lr: float,
    seed: int,
    part: str = "test",
) -> dict[str, Any]:
    """The map of a network, and the mean of that of digits it learned from."""
    torch.manual_seed(seed)
    model = NETWORKS[network]().to(DEVICE)
    images, labels = (x[:size] for x in digits()["learn"])
    train(model, images, labels, lr, seed)
    model.eval()
    new = reading(model, *digits()[part])
    known = reading(model, images[:NUM_TEST], labels[:NUM_TEST])
    return {
        "test": new.mean().item(),
        "train": known.mean().item(),
        "map": [[round(x, 2) for x in row] for row in new.tolist()],
    }


def read_after_corner(network: str, lr: float, seed: int) -> dict[str, Any]:
    """Maps (15, 15) of the kind that was kept to the corner, and of others."""
    torch.manual_seed(seed)
    model = NETWORKS[network]().to(DEVICE)
    kind = CORNERED[seed]
    train(model, *digits()["learn"], lr, seed, kind)
    model.eval()
    maps = {}
    for part in ("test", "learn"):
        images, labels = (x[:NUM_TEST] for x in digits()[part])
        for name, rows in (
            ("kind", labels == kind),
            ("others", labels != kind),
        ):
            maps[f"{part} {name}"] = reading(model, images[rows], labels[rows])
    return {name: found.tolist() for name, found in maps.items()}


def elsewhere(shares: list[list[float]]) -> float:
    """The mean of a map (15, 15) outside of the corner."""
    outside = torch.ones(PLACES, PLACES, dtype=torch.bool)
    outside[:CORNER, :CORNER] = False
    return torch.tensor(shares)[outside].mean().item()


def record_corner() -> bool:
    """Measure and record what nobody else is at; whether all of it is there."""
    known = results.read("digits-anywhere")["metrics"]
    metrics, parts = {}, []
    for network in NETWORKS:
        lr = known[f"{network}-{max(SIZES)}"]["lr"]
        runs = [
            kept_with_time(
                RUNS / f"corner/{network}-{seed}.json",
                partial(read_after_corner, network, lr, seed),
                DEVICE,
            )
            for seed in SEEDS
        ]
        if None in runs:
            continue
        parts += runs
        found = [run["found"] for run in runs]
        kinds = torch.tensor([each["test kind"] for each in found])
        metrics[network] = {
            "value": statistics.mean(
                elsewhere(each["test kind"]) for each in found
            ),
            "unit": "percent of digits of a kind seen only in the corner, the "
            "mean of all other places",
            "per_seed": [elsewhere(each["test kind"]) for each in found],
            "corner": kinds[:, :CORNER, :CORNER].mean().item(),
            "others": statistics.mean(
                elsewhere(each["test others"]) for each in found
            ),
            "train": statistics.mean(
                elsewhere(each["learn kind"]) for each in found
            ),
            "train_others": statistics.mean(
                elsewhere(each["learn others"]) for each in found
            ),
            "map": [
                [round(x, 1) for x in row] for row in kinds.mean(0).tolist()
            ],
            "lr": lr,
        }
    if metrics:
        write(
            "digits-one-in-the-corner",
            "python benchmarks/digits_anywhere.py --corner",
            metrics,
            parts,
            parts,
            f"digits of one kind, {CORNERED} in the three runs, are put only "
            f"at {CORNER} x {CORNER} places; rates as in digits-anywhere",
        )
    return len(metrics) == len(NETWORKS)


def rates_of(network: str) -> dict[float, dict[str, Any]] | None:
    """What each rate reached; None: another process is at one of them."""

    def measure(lr: float) -> dict[str, Any] | None:
        return kept_with_time(
            RUNS / f"rate-{network}-{lr:g}.json",
            partial(trained, network, CHOOSING, lr, 0, "choose"),
            DEVICE,
        )

    return climb(measure, RATES, right_of)


def right_of(run: dict[str, Any]) -> float:
    """Percent of a trained network."""
    return run["found"]["test"]


def best_of(rates: dict[float, dict[str, Any]]) -> float:
    return max(rates, key=lambda lr: right_of(rates[lr]))


def work() -> bool:
    """Measure what nobody else is at; whether all of it is there."""
    metrics = {}
    for sizes in (SIZES[:2], SIZES[2:]):
        for network, size in product(NETWORKS, sizes):
            rates = rates_of(network)
            if rates is None:
                continue
            lr = best_of(rates)
            runs = [
                kept_with_time(
                    RUNS / f"{network}-{size}-{seed}.json",
                    partial(trained, network, size, lr, seed),
                    DEVICE,
                )
                for seed in SEEDS
            ]
            if None not in runs:
                metrics[f"{network}-{size}"] = metric(network, runs, rates)
                record(metrics, runs)
    return len(metrics) == len(NETWORKS) * len(SIZES)


def kept_rates(network: str) -> dict[float, dict[str, Any]]:
    """What is kept of a network's rates."""
    found = {}
    for path in RUNS.glob(f"rate-{network}-*.json"):
        found[float(path.stem.removeprefix(f"rate-{network}-"))] = read(path)
    return found


def metric(
    network: str,
    runs: list[dict[str, Any]],
    rates: dict[float, dict[str, Any]],
) -> dict[str, Any]:
    """One row of the table; of a single run without seeds."""
    found = [run["found"] for run in runs]
    maps = torch.tensor([each["map"] for each in found])
    row = {
        "value": statistics.mean(each["test"] for each in found),
        "unit": "percent of digits, the mean of all places",
        "train": statistics.mean(each["train"] for each in found),
        "map": [[round(x, 1) for x in row] for row in maps.mean(0).tolist()],
        "weights": sum(x.numel() for x in NETWORKS[network]().parameters()),
        "lr": best_of(rates),
        "held_out_by_lr": {
            f"{lr:g}": rates[lr]["found"]["test"] for lr in sorted(rates)
        },
    }
    if len(runs) > 1:
        row["per_seed"] = [each["test"] for each in found]
        row["train_per_seed"] = [each["train"] for each in found]
    return row


def record(metrics: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    """Write the rows that are there, and the time of all that is kept."""
    everything = [read(path) for path in RUNS.glob("*.json")]
    write(
        TARGET.stem,
        "python benchmarks/digits_anywhere.py",
        metrics,
        parts,
        everything,
        "maps are means of the seeds; rows without seeds are the best of the "
        "rates, seed 0, on digits held out",
    )


def write(
    name: str,
    command: str,
    metrics: dict[str, Any],
    parts: list[dict[str, Any]],
    everything: list[dict[str, Any]],
    notes: str,
) -> None:
    """A result, by the machine of its parts; it took the time of everything."""
    seconds = sum(each["seconds"] for each in everything)
    result = {
        **result_fields(name, command, seconds),
        **{x: parts[0][x] for x in ("hardware", "versions", "commit")},
        "config": {"steps": STEPS, "batch_size": BATCH, "warmup": 0.1},
        "metrics": metrics,
        "seeds": list(SEEDS) if "per_seed" in str(metrics) else [0],
        "dataset": {
            "name": "mnist",
            "digest": load_dataset("mnist").digest,
            "num_train": max(SIZES),
            "num_test": NUM_TEST,
        },
        "notes": notes,
    }
    if "NVIDIA" in result["hardware"]:
        result["tier"] = "gpu"
    results.write(TARGET.with_stem(name), result)


def record_rates() -> None:
    """In place of rows that aren't there, what the rates reached."""
    metrics, parts = {}, []
    for network in NETWORKS:
        rates = kept_rates(network)
        if rates:
            best = rates[best_of(rates)]
            metrics[f"{network}-{CHOOSING}"] = metric(network, [best], rates)
            parts.append(best)
    record(metrics, parts)


def main() -> None:
    """Measure and record until all rows are whole."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", action="store_true", help="only record them")
    parser.add_argument(
        "--corner", action="store_true", help="one kind is kept to a corner"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.rates:
        record_rates()
        return
    while not (record_corner() if options.corner else work()):
        time.sleep(2)


if __name__ == "__main__":
    main()
