"""What test_distributed.py gives torchrun: `two_processes.py SET.npz OUT.json`.

The first process also does alone what all do together, and writes down how far
apart the two are. At the end the second one fails, alone.
"""

import json
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from tests.train.runs import SHORT, SMALL
from vitedu.errors import UserError
from vitedu.model import ViT
from vitedu.train.data import open_sources
from vitedu.train.fit import Loop
from vitedu.train.processes import SINGLE, from_environment
from vitedu.train.start import Given, build_state
from vitedu.train.step import StepResult, train_step

CPU = torch.device("cpu")
CONFIG = replace(
    SHORT,
    model=replace(SMALL, depth=2),
    dataset=sys.argv[1],
    steps=20,
    micro_batch_size=3,
    lr=0.01,
    weight_decay=0.1,
    layer_decay=0.8,
    warmup=0.1,
    max_grad_norm=0.5,  # below the norms of the first steps
    label_smoothing=0.1,
    class_weights="balanced",
    ema=0.9,
)
# Shares of 4 and 4, in parts of 3 and 1; of 4 and 3, so that the second process
# has a part less; of 1 and none; of 3 and 2.
BATCH_SIZES = (8, 7, 1, 5)


class Thirty:
    """As many images, of classes that differ in size."""

    labels = torch.tensor([0] * 18 + [1] * 9 + [2] * 3)

    def __len__(self):
        return len(self.labels)


def build(processes, shard):
    """A float64 state in which every weight matters."""
    torch.manual_seed(0)
    model = ViT(CONFIG.model).double()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    config = replace(CONFIG, shard=shard, activation_checkpointing=shard)
    return build_state(config, Thirty(), CPU, processes, Given(model=model))


def batches(count):
    drawn = torch.Generator().manual_seed(1)
    for number in range(count):
        size = BATCH_SIZES[number % len(BATCH_SIZES)]
        images = torch.randn(
            size, 1, 8, 8, dtype=torch.float64, generator=drawn
        )
        yield images, torch.randint(3, (size,), generator=drawn)


def step(state, batch, processes):
    """A step of all processes; the result is that of all of them."""
    images, labels = batch
    share = slice(processes.rank, None, processes.world_size)
    result = train_step(
        state, (images[share], labels[share]), processes, len(images)
    )
    sums = processes.total(result[:3])
    return StepResult(*sums, result.grad_norm)


def distance(one, other):
    """The largest difference of two dicts of tensors, or of dicts of them."""
    assert one.keys() == other.keys(), (one.keys(), other.keys())
    return max(
        distance(one[key], other[key])
        if isinstance(one[key], dict)
        else (one[key] - other[key]).abs().max().item()
        for key in one
    )


def equality(processes, shard):
    """20 steps together and alone; how far what comes out is apart."""
    together, alone, sums = build(processes, shard), build(SINGLE, False), 0.0
    assert all(
        hasattr(x, "full_tensor") == shard for x in together.model.parameters()
    )
    for batch in batches(CONFIG.steps):
        ours, theirs = (
            step(together, batch, processes),
            step(alone, batch, SINGLE),
        )
        assert ours.num_images == theirs.num_images
        assert ours.correct == theirs.correct
        sums = max(
            sums,
            abs(ours.loss_sum - theirs.loss_sum).item(),
            abs(ours.grad_norm - theirs.grad_norm).item(),
        )
    parts = {
        "model": alone.model.state_dict(),
        "ema": alone.ema.average,
        "optimizer": alone.optimizer.state_dict()["state"],
    }
    whole = processes.gather(together)
    found = {"sums": sums}
    if processes.is_first:
        found |= {
            name: distance(parts[name], part(whole, name)) for name in parts
        }
    restored = build(processes, shard)
    restored.step = together.step
    processes.scatter(lambda: dict(whole), restored)
    again = processes.gather(restored)
    if processes.is_first:
        found["restored"] = max(
            distance(part(whole, name), part(again, name)) for name in parts
        )
        found["groups"] = [
            optimizer["param_groups"]
            for optimizer in (
                alone.optimizer.state_dict(),
                whole["optimizer"],
                again["optimizer"],
            )
        ]
        averages = [each["ema"]["num_updates"] for each in (whole, again)]
        found["updates"] = averages
    for batch in batches(2):
        for state in (together, restored):
            step(state, batch, processes)
    both = [processes.gather(state)["model"] for state in (together, restored)]
    if processes.is_first:
        found["gone on"] = distance(*both)
    return found


def part(whole, name):
    """Its tensors by name, of what `gather` gave."""
    inside = {"ema": "average", "optimizer": "state"}
    return whole[name][inside[name]] if name in inside else whole[name]


def evaluations(processes, shard):
    """How many test images are counted, and how, together and alone."""
    config = replace(CONFIG, shard=shard)
    sources = open_sources(config, CPU)
    measured = []
    for each in (processes, SINGLE):
        state = build_state(config, sources.train, CPU, each)
        loop = Loop(state, sources, processes=each)
        measured.append(loop.evaluate(sources.test))
    return measured


def anyone(processes, holds):
    """Whether it holds on at least one process."""
    return bool(processes.total([holds])[0] > 0)


def first_fails():
    raise UserError("the first says no")


def made_before():
    """Whether a file was there; it is from now on."""
    path = Path(sys.argv[2] + ".made")
    was_there = path.exists()
    time.sleep(0.2)
    path.touch()
    return was_there


def made_in_vain(processes):
    """How often this process makes what the first one cannot make."""
    calls = []

    def make():
        calls.append(processes.rank)
        raise UserError("it cannot be made")

    with suppress(UserError):
        processes.rank0_first(make)
    return len(calls) - processes.is_first


def main(processes):
    """All that is asked of two processes."""
    answers = {}
    for name, shard in (("ddp", False), ("fsdp2", True)):
        answers[name] = equality(processes, shard)
        answers[f"{name} counts"] = evaluations(processes, shard)
    answers["any"] = [
        anyone(processes, processes.rank == 1),
        anyone(processes, False),
    ]
    answers["first"] = processes.on_rank0(lambda: processes.rank)
    try:
        processes.on_rank0(first_fails)
    except UserError as error:
        answers["error"] = str(error)
    told = torch.tensor(float(answers["error"] == "the first says no"))
    answers["told"] = float(processes.total([told])[0])
    answers["found"] = [
        anyone(processes, found and processes.rank == number)
        for found in [processes.rank0_first(made_before)]
        for number in (0, 1)
    ]
    answers["waited"] = float(processes.total([made_in_vain(processes)])[0])
    if processes.is_first:
        with open(sys.argv[2], "w") as file:
            json.dump(answers, file)
    processes.total([0.0])
    if processes.rank == 1:
        raise UserError("the second fails alone")
    processes.total([0.0])


if __name__ == "__main__":
    torch.set_num_threads(1)
    here = from_environment()
    with here.connected(CPU):
        main(here)
