"""What positions, heads, shapes and axes are worth: Table 8, Figures 8, 9, 13.

    python benchmarks/ablations.py cifar10-jpeg75.npz [PART ...]

relation: "is glyph A left of glyph B?" (`glyphs.left_of`), a ViT of 19,000
weights, 500 steps; trained everywhere, or with both glyphs in the upper half
alone. Learned tables start at the paper's 0.02 and at 0.5.
longer: some of these for 2,000 steps.
positions, shapes, since, pools, axes: CIFAR-10, 10,000 images of the training
part forty times each, judged on 5,000 others of it; with patches of 4 for
positions and axes, of 8 for the rest. Random flips. Each network has its own
rate, the best on 5,000 further images in the mean of three seeds; the list
grows until the best is inside. Positions have two initial scales, too; since is
what was added to ViTs since the paper. All rates and seeds of a network are
trained at once, on a GPU if there is one.
speed: images a second of the networks of `axes` on a CPU, in turns.

Each run leaves a file in runs/ablations/ and is not repeated, and several of
these may run at once; whatever is whole is written to
`vitedu/results/ablations-*.json`. The data's file is made by
`tools/cifar_jpeg.py`.
"""

import argparse
import hashlib
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from recorded import result_fields
from torch import Tensor, nn
from torch.func import functional_call

from vitedu import budget, results
from vitedu.data import glyphs, load_dataset
from vitedu.model import (
    Axial,
    Learned1D,
    Learned2D,
    NoPosition,
    Relative,
    RoPE,
    SinCos2D,
    Standard,
    ViT,
    ViTConfig,
)
from vitedu.model.attention import MultiHeadAttention

RESULTS = Path(__file__).parents[1] / "vitedu/results"
KEPT = Path("runs/ablations")
SEEDS = (0, 1, 2)
MORE_SEEDS = (3, 4, 5)  # of the glyphs in the upper half, tables at LARGE
SMALL, LARGE = 0.02, 0.5  # standard deviations of a table's first numbers
STEPS, RATE, BATCH = 500, 3e-3, 32
BETAS, WEIGHT_DECAY = (0.9, 0.99), 0.05
NUM_TRAIN, NUM_HELD_OUT, EPOCHS, CIFAR_BATCH = 10_000, 5_000, 40, 128
RATES = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)  # of Figure 9
CLIMB = (1e-3, 2e-3, 4e-3)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ROUNDS = 15
ROWS = {
    "positions": "table-8",
    "pools": "figure-9",
    "shapes": "figure-8",
    "axes": "figure-13",
}

Data = tuple[Tensor, Tensor]

KINDS: dict[str, Any] = {
    "none": NoPosition(),
    "1-D": Learned1D(),
    "2-D": Learned2D(),
    "relative": Relative(),
    "sin-cos": SinCos2D(),
    "RoPE": RoPE(),
}
LEARNED = ("1-D", "2-D", "relative")
WITHOUT = ("relative, no class token", "2-D, no class token")
PLACES: dict[str, Any] = {
    "none": NoPosition(),
    "1-D/stem": Learned1D(),
    "2-D/stem": Learned2D(),
    "relative": Relative(),
    "sin-cos": SinCos2D(),
    "RoPE": RoPE(),
}
MORE_PLACES: dict[str, Any] = {
    "1-D/layers": Learned1D(at="layers"),
    "1-D/shared": Learned1D(at="shared"),
    "2-D/layers": Learned2D(at="layers"),
    "2-D/shared": Learned2D(at="shared"),
}
SHAPES: dict[str, dict[str, Any]] = {
    "base": {},
    "depth/6": {"depth": 6},
    "depth/12": {"depth": 12},
    "width/48": {"embed_dim": 48},
    "width/64": {"embed_dim": 64},
    "MLP/128": {"mlp_dim": 128},
    "MLP/256": {"mlp_dim": 256},
    "patch/16": {"patch_size": 16},
    "patch/4": {"patch_size": 4},
    "all/1": {"depth": 4, "embed_dim": 40, "mlp_dim": 96},
    "all/2": {"depth": 5, "embed_dim": 48, "mlp_dim": 128},
}
POOLS: dict[str, dict[str, Any]] = {
    "token": {},
    "mean": {"pool": "mean", "class_token": False},
}
SINCE: dict[str, dict[str, Any]] = {  # beside the base of SHAPES
    "head drawn at random": {"head": "random"},
    "head with a layer more": {"pre_logits": 32},
    "four registers": {"registers": 4},
    "QK-norm": {"block": Standard(qk_norm=True)},
    "layer scale": {"block": Standard(layer_scale=0.1)},
}
# the paper doesn't say what becomes of the class token in axial attention
GRID = {"patch_size": 4, "pool": "mean", "class_token": False}
AXES: dict[str, dict[str, Any]] = {
    "standard, 2 blocks": GRID | {"depth": 2},
    "standard, 4 blocks": GRID | {"depth": 4},
    "axial, 2 blocks": GRID | {"depth": 2, "block": Axial()},
}


