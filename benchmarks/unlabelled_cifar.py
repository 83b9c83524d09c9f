"""CIFAR-10 without labels, then a few of them: what pretraining buys.

    python tools/cifar_jpeg.py FOLDER cifar10-jpeg75.npz
    python benchmarks/unlabelled_cifar.py cifar10-jpeg75.npz

One small ViT begins in different ways: from nothing, from MAE or masked patch
prediction (with each of the paper's three targets) on 45,000 training pictures
whose labels it isn't told, or from 45,000 drawn shapes with theirs. All of
pretraining is for as many multiply-adds. Then it learns from 500, 1,000 or
5,000 labelled ones of the 45,000, a seed draws which, and is judged on the
10,000 test pictures; a linear probe on frozen features stands beside. Each
start has its own rate, best on 5,000 other training pictures after 1,000
labels. The same with drawn shapes in place of CIFAR-10, without labels and
with 1,000. Of both, 1,000 are also learned from scratch for as many
multiply-adds as MAE and what follows it take together. And digits (where
`VITEDU_DATA` has MNIST) are completed by the network of `mae-mnist` and a
larger one that learn for long.

Several of these may run at once and share the work; each training leaves a file
in `runs/unlabelled-cifar` and is not repeated. How long trainings are is
decided once, by the speed of this machine, and kept there. Rows whose seeds are
all there go to `vitedu/results/unlabelled-cifar.json`.

    python benchmarks/unlabelled_cifar.py cifar10-jpeg75.npz --rivals

Linear probes on plain pixels, and on two more networks with random weights, a
minute of a CPU; they are added to the record.
"""

import argparse
import gc
import json
import math
import os
import statistics
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from recorded import result_fields
from torch import Tensor, nn
from torch.nn.attention import sdpa_kernel

from vitedu import budget, results
from vitedu.data import Augment, load_dataset
from vitedu.data.open import as_source
from vitedu.evaluate import linear_probe
from vitedu.evaluate.features import Features
from vitedu.evaluate.fewshot import sample_shots
from vitedu.model import new_network
from vitedu.model.mae import masked_error, num_hidden, random_mask
from vitedu.model.mpp import MPPConfig
from vitedu.plain import warmup_cosine
from vitedu.train import recipe
from vitedu.train.optimizer import parameter_groups
from vitedu.train.precision import AUTO
from vitedu.train.recipes.small import CENTRED
from vitedu.train.recipes.unlabelled import MNIST, without_head
from vitedu.train.recipes.unlabelled import completing as completing_config

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "vitedu/results/unlabelled-cifar.json"
RUNS = ROOT / "runs/unlabelled-cifar"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SEEDS, COUNTS = (0, 1, 2), (1_000, 500, 5_000)
UNLABELLED, HELD_OUT = 45_000, 5_000
# steps of MAE, and of learning from labels, by the milliseconds of a step
LENGTHS = ((3, 16_000, 1_500), (6, 10_000, 1_200), (12, 5_000, 800))
SHORTEST = (2_500, 400)
LISTEN = 4  # seconds in which speed is measured
BATCH, FEW_BATCH = 500, 250
PRETRAIN_RATE = 2e-3
RATES = (5e-4, 1e-3, 2e-3)
L2S = (10.0, 1.0, 0.1, 0.01, 0.001)
DIGITS = ((64, 4, (48, 1)), (96, 6, (64, 2)))  # width, depth, the decoder's
AUGMENT = Augment(shift=4, flip=True)
RECIPE = recipe("mae-cifar10", "cpu")
VIT = replace(RECIPE.model.encoder, num_classes=10)

MAE_STEP = BATCH * budget.macs(RECIPE.model)  # multiply-adds
EQUAL = "scratch-equal"  # in compute

Pictures = tuple[Tensor, Tensor]
Loss = Callable[..., Tensor]


# --- the data, on the device


class Data(NamedTuple):
    """Pictures to learn from, to choose by and to test on; uint8, labels."""

    pool: Pictures
    chosen_by: Pictures
    test: Pictures
    digest: str


@cache
def data_of(name: str) -> Data:
    """CIFAR-10 from the file, or the shapes that were drawn before."""
    file = str(RUNS / "shapes.npz") if name == "shapes" else OPTIONS.data
    found = load_dataset(file)
    images, labels = (
        x.to(DEVICE) for x in (found.train.images, found.train.labels)
    )
    rest = slice(UNLABELLED, UNLABELLED + HELD_OUT)
    test = found.test.images.to(DEVICE), found.test.labels.to(DEVICE)
    return Data(
        (images[:UNLABELLED], labels[:UNLABELLED]),
        (images[rest], labels[rest]),
        test,
        found.digest,
    )


