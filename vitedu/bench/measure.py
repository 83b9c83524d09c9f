"""A benchmark: contestants in; images/s, ratios, memory, utilisation out.

A round is one turn of each contestant, a different one first each time, so that
a slow minute of the machine hits all alike. On one CPU thread the clock is the
process's own, which stops while other programs run.
"""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Annotated, Any, Literal, get_args

import torch
from torch import Tensor

from vitedu import budget, results
from vitedu.bench.peers import PEERS, Contestant, contestants, is_installed
from vitedu.budget.memory import pixels
from vitedu.errors import UserError, check_free
from vitedu.fields import Checked, Count, Range
from vitedu.model import ViTConfig
from vitedu.model.network import NetworkConfig
from vitedu.train import TrainConfig, TrainState, train_step
from vitedu.train.config import Threads
from vitedu.train.optimizer import optimizer_of
from vitedu.train.precision import DTYPES, build_precision
from vitedu.train.processes.device import cpu_threads
from vitedu.train.schedule import build_schedule
from vitedu.train.start import compile_model

Kind = Literal["inference", "training"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TURN_SECONDS = 0.3  # shorter turns are filled up with more steps
WARM_UP = 3  # steps of each contestant that are not timed; the first compiles


@dataclass(frozen=True)
class Settings(Checked):
    """What is the same for all contestants.

    `batch_size` images a step, `rounds` turns of each contestant, `threads` of
    the CPU (None: torch's). A step is that of `vitedu train`: softmax
    cross-entropy, fused AdamW, no gradient clipping.
    """

    batch_size: Count
    precision: str = "auto"
    compile: bool = False
    rounds: Annotated[int, Range(5, 1_000_000)] = 9
    threads: Threads | None = None
    kinds: tuple[Kind, ...] = KINDS


def bench(
    config: NetworkConfig,
    settings: Settings,
    *,
    against: tuple[str, ...] = tuple(PEERS),
    device: torch.device,
    tell: Callable[[str], None] = lambda sentence: None,
) -> dict[str, Any]:
    """Time our model and the installed peers on the same random images.

    For each kind: images per second of each contestant; `ratio`, how many times
    as fast ours is, with quartiles over the rounds (beside the contestants:
    against the fastest peer that computes the same function); peak memory of a
    step in bytes; `mfu`, the share of each ceiling reached. `away` says why a
    peer did not take part.

    UserError: a name is unknown, the device lacks the precision, or the batch
    does not fit into memory.
    """
    num_models = 1 + sum(map(is_installed, against))
    # built here, and trained here unless the device has memory of its own
    is_trained_here = "training" in settings.kinds and device.type != "cuda"
    budget.check_memory(
        config,
        f"the benchmark of {num_models} models",
        copies=num_models * (4 if is_trained_here else 1),
    )
    check_free(
        4 * settings.batch_size * pixels(config),
        f"a batch of {settings.batch_size} images",
        "take a smaller batch",
    )
    threads = settings.threads or torch.get_num_threads()
    with cpu_threads(threads):
        tell("building the contestants")
        entered, away = contestants(config, against)
        machine = results.machine(device)
        try:
            measured = measure(entered, config, settings, device, tell)
        except torch.cuda.OutOfMemoryError:
            raise UserError(
                f"{len(entered)} models and a batch of {settings.batch_size} "
                "images do not fit into memory; take a smaller batch"
            ) from None
    versions = {each.name: metadata.version(each.name) for each in entered[1:]}
    return {
        "config": config.to_json(),
        "settings": asdict(settings)
        | {"threads": threads, "optimizer": "adamw, fused", "warm_up": WARM_UP},
        "device": str(device),
        "hardware": machine["hardware"],
        "versions": machine["versions"] | versions,
        "contestants": {
            each.name: {
                "parameters": each.num_parameters,
                "difference": each.difference,
            }
            for each in entered
        },
        "away": away,
        **measured,
    }


def measure(
    entered: list[Contestant],
    config: NetworkConfig,
    settings: Settings,
    device: torch.device,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    batch = random_batch(config, settings.batch_size, device)
    states = {
        each.name: train_state(each.model.to(device), settings, device)
        for each in entered
    }
    precision = states["vitedu"].precision
    with precision.autocast():
        dtype = DTYPES[precision.name] or torch.float32
        ceilings = {"matrix_product": matmul_ceiling(device, dtype)}
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        ceilings["datasheet"] = budget.datasheet(name, precision.name)
    same = {each.name for each in entered if each.difference is not None}
    measured: dict[str, Any] = {"precision": precision.name}
    measured |= {"clock": clock_of(device).__name__, "ceilings": ceilings}
    for kind in settings.kinds:
        is_training = kind == "training"
        steps = {}
        for name, state in states.items():
            state.model.train(is_training)
            steps[name] = step_of(state, batch, is_training)
        tell(f"{kind}: warming up")
        num_steps, peaks = warm_up(steps, states, device)
        tell(f"{kind}: {settings.rounds} rounds")
        turns = {x: repeated(step, num_steps) for x, step in steps.items()}
        seconds = take_turns(turns, settings.rounds, device)
        answer = compare(seconds, num_steps * settings.batch_size, same)
        for name, row in answer["contestants"].items():
            row["peak_memory"] = peaks[name]
            speed = row["images_per_second"]["median"]
            row["mfu"] = {
                x: budget.mfu(config, speed, ceiling, training=is_training)
                for x, ceiling in ceilings.items()
                if ceiling and name in same
            }
        measured[kind] = answer | {"steps_a_turn": num_steps}
    return measured


# --- a step


def train_state(
    model: torch.nn.Module, settings: Settings, device: torch.device
) -> TrainState:
    config = TrainConfig(
        recipe="bench",
        tier="cpu",
        model=ViTConfig(),  # any: a step does not read it
        dataset="random",
        steps=1,
        batch_size=settings.batch_size,
        lr=1e-6,  # so small that random labels teach nothing
        weight_decay=0.05,
        precision=settings.precision,
        compile=settings.compile,
    )
    if settings.compile and (note := compile_model(model, device)):
        raise UserError(f"the model cannot be compiled here: {note}")
    return TrainState(
        config=config,
        model=model,
        optimizer=optimizer_of(model, config),
        schedule=build_schedule("constant", config.lr, 1, 0.0),
        precision=build_precision(config.precision, device),
    )


def random_batch(
    config: NetworkConfig, batch_size: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (batch_size, config.in_channels, *config.image_size)
    images = torch.randn(shape, generator=generator)
    labels = torch.randint(
        config.num_classes, (batch_size,), generator=generator
    )
    return images.to(device), labels.to(device)


def step_of(
    state: TrainState, batch: tuple[Tensor, Tensor], is_training: bool
) -> Callable[[], None]:
    def infer() -> None:
        with torch.inference_mode(), state.precision.autocast():
            state.model(batch[0])

    def learn() -> None:
        train_step(state, batch)

    return learn if is_training else infer


def warm_up(
    steps: dict[str, Callable[[], None]],
    states: dict[str, TrainState],
    device: torch.device,
) -> tuple[int, dict[str, int | None]]:
    """Steps that fill a turn, and the peak memory of each step in bytes."""
    is_cuda = device.type == "cuda"
    seconds, peaks = [], {}
    for name, step in steps.items():
        repeated(step, WARM_UP - 1)()
        wait(device)
        if is_cuda:
            torch.cuda.reset_peak_memory_stats(device)
            before = torch.cuda.memory_allocated(device)
        seconds.append(timed(step, device))
        peaks[name] = None
        if is_cuda:
            # the others take memory too, so count what this step adds
            added = torch.cuda.max_memory_allocated(device) - before
            peaks[name] = added + resident_bytes(states[name])
    return math.ceil(TURN_SECONDS / min(seconds)), peaks


def resident_bytes(state: TrainState) -> int:
    held = [state.model.state_dict(), *state.optimizer.state.values()]
    tensors = [x for values in held for x in values.values()]
    return sum(x.nbytes for x in tensors if isinstance(x, Tensor))


# --- turns


def take_turns(
    turns: dict[str, Callable[[], None]], rounds: int, device: torch.device
) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for index in range(rounds):
        first = index % len(turns)  # another begins each time
        for name in [*turns][first:] + [*turns][:first]:
            seconds[name].append(timed(turns[name], device))
    return seconds


def timed(action: Callable[[], object], device: torch.device) -> float:
    """Seconds of an action, from an idle device to an idle device."""
    clock = clock_of(device)
    wait(device)
    started = clock()
    action()
    wait(device)
    return clock() - started


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def clock_of(device: torch.device) -> Callable[[], float]:
    is_alone = device.type == "cpu" and torch.get_num_threads() == 1
    return time.process_time if is_alone else time.perf_counter


def repeated(step: Callable[[], None], times: int) -> Callable[[], None]:
    def turn() -> None:
        for _ in range(times):
            step()

    return turn


def matmul_ceiling(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second of one large square matrix product, best of ten."""
    side = 8192 if device.type == "cuda" else 1024
    a, b = torch.randn(2, side, side, device=device).to(dtype)
    best = min(timed(lambda: a @ b, device) for _ in range(10))
    return 2 * side**3 / best


def compare(
    seconds: dict[str, list[float]], num_images: int, same: set[str]
) -> dict[str, Any]:
    """Speeds and ratios from the seconds of turns of `num_images` each.

    A ratio is ours to theirs within a round, above 1 where ours is faster. The
    fastest peer is one of `same`, which compute the same function.
    """
    rows: dict[str, Any] = {}
    for name, turns in seconds.items():
        speeds = [num_images / each for each in turns]
        rows[name] = {"images_per_second": spread(speeds)}
        if name != "vitedu":
            pairs = zip(turns, seconds["vitedu"], strict=True)
            rows[name]["ratio"] = spread([a / b for a, b in pairs])
    fastest = max(
        (name for name in rows if name in same - {"vitedu"}),
        key=lambda name: rows[name]["images_per_second"]["median"],
        default=None,
    )
    return {
        "contestants": rows,
        "fastest_peer": fastest,
        "ratio": rows[fastest]["ratio"] if fastest else None,
        "seconds": seconds,
    }


def spread(values: list[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"low": low, "median": median, "high": high}