# ---------------------------------------------------------------- training


def grey(puzzles: glyphs.Puzzles) -> Data:
    return (puzzles.images.float() - 128) / 64, puzzles.labels


def trained(
    model: ViT, data: Data, steps: int, batch: int, rate: float
) -> float:
    """AdamW with warm-up and cosine, in place; seconds of the processor."""
    x, y = data
    kernels = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim != 2]
    optimizer = torch.optim.AdamW(
        [{"params": kernels}, {"params": others, "weight_decay": 0.0}],
        rate,
        betas=BETAS,
        weight_decay=WEIGHT_DECAY,
        fused=True,
    )
    model.train()
    started, warmup, order = time.process_time(), steps // 10, torch.tensor([])
    for step in range(steps):
        if len(order) < batch:
            order = torch.randperm(len(x))
        rows, order = order[:batch], order[batch:]
        share = (step - warmup) / (steps - warmup)
        falling = (1 + math.cos(math.pi * share)) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate * min((step + 1) / warmup, falling)
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    return time.process_time() - started


def answers(model: ViT, images: Tensor) -> Tensor:
    """Logits (n, classes)."""
    with torch.no_grad():
        return torch.cat([model(some) for some in images.split(500)])


def right(model: ViT, data: Data) -> float:
    """Percent."""
    found = answers(model, data[0]).argmax(dim=1) == data[1]
    return 100 * found.double().mean().item()


# ---------------------------------------------------------------- relation


def relation_config(position: Any, **fields: Any) -> ViTConfig:
    return ViTConfig(
        image_size=24,
        patch_size=4,
        in_channels=1,
        num_classes=2,
        embed_dim=32,
        depth=2,
        num_heads=2,
        mlp_dim=64,
        position=position,
        **fields,
    )


