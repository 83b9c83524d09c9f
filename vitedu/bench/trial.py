"""What a run would take: on known GPUs, and here, where steps are timed.

`try_run(config, torch.device("cpu"))["time"]["training_seconds"]`
"""

import math
import statistics
import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from vitedu import budget
from vitedu.bench.measure import wait
from vitedu.budget.memory import pixels
from vitedu.budget.meta import bytes_kept, on_meta
from vitedu.data.feed.pictures import Epoch, ImageSource
from vitedu.data.feed.source import labels_of
from vitedu.data.open import folder_of
from vitedu.data.scan import checking_for
from vitedu.errors import UserError, available_memory, readable_bytes
from vitedu.model import new_network
from vitedu.train import Progress, Start, TrainConfig, fit
from vitedu.train.data import Sources, open_sources
from vitedu.train.optimizer import freeze
from vitedu.train.precision import DTYPES
from vitedu.train.processes import from_environment
from vitedu.train.processes.device import choose_threads
from vitedu.train.recipes.imagenet import SIZES
from vitedu.train.start import build_model, check_room
from vitedu.train.step import count_steps

COUNTS = (1, 8, 64)  # of GPUs
# What isn't predicted, as a share: work space, what the allocator rounds up.
SPARE = 1.1
FEWEST = 8  # images at a time, before blocks are computed twice instead
WARM_UP = 3  # steps that are taken but not timed; the first may compile
MEASURED = 10
SAMPLE = 200  # pictures that are read to see whether they can be
# A dry run ends within a minute: seconds for the pictures, a step, all steps
CHECKING = 10.0
ONE_STEP = 3.0
ALL_STEPS = 20.0
SLOWEST = 2e10  # operations per second of a CPU's thread that others use too
MOST_READ = 100  # pictures for a step, where a CPU reads them


class GPU(NamedTuple):
    precision: str
    num_bytes: int  # of memory
    mfu: float  # share of the data sheet's peak


# Memory from NVIDIA's data sheets, less what the driver keeps of a T4's. The
# shares are assumptions, as reported for ViTs of this size; a dry run measures.
GPUS = {
    "T4": GPU("fp16", 15_000_000_000, 0.3),
    "A100": GPU("bf16", 40_000_000_000, 0.4),
    "H100": GPU("bf16", 80_000_000_000, 0.35),
}


# --- predicted


class StepMemory(NamedTuple):
    weights: int  # with their gradients, the optimizer's and the average
    activations: int  # with the casts of the weights
    images: int  # of the batch, besides those of the micro-batch
    total: int


