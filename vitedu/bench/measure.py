"""Timing contestants in turns, and what the times say.

A round is one turn of each contestant; who begins moves on by one a round, so that a
slow minute of the machine hits all of them alike, and a ratio is taken within a round.
On one thread of the CPU the clock is the process's own, which stands still while other
programs have the processor.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vitedu import budget, results
from vitedu.bench.peers import PEERS, Config, Contestant, contestants
from vitedu.errors import UserError, did_you_mean
from vitedu.model import ViTConfig
from vitedu.train import TrainConfig, TrainState, train_step
from vitedu.train.optimizer import optimizer_of
from vitedu.train.precision import build_precision
from vitedu.train.schedule import build_schedule
from vitedu.train.state import compile_model

KINDS = ("inference", "training")
FEWEST_ROUNDS = 5
TURN_SECONDS = 0.3  # shorter turns are filled up with more steps
WARM_UP = 3  # steps of each contestant that are not timed; the first compiles
Clock = Callable[[], float]  # seconds


@dataclass(frozen=True)
class Settings:
    """What is the same for all contestants.

    `batch_size` images a step, `rounds` turns of each contestant, `threads` of the
    CPU (None: as many as torch has now). The step is that of `vitedu train`: softmax
    cross-entropy and fused AdamW, nothing clipped.
    UserError: a number is too small, or a kind is unknown.
    """

    batch_size: int
    precision: str = "auto"
    compile: bool = False
    rounds: int = 9
    threads: int | None = None
    kinds: tuple[str, ...] = KINDS

    def __post_init__(self) -> None:
        least = {"batch_size": 1, "rounds": FEWEST_ROUNDS, "threads": 1}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise UserError(
                    f"{name} is {value}, it must be at least {lowest}"
                )
        for kind in self.kinds:
            if kind not in KINDS:
                end = did_you_mean(kind, KINDS)
                raise UserError(
                    f"there is nothing to time called {kind!r}; {end}"
                )


class Spread(NamedTuple):
    """The median of several measurements, and the quartiles around it."""

    low: float
    median: float
    high: float


def spread(values: list[float]) -> Spread:
    """Median and quartiles of at least two numbers."""
    return Spread(*statistics.quantiles(values, n=4, method="inclusive"))


def bench(
    config: Config,
    settings: Settings,
    *,
    against: tuple[str, ...] = tuple(PEERS),
    device: torch.device,
    tell: Callable[[str], None] = lambda sentence: None,
) -> dict[str, Any]:
    """Time ours and the peers that are there, all on the same random images.

    For each kind: images a second of each contestant, how many times ours is as fast
    (`ratio`, its quartiles over the rounds; to the fastest peer that is the same
    function, under `ratio` beside them), the most memory of a step in bytes (None
    where the device does not count it), and the share of the matrix products' ceiling
    that the model's operations reach (`mfu`). `away` says why a peer did not take part.

    UserError: a name is unknown, the precision is not the device's, or the batch does
    not fit into memory.
    """
    with num_threads(settings.threads):
        tell("building the contestants")
        entered, away = contestants(config, against)
        versions = {
            each.name: metadata.version(each.name) for each in entered[1:]
        }
        machine = results.machine(device)
        try:
            measured = measure(entered, config, settings, device, tell)
        except torch.cuda.OutOfMemoryError:
            raise UserError(
                f"{len(entered)} models and a batch of {settings.batch_size} do not "
                "fit into memory; take a smaller --batch"
            ) from None
        threads = torch.get_num_threads()
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
    config: Config,
    settings: Settings,
    device: torch.device,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Ceilings, and the comparison of each kind that is asked for."""
    batch = random_batch(config, settings.batch_size, device)
    states = {
        each.name: train_state(each.model.to(device), settings, device)
        for each in entered
    }
    precision = states["vitedu"].precision
    clock = clock_of(device)
    with precision.autocast():
        dtype = precision.dtype or torch.float32
        ceilings = {"matrix_product": matmul_ceiling(device, dtype, clock)}
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        ceilings["datasheet"] = budget.datasheet(name, precision.name)
    same = {each.name for each in entered if each.difference is not None}
    measured: dict[str, Any] = {
        "precision": precision.name,
        "clock": clock.__name__,
        "ceilings": ceilings,
    }
    for kind in settings.kinds:
        is_training = kind == "training"
        for state in states.values():
            state.model.train(is_training)
        steps = {
            name: learning(state, batch)
            if is_training
            else seeing(state, batch)
            for name, state in states.items()
        }
        tell(f"{kind}: warming up")
        num_steps, peaks = warm_up(steps, states, device, clock)
        tell(f"{kind}: {settings.rounds} rounds")
        turns = {
            name: repeated(step, num_steps) for name, step in steps.items()
        }
        seconds = take_turns(turns, settings.rounds, device, clock)
        answer = compare(seconds, num_steps * settings.batch_size, same)
        for name, row in answer["contestants"].items():
            row["peak_memory"] = peaks[name]
            row["mfu"] = {
                ceiling: budget.mfu(
                    config,
                    row["images_per_second"]["median"],
                    value,
                    training=is_training,
                )
                for ceiling, value in ceilings.items()
                if value and name in same
            }
        measured[kind] = answer | {"steps_a_turn": num_steps}
    return measured


