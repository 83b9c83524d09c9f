"""How many pictures does each network need? Curves over the number of glyphs.

    python benchmarks/glyphs_by_number.py

The networks and the questions are those of `small_networks`; two more ViTs have
patches of 2, or overlapping windows of 4 every 2 pixels (64 tokens, not 16).
They learn from 300 to 30,000 pictures, other ones for each seed, or from fresh
pictures for ever, which never come back; in 1,200 steps of 64, and the ViT that
fails in 4,800 as well.
Each row has the best of growing rates by 2,000 pictures, held out, at its own
number of steps; more rates follow while the best is the first or the last.
The networks of all rates and numbers learn at once, as one stack of weights
(`torch.func.vmap`), on a GPU in one CUDA graph. A stack leaves a file in
`runs/glyphs-by-number`; what has one is not repeated, and several of these may
run at once. `vitedu/results/glyphs-by-number.json` has the rows that are whole.
"""

import functools
import hashlib
import itertools
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import small_networks as small
import torch
import torch.nn.functional as F
from graphs import captured
from kept import kept
from recorded import result_fields
from small_networks import ROOT, macs, percent, vit
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitedu import results
from vitedu.data import glyphs
from vitedu.plain import warmup_cosine

TARGET = ROOT / "vitedu/results/glyphs-by-number.json"
SEEDS = (0, 1, 2)
BATCH, DECAY, BETAS = 64, 0.05, (0.9, 0.999)
PART = 30_000  # pictures for each seed, and for each draw
NUM_TEST, NUM_OWN = 2_000, 900
FRESH = 0
NUMBERS = {300: "300", 1_000: "1k", 3_000: "3k", 10_000: "10k", 30_000: "30k"}
NUMBERS |= {FRESH: "fresh"}
DRAW = {"same": glyphs.same_or_different, "which": glyphs.which}
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RUNS = ROOT / "runs/glyphs-by-number"

Pictures = tuple[Tensor, Tensor]


class Windows(nn.Conv2d):
    """A convolution as a product of matrices: in a stack, the faster way."""

    def forward(self, x: Tensor) -> Tensor:
        (p, q), (s, t), (u, v) = self.kernel_size, self.stride, self.padding
        x = F.pad(x, (v, v, u, u)).unfold(2, p, s).unfold(3, q, t)
        b, _, h, w = x.shape[:4]
        x = x.permute(0, 2, 3, 1, 4, 5).reshape(b * h * w, -1)
        x = x @ self.weight.flatten(1).T
        if self.bias is not None:
            x = x + self.bias
        return x.view(b, h, w, -1).permute(0, 3, 1, 2)


class Groups(nn.GroupNorm):
    """A group norm that can be stacked."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(2).unflatten(1, (self.num_groups, -1)).flatten(2)
        y = F.layer_norm(flat, flat.shape[2:], eps=self.eps).view(x.shape)
        return y * self.weight[:, None, None] + self.bias[:, None, None]


class Mean(nn.AdaptiveAvgPool2d):
    """The mean of a map, likewise."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3), keepdim=True)


STACKED = {
    nn.Conv2d: Windows,
    nn.GroupNorm: Groups,
    nn.AdaptiveAvgPool2d: Mean,
}


def overlapping() -> nn.Module:
    """A ViT whose 64 tokens are windows of 4 x 4 every 2 pixels."""
    model = vit(patch_size=2)
    stem = nn.Conv2d(1, 56, 4, stride=2, padding=1)
    model.patch_embed.proj = stem
    return model


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    **small.NETWORKS,
    "patches-2": partial(vit, patch_size=2),
    "overlap": overlapping,
}
RATES = {
    "vit": (5e-4, 1e-3, 2e-3, 4e-3),
    "resnet": (2e-3, 4e-3, 8e-3, 1.6e-2),
    "hybrid": (1e-3, 2e-3, 4e-3, 8e-3),
    "patches-2": (5e-4, 1e-3, 2e-3, 4e-3),
    "overlap": (5e-4, 1e-3, 2e-3, 4e-3),
}


# multiply-adds that `macs` doesn't know of: 64 windows of 16 pixels, not of 4
MORE = {"overlap": 64 * (16 - 4) * 56}


