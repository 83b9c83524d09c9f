"""ViTs, ResNets and hybrids of four sizes, and on growing data.

    python benchmarks/families.py            several at once share the work
    python benchmarks/families.py --record   what is there, nothing trained

First (`vitedu/results/families.json`): each family at 6 to 36 million
multiply-adds sees half a million of 100,000 drawn shapes of 64 pixels, moved
and flipped, with three seeds. The rate of seed 0 has the lowest loss on 4,000
others, from a grid that grows until the best is inside, and is the others'.

Then (`families-data.json`, the paper's Figure 4): two ViTs and two ResNets
learn from 1,000 to 100,000 shapes, with as many steps and the same rates. As in
the paper each run counts where its accuracy on the 4,000 was best. There its
features are frozen, and least squares learns six forms that it never saw from
five or ten pictures each.

Every piece leaves a file in `runs/families`, and what has one is not repeated.
Made for a GPU.
"""

import gc
import hashlib
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from device_loop import normalised, train
from family_networks import BUILD, FAMILIES, SIZES, macs
from kept import kept
from recorded import result_fields
from resnets_on_shapes import NETWORKS as OLD_NETWORKS
from torch import Tensor, nn

from vitedu import results
from vitedu.data.readers.shapes import FORMS, class_names, make_arrays
from vitedu.evaluate import fewshot_accuracy
from vitedu.evaluate.features import Features
from vitedu.evaluate.fewshot import sample_shots
from vitedu.model import new_network

ROOT = Path(__file__).parents[1]
RESULTS, RUNS = ROOT / "vitedu/results", ROOT / "runs/families"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SEEDS = (0, 1, 2)
STEPS, BATCH = 2_000, 256
RATES, LIMITS = (2e-3, 4e-3, 8e-3), (2.5e-4, 6.4e-2)
GROWING = ("vit-6", "resnet-6", "vit-20", "resnet-20")
DATA = {"1k": 1_000, "3k": 3_000, "10k": 10_000, "30k": 30_000}
SHOTS, DRAWS = (5, 10), 5
# of each part: seed, first image, how many, classes; drawn by thousands
PARTS = {
    "train": (0, 0, 100_000, 10),
    "held": (0, 100_000, 4_000, 10),
    "test": (1, 0, 10_000, 10),
    "forms": (2, 0, 8_000, 16),
}
TABLE_RECORD = "families"
CHUNK, FOR_SHOTS = 4_000, 600
COMPUTED: list[str] = []  # by this process


def item(name: str, compute: Callable[[], dict]) -> dict | None:
    """What the file of this name has; None: another process is at it."""
    path = RUNS / f"{name}.json"
    if not path.exists():
        if "--record" in sys.argv:
            return None
        COMPUTED.append(name)
    return kept(path, compute)


def draw(part: str, first: int) -> dict:
    """A few thousand pictures, as a file beside the others."""
    seed, start, count, classes = PARTS[part]
    started = time.perf_counter()
    count = min(CHUNK, count - first)
    images, labels = make_arrays(count, 64, classes, seed, start=start + first)
    np.save(RUNS / f"{part}-{first}.npy", images)
    np.save(RUNS / f"{part}-{first}-labels.npy", labels)
    digest = hashlib.sha256(images.tobytes()).hexdigest()[:16]
    seconds = round(time.perf_counter() - started, 1)
    return {"seconds": seconds, "digest": digest}


@cache
def pictures(part: str) -> tuple[Tensor, Tensor]:
    """All of a part, on the device: uint8 (n, 3, 64, 64), int64 (n,)."""
    chunks = range(0, PARTS[part][2], CHUNK)
    while None in [
        item(f"{part}-{first}", partial(draw, part, first)) for first in chunks
    ]:
        time.sleep(0.5)
    images, labels = (
        torch.cat(
            [
                torch.from_numpy(np.load(RUNS / f"{part}-{k}{end}.npy"))
                for k in chunks
            ]
        ).to(DEVICE)
        for end in ("", "-labels")
    )
    return images, labels


def score(model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, float]:
    """Mean cross-entropy, and percent right."""
    with torch.no_grad():
        parts = [model(normalised(x)) for x in images.split(1000)]
    logits = torch.cat(parts)
    right = (logits.argmax(dim=1) == labels).double().mean().item()
    # a diverged run loses against all others, and JSON has no infinity
    loss = F.cross_entropy(logits, labels).nan_to_num(99.0, 99.0).item()
    return {"loss": round(loss, 5), "right": round(100 * right, 2)}


