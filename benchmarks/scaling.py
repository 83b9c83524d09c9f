"""What the paper's own numbers say: Table 6, Figures 2, 3 and 5; and ours.

    python benchmarks/scaling.py

Nothing is trained. Costs of Table 6 are counted again by `vitedu.budget`, with
and without what convolutions multiply by the zeros around a picture. Power laws
are fitted to each family, with intervals from draws of its models. In our own
runs (`families.json`) the compute for equal losses is compared, and the ViTs'
losses are fitted. VTAB's groups are averaged from Table 9, and Figure 3 drawn
from Table 5. Writes `scaling-costs.json`, `scaling.json`, `scaling-ours.json`,
`scaling-groups.json` and `scaling-sizes.json` into `vitedu/results`.
"""

import hashlib
import math
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from recorded import result_fields
from torch import Tensor, nn

from vitedu import results
from vitedu.budget import macs
from vitedu.budget.meta import on_meta
from vitedu.evaluate.scaling import (
    TABLE_6,
    PowerLaw,
    advantage,
    bootstrap,
    interval,
    power_law,
)
from vitedu.evaluate.vtab import VTAB, VtabResult
from vitedu.figures.chapters.bias import PRETRAINED
from vitedu.model import new_network
from vitedu.model.network import NetworkConfig

RESULTS = Path(__file__).parents[1] / "vitedu/results"
SETS = ("mean", "imagenet", "cifar10", "cifar100", "pets", "flowers")
FAMILIES = {"vit": "ViTs", "resnet": "ResNets", "hybrid": "hybrids"}
OUR_SIZES = (6, 11, 20, 36)  # million multiply-adds
OUR_PAIRS = [
    (f"vit-{size}", f"{family}-{size}")
    for size in OUR_SIZES
    for family in ("resnet", "hybrid")
]
STEEPER = "ResNets fall faster by"  # an exponent
BUDGETS = (55, 200, 800, 1200)  # exaFLOPs of a ViT, inside of all fits
# ImageNet after pretraining on ImageNet, ImageNet-21k and JFT-300M, in percent
TABLE_5 = {
    "B/16": (77.91, 83.97, 84.15),
    "B/32": (73.38, 81.28, 80.73),
    "L/16": (76.53, 85.15, 87.12),
    "L/32": (71.16, 80.99, 84.37),
}
TABLE_9 = {  # percent, in the order of VTAB
    "H/14": "95.3 85.5 75.2 99.7 97.2 65.0 88.9 83.3 96.7 91.4 76.6 91.7 63.8 "
    "53.1 79.4 63.3 84.5 33.2 51.2",
    "L/16": "95.4 81.9 74.3 99.7 96.7 63.5 87.4 83.6 96.5 89.7 77.1 86.4 63.1 "
    "49.7 74.5 60.5 82.2 36.2 51.1",
    "L/16 from ImageNet-21k": "90.8 84.1 74.1 99.3 92.7 61.0 80.9 82.5 95.6 "
    "85.2 75.3 70.3 56.1 41.9 74.7 64.9 79.9 30.5 41.7",
}


def products_with_padding(config: NetworkConfig) -> int:
    """Multiply-adds of convolutions that meet a zero outside of their map."""
    model, images = on_meta(new_network, config)
    zeros = 0

    def count(layer: nn.Module, inputs: tuple[Tensor], _: Tensor) -> None:
        nonlocal zeros
        kernel, stride = layer.kernel_size[0], layer.stride[0]
        size = inputs[0].shape[-1]
        places = math.ceil(size / stride)
        # as TensorFlow's SAME divides it, the smaller half in front
        first = max((places - 1) * stride + kernel - size, 0) // 2
        starts = [place * stride - first for place in range(places)]
        inside = sum(
            0 <= start + i < size for start in starts for i in range(kernel)
        )
        each = layer.in_channels * layer.out_channels
        zeros += each * ((places * kernel) ** 2 - inside**2)

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d) and layer.kernel_size != layer.stride:
            layer.register_forward_hook(count)
    with torch.no_grad():
        model(images)
    return zeros