class Cell(NamedTuple):
    """One network and one question: a row for each number of pictures."""

    network: str
    task: str
    steps: int
    numbers: tuple[int, ...] = tuple(NUMBERS)

    @property
    def name(self) -> str:
        numbers = "" if FRESH in self.numbers else "-counted"
        return f"{self.network}-{self.task}{numbers}-{self.steps}"

    def row(self, number: int) -> str:
        """As its metric is called: "vit-same-off-10k-1200-steps"."""
        place = f"{self.network}-{self.task}-{NUMBERS[number]}"
        return f"{place}-{self.steps}-steps"


BOTH, ALL = ("overlap", "patches-2"), ("vit", "resnet", "hybrid")
TASKS = ("same-off", "which-off", "same", "which")
CELLS = [  # in order of worth
    *(Cell(n, t, 1_200) for t in TASKS for n in ALL),
    Cell("vit", "same-off", 4_800, (FRESH,)),
    # steps or pictures: which of them does it lack?
    Cell("vit", "same-off", 4_800, (3_000, 10_000, 30_000)),
    *(Cell(n, "same-off", 1_200, (FRESH,)) for n in BOTH),
]


def drawn(task: str, count: int, seed: int, alphabet: int = 0) -> Pictures:
    """Pictures (n, 1, 16, 16) as bytes, and labels, on the device."""
    question, *off = task.split("-")
    draw = DRAW[question]
    found = draw(count, on_grid=not off, seed=seed, alphabet=alphabet)
    return found.images.to(DEVICE), found.labels.to(DEVICE)


