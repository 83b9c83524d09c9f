"""What a run would take: on known GPUs, and here, where steps are timed.

`try_run(config, torch.device("cpu"))["time"]["training_seconds"]`
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from vitedu.bench.turns import wait
from vitedu.budget.forecast import (
    GPUS,
    Step,
    fits,
    fitted,
    gpu_hours,
    step_memory,
)
from vitedu.data.feed.pictures import Epoch, ImageSource
from vitedu.errors import UserError, available_memory
from vitedu.train import Progress, Start, TrainConfig, fit
from vitedu.train.data import Sources, open_sources
from vitedu.train.processes import from_environment
from vitedu.train.recipes.imagenet import SIZES
from vitedu.train.start import build_model, check_room

COUNTS = (1, 8, 64)  # of GPUs
WARM_UP = 3  # steps that are taken but not timed; the first may compile
MEASURED = 10
SAMPLE = 200  # pictures that are read to see whether they can be


def try_run(
    config: TrainConfig,
    device: torch.device,
    *,
    steps_done: int = 0,
    on_start: Callable[[Start], object] = lambda start: None,
) -> dict[str, Any]:
    """Memory, a summary of the data, and the time after `steps_done` steps.

    If memory is too small, no step is taken. Of several processes only the
    first returns more than memory. UserError: as from `fit` before its first
    step, or a step doesn't fit into memory.
    """
    processes = from_environment()
    memory = processes.on_rank0(lambda: memory_for(config, device))
    if memory["enough"] is False:
        # the steps would fail, or push everything else out of memory
        sources = processes.rank0_first(lambda: open_sources(config, device))
        check_room(config, device)
        if config.weights is not None:
            build_model(config)
        return {"memory": memory, "data": look_at(sources, config)}
    trial = Trial(device, on_start)
    try:
        fit(
            replace(config, log_every=1),
            on_start=trial.start,
            on_progress=trial.measured,
            should_stop=trial.stepped,
        )
    except torch.cuda.OutOfMemoryError:
        raise UserError(
            f"a step doesn't fit into the memory of {device}, although the "
            "prediction said so; take half as many images at a time "
            "(micro_batch_size=)"
        ) from None
    if trial.begun is None:
        return {"memory": memory}
    expected = trial.expected(trial.begun, steps_done)
    if device.type == "cuda":
        expected["peak_memory"] = torch.cuda.max_memory_allocated(device)
    return {"memory": memory, "data": trial.data, "time": expected}


def memory_for(config: TrainConfig, device: torch.device) -> dict[str, Any]:
    world_size = from_environment().world_size
    # of a GPU each process has its own
    num_bytes = available_memory() // world_size
    if device.type == "cuda":
        num_bytes, _ = torch.cuda.mem_get_info(device)
    values: dict[str, Any] = {"available": num_bytes, "enough": None}
    step = step_of(config, world_size)
    try:
        values["needed"] = step_memory(step)._asdict()
        values["enough"] = fits(step, num_bytes)
        if not values["enough"]:
            other = fitted(step, num_bytes)
            values["add"] = other and added_words(other, step)
    except UserError as error:
        values["unknown"] = str(error)
    return values


def step_of(config: TrainConfig, num_processes: int = 1) -> Step:
    return Step(
        config.model,
        config.batch_size,
        config.micro_batch_size,
        optimizer=config.optimizer,
        precision=config.precision,
        checkpointing=config.activation_checkpointing,
        ema=config.ema is not None,
        shard=config.shard,
        num_processes=num_processes,
    )


def added_words(step: Step, before: Step) -> str:
    words = []
    if step.micro_batch_size != before.micro_batch_size:
        words.append(f"micro_batch_size={step.micro_batch_size}")
    if step.checkpointing != before.checkpointing:
        words.append("activation_checkpointing=true")
    return " ".join(words)


class Trial:
    """`fit`'s callbacks: look at the data, time some steps, stop."""

    def __init__(
        self, device: torch.device, on_start: Callable[[Start], object]
    ) -> None:
        self.device = device
        self.on_start = on_start
        self.begun: Start | None = None
        self.data: dict[str, Any] = {}
        self.step = 0
        self.since = 0.0
        self.seconds: list[float] = []  # of each step
        self.waits: list[float] = []  # share of each spent waiting for data

    def start(self, start: Start) -> None:
        self.begun = start
        self.on_start(start)
        self.data = look_at(start.sources, start.config)
        self.since = time.perf_counter()

    def measured(self, progress: Progress) -> None:
        if "data_wait" in progress.line:
            self.waits.append(progress.line["data_wait"])

    def stepped(self) -> bool:
        """Time a step; True once there are enough. Evaluation isn't timed."""
        if self.begun is None:
            return False
        state = self.begun.state
        wait(self.device)
        now = time.perf_counter()
        if state.step > self.step:
            self.seconds.append(now - self.since)
        self.step, self.since = state.step, now
        return state.is_done or len(self.seconds) == WARM_UP + MEASURED

    def expected(self, start: Start, steps_done: int) -> dict[str, Any]:
        config, sources = start.config, start.sources
        # a shorter run has nothing but its warm-up
        timed = self.seconds[WARM_UP:] or self.seconds[-1:]
        waits = self.waits[WARM_UP:] or self.waits[-1:]
        step = statistics.median(timed)
        steps = max(start.num_steps - steps_done, 0)
        num_images = len(sources.test)
        if sources.validation is not None:
            epochs = -(-steps // start.state.epoch_steps)
            num_images += epochs * len(sources.validation)
        return {
            "steps": steps,
            "step_seconds": step,
            "measured_steps": len(timed),
            "training_seconds": steps * step,
            "images_per_second": config.batch_size / step,
            "data_wait": statistics.mean(waits),
            "evaluated_images": num_images,
            # a training step is three times the work of a forward pass
            "evaluation_seconds": num_images * step / config.batch_size / 3,
        }


def look_at(sources: Sources, config: TrainConfig) -> dict[str, Any]:
    train = sources.train
    values: dict[str, Any] = {
        "name": sources.dataset.name,
        "num_classes": train.num_classes,
        "num_train": len(train),
        "num_test": len(sources.test),
        "left_out": list(sources.skipped),
    }
    if sources.validation is not None:
        values["num_validation"] = len(sources.validation)
    labels = getattr(getattr(train, "pictures", train), "labels", None)
    if labels is not None:  # else only reading the images would tell
        labels = torch.as_tensor(labels).cpu()
        counts = torch.bincount(labels, minlength=train.num_classes)
        for what, row in (
            ("smallest", int(counts.argmin())),
            ("largest", int(counts.argmax())),
        ):
            names = train.class_names
            name = names[row] if row < len(names) else str(row)
            values[what] = {"class": name, "count": int(counts[row])}
    if isinstance(train, ImageSource):  # read some, at even distances
        epoch, count = Epoch(train, 0, config.seed), min(SAMPLE, len(train))
        read = [epoch[[row * len(train) // count]] for row in range(count)]
        wrong = [str(each) for each in read if isinstance(each, UserError)]
        values["sample"] = {"count": count, "unreadable": wrong}
    return values


def on_gpu(
    config: TrainConfig, images: int, name: str
) -> dict[str, Any] | None:
    """Hours, memory and overrides to add; None: a step doesn't fit."""
    gpu = GPUS[name]
    asked = step_of(config)._replace(precision=gpu.precision)
    step = fitted(asked, gpu.num_bytes)
    if step is None:
        return None
    hours = gpu_hours(config.model, images, name, step.checkpointing)
    return {
        "hours": {str(count): hours / count for count in COUNTS},
        "images_per_second": images / hours / 3600,
        "bytes": step_memory(step).total,
        "available": gpu.num_bytes,
        "add": added_words(step, asked),
    }


def num_images(config: TrainConfig) -> int | None:
    """Images that a run learns from; None: it depends on the data."""
    if config.steps is not None:
        return config.steps * config.batch_size
    if config.dataset not in SIZES or config.epochs is None:
        return None
    return config.epochs * SIZES[config.dataset][0]