def costs() -> tuple[dict[str, Any], str]:
    """The cost of each row, and in words how many agree."""
    metrics, near = {}, 0
    for row in TABLE_6:
        config = row.config
        padding = 0 if row.family == "vit" else products_with_padding(config)
        inside = row.recounted * (1 - padding / macs(config))
        near += abs(inside / row.exaflops - 1) <= 0.02
        metrics[f"{row.model}, {row.epochs} epochs"] = {
            "value": row.recounted,
            "unit": "exaFLOPs",
            "inside": inside,  # without products with padding
            "printed": row.exaflops,
        }
    return metrics, f"{near} of {len(TABLE_6)} costs within 2%"


def meeting(one: PowerLaw, other: PowerLaw) -> Tensor:
    """The cost at which both laws give the same error."""
    steeper = one.exponent - other.exponent
    return (other.factor / one.factor) ** (1 / steeper)


def add_interval(
    metrics: dict[str, Any], name: str, unit: str, value: Tensor, drawn: Tensor
) -> str:
    """Put a number into the record, with its interval; the two in words."""
    low, high = interval(drawn)
    known = {"value": value.item(), "low": low, "high": high}
    metrics[name] = {"unit": unit} | known
    digits = 1 if abs(value) > 1 else 2
    ends = f"{low:.{digits}f} to {high:.{digits}f}"
    return f"{value.item():.{digits}f} ({ends})"


def steeper(*laws: dict[str, PowerLaw]) -> tuple[Tensor, ...]:
    """By how much ResNets fall faster than ViTs, in each."""
    return tuple(law["vit"].exponent - law["resnet"].exponent for law in laws)


def our_curves(network: str) -> tuple[Tensor, Tensor]:
    """Compute in teraFLOPs (n,), and held-out losses of our runs (seeds, n)."""
    record = results.read("families")
    row = record["metrics"][f"{network}-100k"]
    losses = torch.tensor(row["held_out_loss_per_seed"])
    done = torch.arange(1, losses.shape[1] + 1) / losses.shape[1]
    images = record["config"]["steps"] * record["config"]["batch_size"]
    return done * images * 6 * row["macs_per_image"] / 1e12, losses


def our_ratios() -> tuple[dict[str, Any], str]:
    """How many times their compute a ViT's whole run took, at its loss.

    At least, since their runs were meant to go on: their rates were still high.
    """
    metrics: dict[str, Any] = {}
    for ours, theirs in OUR_PAIRS:
        cost, losses = our_curves(ours)
        other_cost, other_losses = our_curves(theirs)
        found = [
            (cost[-1] / other_cost[(other <= loss).nonzero()[0, 0]]).item()
            for loss in losses[:, -1]
            for other in other_losses
        ]
        metrics[f"{ours} over {theirs}"] = {
            "value": statistics.mean(found),
            "unit": "times the compute, for the same loss, at least",
            "low": min(found),
            "high": max(found),
        }
    said = [
        f"{each['value']:.1f} ({each['low']:.1f} to {each['high']:.1f}) times, "
        f"{name}"
        for name, each in metrics.items()
    ]
    said = f"the other way round on shapes: {', '.join(said)}"
    return metrics, f"{said}; {our_exponents(metrics)}"


def our_exponents(metrics: dict[str, Any]) -> str:
    """The law of the ViTs' final losses over four sizes; the test's in words.

    Each run counts as a model: three of a size, of equal cost.
    """
    rows = results.read("families")["metrics"]
    ends = [(*our_curves(f"vit-{n}"), rows[f"vit-{n}-100k"]) for n in OUR_SIZES]
    costs = torch.cat([cost[-1].expand(len(each)) for cost, each, _ in ends])
    parts = {
        "held-out": torch.cat([losses[:, -1] for _, losses, _ in ends]),
        "test": torch.tensor([row["loss_per_seed"] for *_, row in ends]),
    }
    said = {}
    for part, losses in parts.items():
        losses = losses.flatten()
        said[part] = add_interval(
            metrics,
            f"vit: exponent of the {part} loss over size",
            "of the compute",
            power_law(costs, losses).exponent,
            bootstrap(costs, losses).exponent,
        )
    return f"exponent of the ViTs' test loss over four sizes {said['test']}"


