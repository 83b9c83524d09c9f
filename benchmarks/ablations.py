"""What positions, heads, shapes and axes are worth: Table 8, Figures 8, 9, 13.

    python benchmarks/ablations.py cifar10-jpeg75.npz [PART ...]

relation: "is glyph A left of glyph B?" (`glyphs.left_of`), a ViT of 19,000
weights, 500 steps; trained everywhere, or with both glyphs in the upper half
alone. Learned tables start at the paper's 0.02 and at 0.5.
longer: some of these for 2,000 steps.
offsets: the same question, with relative positions along rows and columns that
leave the class token out (the paper has none).
mended: relative positions learned in the upper half, with the vectors that lead
from the class token to it copied over those to the lower half, untrained.
exercises: of chapter 16. "above": is A above B, learned in the left half, right
in both; "apart": A left of B, learned with A in the upper half and B in the
lower one, right so and with the two exchanged.
shapes: CIFAR-10, 10,000 images of the training part four times each, judged on
5,000 others of it, with patches of 8. Random flips. Each network has its own
rate, the best on 5,000 further images; the list grows until the best is inside.
forty: positions (learned tables with both initial scales), pools, axes, and
what was added to ViTs since the paper, on the same images for forty epochs, in
batches of 128; with patches of 4 for positions and axes, of 8 for the rest.
Each has its own rate in the mean of three seeds. All rates and seeds of a
network are trained at once, on a GPU if there is one.
speed: images a second of the networks of `axes`, in turns.

Each run goes to runs/ablations/ and is not repeated, and several of these may
run at once; whatever has its three seeds is written to
`vitedu/results/ablations-*.json`. The file is made by `tools/cifar_jpeg.py`.
About 30 minutes of one core, without `forty`, for which one needs a GPU.
"""

import argparse
import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from graphs import captured
from kept import kept
from recorded import result_fields
from torch import Tensor, nn
from torch.func import functional_call

from vitedu import budget, results
from vitedu.data import glyphs, load_dataset
from vitedu.figures.chapters import ablations
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
from vitedu.model.relative import RelativeBias

RESULTS = Path(__file__).parents[1] / "vitedu/results"
KEPT = Path("runs/ablations")
SEEDS = (0, 1, 2)
MORE_SEEDS = (3, 4, 5)  # of the glyphs in the upper half, tables at LARGE
SMALL, LARGE = 0.02, 0.5  # standard deviations of a table's first numbers
STEPS, RATE, BATCH = 500, 3e-3, 32
BETAS, WEIGHT_DECAY = (0.9, 0.99), 0.05
NUM_TRAIN, NUM_HELD_OUT, EPOCHS, CIFAR_BATCH = 10_000, 5_000, 4, 64
FORTY, FORTY_BATCH, FORTY_RATES = 40, 128, (1e-3, 2e-3, 4e-3)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLIMB = (2e-3, 4e-3, 8e-3)
ROUNDS = 15
ROWS = {"forty": "table-8", "pools": "figure-9", "axes": "figure-13"}

Data = tuple[Tensor, Tensor]


class BiasOfRows(RelativeBias):
    """The bias of the table's `rows` (t, t), one for each query and key."""

    def __init__(self, owner: nn.Module, rows: Tensor) -> None:
        super().__init__(owner)
        self.rows = rows

    def forward(self, q: Tensor) -> Tensor:
        table = self.owner[0].pos_embed
        keys = rearrange(table, "1 o (k hd) -> k hd o", k=q.shape[1])
        scores = q @ keys / math.sqrt(q.shape[-1])
        return scores.gather(-1, self.rows.expand(*q.shape[:3], -1))