def train_state(
    model: torch.nn.Module, settings: Settings, device: torch.device
) -> TrainState:
    """What `train_step` changes: as a run of `vitedu train` would hold it."""
    config = TrainConfig(
        recipe="bench",
        tier="cpu",
        model=ViTConfig(),  # of no account, a step does not read it
        dataset="random",
        steps=1,
        batch_size=settings.batch_size,
        lr=1e-6,  # so small that random labels teach nothing
        weight_decay=0.05,
        precision=settings.precision,
        compile=settings.compile,
    )
    if settings.compile and (note := compile_model(model, device)):
        raise UserError(f"leave out --compile, which fails here: {note}")
    return TrainState(
        config=config,
        model=model,
        optimizer=optimizer_of(model, config),
        schedule=build_schedule("constant", config.lr, 1, 0.0),
        precision=build_precision(config.precision, device),
    )


def random_batch(
    config: Config, batch_size: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Images (b, c, h, w) and labels (b,), resident: no time goes to loading."""
    generator = torch.Generator().manual_seed(0)
    shape = (batch_size, config.in_channels, *config.image_size)
    images = torch.randn(shape, generator=generator)
    labels = torch.randint(
        config.num_classes, (batch_size,), generator=generator
    )
    return images.to(device), labels.to(device)


def learning(
    state: TrainState, batch: tuple[Tensor, Tensor]
) -> Callable[[], None]:
    """One update."""
    return lambda: train_step(state, batch)


def seeing(
    state: TrainState, batch: tuple[Tensor, Tensor]
) -> Callable[[], None]:
    """One forward pass, without what a backward pass would need."""

    def step() -> None:
        with torch.inference_mode(), state.precision.autocast():
            state.model(batch[0])

    return step


def repeated(step: Callable[[], None], times: int) -> Callable[[], None]:
    """`step`, so many times in a row."""

    def turn() -> None:
        for _ in range(times):
            step()

    return turn


def warm_up(
    steps: dict[str, Callable[[], None]],
    states: dict[str, TrainState],
    device: torch.device,
    clock: Clock,
) -> tuple[int, dict[str, int | None]]:
    """How many steps fill a turn, and the most bytes that one of each needs."""
    seconds, peaks = [], {}
    for name, step in steps.items():
        repeated(step, WARM_UP - 1)()
        wait(device)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            before = torch.cuda.memory_allocated(device)
        started = clock()
        step()
        wait(device)
        seconds.append(clock() - started)
        peaks[name] = None
        if device.type == "cuda":
            # the other contestants lie there too, so count what this step adds
            added = torch.cuda.max_memory_allocated(device) - before
            peaks[name] = added + resident_bytes(states[name])
    return math.ceil(TURN_SECONDS / min(seconds)), peaks


def resident_bytes(state: TrainState) -> int:
    """Bytes of weights, and of what the optimizer remembers, between two steps."""
    remembered = [
        value
        for values in state.optimizer.state.values()
        for value in values.values()
        if isinstance(value, Tensor)
    ]
    return sum(
        x.nbytes for x in [*state.model.state_dict().values(), *remembered]
    )


def take_turns(
    turns: dict[str, Callable[[], None]],
    rounds: int,
    device: torch.device,
    clock: Clock,
) -> dict[str, list[float]]:
    """Seconds of each turn, by contestant and round."""
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for index in range(rounds):
        for name in order(list(turns), index):
            wait(device)
            started = clock()
            turns[name]()
            wait(device)
            seconds[name].append(clock() - started)
    return seconds


def order(names: list[str], index: int) -> list[str]:
    """Who follows whom in a round: another begins each time."""
    first = index % len(names)
    return names[first:] + names[:first]


def compare(
    seconds: dict[str, list[float]], num_images: int, same: set[str]
) -> dict[str, Any]:
    """Speeds and ratios from the seconds of turns of `num_images` each.

    A ratio is ours to theirs, above 1 where ours is faster. The fastest peer is looked
    for in `same`, those that are the same function.
    """
    speeds = {
        name: [num_images / each for each in turns]
        for name, turns in seconds.items()
    }
    rows: dict[str, Any] = {}
    for name, speed in speeds.items():
        rows[name] = {"images_per_second": spread(speed)._asdict()}
        if name != "vitedu":
            pairs = zip(speeds["vitedu"], speed, strict=True)
            rows[name]["ratio"] = spread([a / b for a, b in pairs])._asdict()
    rivals = [name for name in rows if name in same - {"vitedu"}]
    fastest = max(
        rivals,
        key=lambda name: rows[name]["images_per_second"]["median"],
        default=None,
    )
    return {
        "contestants": rows,
        "fastest_peer": fastest,
        "ratio": rows[fastest]["ratio"] if fastest else None,
        "seconds": seconds,
    }


def matmul_ceiling(
    device: torch.device, dtype: torch.dtype, clock: Clock = time.perf_counter
) -> float:
    """Operations a second of one large product of square matrices, the best of ten."""
    side = 8192 if device.type == "cuda" else 1024
    a, b = torch.randn(2, side, side, device=device).to(dtype)
    best = math.inf
    for _ in range(10):
        wait(device)
        started = clock()
        a @ b
        wait(device)
        best = min(best, clock() - started)
    return 2 * side**3 / best


def clock_of(device: torch.device) -> Clock:
    """The clock for turns on a device, with the threads that torch has now."""
    is_alone = device.type == "cpu" and torch.get_num_threads() == 1
    return time.process_time if is_alone else time.perf_counter


def wait(device: torch.device) -> None:
    """Until the device has done what it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@contextmanager
def num_threads(count: int | None) -> Iterator[None]:
    """So many threads of the CPU inside; None: as many as there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