@cache
def pairs() -> tuple[Tensor, Tensor, Tensor]:
    """A picture of every pair of cells in two columns: images, labels, cells.

    Cells (1080, 2) count row by row; the first is glyph A's.
    """
    cells = np.array([(a, b) for a in range(36) for b in range(36)])
    cells = cells[cells[:, 0] % 6 != cells[:, 1] % 6]
    images = glyphs.Words(len(cells), 24 * 24, seed=77).ground(24)
    for glyph in (0, 1):
        corners = 4 * np.stack([cells[:, glyph] // 6, cells[:, glyph] % 6], 1)
        glyphs.stamp(images, np.full(len(cells), glyph), corners)
    labels = (cells[:, 0] % 6 < cells[:, 1] % 6).astype(np.int64)
    return *grey(glyphs.puzzles(images, labels)), torch.from_numpy(cells)


def relation(
    kind: str, std: float, where: Any, seed: int, steps: int = STEPS
) -> dict[str, Any]:
    """One run; `kind` is of KINDS, or with ", no class token" behind it."""
    torch.manual_seed(seed)
    name, _, without = kind.partition(", ")
    fields = {"pool": "mean", "class_token": False} if without else {}
    model = ViT(relation_config(KINDS[name], **fields))
    with torch.no_grad():
        for weight, values in model.named_parameters():
            if "pos_embed" in weight:
                values.mul_(std / SMALL)
    data = grey(glyphs.left_of(4000, where=where, seed=seed))
    found: dict[str, Any] = {
        "seconds": trained(model, data, steps, BATCH, RATE)
    }
    found["train"] = right(model, (data[0][:1000], data[1][:1000]))
    for tested in ("all", "upper", "lower"):
        new = glyphs.left_of(1000, where=tested, seed=1000)
        found[tested] = right(model, grey(new))
    left = answers(model, pairs()[0]).softmax(dim=1)[:, 1]
    tenths = (10 * left).long().clamp(max=9).tolist()
    found["pairs"] = "".join(map(str, tenths))
    return found


# ------------------------------------------------------------------- cifar


@cache
def cifar(source: str) -> tuple[Data, Data, Data, str]:
    """Images to learn from, to judge by and to choose by; the set's digest."""
    dataset = load_dataset("cifar10", data=source)
    ends = NUM_TRAIN, NUM_TRAIN + NUM_HELD_OUT, NUM_TRAIN + 2 * NUM_HELD_OUT
    images = dataset.train.images[: ends[2]].to(DEVICE).float() / 127.5 - 1
    labels = dataset.train.labels[: ends[2]].to(DEVICE).long()
    parts = slice(None, ends[0]), slice(*ends[:2]), slice(*ends[1:])
    train, test, choose = ((images[part], labels[part]) for part in parts)
    return train, test, choose, dataset.digest


def cifar_config(fields: dict[str, Any]) -> ViTConfig:
    own = ("head", "std")
    fields = {name: x for name, x in fields.items() if name not in own}
    sizes: dict[str, Any] = {"embed_dim": 32, "depth": 3, "mlp_dim": 64}
    sizes |= {"num_heads": 2, "patch_size": 8}
    return ViTConfig(image_size=32, num_classes=10, **(sizes | fields))


class Product(nn.Module):
    """A stem without convolution, which is slow for many networks at once."""

    def __init__(self, stem: nn.Module) -> None:
        super().__init__()
        self.proj = stem.proj

    def forward(self, images: Tensor) -> Tensor:
        kernel, bias = self.proj.weight, self.proj.bias
        p, q = kernel.shape[2:]
        pattern = "b c (gh p) (gw q) -> b (gh gw) (c p q)"
        return F.linear(
            rearrange(images, pattern, p=p, q=q), kernel.flatten(1), bias
        )


class Forgotten(list[Tensor]):
    """A list that keeps nothing."""

    def append(self, weights: Tensor) -> None:
        pass


def drawn(fields: dict[str, Any], seed: int) -> ViT:
    """An untrained network; `fields` may have the std of its tables."""
    torch.manual_seed(seed)
    model = ViT(cifar_config(fields))
    if fields.get("head") == "random":  # and not zeros, as in the paper
        model.head.reset_parameters()
    with torch.no_grad():
        for name, values in model.named_parameters():
            if "pos_embed" in name:
                values.mul_(fields.get("std", SMALL) / SMALL)
    model.patch_embed = Product(model.patch_embed)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.maps = Forgotten()  # equations (6) and (7), step by step
    return model


class Many:
    """A network for each rate and seed, trained side by side.

    Their weights are the rows of one matrix, and so a step of all of them is
    about as many calls as a step of one.
    """

    def __init__(
        self, fields: dict[str, Any], rates: Sequence[float], data: Data
    ) -> None:
        self.images, self.labels = data
        models = [drawn(fields, seed) for seed in SEEDS]
        self.model = models[0].to(DEVICE)
        parameters = [*self.model.named_parameters()]
        self.shapes = {name: x.shape for name, x in parameters}
        decay = [
            torch.full((x.numel(),), float(x.ndim == 2)) for _, x in parameters
        ]
        self.decay = WEIGHT_DECAY * torch.cat(decay).to(DEVICE)
        rows = [nn.utils.parameters_to_vector(x.parameters()) for x in models]
        first = torch.stack([row.detach().to(DEVICE) for row in rows])
        self.first = first.repeat(len(rates), 1)  # rate by rate
        self.weights = self.first.clone().requires_grad_()
        self.moments = torch.zeros(2, *self.first.shape, device=DEVICE)
        self.steps = EPOCHS * (NUM_TRAIN // CIFAR_BATCH)
        self.step_number = torch.zeros(1, dtype=torch.long, device=DEVICE)
        self.prepare(rates)

    def prepare(self, rates: Sequence[float]) -> None:
        """What every step needs, drawn and computed beforehand."""
        rows, turned = [], []
        for seed in SEEDS:
            generator = torch.Generator().manual_seed(seed)
            each = NUM_TRAIN // CIFAR_BATCH, CIFAR_BATCH
            orders = [
                torch.randperm(NUM_TRAIN, generator=generator)
                for _ in range(EPOCHS)
            ]
            orders = [order[: math.prod(each)].view(each) for order in orders]
            rows.append(torch.cat(orders))
            turned.append(torch.rand(rows[-1].shape, generator=generator) < 0.5)
        many = 1, len(rates), 1  # (steps, rates * seeds, batch)
        self.rows = torch.stack(rows, dim=1).repeat(many).to(DEVICE)
        self.turned = torch.stack(turned, dim=1).repeat(many).to(DEVICE)
        warmup = self.steps // 10
        shares = [
            (i - warmup) / (self.steps - warmup) for i in range(self.steps)
        ]
        factors = [
            min((i + 1) / warmup, (1 + math.cos(math.pi * share)) / 2)
            for i, share in enumerate(shares)
        ]
        each_rate = torch.tensor(rates, dtype=torch.float64)
        each_rate = each_rate.repeat_interleave(len(SEEDS))
        lr = torch.tensor(factors, dtype=torch.float64)[:, None] * each_rate
        count = torch.arange(1, self.steps + 1, dtype=torch.float64)
        unbias = [(1 - beta**count)[:, None].expand_as(lr) for beta in BETAS]
        table = torch.stack([lr, *unbias], dim=1)[..., None]
        self.table = table.float().to(DEVICE)  # (steps, 3, networks, 1)

    def logits(self, images: Tensor, shared: bool) -> Tensor:
        """Images (networks, b, ...), shared (b, ...) -> (networks, b, 10)."""
        parts = self.weights.split(
            [x.numel() for x in self.shapes.values()], dim=1
        )
        weights = {
            name: part.view(-1, *shape)
            for part, (name, shape) in zip(
                parts, self.shapes.items(), strict=True
            )
        }
        one = partial(functional_call, self.model)
        in_dims = (0, None if shared else 0)
        return torch.vmap(one, in_dims=in_dims)(weights, (images,))

    def step(self) -> None:
        """AdamW, each network with its own rate and its own pictures."""
        rows, turned, table = (
            x.index_select(0, self.step_number)[0]
            for x in (self.rows, self.turned, self.table)
        )
        images, labels = self.images[rows], self.labels[rows]
        turned = turned[..., None, None, None]
        images = torch.where(turned, images.flip(-1), images)
        logits = self.logits(images, shared=False).flatten(0, 1)
        loss = F.cross_entropy(logits, labels.flatten(), reduction="sum")
        (grad,) = torch.autograd.grad(loss / CIFAR_BATCH, self.weights)
        with torch.no_grad():
            grad /= grad.norm(dim=1, keepdim=True).clamp(min=1)
            lr, *unbias = table
            mean, square = self.moments
            mean.lerp_(grad, 1 - BETAS[0])
            square.lerp_(grad**2, 1 - BETAS[1])
            change = mean / unbias[0] / ((square / unbias[1]).sqrt() + 1e-8)
            self.weights -= lr * (change + self.decay * self.weights)
            self.step_number += 1

    def train(self) -> None:
        """All steps; on a GPU as one graph, so that Python is no bottleneck."""
        self.model.train()
        is_graph = DEVICE.type == "cuda" and not options().no_graph
        step = captured(self) if is_graph else self.step
        for _ in range(self.steps):
            step()
        self.model.eval()

    def right(self, data: Data) -> list[float]:
        """Percent, network by network."""
        count = torch.zeros(len(self.weights), device=DEVICE)
        with torch.no_grad():
            for x, y in zip(*(part.split(500) for part in data), strict=True):
                found = self.logits(x, shared=True).argmax(dim=-1) == y
                count += found.sum(dim=1)
        return (100 * count.double() / len(data[1])).tolist()


def captured(many: Many) -> Callable[[], None]:
    """A step as a CUDA graph; as it is, where that can't be made."""
    state = (many.weights, many.first), (many.moments, 0), (many.step_number, 0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            many.step()
    torch.cuda.current_stream().wait_stream(side)
    graph, step = torch.cuda.CUDAGraph(), many.step
    try:
        with torch.cuda.graph(graph):
            many.step()
        step = graph.replay
    except RuntimeError as error:
        print(f"no graph, step by step: {error}", flush=True)
        torch.cuda.synchronize()
    with torch.no_grad():
        for values, first in state:
            values.copy_(torch.as_tensor(first, device=DEVICE))
    return step


def on_cifar(
    fields: dict[str, Any], rates: Sequence[float], source: str
) -> dict[str, Any]:
    """What each rate reached, a number for each seed."""
    train, test, choose, _ = cifar(source)
    started = time.perf_counter()
    many = Many(fields, rates, train)
    many.train()
    few = train[0][:NUM_HELD_OUT], train[1][:NUM_HELD_OUT]
    parts = {"test": test, "choose": choose, "train": few}
    reached = {name: many.right(data) for name, data in parts.items()}
    return {
        "rates": {
            f"{rate:g}": {
                name: found[i * len(SEEDS) : (i + 1) * len(SEEDS)]
                for name, found in reached.items()
            }
            for i, rate in enumerate(rates)
        },
        "seconds": time.perf_counter() - started,
        "machine": machine(),
    }


def machine() -> dict[str, Any]:
    """Of the networks for CIFAR-10, as in a record."""
    found = result_fields("", "", 0, device=DEVICE.type)
    fields = ("hardware", "tier", "versions", "commit", "date")
    return {name: found[name] for name in fields}


def speeds() -> dict[str, list[float]]:
    """Images a second of each network of AXES at inference, in turns."""
    images = torch.randn(100, 3, 32, 32)
    models = {
        name: ViT(cifar_config(fields)).eval() for name, fields in AXES.items()
    }
    found: dict[str, list[float]] = {name: [] for name in AXES}
    for _ in range(ROUNDS + 1):
        for name, model in models.items():
            started = time.process_time()
            answers(model, images)
            found[name].append(100 / (time.process_time() - started))
    return {name: rounds[1:] for name, rounds in found.items()}


# --------------------------------------------------------------------- all


def networks() -> dict[str, dict[str, Any]]:
    """Fields of every network for CIFAR-10 by PART/NAME, in order of worth."""
    parts = {"shapes": SHAPES, "since": SINCE, "pools": POOLS, "axes": AXES}
    found = positions(PLACES)
    for part, own in parts.items():
        found |= {f"{part}/{name}": fields for name, fields in own.items()}
    return found | positions(MORE_PLACES)


def positions(places: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Those of these kinds, a learned one with two initial scales."""
    found: dict[str, dict[str, Any]] = {}
    for name, kind in places.items():
        fields = {"patch_size": 4, "position": kind}
        if name.partition("/")[0] in LEARNED:
            for std in (SMALL, LARGE):
                found[f"positions/{name}/{std}"] = fields | {"std": std}
        else:
            found[f"positions/{name}"] = fields
    return found


def at_rates(
    name: str, fields: dict[str, Any], source: str
) -> dict[str, Any] | None:
    """What each rate reached, more rates while the best is at an end.

    None: other processes are at some of it.
    """
    found: dict[str, Any] = {}
    waiting = RATES if name.startswith("pools/") else CLIMB
    while waiting:
        told = "-".join(f"{rate:g}" for rate in waiting)
        run = partial(on_cifar, fields, waiting, source)
        known = kept(f"{name}/{told}", run)
        if known is None:
            return None
        by_rate = known["rates"] | found.get("rates", {})
        seconds = known["seconds"] + found.get("seconds", 0)
        found = known | {"rates": by_rate, "seconds": seconds}
        reached = chosen_by(by_rate)
        best = max(reached, key=reached.__getitem__)
        waiting = ()
        if best == max(reached):
            waiting = 2 * best, 4 * best
        elif best == min(reached):
            waiting = best / 2, best / 4
    return found


def chosen_by(by_rate: dict[str, Any]) -> dict[float, float]:
    """Each rate's mean on the images to choose by."""
    return {
        float(rate): statistics.mean(found["choose"])
        for rate, found in sorted(by_rate.items(), key=lambda x: float(x[0]))
    }


def glyph_runs() -> dict[str, Callable[[], dict[str, Any]]]:
    """Every run of relation and longer by its name, PART/.../SEED."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for s in SEEDS:
        for kind in (*KINDS, *WITHOUT):
            stds = (SMALL, LARGE) if kind in LEARNED else (LARGE,)
            for std in stds:
                for where in ("upper", "all"):
                    run = partial(relation, kind, std, where, s)
                    found[f"relation/{kind}/{std}/{where}/{s}"] = run
    long = [(kind, SMALL, "all") for kind in ("1-D", "2-D")]
    long.append((WITHOUT[0], LARGE, "upper"))
    for kind, std, where in long:
        for s in SEEDS:
            run = partial(relation, kind, std, where, s, 4 * STEPS)
            found[f"longer/{kind}/{std}/{where}/{s}"] = run
    for s in MORE_SEEDS:
        for kind in KINDS:
            run = partial(relation, kind, LARGE, "upper", s)
            found[f"relation/{kind}/{LARGE}/upper/{s}"] = run
    return found


def file_of(name: str) -> Path:
    return KEPT / (name.replace("/", "-").replace(", ", "-") + ".json")


def kept(name: str, compute: Callable[[], Any]) -> Any:
    """What the file of this name has; None: another process is at it."""
    path = file_of(name)
    claim, part = path.with_suffix(".claim"), path.with_suffix(".part")
    while not path.exists():
        try:
            with claim.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            if not stopped(claim):
                return None
            claim.unlink(missing_ok=True)
            continue
        started = time.perf_counter()
        part.write_text(json.dumps(compute()))
        part.rename(path)
        claim.unlink()
        print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
    return json.loads(path.read_text())


def stopped(claim: Path) -> bool:
    """Whether the process that made this file is no more."""
    try:
        os.kill(int(claim.read_text()), 0)
    except ProcessLookupError:
        return True
    except (FileNotFoundError, ValueError):  # done, or just made
        return False
    return False


def metric(values: list[float], unit: str) -> dict[str, Any]:
    mean = statistics.mean(values)
    return {"value": mean, "unit": unit, "per_seed": values}


def record(
    name: str,
    source: str,
    metrics: dict[str, Any],
    seconds: float,
    more: dict[str, Any],
    machine: dict[str, Any] | None = None,
) -> None:
    title = f"ablations-{name}"
    command = f"python benchmarks/ablations.py {Path(source).name}"
    result = {
        **result_fields(title, command, seconds),
        **(machine or {}),
        "config": {"weight_decay": WEIGHT_DECAY, "warmup": 0.1},
        "metrics": metrics,
        "seeds": list(SEEDS),
    }
    results.write(RESULTS / f"{title}.json", result | more)


def record_glyphs(name: str, seeds: tuple[int, ...], source: str) -> None:
    """The runs that have exactly these seeds."""
    runs: dict[str, list[Any]] = {}
    for each in glyph_runs():
        if file_of(each).exists():
            known = json.loads(file_of(each).read_text())
            runs.setdefault(each.rpartition("/")[0], []).append(known)
    runs = {name: x for name, x in runs.items() if len(x) == len(seeds)}
    if not runs:
        return
    metrics: dict[str, Any] = {}
    for each, per_seed in runs.items():
        for tested in ("train", "all", "upper", "lower"):
            values = [run[tested] for run in per_seed]
            unit = "percent of 1,000 new pictures"
            metrics[f"{each}/{tested}"] = metric(values, unit)
        if "/upper" in each:  # what each answers to `pairs`, in tenths
            metrics[f"{each}/upper"]["pairs_of_seed_0"] = per_seed[0]["pairs"]
    digest = hashlib.sha256(glyphs.left_of(4000).images.numpy().tobytes())
    dataset = {
        "name": "glyphs.left_of",
        "digest": digest.hexdigest(),
        "num_train": 4000,
        "num_test": 1000,
    }
    seconds = sum(run["seconds"] for x in runs.values() for run in x)
    more = {"seeds": list(seeds), "dataset": dataset}
    more["config"] = {"rate": RATE, "weight_decay": WEIGHT_DECAY, "warmup": 0.1}
    more["notes"] = "seconds are the processor's, of one thread"
    record(name, source, metrics, seconds, more)


def record_cifar(part: str, source: str, found: dict[str, Any]) -> None:
    """The networks of this part that have their rates."""
    metrics = {}
    for name, fields in networks().items():
        if not name.startswith(f"{part}/") or name not in found:
            continue
        by_rate = found[name]["rates"]
        chosen = chosen_by(by_rate)
        best = max(chosen, key=chosen.__getitem__)
        reached = by_rate[f"{best:g}"]
        own = metric(reached["test"], "percent of 5,000 held out")
        metrics[name.partition("/")[2]] = own | {
            "train_per_seed": reached["train"],
            "macs_per_image": budget.macs(cifar_config(fields)),
            "lr": best,
            "choose_by_lr": {f"{rate:g}": x for rate, x in chosen.items()},
            "test_by_lr": {
                f"{rate:g}": by_rate[f"{rate:g}"]["test"] for rate in chosen
            },
        }
    if not metrics:
        return
    more: dict[str, Any] = {
        "config": {
            "weight_decay": WEIGHT_DECAY,
            "warmup": 0.1,
            "batch_size": CIFAR_BATCH,
            "epochs": EPOCHS,
        },
        "dataset": {
            "name": Path(source).stem,
            "digest": cifar(source)[-1],
            "num_train": NUM_TRAIN,
            "num_test": NUM_HELD_OUT,
        },
        "notes": "processes share the card; seconds are the sum of theirs",
    }
    if part in ROWS:
        told = [f"{name} {each['value']:.1f}" for name, each in metrics.items()]
        more["reproduces"] = {
            "row": ROWS[part],
            "paper": None,
            "ours": f"CIFAR-10, percent: {', '.join(told)}",
            "scale": "small",
            "n": len(SEEDS),
        }
    own = [found[f"{part}/{name}"] for name in metrics]
    seconds = sum(each["seconds"] for each in own)
    record(part, source, metrics, seconds, more, own[0]["machine"])


def record_speed(source: str) -> None:
    """Images per second."""
    if not file_of("speed").exists():
        return
    metrics = {
        name: {
            "value": statistics.median(rounds),
            "unit": "images per second at inference",
            "rounds": rounds,
        }
        for name, rounds in json.loads(file_of("speed").read_text()).items()
    }
    seconds = sum(100 / x for each in metrics.values() for x in each["rounds"])
    images = {"name": "random images", "digest": "torch.randn"}
    more = {"seeds": [0], "config": {}}
    more["dataset"] = images | {"num_train": 0, "num_test": 100}
    record("speed", source, metrics, seconds, more)


@cache
def options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--no-graph", action="store_true", help="of CUDA")
    return parser.parse_args()


def main() -> None:
    """Run what is asked for and missing; record what is whole."""
    data, parts = options().data, options().parts
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")  # TF32 on a GPU
    KEPT.mkdir(parents=True, exist_ok=True)

    def asked(name: str) -> bool:
        return not parts or name.partition("/")[0] in parts

    for name, run in glyph_runs().items():
        if asked(name):
            kept(name, run)
    found: dict[str, Any] = {}
    wanted = {name: x for name, x in networks().items() if asked(name)}
    while len(found) < len(wanted):
        before = len(found)
        for name, fields in wanted.items():
            if name not in found:
                known = at_rates(name, fields, data)
                found |= {name: known} if known else {}
        for part in (*ROWS, "since"):
            record_cifar(part, data, found)
        if len(found) == before:  # the rest is in the hands of others
            time.sleep(2)
    if asked("speed"):
        kept("speed", speeds)
    record_glyphs("relation", SEEDS, data)
    record_glyphs("halves", SEEDS + MORE_SEEDS, data)
    record_speed(data)


if __name__ == "__main__":
    main()