def fits() -> tuple[dict[str, Any], str]:
    """Exponents, advantages and meetings of each set; the mean's in words."""
    metrics: dict[str, Any] = {}
    note = partial(add_interval, metrics)
    said = {}
    for name in SETS:
        fit, drawn = {}, {}
        for seed, (family, plural) in enumerate(FAMILIES.items()):
            rows = [row for row in TABLE_6 if row.family == family]
            cost = torch.tensor([row.exaflops for row in rows])
            errors = torch.tensor([100 - getattr(row, name) for row in rows])
            fit[family] = power_law(cost, errors)
            drawn[family] = bootstrap(cost, errors, seed=seed)
            both = fit[family].exponent, drawn[family].exponent
            note(f"{name}: exponent of {plural}", "of the cost", *both)
        note(f"{name}: {STEEPER}", "of the cost", *steeper(fit, drawn))
        for budget in BUDGETS:
            said[name, budget] = note(
                f"{name}: ResNets over ViTs at {budget} exaFLOPs",
                "times the cost",
                advantage(fit["vit"], fit["resnet"], budget),
                advantage(drawn["vit"], drawn["resnet"], budget),
            )
        note(
            f"{name}: ViTs and hybrids meet",
            "exaFLOPs",
            meeting(fit["vit"], fit["hybrid"]),
            meeting(drawn["vit"], drawn["hybrid"]),
        )
    small, large = (said["mean", budget] for budget in (200, 1200))
    return metrics, f"{small} times at 200 exaFLOPs, {large} at 1,200"


def groups() -> tuple[dict[str, Any], str]:
    """The means of VTAB's groups for each model; H/14's in words."""
    metrics, said = {}, []
    for model, printed in TABLE_9.items():
        names = (task.name for task in VTAB)
        values = map(float, printed.split())
        means = VtabResult(
            dict(zip(names, values, strict=True)), {}
        ).group_means
        for group, value in means.items():
            metrics[f"{model}, {group}"] = {"value": value, "unit": "percent"}
            if model == "H/14":
                said.append(f"{group} {value:.1f}")
    return metrics, f"H/14: {', '.join(said)}"


def sizes() -> tuple[dict[str, Any], str]:
    """ImageNet after each pretraining set; what L/16 adds to B/16 in words."""
    metrics = {
        f"{model}, {name}": {"value": value, "unit": "percent"}
        for model, row in TABLE_5.items()
        for name, value in zip(PRETRAINED, row, strict=True)
    }
    added = [
        f"{large - small:+.1f}"
        for small, large in zip(TABLE_5["B/16"], TABLE_5["L/16"], strict=True)
    ]
    return metrics, f"L/16 over B/16: {', '.join(added)} points"


def main() -> None:
    """Compute and write all three records."""
    numbers = repr((TABLE_5, TABLE_6, TABLE_9)).encode()
    printed = {
        "name": "the paper's Tables 5, 6 and 9",
        "digest": hashlib.sha256(numbers).hexdigest(),
        "num_train": 0,
        "num_test": 0,
    }
    records = {
        "scaling-ours": (our_ratios, "figure-5", None, 3),
        "scaling-costs": (costs, "table-6", None, len(TABLE_6)),
        "scaling": (fits, "figure-5", "2 to 4 times", len(TABLE_6)),
        "scaling-groups": (groups, "figure-2", None, len(VTAB)),
        "scaling-sizes": (sizes, "figure-3", None, 12),
    }
    for name, (compute, row, paper, n) in records.items():
        started = time.perf_counter()
        metrics, said = compute()
        seconds = time.perf_counter() - started
        dataset, scale, seeds = printed, "recomputed", [0]
        notes = (
            "nothing was trained; low and high are the ends of the middle 90% "
            "of 2,000 draws of the models, with repeats"
        )
        if name == "scaling-ours":
            families = results.read("families")
            dataset, scale = families["dataset"], "small"
            seeds = families["seeds"]
            notes = (
                "from the runs of `families`; low and high are the ends of "
                "nine pairs of runs, of three seeds each, and of an exponent "
                "those of the middle 90% of 2,000 draws of the runs"
            )
        claim = {"row": row, "scale": scale, "ours": said}
        result = result_fields(name, "python benchmarks/scaling.py", seconds)
        result |= {
            "config": {},
            "metrics": metrics,
            "dataset": dataset,
            "reproduces": claim | {"paper": paper, "n": n},
            "seeds": seeds,
            "notes": notes,
        }
        results.write(RESULTS / f"{name}.json", result)


if __name__ == "__main__":
    main()