@functools.lru_cache(maxsize=1)
def pool(task: str, count: int) -> Pictures:
    """All pictures to learn from."""
    draws = range(10, 10 + -(-count // PART))
    parts = [drawn(task, PART, seed) for seed in draws]
    images, labels = zip(*parts, strict=True)
    return torch.cat(images), torch.cat(labels)


def values(images: Tensor) -> Tensor:
    return (images.float() - 128) / 64


class Stack:
    """Networks of one kind that learn at once, each from its own pictures.

    They start alike. `weights` (k, p) has a row for each; `rates` is (k, 1).
    """

    def __init__(
        self, build: Callable[[], nn.Module], rates: Tensor, seed: int
    ) -> None:
        torch.manual_seed(seed)
        self.model = build()
        for each in self.model.modules():
            each.__class__ = STACKED.get(type(each), type(each))
        self.model.to(DEVICE)
        named = dict(self.model.named_parameters())
        self.shapes = {name: each.shape for name, each in named.items()}
        flat = torch.cat([each.detach().flatten() for each in named.values()])
        self.weights = flat.repeat(len(rates), 1).requires_grad_()
        self.rates = rates.to(DEVICE)

    def logits(self, images: Tensor, shared: bool = False) -> Tensor:
        """(k, b, 1, h, w), or (b, 1, h, w) for all alike -> (k, b, 2)."""
        sizes = [shape.numel() for shape in self.shapes.values()]
        parts = self.weights.split(sizes, dim=1)
        named = {
            name: part.view(-1, *shape)
            for (name, shape), part in zip(
                self.shapes.items(), parts, strict=True
            )
        }
        call = vmap(
            lambda own, x: functional_call(self.model, own, (x,)),
            in_dims=(0, None if shared else 0),
        )
        with sdpa_kernel(SDPBackend.MATH):  # the one that stacks
            return call(named, images)

    def train(self, data: Pictures, order: Tensor) -> None:
        """AdamW with warm-up and cosine; order (steps, k, b): what is seen."""
        images, labels = data
        steps = len(order)
        shares = [
            (
                warmup_cosine(t, 1.0, steps + 1, steps // 10),
                1 - BETAS[0] ** t,
                1 - BETAS[1] ** t,
            )
            for t in range(1, steps + 1)
        ]
        table = torch.tensor(shares, device=DEVICE)
        t = torch.zeros(1, dtype=torch.int64, device=DEVICE)
        mean = torch.zeros_like(self.weights, requires_grad=False)
        square = torch.zeros_like(mean)

        def step() -> None:
            batch = order.index_select(0, t)[0]  # (k, b)
            logits = self.logits(values(images[batch]))
            loss = F.cross_entropy(
                logits.flatten(0, 1), labels[batch].flatten(), reduction="sum"
            )
            (found,) = torch.autograd.grad(loss / BATCH, self.weights)
            with torch.no_grad():
                norm = found.norm(dim=1, keepdim=True)
                found = found * (1 / (norm + 1e-6)).clamp(max=1)
                mean.lerp_(found, 1 - BETAS[0])
                square.lerp_(found * found, 1 - BETAS[1])
                share, m, v = table.index_select(0, t)[0]
                rate = self.rates * share
                move = mean / m / ((square / v).sqrt() + 1e-8)
                self.weights.mul_(1 - DECAY * rate).sub_(rate * move)
                t.add_(1)

        repeat(step, steps)

    @torch.no_grad()
    def right(self, images: Tensor, labels: Tensor) -> Tensor:
        """Which answers are right: (k, n) bool."""
        shared = images.ndim == 4
        parts = [
            self.logits(values(part), shared).argmax(dim=-1)
            for part in images.split(250, dim=0 if shared else 1)
        ]
        return torch.cat(parts, dim=1) == labels


def repeat(step: Callable[[], None], steps: int) -> None:
    """`step` so many times; on a GPU it is recorded once and played back."""
    if DEVICE.type == "cpu":
        for _ in range(steps):
            step()
        return
    play = captured(step) or step
    for _ in range(steps - 3):
        play()
    torch.cuda.synchronize()


def order_of(number: int, seed: int, steps: int) -> Tensor:
    """What a network sees, epoch after epoch: (steps, b) places in the pool."""
    generator = torch.Generator().manual_seed(seed)
    seen = steps * BATCH
    if number == FRESH:
        order = torch.randperm(seen, generator=generator)
    else:
        epochs = [
            torch.randperm(number, generator=generator)
            for _ in range(-(-seen // number))
        ]
        order = PART * seed + torch.cat(epochs)[:seen]
    return order.view(steps, BATCH)


def train_stack(cell: Cell, rates: tuple[float, ...], seed: int) -> dict:
    """All numbers of pictures with all rates: how often each is right."""
    started = time.perf_counter()
    pictures = pool(cell.task, max(len(SEEDS) * PART, cell.steps * BATCH))
    each = [(lr, number) for lr in rates for number in cell.numbers]
    orders = {n: order_of(n, seed, cell.steps) for n in cell.numbers}
    order = torch.stack([orders[number] for _, number in each], dim=1)
    order = order.to(DEVICE)
    lrs = torch.tensor([[lr] for lr, _ in each])
    stack = Stack(NETWORKS[cell.network], lrs, seed)
    stack.train(pictures, order)

    # the first of its own; 900 are three times all of 300
    own = order.transpose(0, 1).flatten(1)[:, :NUM_OWN]  # (k, 900)
    answers = {"train": stack.right(*(each[own] for each in pictures))}
    held_out, test = (drawn(cell.task, NUM_TEST, seed) for seed in (2, 1))
    answers["held_out"] = stack.right(*held_out)
    answers["test"] = tested = stack.right(*test)
    if cell.task.startswith("same"):
        other = drawn(cell.task, NUM_TEST, 1, alphabet=1)
        answers["other"] = stack.right(*other)
        # two equal glyphs have an even number of bright pixels together
        even = (test[0] > 160).sum(dim=(1, 2, 3)) % 2 == 0
        equal = test[1] == 1
        answers["equal"] = tested[:, equal]
        answers["even"] = tested[:, even & ~equal]
        answers["odd"] = tested[:, ~even]
    if DEVICE.type == "cuda":
        torch.cuda.empty_cache()
    found = [
        {"number": number, "lr": lr}
        | {key: percent(right[place]) for key, right in answers.items()}
        for place, (lr, number) in enumerate(each)
    ]
    return {"found": found, "seconds": time.perf_counter() - started}


def train_cell(cell: Cell, known: list[tuple[float, ...]]) -> None:
    """The stacks of all seeds and rates; not what another process is at."""
    for rates, seed in itertools.product(known, SEEDS):
        name = f"{cell.name}-{rates[0]:g}-{seed}"
        kept(RUNS / f"{name}.json", partial(train_stack, cell, rates, seed))


def runs_of(cell: Cell) -> list[dict]:
    """All that is there."""
    paths = sorted(RUNS.glob(f"{cell.name}-*.json"))
    return [json.loads(path.read_text()) for path in paths]


def held_out(runs: list[dict], number: int) -> dict[float, float]:
    """By rate, in their order: right answers to pictures that were held out."""
    found = [each for run in runs for each in run["found"]]
    values: dict[float, list[float]] = {}
    for each in sorted(found, key=lambda each: each["lr"]):
        if each["number"] == number:
            values.setdefault(each["lr"], []).append(each["held_out"])
    return {
        lr: round(statistics.mean(x), 2)
        for lr, x in values.items()
        if len(x) == len(SEEDS)
    }


def best(reached: dict[float, float]) -> float:
    """The best rate; of equal ones that in the middle."""
    rates = list(reached)
    middle = (len(rates) - 1) / 2
    return max(
        rates, key=lambda lr: (reached[lr], -abs(rates.index(lr) - middle))
    )


def further(cell: Cell) -> list[tuple[float]]:
    """Rates beyond those that were best; none where nothing was learned."""
    more, runs = set(), runs_of(cell)
    for number in cell.numbers:
        reached = held_out(runs, number)
        lr = best(reached) if reached else 0
        if reached.get(lr, 0) > 55:
            more |= {2 * lr} if lr == max(reached) else set()
            more |= {lr / 2} if lr == min(reached) else set()
    return [(lr,) for lr in sorted(more)]


def metric(cell: Cell, number: int, runs: list[dict]) -> dict:
    """One row: the seeds of its best rate."""
    reached = held_out(runs, number)
    lr = best(reached)
    found = [each for run in runs for each in run["found"]]
    by_lr = {
        x: [
            each
            for each in found
            if (each["number"], each["lr"]) == (number, x)
        ]
        for x in reached
    }
    seeds = by_lr[lr]
    keys = [key for key in seeds[0] if key not in ("number", "lr", "test")]
    build = NETWORKS[cell.network]
    return {
        "value": round(statistics.mean(each["test"] for each in seeds), 2),
        "unit": "percent of the test images",
        "per_seed": [each["test"] for each in seeds],
        **{f"{key}_per_seed": [each[key] for each in seeds] for key in keys},
        "weights": sum(x.numel() for x in build().parameters()),
        "macs_per_image": macs(build, 16) + MORE.get(cell.network, 0),
        "steps": cell.steps,
        "lr": lr,
        "held_out_by_lr": {str(lr): value for lr, value in reached.items()},
        "per_seed_by_lr": {
            str(x): [each["test"] for each in by_lr[x]] for x in reached
        },
    }


def write_result() -> None:
    """Write the rows that are whole, in the order of CELLS."""
    images, _ = drawn("same", 10_000, 10)
    digest = hashlib.sha256(images.cpu().numpy().tobytes()).hexdigest()[:16]
    whole = {cell: runs_of(cell) for cell in CELLS}
    seconds = sum(run["seconds"] for runs in whole.values() for run in runs)
    command = "python benchmarks/glyphs_by_number.py"
    result = {
        **result_fields(TARGET.stem, command, seconds, device=DEVICE.type),
        "config": {"batch_size": BATCH, "weight_decay": DECAY, "warmup": 0.1},
        "metrics": {
            cell.row(number): metric(cell, number, whole[cell])
            for cell in CELLS
            for number in cell.numbers
            if held_out(whole[cell], number)
        },
        "seeds": list(SEEDS),
        "dataset": {
            "name": "glyphs",
            "digest": digest,
            "num_train": PART,
            "num_test": NUM_TEST,
        },
        "notes": "the digest is that of the first 10,000 pictures on the grid; "
        "fresh pictures never come back; train is of 900 pictures that it "
        "learned from; other is an alphabet that it never saw; odd and even "
        "are different pairs by their number of bright pixels; products of "
        "matrices in TF32 on a GPU",
    }
    if result["metrics"]:
        results.write(TARGET, result)


def main() -> None:
    """Train what isn't there yet, look beyond the edges, record."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    known = {cell: [RATES[cell.network]] for cell in CELLS}
    first = CELLS[: len(TASKS) * len(ALL)]
    written = time.monotonic()
    for cells in (first, first, CELLS, CELLS, CELLS):
        for cell in cells:
            train_cell(cell, known[cell])
            known[cell] += further(cell)
            if time.monotonic() - written > 20:
                write_result()
                written = time.monotonic()
    write_result()


if __name__ == "__main__":
    main()