def images_at_once(config: TrainConfig, num_processes: int = 1) -> int:
    share = -(-config.batch_size // num_processes)
    return min(config.micro_batch_size or share, share)


def step_memory(config: TrainConfig, num_processes: int = 1) -> StepMemory:
    share = -(-config.batch_size // num_processes)
    at_once = images_at_once(config, num_processes)
    held = budget.memory(
        config.model,
        batch_size=at_once,
        optimizer=config.optimizer,
        autocast=DTYPES.get(config.precision),
        checkpointing=config.activation_checkpointing,
    )
    changed, activations = held.gradients + held.optimizer, held.activations
    casts = held.casts
    if config.freeze is not None:
        learn, keep = shares_not_frozen(config)
        changed, casts = int(learn * changed), int(learn * casts)
        passed = budget.memory(config.model, batch_size=at_once, training=False)
        activations = max(int(keep * activations), passed.activations)
    weights = held.weights + changed
    weights += held.weights if config.ema is not None else 0
    weights //= num_processes if config.shard else 1
    activations += casts
    images = 4 * (share - at_once) * pixels(config.model)
    total = weights + activations + images
    return StepMemory(weights, activations, images, total)


def shares_not_frozen(config: TrainConfig) -> tuple[float, float]:
    """Of the weights, and of what they keep for the backward pass."""
    model, images = on_meta(new_network, config.model)
    weights = list(model.parameters())
    kept = bytes_kept(model, images)
    frozen = sum(each.numel() for each in freeze(model, config.freeze))
    learn = 1 - frozen / sum(each.numel() for each in weights)
    return learn, bytes_kept(model, images) / kept


def fits(config: TrainConfig, num_bytes: float, num_processes: int = 1) -> bool:
    return step_memory(config, num_processes).total * SPARE <= num_bytes


def fitted(
    config: TrainConfig, num_bytes: float, num_processes: int = 1
) -> TrainConfig | None:
    """`config`, if need be with fewer images at a time; None: nothing helps.

    Blocks are computed twice only if not even FEWEST images fit otherwise.
    """
    if fits(config, num_bytes, num_processes):
        return config
    most = images_at_once(config, num_processes)
    sizes = [2**i for i in reversed(range(most.bit_length())) if 2**i < most]
    is_twice = config.activation_checkpointing
    tried = [(size, is_twice) for size in sizes if size >= FEWEST]
    tried += [(size, True) for size in (most, *sizes)]
    for size, is_twice in tried:
        smaller = replace(
            config, micro_batch_size=size, activation_checkpointing=is_twice
        )
        if fits(smaller, num_bytes, num_processes):
            return smaller
    return None


def added_words(config: TrainConfig, before: TrainConfig) -> str:
    words = []
    if config.micro_batch_size != before.micro_batch_size:
        words.append(f"micro_batch_size={config.micro_batch_size}")
    if config.activation_checkpointing != before.activation_checkpointing:
        words.append("activation_checkpointing=true")
    return " ".join(words)


def gpu_hours(config: TrainConfig, num_images: int, gpu: str) -> float:
    peak = budget.datasheet(gpu, GPUS[gpu].precision)
    assert peak is not None  # GPUS are in the data sheets
    operations = num_images * budget.training_flops(config.model)
    if config.activation_checkpointing:
        operations = operations * 4 // 3  # the forward pass once more
    return operations / (peak * GPUS[gpu].mfu) / 3600


def on_gpu(
    config: TrainConfig, images: int, name: str
) -> dict[str, Any] | None:
    """Hours, memory and overrides to add; None: a step doesn't fit."""
    gpu = GPUS[name]
    asked = replace(config, precision=gpu.precision)
    found = fitted(asked, gpu.num_bytes)
    if found is None:
        return None
    hours = gpu_hours(found, images, name)
    return {
        "hours": {str(count): hours / count for count in COUNTS},
        "images_per_second": images / hours / 3600,
        "bytes": step_memory(found).total,
        "available": gpu.num_bytes,
        "add": added_words(found, asked),
    }


def num_images(config: TrainConfig) -> int | None:
    """Images that a run learns from; None: it depends on the data."""
    if config.steps is not None:
        return config.steps * config.batch_size
    if config.dataset not in SIZES or config.epochs is None:
        return None
    return config.epochs * SIZES[config.dataset][0]


# --- measured


@checking_for(CHECKING)
def try_run(
    config: TrainConfig,
    device: torch.device,
    *,
    steps_done: int = 0,
    on_memory: Callable[[dict[str, Any]], object] = lambda memory: None,
    on_start: Callable[[Start], object] = lambda start: None,
) -> dict[str, Any]:
    """Memory, a summary of the data, and the time after `steps_done` steps.

    Meant to take less than a minute, so large folders aren't checked to the
    end, and on a CPU the steps are of fewer images and not compiled. If memory
    is too small, or one image takes longer, no step is taken. `on_memory` is
    called before any is. Of several processes only the first returns more than
    memory. UserError: as from `fit`.
    """
    processes = from_environment()
    memory = processes.on_rank0(lambda: memory_for(config, device))
    smaller = quick(config, device, processes.world_size)
    if not memory["enough"] or smaller is None:
        # the steps would fail, or push everything else out of memory
        sources = processes.rank0_first(lambda: open_sources(config, device))
        if config.batch_size > (most := len(sources.train)):
            all_at_once = replace(config, batch_size=most)
            memory = processes.on_rank0(lambda: memory_for(all_at_once, device))
    if not memory["enough"] or smaller is None:
        check_room(config, device)
        if config.weights is not None:
            build_model(config)
        return {"memory": memory, "data": look_at(sources, config)}
    if processes.is_first:
        on_memory(memory)

    def announce(start: Start) -> None:
        names = ("batch_size", "log_every", "compile")
        asked = {name: getattr(config, name) for name in names}
        steps = count_steps(config, len(start.sources.train))
        state = copy(start.state)
        state.config = replace(start.config, **asked)
        on_start(Start(state.config, start.sources, state, steps))

    trial = Trial(device, announce)
    try:
        fit(
            smaller,
            on_start=trial.start,
            on_progress=trial.measured,
            should_stop=trial.stepped,
            progress=False,
        )
    except torch.cuda.OutOfMemoryError:
        raise out_of_memory(config, device) from None
    if trial.begun is None:
        return {"memory": memory}
    expected = trial.expected(trial.begun, config, steps_done)
    if device.type == "cuda":
        expected["peak_memory"] = torch.cuda.max_memory_allocated(device)
    data = look_at(trial.begun.sources, trial.begun.config)
    return {"memory": memory, "data": data, "time": expected}


def quick(
    config: TrainConfig, device: torch.device, num_processes: int
) -> TrainConfig | None:
    """`config` with steps of seconds; None: one image alone takes a minute."""
    config = replace(config, log_every=1)
    if device.type != "cpu":
        return config
    num_threads = torch.get_num_threads()
    threads = config.threads or choose_threads(config, num_threads)
    seconds = budget.training_flops(config.model) / (SLOWEST * threads)
    if seconds > 3 * ALL_STEPS:
        return None
    count = int(max(ONE_STEP / seconds, 1))
    if folder_of(config.dataset, config.data) is not None:
        count = min(count, MOST_READ)
    return replace(
        config,
        batch_size=min(config.batch_size, count * num_processes),
        threads=threads,
        compile=False,
    )


def memory_for(config: TrainConfig, device: torch.device) -> dict[str, Any]:
    processes = from_environment()
    world_size = processes.world_size
    # of a GPU each process has its own
    num_bytes = available_memory() // processes.local_size
    if device.type == "cuda":
        num_bytes, _ = torch.cuda.mem_get_info(device)
    values: dict[str, Any] = {
        "available": num_bytes,
        "enough": fits(config, num_bytes, world_size),
        "needed": step_memory(config, world_size)._asdict(),
    }
    if not values["enough"]:
        other = fitted(config, num_bytes, world_size)
        values["add"] = other and added_words(other, config)
    return values


def out_of_memory(config: TrainConfig, device: torch.device) -> UserError:
    world_size = from_environment().world_size
    at_once = images_at_once(config, world_size)
    free, _ = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device)  # by the step itself
    smaller = replace(config, micro_batch_size=max(at_once // 2, 1))
    if not fits(config, free, world_size):
        smaller = fitted(config, free, world_size) or config
    add = added_words(smaller, config)
    advice = "take a smaller model or smaller images"
    if add:
        advice = f"add {add}, which changes the time and not the result"
    return UserError(
        f"a step of {at_once} images at a time doesn't fit into the "
        f"{readable_bytes(free)} that {device} has free; {advice}"
    )


class Trial:
    def __init__(
        self, device: torch.device, on_start: Callable[[Start], object]
    ) -> None:
        self.device = device
        self.on_start = on_start
        self.begun: Start | None = None
        self.step = 0
        self.since = 0.0
        self.until = math.inf
        self.seconds: list[float] = []  # of each step
        self.waits: list[float] = []  # share of each spent waiting for data

    def start(self, start: Start) -> None:
        self.begun = start
        self.on_start(start)
        self.since = time.perf_counter()
        self.until = self.since + ALL_STEPS

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
        is_late = now > self.until and bool(self.seconds)
        is_enough = len(self.seconds) == WARM_UP + MEASURED
        return state.is_done or is_enough or is_late

    def expected(
        self, start: Start, config: TrainConfig, steps_done: int
    ) -> dict[str, Any]:
        sources, num_train = start.sources, len(start.sources.train)
        batch_size = min(config.batch_size, num_train)
        taken = min(start.config.batch_size, num_train)
        # a shorter run has nothing but its warm-up
        timed = self.seconds[WARM_UP:] or self.seconds[-1:]
        waits = self.waits[WARM_UP:] or self.waits[-1:]
        step = statistics.median(timed) * batch_size / taken
        steps = max(count_steps(config, num_train) - steps_done, 0)
        evaluated = len(sources.test)
        if sources.validation is not None:
            epochs = -(-steps // -(-num_train // config.batch_size))
            evaluated += epochs * len(sources.validation)
        return {
            "steps": steps,
            "step_seconds": step,
            "measured_steps": len(timed),
            "measured_images": taken,
            "batch_size": batch_size,
            "training_seconds": steps * step,
            "images_per_second": batch_size / step,
            "data_wait": statistics.mean(waits),
            "evaluated_images": evaluated,
            # a training step is three times the work of a forward pass
            "evaluation_seconds": evaluated * step / batch_size / 3,
        }


def look_at(sources: Sources, config: TrainConfig) -> dict[str, Any]:
    train = sources.train
    values: dict[str, Any] = {
        "name": sources.dataset.name,
        "num_classes": train.num_classes,
        "num_train": len(train),
        "num_test": len(sources.test),
        "left_out": list(sources.dataset.skipped),
    }
    if sources.validation is not None:
        values["num_validation"] = len(sources.validation)
    if (labels := labels_of(train)) is not None:
        counts = torch.bincount(labels, minlength=train.num_classes)
        names = train.class_names or tuple(map(str, range(len(counts))))
        rows = {"smallest": counts.argmin(), "largest": counts.argmax()}
        for what, row in rows.items():
            values[what] = {"class": names[row], "count": int(counts[row])}
    if isinstance(train, ImageSource):  # read some, at even distances
        epoch, count = Epoch(train, 0, config.seed), min(SAMPLE, len(train))
        read, end = [], time.monotonic() + CHECKING
        for row in range(count):
            read.append(epoch[[row * len(train) // count]])
            if time.monotonic() > end:
                count = len(read)
                break
        wrong = [str(each) for each in read if isinstance(each, UserError)]
        values["sample"] = {"count": count, "unreadable": wrong}
    return values
