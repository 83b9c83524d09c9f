"""What a run costs on known GPUs, and the commands for one and for many."""

from dataclasses import replace
from typing import Any, NamedTuple

from vitedu import budget
from vitedu.cli.command import Rows, section
from vitedu.cli.room import added_words, made_to_fit, room_for
from vitedu.errors import readable_bytes
from vitedu.train import TrainConfig, override
from vitedu.train.recipes.imagenet import SIZES


class GPU(NamedTuple):
    """A kind of GPU, and what is assumed of it."""

    precision: str
    num_bytes: int  # of memory
    mfu: float  # share of the data sheet's peak (`vitedu.budget.DATASHEET`)


# Memory from NVIDIA's data sheets, less what the driver keeps of a T4's. The
# shares are assumptions, of the order that is reported for ViTs of this size;
# a dry run measures.
GPUS = {
    "T4": GPU("fp16", 15_000_000_000, 0.3),
    "A100": GPU("bf16", 40_000_000_000, 0.4),
    "H100": GPU("bf16", 80_000_000_000, 0.35),
}
COUNTS = (1, 8, 64)
# Settings for the smallest GPUs, at the price of time.
LOW_MEMORY = {
    "micro_batch_size": "8",
    "activation_checkpointing": "true",
    "precision": "fp16",
}
INDENT = 16


def cost(config: TrainConfig) -> tuple[dict[str, Any], str]:
    """Time and memory on GPUS, and commands: for `--json`, and for a person.

    Both are empty where only the data tell how many images a run sees.
    """
    if num_images(config) is None or config.tier == "smoke":
        return {}, ""
    on_gpus = {name: on_gpu(config, name) for name in GPUS}
    words = " ".join(f"{x}={value}" for x, value in LOW_MEMORY.items())
    least = room_for(override(config, LOW_MEMORY)).total
    rows = [(name, described(on_gpus[name])) for name in GPUS]
    rows.append(("low memory", f"{readable_bytes(least)} with {words}"))
    shares = ", ".join(f"{x.mfu:g} on {name}" for name, x in GPUS.items())
    title = (
        f"cost, computed; assumed: shares of a GPU's peak ({shares}), and that "
        "8 of them are 8 times as fast"
    )
    text = "\n\n".join(
        [
            section(title, rows, INDENT),
            section("on 1, 8 and 64 GPUs", commands(config.recipe), INDENT),
        ]
    )
    values = {"gpus": on_gpus, "low_memory": {"bytes": least, "add": words}}
    return {"cost": values}, text


def on_gpu(config: TrainConfig, name: str) -> dict[str, Any] | None:
    """Hours, memory, what to add to the command; None: a step doesn't fit."""
    gpu = GPUS[name]
    asked = replace(config, precision=gpu.precision)
    fitting = made_to_fit(asked, gpu.num_bytes)
    if fitting is None:
        return None
    hours = gpu_hours(fitting, name)
    images = num_images(config) or 0
    return {
        "hours": {str(count): hours / count for count in COUNTS},
        "images_per_second": images / hours / 3600,
        "bytes": room_for(fitting).total,
        "available": gpu.num_bytes,
        "add": added_words(fitting, asked),
    }


def num_images(config: TrainConfig) -> int | None:
    """How many images a run learns from; None: only the data would tell."""
    if config.steps is not None:
        return config.steps * config.batch_size
    if config.dataset not in SIZES or config.epochs is None:
        return None
    return config.epochs * SIZES[config.dataset][0]


def gpu_hours(config: TrainConfig, name: str) -> float:
    """Hours of one GPU that reaches the assumed share of its peak.

    ValueError: how many images the run sees isn't known.
    """
    images, gpu = num_images(config), GPUS[name]
    peak = budget.datasheet(name, gpu.precision)
    if images is None or peak is None:
        raise ValueError(f"the length of {config.recipe} isn't known")
    operations = images * budget.training_flops(config.model)
    if config.activation_checkpointing:
        operations = operations * 4 // 3  # the forward pass once more
    return operations / (peak * gpu.mfu) / 3600


def described(found: dict[str, Any] | None) -> str:
    """What `on_gpu` found, in a sentence."""
    if found is None:
        return "a step doesn't fit"
    hours = found["hours"]
    times = ", ".join(f"{readable_hours(hours[n])} on {n}" for n in hours)
    add = f" with {found['add']}" if found["add"] else ""
    return (
        f"{times}; one learns from {found['images_per_second']:,.0f} images/s "
        f"in {readable_bytes(found['bytes'])} of memory{add}"
    )


def commands(recipe: str) -> Rows:
    """The run on one GPU, on a machine with eight, and on eight of those."""
    run = f"vitedu train {recipe} data=FOLDER"
    several = "--nproc-per-node 8"
    machines = (
        f"--nnodes 8 {several} --rdzv-backend c10d --rdzv-endpoint HOST:29500 "
        f"--rdzv-id {recipe}"
    )
    return [
        ("1", run),
        ("8", f"torchrun {several} -m {run}"),
        ("64", f"torchrun {machines} -m {run}"),
        (
            "",
            "The last on each of the 8 machines; HOST is one of them, which "
            "the others can reach at this port. Two machines: --nnodes 2.",
        ),
    ]


def readable_hours(hours: float) -> str:
    """A time in a sentence: "50 s", "18 minutes", "7.6 hours", "12 days"."""
    if hours * 60 < 2:
        return f"{hours * 3600:.0f} s"
    if hours < 1:
        return f"{hours * 60:.0f} minutes"
    if hours < 72:
        return f"{hours:.1f} hours"
    return f"{hours / 24:,.0f} days"