@torch.no_grad()
def few_shots(model: nn.Module) -> dict[str, float]:
    """Accuracy on six unseen forms from a few of each; the mean of draws."""
    images, labels = pictures("forms")
    new = torch.tensor([name in FORMS[10:] for name in class_names(16)])
    new = new.to(DEVICE)
    chosen = new[labels]
    labels = (new.cumsum(0) - 1)[labels[chosen]].cpu()
    x = [
        model.forward_head(model.forward_features(normalised(part)), True)
        for part in images[chosen].split(1000)
    ]
    both = Features(torch.cat(x).cpu(), labels)
    is_pool = torch.arange(len(labels)) < FOR_SHOTS
    few, unseen = both.take(is_pool), both.take(~is_pool)
    found = {}
    for k in SHOTS:
        drawn = [few.take(sample_shots(few.labels, k, i)) for i in range(DRAWS)]
        right = [fewshot_accuracy(model, each, unseen) for each in drawn]
        found[f"shots_{k}"] = round(statistics.mean(right), 2)
    return found


def started(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A new network, after the memory of the one before it is given back."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.manual_seed(seed)
    return build().to(DEVICE)


def learn(
    build: Callable[[], nn.Module],
    count: int,
    lr: float,
    seed: int,
    steps: int = STEPS,
    batch: int = BATCH,
) -> dict[str, Any]:
    """One run: at its end, and where held-out accuracy was best."""
    images, labels = (each[:count] for each in pictures("train"))
    held, test = pictures("held"), pictures("test")
    model = started(build, seed)
    curve: list[dict[str, float]] = []
    best: dict[str, Tensor] = {}

    def watch(step: int) -> None:
        found = score(model, *held)
        if not curve or found["right"] > max(each["right"] for each in curve):
            for name, tensor in model.state_dict().items():
                best[name] = tensor.clone()
        curve.append({"step": step} | found)

    def judged() -> dict[str, Any]:
        train = score(model, images[:1000], labels[:1000])
        return {"test": score(model, *test), "train": train}

    begun = time.perf_counter()
    settings = {"lr": lr, "steps": steps, "seed": seed, "batch": batch}
    train(model, images, labels, **settings, watch=watch)
    seconds = round(time.perf_counter() - begun, 1)
    end = judged()
    model.load_state_dict(best)
    found = {"end": end, "best": judged() | few_shots(model)}
    return found | {"seconds": seconds, "curve": curve}


def untrained(network: str, seed: int) -> dict[str, float]:
    """What few shots give without any learning before."""
    return few_shots(started(BUILD[network], seed))


def climb(network: str) -> dict[float, dict] | None:
    """A run of seed 0 by each rate; further ones while the last is best."""
    runs: dict[float, dict | None] = {}
    waiting = set(RATES)
    while waiting:
        for lr in sorted(waiting):
            start = partial(learn, BUILD[network], PARTS["train"][2], lr, 0)
            runs[lr] = item(f"{network}-100k-0-{lr:g}", start)
        if None in runs.values():
            return None
        best = best_of(runs)
        waiting = {best / 2, 2 * best} - {*runs}
        waiting = {lr for lr in waiting if LIMITS[0] <= lr <= LIMITS[1]}
    return runs


def best_of(runs: dict[float, dict]) -> float:
    """The rate with the lowest held-out loss at the end."""
    return min(runs, key=lambda lr: runs[lr]["curve"][-1]["loss"])


class Row(NamedTuple):
    """Three runs of a network on so many images."""

    network: str
    images: str = "100k"

    @property
    def name(self) -> str:
        """As its files and its metric are called: "vit-11-3k"."""
        return f"{self.network}-{self.images}"


# the same as in `resnets-on-shapes`, whose loop is the package's
CHECKS = [Row("check-vit", "10k"), Row("check-resnet", "10k")]
TABLE = [Row(f"{family}-{size}") for size in SIZES for family in FAMILIES]
UNTRAINED = [Row(network, "untrained") for network in GROWING]
CURVES = [Row(network, n) for network in GROWING for n in DATA]
# in order of worth
ORDER = [*TABLE[:6], *CHECKS, *UNTRAINED, *TABLE[6:], *CURVES]


def runs_of(row: Row) -> tuple[list[dict], dict[float, dict]] | None:
    """Its runs, and that of each rate; None: some are still missing."""
    rates: dict[float, dict] | None = {}
    first, more = [], ()
    if row in CHECKS:
        known = known_check(row)
        config = OLD_NETWORKS[row.network.removeprefix("check-")]
        build, more = partial(new_network, config), (known["steps"], 64)
        start = partial(learn, build, 10_000, known["lr"])
    elif row.images == "untrained":
        start = partial(untrained, row.network)
    elif (rates := climb(row.network)) is None:
        return None
    else:
        lr, count = best_of(rates), DATA.get(row.images)
        if count is None:
            first, count = [rates[lr]], PARTS["train"][2]
        start = partial(learn, BUILD[row.network], count, lr)
    seeds = SEEDS[len(first) :]
    runs = [
        item(f"{row.name}-{each}", partial(start, each, *more))
        for each in seeds
    ]
    return None if None in runs else (first + runs, rates)


def known_check(row: Row) -> dict[str, Any]:
    """What the package's loop has reached with as many images."""
    name = row.name.removeprefix("check-")
    return results.read("resnets-on-shapes")["metrics"][name]


def metric(
    row: Row, when: str, runs: list[dict], rates: dict[float, dict]
) -> dict[str, Any]:
    """A row of a record, of the runs' "end" or "best"; in percent."""
    found: dict[str, Any] = {}
    if row.images == "untrained":
        unit = "percent of unseen forms, 10 shots"
        values = [run["shots_10"] for run in runs]
    else:
        unit = "percent of 10,000 test images"
        at = [run[when] for run in runs]
        values = [each["test"]["right"] for each in at]
        found = {
            "train_per_seed": [each["train"]["right"] for each in at],
            "loss_per_seed": [each["test"]["loss"] for each in at],
            "end_per_seed": [run["end"]["test"]["right"] for run in runs],
            "best_per_seed": [run["best"]["test"]["right"] for run in runs],
            "best_step_per_seed": [
                max(run["curve"], key=lambda each: each["right"])["step"]
                for run in runs
            ],
            "seconds_per_seed": [run["seconds"] for run in runs],
            # 20 times a run
            "held_out_loss_per_seed": [
                [each["loss"] for each in run["curve"]] for run in runs
            ],
        }
    for key in (f"shots_{k}" for k in SHOTS):
        found[f"{key}_per_seed"] = [run.get("best", run)[key] for run in runs]
    if row in CHECKS:
        found["package_per_seed"] = known_check(row)["per_seed"]
    else:
        parts = BUILD[row.network]().parameters()
        found["weights"] = sum(each.numel() for each in parts)
        found["macs_per_image"] = macs(row.network)
    if rates:
        found["lr"] = best_of(rates)
        found["held_out_loss_by_lr"] = {
            f"{lr:g}": rates[lr]["curve"][-1]["loss"] for lr in sorted(rates)
        }
    start = {"value": statistics.mean(values), "unit": unit}
    return start | {"per_seed": values} | found


def write_record(
    name: str, claim: str, when: str, rows: list[Row], whole: dict[Row, tuple]
) -> None:
    """The rows that are whole, as measured on the machine of the first run."""
    machine = item("machine", lambda: results.machine(DEVICE))
    first = item("train-0", partial(draw, "train", 0))
    metrics = {
        row.name: metric(row, when, *whole[row]) for row in rows if row in whole
    }
    if machine is None or first is None or not metrics:
        return
    seconds = [sum(m.get("seconds_per_seed", ())) for m in metrics.values()]
    judge, what = (
        ("per_seed", "new shapes, without transfer")
        if name == TABLE_RECORD
        else ("shots_10_per_seed", "six unseen forms, ten of each")
    )
    told = []
    for row in rows:
        if row in whole and row not in [*CHECKS, *UNTRAINED]:
            mean = statistics.mean(metrics[row.name][judge])
            told.append(f"{row.name.removesuffix('-100k')} {mean:.1f}")
    result = {
        **result_fields(name, "python benchmarks/families.py", sum(seconds)),
        **machine,
        "tier": "cpu" if "thread" in machine["hardware"] else "gpu",
        "config": {
            "steps": STEPS,
            "batch_size": BATCH,
            "weight_decay": 0.05,
            "warmup": 0.1,
            "max_grad_norm": 1.0,
        },
        "metrics": metrics,
        "seeds": list(SEEDS),
        "dataset": {
            "name": "shapes-100k",
            "digest": first["digest"],
            "num_train": PARTS["train"][2],
            "num_test": PARTS["test"][2],
        },
        "reproduces": {
            "row": claim,
            "scale": "small",
            "ours": f"percent of {what}: {', '.join(told)}",
            "paper": None,
            "n": len(SEEDS),
        },
        "notes": "train is of the first 1,000 images, unmoved; the digest is "
        "that of the first 4,000; seconds are of runs that shared the machine",
    }
    results.write(RESULTS / f"{name}.json", result)


def write_records(whole: dict[Row, tuple]) -> None:
    """Both, the second once there is a run on fewer images."""
    table = [*TABLE, *CHECKS, *UNTRAINED]
    write_record(TABLE_RECORD, "table-6", "end", table, whole)
    if any(row in whole for row in CURVES):
        curves = [*CURVES, *(Row(network) for network in GROWING)]
        write_record("families-data", "figure-4", "best", curves, whole)


def main() -> None:
    """What is most worth first; the records whenever a row is whole."""
    torch.set_float32_matmul_precision("high")  # TF32
    whole: dict[Row, tuple] = {}
    while len(whole) < len(ORDER):
        before = len(COMPUTED)
        for row in ORDER:
            if row not in whole and (found := runs_of(row)) is not None:
                whole[row] = found
                write_records(whole)
            if len(COMPUTED) > before:
                break
        else:
            if "--record" in sys.argv:
                break
            time.sleep(1)


if __name__ == "__main__":
    main()