@dataclass(frozen=True)
class Relative2D(Relative):
    """How far along and down, a vector for each pair of these two numbers.

    The class token is as far from all patches.
    """

    def rows(self, config: ViTConfig) -> Tensor:
        """Row of the table for each query and key, (t, t)."""
        gh, gw = config.grid
        width = 2 * gw - 1  # so that no two offsets have the same sum
        place = (width * torch.arange(gh)[:, None] + torch.arange(gw)).flatten()
        among = place[:, None] - place + place[-1]
        to_class = int(among.max()) + 1
        rows = F.pad(among, (1, 0), value=to_class)
        return F.pad(rows, (0, 0, 1, 0), value=to_class + 1)

    def table(self, config: ViTConfig) -> nn.Parameter:
        count = int(self.rows(config).max()) + 1
        return nn.Parameter(torch.zeros(1, count, config.embed_dim))

    def attach(self, model: ViT) -> None:
        super().attach(model)
        for block in model.blocks:
            rows = self.rows(model.config)
            block.attn.position_bias = BiasOfRows(block, rows)


KINDS: dict[str, Any] = {
    "none": NoPosition(),
    "1-D": Learned1D(),
    "2-D": Learned2D(),
    "relative": Relative(),
    "sin-cos": SinCos2D(),
    "RoPE": RoPE(),
}
LEARNED = ("1-D", "2-D", "relative")
EXERCISES = (("above", "1-D"), ("above", "relative"), ("apart", "2-D"))
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
SINCE: dict[str, dict[str, Any]] = {
    "as in the paper": {},
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
    model: ViT, data: Data, steps: int, batch: int, rate: float, flip: bool
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
        images = x[rows]
        if flip:
            turned = torch.rand(len(rows), 1, 1, 1) < 0.5
            images = torch.where(turned, images.flip(-1), images)
        share = (step - warmup) / (steps - warmup)
        falling = (1 + math.cos(math.pi * share)) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate * min((step + 1) / warmup, falling)
        optimizer.zero_grad()
        F.cross_entropy(model(images), y[rows]).backward()
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
        glyphs.stamp(images, glyphs.kinds()[[glyph]], corners)
    labels = (cells[:, 0] % 6 < cells[:, 1] % 6).astype(np.int64)
    return *grey(glyphs.puzzles(images, labels)), torch.from_numpy(cells)


def for_relation(kind: str, std: float, seed: int) -> ViT:
    """Untrained; `kind` is of KINDS, or with ", no class token" behind it."""
    torch.manual_seed(seed)
    name, _, without = kind.partition(", ")
    fields = {"pool": "mean", "class_token": False} if without else {}
    position = (KINDS | {"relative 2-D": Relative2D()})[name]
    model = ViT(relation_config(position, **fields))
    with torch.no_grad():
        for weight, values in model.named_parameters():
            if "pos_embed" in weight:
                values.mul_(std / SMALL)
    return model


def relation(
    kind: str,
    std: float,
    where: Any,
    seed: int,
    steps: int = STEPS,
    mend: bool = False,
) -> dict[str, Any]:
    """One run."""
    model = for_relation(kind, std, seed)
    data = grey(glyphs.left_of(4000, where=where, seed=seed))
    found: dict[str, Any] = {
        "seconds": trained(model, data, steps, BATCH, RATE, flip=False)
    }
    found["train"] = right(model, (data[0][:1000], data[1][:1000]))
    for block in model.blocks if mend else ():  # offsets -36 to 36
        block.pos_embed.data[:, :18] = block.pos_embed[:, 18:36]
    for tested in ("all", "upper", "lower"):
        new = glyphs.left_of(1000, where=tested, seed=1000)
        found[tested] = right(model, grey(new))
    left = answers(model, pairs()[0]).softmax(dim=1)[:, 1]
    tenths = (10 * left).long().clamp(max=9).tolist()
    found["pairs"] = "".join(map(str, tenths))
    return found


def puzzles_of(task: str, is_other: bool, count: int, seed: int) -> Data:
    """Of a task of EXERCISES, as learned, or in the other half or order."""
    if task == "above":
        where: Any = "lower" if is_other else "upper"
        images, labels = grey(glyphs.left_of(count, where=where, seed=seed))
        return images.mT, labels  # left is above now, and the upper half left
    drawn = glyphs.left_of(6 * count, seed=seed)
    is_lower = ablations.places(drawn.images) >= 18
    first, second = is_lower.T
    rows = (first > second if is_other else first < second).nonzero()[:count, 0]
    images, labels = grey(drawn)
    return images[rows], labels[rows]


def exercise(task: str, kind: str, seed: int) -> dict[str, Any]:
    """One run."""
    model = for_relation(kind, LARGE, seed)
    data = puzzles_of(task, False, 4000, seed)
    found = {"seconds": trained(model, data, STEPS, BATCH, RATE, flip=False)}
    for tested in ("as learned", "other"):
        new = puzzles_of(task, tested == "other", 1000, 1000)
        assert len(new[1]) == 1000
        found[tested] = right(model, new)
    return found


# ------------------------------------------------------------------- cifar


@cache
def cifar(source: str) -> tuple[Data, Data, Data, str]:
    """Images to learn from, to judge by and to choose by; the set's digest."""
    dataset = load_dataset("cifar10", data=source)
    ends = NUM_TRAIN, NUM_TRAIN + NUM_HELD_OUT, NUM_TRAIN + 2 * NUM_HELD_OUT
    images = dataset.train.images[: ends[2]].float() / 127.5 - 1
    labels = dataset.train.labels[: ends[2]].long()
    parts = slice(None, ends[0]), slice(*ends[:2]), slice(*ends[1:])
    train, test, choose = ((images[part], labels[part]) for part in parts)
    return train, test, choose, dataset.digest


def cifar_config(fields: dict[str, Any]) -> ViTConfig:
    own = ("head", "std")
    fields = {name: x for name, x in fields.items() if name not in own}
    sizes: dict[str, Any] = {"embed_dim": 32, "depth": 3, "mlp_dim": 64}
    sizes |= {"num_heads": 2, "patch_size": 8}
    return ViTConfig(image_size=32, num_classes=10, **(sizes | fields))


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
    return model


def on_cifar(
    fields: dict[str, Any], seed: int, source: str, rate: float = RATE
) -> dict[str, Any]:
    train, test, choose, _ = cifar(source)
    model = drawn(fields, seed)
    steps = EPOCHS * NUM_TRAIN // CIFAR_BATCH
    seconds = trained(model, train, steps, CIFAR_BATCH, rate, flip=True)
    few = train[0][:NUM_HELD_OUT], train[1][:NUM_HELD_OUT]
    return {
        "test": right(model, test),
        "choose": right(model, choose),
        "train": right(model, few),
        "seconds": seconds,
    }


def at_best_rate(
    name: str, fields: dict[str, Any], seed: int, source: str
) -> dict[str, Any]:
    """A run at the rate that is best on the images to choose by, with seed 0.

    The list of rates grows until the best is inside of it.
    """
    reached: dict[float, float] = {}
    waiting = list(CLIMB)
    while waiting:
        rate = waiting.pop()
        run = partial(on_cifar, fields, 0, source, rate)
        reached[rate] = waited_for(f"{name}/rate/{rate:g}", run)["choose"]
        best = max(reached, key=reached.__getitem__)
        if not waiting and best == max(reached):
            waiting.append(2 * best)
        elif not waiting and best == min(reached):
            waiting.append(best / 2)
    by_rate = {f"{rate:g}": reached[rate] for rate in sorted(reached)}
    found = waited_for(f"{name}/rate/{best:g}", dict)
    if seed > 0:
        found = on_cifar(fields, seed, source, best)
    return found | {"lr": best, "choose_by_lr": by_rate}


# ---------------------------------------------------------- forty epochs


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


def stacked(model: ViT) -> ViT:
    """A model whose parts work for many networks at once, in place."""
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
        models = [stacked(drawn(fields, seed)) for seed in SEEDS]
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
        self.steps = FORTY * (NUM_TRAIN // FORTY_BATCH)
        self.step_number = torch.zeros(1, dtype=torch.long, device=DEVICE)
        self.prepare(rates)

    def prepare(self, rates: Sequence[float]) -> None:
        """What every step needs, drawn and computed beforehand."""
        rows, turned = [], []
        for seed in SEEDS:
            generator = torch.Generator().manual_seed(seed)
            each = NUM_TRAIN // FORTY_BATCH, FORTY_BATCH
            orders = [
                torch.randperm(NUM_TRAIN, generator=generator)
                for _ in range(FORTY)
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
        (grad,) = torch.autograd.grad(loss / FORTY_BATCH, self.weights)
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
        step = replayed(self) if is_graph else self.step
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


def replayed(many: Many) -> Callable[[], None]:
    """A step as a CUDA graph; as it is, where that can't be made."""
    state = (many.weights, many.first), (many.moments, 0), (many.step_number, 0)
    step = captured(many.step) or many.step
    with torch.no_grad():
        for values, first in state:
            values.copy_(torch.as_tensor(first, device=DEVICE))
    return step


def for_forty(
    fields: dict[str, Any], rates: Sequence[float], source: str
) -> dict[str, Any]:
    """What each rate reached, a number for each seed."""
    data = cifar(source)[:3]
    train, test, choose = ((x.to(DEVICE), y.to(DEVICE)) for x, y in data)
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


def positions(places: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Those of these kinds, a learned one with two initial scales."""
    found: dict[str, dict[str, Any]] = {}
    for name, kind in places.items():
        fields = {"patch_size": 4, "position": kind}
        if name.partition("/")[0] in LEARNED:
            for std in (SMALL, LARGE):
                found[f"forty/{name}/{std}"] = fields | {"std": std}
        else:
            found[f"forty/{name}"] = fields
    return found


def of_forty() -> dict[str, dict[str, dict[str, Any]]]:
    """{record: {name of a run: fields of its network}}."""
    pools = {
        pool: {"pool": pool, "class_token": pool == "token"}
        for pool in ("token", "mean")
    }
    parts = {"pools": pools, "axes": AXES, "since": SINCE}
    return {"forty": positions(PLACES | MORE_PLACES)} | {
        part: {f"forty/{part}/{name}": x for name, x in networks.items()}
        for part, networks in parts.items()
    }


def at_rates(
    name: str, fields: dict[str, Any], source: str, may_run: bool
) -> dict[str, Any] | None:
    """What each rate reached, more rates while the best is at an end.

    None: other processes are at some of it. What is known where nothing may
    run, be the best at an end or not.
    """
    found: dict[str, Any] = {}
    waiting: tuple[float, ...] = FORTY_RATES
    while waiting:
        part = f"{name}/{'-'.join(f'{rate:g}' for rate in waiting)}"
        if not may_run and not file_of(part).exists():
            return found or None
        known = kept(file_of(part), partial(for_forty, fields, waiting, source))
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


def machine() -> dict[str, Any]:
    """Where these ran, as in a record."""
    found = result_fields("", "", 0, device=DEVICE.type)
    fields = ("hardware", "tier", "versions", "commit", "date")
    return {name: found[name] for name in fields}


# --------------------------------------------------------------------- all


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


def runs(source: str) -> dict[str, Callable[[], dict[str, Any]]]:
    """Every run by its name, PART/.../SEED, in the order of their worth."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for s in SEEDS:
        for kind in (*KINDS, *WITHOUT):
            stds = (SMALL, LARGE) if kind in LEARNED else (LARGE,)
            for std in stds:
                for where in ("upper", "all"):
                    found[f"relation/{kind}/{std}/{where}/{s}"] = (
                        lambda k=kind, d=std, w=where, s=s: relation(k, d, w, s)
                    )
    for s in SEEDS:
        for kind in ("1-D", "2-D"):
            found[f"longer/{kind}/{SMALL}/all/{s}"] = lambda k=kind, s=s: (
                relation(k, SMALL, "all", s, 4 * STEPS)
            )
    hard = "relative, no class token"
    for s in SEEDS:
        found[f"longer/{hard}/{LARGE}/upper/{s}"] = lambda s=s: relation(
            hard, LARGE, "upper", s, 4 * STEPS
        )
    for s in MORE_SEEDS:
        for kind in KINDS:
            found[f"relation/{kind}/{LARGE}/upper/{s}"] = lambda k=kind, s=s: (
                relation(k, LARGE, "upper", s)
            )
    for s in SEEDS + MORE_SEEDS:
        found[f"offsets/relative 2-D/{LARGE}/upper/{s}"] = lambda s=s: relation(
            "relative 2-D", LARGE, "upper", s
        )
        found[f"mended/relative/{LARGE}/upper/{s}"] = lambda s=s: relation(
            "relative", LARGE, "upper", s, mend=True
        )
    for s in SEEDS:
        for task, kind in EXERCISES:
            run = partial(exercise, task, kind, s)
            found[f"exercises/{task}/{kind}/{s}"] = run
    for s in SEEDS:
        for name, fields in SHAPES.items():
            found[f"shapes/{name}/{s}"] = lambda n=name, f=fields, s=s: (
                at_best_rate(f"shapes/{n}", f, s, source)
            )
    found["speed"] = speeds
    return found


def file_of(name: str) -> Path:
    return KEPT / (name.replace("/", "-").replace(", ", "-") + ".json")


def waited_for(name: str, compute: Callable[[], Any]) -> Any:
    """What the file of this name has, be it another process that fills it."""
    while (found := kept(file_of(name), compute)) is None:
        time.sleep(1)
    return found


def found_in(parts: tuple[str, ...], names: list[str]) -> dict[str, list[Any]]:
    """What the runs of these parts found: {name without seed: per seed}."""
    found: dict[str, list[Any]] = {}
    for name in names:
        part, *_ = name.split("/")
        if part in parts and file_of(name).exists():
            known = json.loads(file_of(name).read_text())
            found.setdefault(name.rpartition("/")[0], []).append(known)
    return found


def metric(values: list[float], unit: str) -> dict[str, Any]:
    mean = statistics.mean(values)
    return {"value": mean, "unit": unit, "per_seed": values}


def record(
    name: str,
    source: str,
    metrics: dict[str, Any],
    runs: dict[str, list[Any]],
    dataset: dict[str, Any],
    claim: dict[str, Any] | None,
    seeds: tuple[int, ...] = SEEDS,
    more: dict[str, Any] | None = None,
) -> None:
    seconds = [run["seconds"] for per_seed in runs.values() for run in per_seed]
    command = f"python benchmarks/ablations.py {Path(source).name}"
    result = {
        **result_fields(f"ablations-{name}", command, sum(seconds)),
        "config": {"rate": RATE, "weight_decay": WEIGHT_DECAY, "warmup": 0.1},
        "metrics": metrics,
        "seeds": list(seeds),
        "dataset": dataset,
        "notes": "seconds are the processor's, of one thread",
    }
    result |= more or {}
    if claim:
        result["reproduces"] = claim | {"scale": "small", "n": len(SEEDS)}
    results.write(RESULTS / f"ablations-{name}.json", result)


def record_glyphs(
    record_as: str,
    seeds: tuple[int, ...],
    source: str,
    names: list[str],
    parts: tuple[str, ...] = ("relation", "longer"),
    tests: tuple[str, ...] = ("train", "all", "upper", "lower"),
) -> None:
    """The runs of these parts that have exactly these seeds."""
    runs = {
        name: per_seed
        for name, per_seed in found_in(parts, names).items()
        if len(per_seed) == len(seeds)
    }
    if not runs:
        return
    metrics: dict[str, Any] = {}
    for name, per_seed in runs.items():
        for tested in tests:
            values = [run[tested] for run in per_seed]
            unit = "percent of 1,000 new pictures"
            metrics[f"{name}/{tested}"] = metric(values, unit)
        if "/upper" in name:  # what each answers to `pairs`, in tenths
            metrics[f"{name}/upper"]["pairs_of_seed_0"] = per_seed[0]["pairs"]
    digest = hashlib.sha256(glyphs.left_of(4000).images.numpy().tobytes())
    dataset = {
        "name": "glyphs.left_of",
        "digest": digest.hexdigest(),
        "num_train": 4000,
        "num_test": 1000,
    }
    record(record_as, source, metrics, runs, dataset, None, seeds)


def record_shapes(source: str, names: list[str]) -> None:
    runs = {
        name.partition("/")[2]: per_seed
        for name, per_seed in found_in(("shapes",), names).items()
        if len(per_seed) == len(SEEDS)
    }
    if not runs:
        return
    metrics = {}
    for name, per_seed in runs.items():
        values = [run["test"] for run in per_seed]
        metrics[name] = metric(values, "percent of 5,000 held out") | {
            "train_per_seed": [run["train"] for run in per_seed],
            "seconds_per_seed": [run["seconds"] for run in per_seed],
            "macs_per_image": budget.macs(cifar_config(SHAPES[name])),
            "lr": per_seed[0]["lr"],
            "choose_by_lr": per_seed[0]["choose_by_lr"],
        }
    claim = {"row": "figure-8", "paper": None, "ours": said(metrics)}
    record("shapes", source, metrics, runs, dataset_of(source), claim)


def dataset_of(source: str) -> dict[str, Any]:
    return {
        "name": Path(source).stem,
        "digest": cifar(source)[-1],
        "num_train": NUM_TRAIN,
        "num_test": NUM_HELD_OUT,
    }


def said(metrics: dict[str, Any]) -> str:
    """The record in a line, for the ledger."""
    told = [f"{name} {each['value']:.1f}" for name, each in metrics.items()]
    return f"CIFAR-10, percent: {', '.join(told)}"


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
    images = {"name": "random images", "digest": "torch.randn"}
    dataset = images | {"num_train": 0, "num_test": 100}
    record("speed", source, metrics, {}, dataset, None, (0,))


def record_forty(part: str, source: str, found: dict[str, Any]) -> None:
    """Those of a part that have all of their rates, and where they ran."""
    metrics = {}
    fields = of_forty()[part]
    start = "forty/" if part == "forty" else f"forty/{part}/"
    for name, known in found.items():
        chosen = chosen_by(known["rates"])
        best = max(chosen, key=chosen.__getitem__)
        reached = known["rates"][f"{best:g}"]
        own = metric(reached["test"], "percent of 5,000 held out")
        metrics[name.removeprefix(start)] = own | {
            "train_per_seed": reached["train"],
            "macs_per_image": budget.macs(cifar_config(fields[name])),
            "lr": best,
            "choose_by_lr": {f"{rate:g}": x for rate, x in chosen.items()},
            "test_by_lr": {
                f"{rate:g}": known["rates"][f"{rate:g}"]["test"]
                for rate in chosen
            },
            "is_best_inside": min(chosen) < best < max(chosen),
        }
    if not metrics:
        return
    claim = None
    if part in ROWS:
        claim = {"row": ROWS[part], "paper": None, "ours": said(metrics)}
    runs = {name: [known] for name, known in found.items()}
    more = next(iter(found.values()))["machine"]
    command = f"python benchmarks/ablations.py {Path(source).name} forty"
    more["command"] = command
    more["config"] = {
        "weight_decay": WEIGHT_DECAY,
        "warmup": 0.1,
        "batch_size": FORTY_BATCH,
        "epochs": FORTY,
    }
    more["notes"] = "other processes were at the card, so seconds say little"
    dataset = dataset_of(source)
    record(part, source, metrics, runs, dataset, claim, more=more)


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
    source, parts = options().data, options().parts
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")  # TF32 on a GPU
    KEPT.mkdir(parents=True, exist_ok=True)
    wanted = runs(source)
    for name, run in wanted.items():
        if not parts or name.split("/")[0] in parts:
            kept(file_of(name), run)
    for part, networks in of_forty().items():
        found = {}
        for name, fields in networks.items():
            known = at_rates(name, fields, source, "forty" in parts)
            found |= {name: known} if known else {}
        record_forty(part, source, found)
    record_glyphs("relation", SEEDS, source, list(wanted))
    record_glyphs("halves", SEEDS + MORE_SEEDS, source, list(wanted))
    many = SEEDS + MORE_SEEDS
    for part in ("offsets", "mended"):
        record_glyphs(part, many, source, list(wanted), (part,))
    part, tests = "exercises", ("as learned", "other")
    record_glyphs(part, SEEDS, source, list(wanted), (part,), tests)
    record_shapes(source, list(wanted))
    record_speed(source)


if __name__ == "__main__":
    main()