def draw_shapes() -> dict[str, Any]:
    """50,000 shapes of 32 pixels and 2,000 to test on, to a file."""
    drawn = load_dataset("shapes-50k", image_size=32)
    arrays = {
        f"{kind}_{part}": values.numpy()
        for part, split in (("train", drawn.train), ("test", drawn.test))
        for kind, values in (
            ("x", split.images.permute(0, 2, 3, 1)),
            ("y", split.labels),
        )
    }
    np.savez(RUNS / "shapes.npz", **arrays)
    return {"pictures": len(drawn.train)}


def labelled(pool: Pictures, count: int, seed: int) -> Pictures:
    """As many of each class."""
    rows = sample_shots(pool[1].cpu(), count // 10, seed).to(DEVICE)
    return pool[0][rows], pool[1][rows]


def batches(
    pictures: Pictures, size: int, seed: int, is_digits: bool
) -> Iterator[Pictures]:
    """Shuffled, shifted and mirrored, epoch after epoch, without an end.

    Digits stay as they are.
    """
    times = max(1, COUNTS[-1] // len(pictures[1]))  # few make short epochs
    images, labels = (
        x.repeat(times, *[1] * (x.ndim - 1)).cpu() for x in pictures
    )
    source = as_source(
        (images, labels),
        preprocess=CENTRED if is_digits else RECIPE.preprocess,
        augment=None if is_digits else AUGMENT,
        shuffle=True,
        device=DEVICE,
        num_classes=10,
    )
    epoch = 0
    while True:
        yield from source.batches(epoch=epoch, seed=seed, batch_size=size)
        epoch += 1


def ready(images: Tensor) -> Tensor:
    """Pixels of 0 to 255 to -1 to 1."""
    return images / 127.5 - 1


# --- what is learned


def completing(model: nn.Module, images: Tensor) -> Tensor:
    """MAE's loss, with the places that stay as numbers and not as a mask."""
    config = model.config
    tokens = model.embed(images)
    b, n, d = tokens.shape
    stay = n - num_hidden(n, config.mask_ratio)
    places = torch.rand(b, n, device=images.device).argsort(dim=1)[:, :stay]
    visible = tokens.gather(1, places[..., None].expand(-1, -1, d))
    few = model.decoder_embed(model.norm(model.blocks(visible)))
    where = places[..., None].expand_as(few)
    x = model.mask_token.to(few).expand(b, n, -1).scatter(1, where, few)
    x = model.decoder_blocks(config.position.add(x, model.decoder_pos_embed))
    found = model.decoder_pred(model.decoder_norm(x))
    hidden = torch.ones(b, n, device=images.device).scatter(1, places, 0.0)
    return masked_error(found.float(), model.target(images), hidden).mean()


def naming(model: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
    """MPP's loss, where what is asked of each patch is known."""
    model.targets = lambda _: targets
    with torch.device(images.device):  # where all random numbers are drawn
        return model(images).float().mean()


def classifying(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy."""
    logits = model(images).float()
    return F.cross_entropy(logits, labels, label_smoothing=0.1)


class Stepper:
    """One update after the other; on a GPU as one graph of all its kernels."""

    def __init__(
        self, model: nn.Module, loss: Loss, betas: tuple[float, float]
    ) -> None:
        self.model, self.loss = model, loss
        self.graph: torch.cuda.CUDAGraph | None = None
        is_cuda = DEVICE == "cuda"
        self.rate = torch.zeros((), device=DEVICE)
        self.optimizer = torch.optim.AdamW(
            parameter_groups(model, weight_decay=0.05),
            lr=self.rate if is_cuda else 0.0,
            betas=betas,
            fused=True,
            capturable=is_cuda,
        )

    def update(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Forward, backward, clip, step."""
        half = nullcontext()
        if DEVICE == "cuda":
            half = torch.autocast("cuda", torch.bfloat16, cache_enabled=False)
        with sdpa_kernel(AUTO):
            with half:
                loss = self.loss(self.model, *inputs)
            loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    def capture(self, inputs: tuple[Tensor, ...]) -> None:
        """Record an update; rate 0, so that no weight has changed after."""
        self.inputs = tuple(x.clone() for x in inputs)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optimizer.zero_grad()
                self.update(self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.found = self.update(self.inputs)
        self.graph = graph

    def step(self, lr: float, *inputs: Tensor) -> Tensor:
        """The loss of the batch before the update."""
        if DEVICE == "cuda" and self.graph is None and not OPTIONS.eager:
            try:
                self.capture(inputs)
            except RuntimeError as error:
                print("without a graph:", error, flush=True)
                OPTIONS.eager = True
            for state in self.optimizer.state.values():
                for moment in state.values():
                    moment.zero_()
        self.rate.fill_(lr)
        if DEVICE == "cpu":
            for group in self.optimizer.param_groups:
                group["lr"] = lr
        if self.graph is None:
            self.optimizer.zero_grad()
            return self.update(inputs)
        for place, values in zip(self.inputs, inputs, strict=True):
            place.copy_(values)
        self.graph.replay()
        return self.found


def train(
    model: nn.Module,
    loss: Loss,
    pictures: Pictures,
    lr: float,
    steps: int,
    seed: int,
    *,
    batch: int = FEW_BATCH,
    betas: tuple[float, float] = (0.9, 0.99),
    asked: Callable[[Tensor, Tensor], tuple[Tensor, ...]] | None = None,
) -> float:
    """AdamW with warm-up and cosine; the mean loss of the last tenth.

    `asked` turns images and labels into what `loss` gets besides the model.
    """
    stepper = Stepper(model.train(), loss, betas)
    total, first = torch.zeros((), device=DEVICE), steps - max(1, steps // 10)
    feed = batches(pictures, batch, seed, pictures[0].shape[1] == 1)
    torch.manual_seed(seed)
    for step in range(steps):
        inputs = next(feed)
        if asked is not None:
            inputs = asked(*inputs)
        rate = warmup_cosine(step + 1, lr, steps + 1, max(1, steps // 20))
        found = stepper.step(rate, *inputs)
        if step >= first:
            total += found
    model.eval()
    return (total / (steps - first)).item()


@torch.no_grad()
def outputs(call: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """What a network says of pictures, in float32."""
    return torch.cat([call(ready(x)).float() for x in images.split(1_000)])


def percent(model: nn.Module, pictures: Pictures) -> float:
    """How many are right."""
    right = outputs(model, pictures[0]).argmax(dim=1) == pictures[1]
    return 100 * right.double().mean().item()


# --- the ways to begin


def pretraining(start: str) -> tuple[Any, str, str]:
    """Network, data and what is learned of a start: "mpp-small-shapes"."""
    kind, _, rest = start.partition("-")
    source = "shapes" if start.endswith("shapes") else "cifar"
    if kind == "mae":
        return RECIPE.model, source, kind
    if kind == "mpp":
        target = rest.removesuffix("-shapes")
        config = MPPConfig(**without_head(VIT), target=target)
        return config, source, kind
    return VIT, "shapes", "labels"


def steps_of(start: str, steps: int) -> int:
    """As many multiply-adds as `steps` of MAE."""
    share = budget.macs(RECIPE.model) / budget.macs(pretraining(start)[0])
    return max(1, round(steps * share))


def pretrain(start: str, seed: int) -> dict[str, Any]:
    """Learn without labels (or from shapes with theirs); weights to a file."""
    config, source, kind = pretraining(start)
    torch.manual_seed(seed)
    model = new_network(config)
    model.preprocess = RECIPE.preprocess
    model = model.to(DEVICE)
    loss, asked = {
        "mae": (completing, lambda images, _: (images,)),
        "mpp": (naming, lambda images, _: (images, model.targets_of(images))),
        "labels": (classifying, None),
    }[kind]
    if kind == "mpp":
        model.targets_of = model.targets
    steps = steps_of(start, lengths()[0])
    found: dict[str, Any] = {"steps": steps, "macs": budget.macs(config)}
    found["loss"] = train(
        model,
        loss,
        data_of(source).pool,
        PRETRAIN_RATE,
        steps,
        seed,
        batch=BATCH,
        betas=RECIPE.betas,
        asked=asked,
    )
    if kind == "labels":
        found["test"] = percent(model, data_of(source).test)
    weights = {name: x.cpu() for name, x in model.state_dict().items()}
    torch.save(weights, RUNS / f"{start}-{seed}.pt")
    return found


def network(start: str, seed: int, again: int = 0) -> nn.Module:
    """The ViT of a start, its head zeros; `again` is pretraining's seed."""
    torch.manual_seed(seed)
    model = new_network(VIT)
    model.preprocess = RECIPE.preprocess
    if not start.startswith("scratch"):
        known = torch.load(RUNS / f"{start}-{again}.pt")
        own = model.state_dict()
        kept = {x: known[x] for x in own if not x.startswith("head.")}
        model.load_state_dict(own | kept)
    return model.to(DEVICE)


def tuned(
    start: str,
    source: str,
    count: int,
    lr: float,
    seed: int,
    by: str = "test",
    again: int = 0,
) -> dict[str, Any]:
    """Accuracy after learning from labels, on new and on learned pictures."""
    data = data_of(source)
    few = labelled(data.pool, count, seed)
    model = network(start, seed, again)
    steps = lengths()[1]
    if start == EQUAL:
        steps += lengths()[0] * MAE_STEP // (FEW_BATCH * budget.macs(VIT))
    train(model, classifying, few, lr, steps, seed)
    new = data.test if by == "test" else data.chosen_by
    return {"test": percent(model, new), "train": percent(model, few)}


def probed(
    start: str, source: str, count: int, weights: int = 0, again: int = 0
) -> dict[str, Any]:
    """Linear probes on features that stay as they are, one for each seed.

    `weights` is the seed of random ones, `again` of pretraining. The rival
    "pixels" has no network.
    """
    data = data_of(source)
    call: Callable[[Tensor], Tensor] = partial(torch.flatten, start_dim=1)
    if start != "pixels":
        model = network(start, weights, again).eval()

        def call(images: Tensor) -> Tensor:
            return model.forward_head(model.forward_features(images), True)

    def featured(pictures: Pictures) -> Features:
        return Features(outputs(call, pictures[0]).cpu(), pictures[1].cpu())

    unseen = featured(data.test)
    found: dict[str, Any] = {"test": [], "train": []}
    for seed in SEEDS:
        known = featured(labelled(data.pool, count, seed))
        probe = linear_probe(None, known, l2=L2S)
        found["test"].append(probe.accuracy(None, unseen))
        found["train"].append(probe.accuracy(None, known))
    return found


def completed(width: int, depth: int, decoder: tuple[int, int]) -> Any:
    """Digits: the error of hidden pixels of a network that learns for long."""
    found = load_dataset("mnist")
    model = new_network(
        completing_config(
            replace(MNIST, embed_dim=width, depth=depth, mlp_dim=2 * width),
            *decoder,
        )
    )
    model.preprocess = CENTRED
    model = model.to(DEVICE)
    pictures = found.train.images.to(DEVICE), found.train.labels.to(DEVICE)
    steps = lengths()[0]
    more = {"batch": BATCH, "betas": RECIPE.betas, "asked": lambda x, _: (x,)}
    train(model, completing, pictures, PRETRAIN_RATE, steps, 0, **more)
    name = f"digits-{width}-{depth}"
    weights = {name: x.cpu() for name, x in model.state_dict().items()}
    torch.save(weights, RUNS / f"{name}.pt")
    images = ready(found.test.images)
    generator = torch.Generator().manual_seed(0)
    masks = random_mask(len(images), 49, 0.75, generator)
    with torch.no_grad():
        errors = [
            model(x.to(DEVICE), mask.to(DEVICE))
            for x, mask in zip(images.split(500), masks.split(500), strict=True)
        ]
    size = sum(x.numel() for x in model.parameters())
    return {
        "error": torch.cat(errors).double().mean().item(),
        "steps": steps,
        "weights": size,
    }


# --- the work, shared


class Item(NamedTuple):
    """A piece of work, and the names of those that must be there before."""

    name: str
    compute: Callable[[], dict[str, Any]]
    needs: tuple[str, ...] = ()


def path_of(name: str) -> Path:
    """The file of a piece of work."""
    return RUNS / f"{name.replace('/', '-')}.json"


def is_there(name: str) -> bool:
    """Whether it is done."""
    return path_of(name).exists()


def is_over(name: str) -> bool:
    """Whether it is done, or can't be."""
    path = path_of(name)
    return path.exists() or path.with_suffix(".failed").exists()


def found(name: str) -> dict[str, Any]:
    """What came out."""
    return json.loads(path_of(name).read_text())


def take(item: Item) -> bool:
    """Do it and keep what comes out, unless another process is at it."""
    path = path_of(item.name)
    claim = path.with_suffix(".claim")
    try:
        with claim.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        if is_alive(claim):
            return False
        claim.unlink(missing_ok=True)
        return take(item)
    if is_over(item.name):  # just now
        claim.unlink()
        return False
    started = time.perf_counter()
    try:
        values = item.compute()
    except Exception:  # the others can be done all the same
        traceback.print_exc()
        claim.rename(path.with_suffix(".failed"))
        return True
    values["seconds"] = round(time.perf_counter() - started, 1)
    claim.write_text(json.dumps(values))
    claim.rename(path)
    if DEVICE == "cuda":  # others share it
        gc.collect()
        torch.cuda.empty_cache()
    print(item.name, json.dumps(values), flush=True)
    return True


def is_alive(claim: Path) -> bool:
    """Whether the process that wrote it still runs."""
    try:
        os.kill(int(claim.read_text() or os.getpid()), 0)
    except ProcessLookupError:
        return False
    except (FileNotFoundError, ValueError):  # finished meanwhile
        return True
    return True


def measure_speed() -> dict[str, Any]:
    """The milliseconds of a step of supervised learning, and what follows."""
    model = new_network(VIT).to(DEVICE)
    images = torch.rand(BATCH, 3, 32, 32, device=DEVICE)
    labels = torch.zeros(BATCH, dtype=torch.int64, device=DEVICE)
    stepper = Stepper(model.train(), classifying, (0.9, 0.99))
    stepper.step(0.0, images, labels)
    steps, started = 0, time.perf_counter()
    while time.perf_counter() < started + LISTEN:
        for _ in range(10):
            last = stepper.step(0.0, images, labels)
        last.item()
        steps += 10
    ms = 1_000 * (time.perf_counter() - started) / steps
    fits = [(a, b) for most, a, b in LENGTHS if ms <= most] or [SHORTEST]
    return {"ms": ms, "pretrain": fits[0][0], "tune": fits[0][1]}


def lengths() -> tuple[int, int]:
    """Steps of MAE, and of learning from labels."""
    plan = found("speed")
    return plan["pretrain"], plan["tune"]


class Task(NamedTuple):
    """One start on one kind of picture."""

    start: str
    source: str = "cifar"

    @property
    def name(self) -> str:
        return f"{self.source}-{self.start}"

    @property
    def needs(self) -> tuple[str, ...]:
        if self.start.startswith("scratch"):
            return ("speed",)
        return "speed", f"pretrain/{self.start}-0"


FIRST = [Task(x) for x in ("scratch", "mae", "mpp-mean", "shapes")]
TARGETS = [Task(x) for x in ("mpp-small", "mpp-pixels")]
DRAWN = [
    Task(x, "shapes") for x in ("scratch", "mae-shapes", "mpp-mean-shapes")
]
LONG = [Task(EQUAL), Task(EQUAL, "shapes")]
TASKS = [*FIRST, *TARGETS, *DRAWN, *LONG]
PRETRAINED = ("mae", "mpp-mean", "shapes", "mpp-small", "mpp-pixels")
PRETRAINED += ("mae-shapes", "mpp-mean-shapes")
AGAIN = [(x, seed) for seed in (1, 2) for x in ("mae", "mpp-mean")]


def rates_of(task: Task) -> dict[float, float]:
    """What each rate reached on held-out pictures so far."""
    names = {
        float(path.stem.removeprefix(f"rate-{task.name}-lr")): path
        for path in RUNS.glob(f"rate-{task.name}-lr*.json")
    }
    return {
        lr: json.loads(names[lr].read_text())["test"] for lr in sorted(names)
    }


def missing_rates(task: Task) -> list[float]:
    """Rates to try: three, then further ones while the last is the best."""
    reached = rates_of(task)
    if missing := [lr for lr in RATES if lr not in reached]:
        return missing
    best = max(reached, key=reached.__getitem__)
    if best == max(reached):
        return [2 * best]
    return [best / 2] if best == min(reached) else []


def best_rate(task: Task) -> float:
    """The rate that is best on held-out pictures; never the grid's edge."""
    reached = rates_of(task)
    return max(reached, key=reached.__getitem__)


def tunings(task: Task, count: int, seeds: tuple[int, ...]) -> Iterator[Item]:
    """Trainings from labels, at the best rate; before them, those for it."""
    for lr in missing_rates(task):
        compute = partial(
            *(tuned, task.start, task.source, COUNTS[0], lr, 0, "held out")
        )
        yield Item(f"rate/{task.name}-lr{lr:g}", compute, task.needs)
    if missing_rates(task):
        return
    for seed in seeds:
        compute = partial(
            *(tuned, task.start, task.source, count, best_rate(task), seed)
        )
        yield Item(f"tuned/{task.name}-{count}-{seed}", compute, task.needs)


def probes(task: Task, count: int) -> Item:
    """Three probes."""
    compute = partial(probed, task.start, task.source, count)
    return Item(f"probe/{task.name}-{count}", compute, task.needs)


def work() -> Iterator[Item]:
    """All of it, in the order of its worth."""
    yield Item("shapes", draw_shapes)
    yield Item("speed", measure_speed, ("shapes",))  # as others have begun
    for start in PRETRAINED[:3]:
        compute = partial(pretrain, start, 0)
        yield Item(f"pretrain/{start}-0", compute, ("speed",))
    yield from tunings(FIRST[0], 1_000, SEEDS)
    for start in PRETRAINED[3:5]:
        compute = partial(pretrain, start, 0)
        yield Item(f"pretrain/{start}-0", compute, ("speed",))
    for task in FIRST[1:]:
        yield from tunings(task, 1_000, SEEDS)
    for count in (500, 5_000):
        for task in FIRST:
            yield from tunings(task, count, SEEDS)
    for task in TARGETS:
        yield from tunings(task, 1_000, SEEDS)
    for size in DIGITS:
        name = f"digits/{size[0]}-{size[1]}"
        yield Item(name, partial(completed, *size), ("speed",))
    for task in (*FIRST, *TARGETS):
        yield probes(task, 1_000)
    for start in PRETRAINED[5:]:
        compute = partial(pretrain, start, 0)
        yield Item(f"pretrain/{start}-0", compute, ("speed",))
    for task in DRAWN:
        yield from tunings(task, 1_000, SEEDS)
        yield probes(task, 1_000)
    for task in LONG:
        yield from tunings(task, 1_000, SEEDS)
    for start, again in AGAIN:
        compute = partial(pretrain, start, again)
        name = f"pretrain/{start}-{again}"
        yield Item(name, compute, ("speed", f"pretrain/{start}-0"))
        compute = partial(probed, start, "cifar", 1_000, 0, again)
        own = f"probe/cifar-{start}-again{again}-1000"
        yield Item(own, compute, (name,))
        if not missing_rates(Task(start)):
            lr = best_rate(Task(start))
            for seed in SEEDS:
                compute = partial(
                    *(tuned, start, "cifar", 1_000, lr, seed, "test", again)
                )
                own = f"tuned/cifar-{start}-again{again}-1000-{seed}"
                yield Item(own, compute, (name,))
    for count in (500, 5_000):
        for task in FIRST:
            yield probes(task, count)


def do_all() -> None:
    """Whatever can be done, until all is; the record after every item."""
    while True:
        left = [item for item in work() if not is_over(item.name)]
        if not left:
            return
        can = [item for item in left if all(map(is_there, item.needs))]
        if any(take(item) for item in can):
            write()
        elif any(map(is_alive, RUNS.glob("*.claim"))):
            time.sleep(0.5)
        else:  # the rest needs what has failed
            return


# --- the record


def metric(values: list[float], **more: Any) -> dict[str, Any]:
    """A metric of several seeds."""
    mean = statistics.fmean(values)
    return {
        "value": mean,
        "unit": "percent of the test images",
        "per_seed": values,
        **more,
    }


def rows() -> dict[str, Any]:
    """The rows that are whole."""
    metrics: dict[str, Any] = {}
    names = [(task.name, task) for task in TASKS]
    names += [(f"cifar-{x}-again{k}", Task(x)) for x, k in AGAIN]
    for name, task in names:
        for count in COUNTS:
            runs = [f"tuned/{name}-{count}-{seed}" for seed in SEEDS]
            if all(map(is_there, runs)):
                each = [found(run) for run in runs]
                metrics[f"tuned/{name}/{count}"] = metric(
                    [x["test"] for x in each],
                    train_per_seed=[x["train"] for x in each],
                    lr=best_rate(task),
                )
            if is_there(probe := f"probe/{name}-{count}"):
                both = found(probe)
                metrics[f"probe/{name}/{count}"] = metric(
                    both["test"], train_per_seed=both["train"]
                )
    return metrics


def claim(metrics: dict[str, Any]) -> dict[str, Any]:
    """What 1,000 labels came to, for the paper's row; nothing before."""
    words = {
        "mpp-mean": "masked patch prediction",
        "scratch": "from scratch",
        "shapes": "after drawn shapes with labels",
        "mae": "after MAE",
    }
    names = {x: f"tuned/cifar-{x}/{COUNTS[0]}" for x in words}
    if not all(name in metrics for name in names.values()):
        return {}
    said = [f"{words[x]} {metrics[names[x]]['value']:.1f}" for x in words]
    return {
        "row": "appendix-b.1.2",
        "scale": "small",
        "ours": f"CIFAR-10 from 1,000 labels, percent: {', '.join(said)}",
        "paper": None,
        "n": len(SEEDS),
    }


def write() -> None:
    """Write what has been measured so far."""
    metrics = rows()
    if not metrics:
        return
    files = {path.stem: path for path in sorted(RUNS.glob("*.json"))}
    every = {name: json.loads(x.read_text()) for name, x in files.items()}
    pretrained = {
        name.removeprefix("pretrain-"): values
        for name, values in every.items()
        if name.startswith("pretrain-")
    }
    seconds = math.fsum(each["seconds"] for each in every.values())
    command = "python benchmarks/unlabelled_cifar.py cifar10-jpeg75.npz"
    fields = result_fields("unlabelled-cifar", command, seconds, device=DEVICE)
    results.write(
        TARGET if OPTIONS.record is None else OPTIONS.record,
        {
            **fields,
            "seeds": list(SEEDS),
            "config": {
                "pretraining": pretrained,
                "pretrain_rate": PRETRAIN_RATE,
                "pretrain_batch": BATCH,
                "tune_steps": lengths()[1],
                "tune_batch": FEW_BATCH,
                "held_out_by_rate": {
                    task.name: {f"{k:g}": v for k, v in rates_of(task).items()}
                    for task in TASKS
                    if rates_of(task)
                },
                "digits": {
                    name: values
                    for name, values in every.items()
                    if name.startswith("digits-")
                },
                "weight_decay": 0.05,
                "label_smoothing": 0.1,
                "augment": {"shift": 4, "flip": True},
            },
            "metrics": metrics,
            "reproduces": claim(metrics),
            "dataset": {
                "name": "cifar10-jpeg75.npz",
                "digest": data_of("cifar").digest,
                "num_train": UNLABELLED,
                "num_test": len(data_of("cifar").test[1]),
            },
            "notes": "CIFAR-10 as JPEG of quality 75; rows of shapes are on "
            "2,000 drawn ones; every start is pretrained once, seed 0, but "
            "where it says again; seconds are those of several processes "
            "together that shared a device",
        },
    )


def add_rivals() -> None:
    """Probes that nothing is trained for go into the record that is there."""
    record = json.loads(TARGET.read_text())
    rivals = {"pixels": ("pixels", 0)}
    rivals |= {f"scratch-again{k}": ("scratch", k) for k in (1, 2)}
    for name, (start, weights) in rivals.items():
        both = probed(start, "cifar", COUNTS[0], weights)
        row = metric(both["test"], train_per_seed=both["train"])
        record["metrics"][f"probe/cifar-{name}/{COUNTS[0]}"] = row
        print(name, both, flush=True)
    record["metrics"] = dict(sorted(record["metrics"].items()))
    note = "; probes of pixels and of scratch-again on a CPU"
    record["notes"] = record["notes"].removesuffix(note) + note
    results.write(TARGET, record)


def main() -> None:
    """Do what isn't there yet."""
    torch.set_num_threads(1)
    if OPTIONS.rivals:
        return add_rivals()
    RUNS.mkdir(parents=True, exist_ok=True)
    do_all()
    write()


def options() -> argparse.Namespace:
    """The file, and how steps are run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="cifar10-jpeg75.npz")
    parser.add_argument("--record", type=Path, help="another file to write")
    parser.add_argument(
        "--eager", action="store_true", help="without CUDA graphs"
    )
    parser.add_argument(
        "--rivals", action="store_true", help="probes without training alone"
    )
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = options()
    main()
