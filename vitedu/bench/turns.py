"""Timing contestants in turns, and the ratios of their speeds.

A round is one turn of each contestant, a different one first each time, so that
a slow minute of the machine hits all alike. On one CPU thread the clock is the
process's own, which stops while other programs run.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

Clock = Callable[[], float]  # seconds


def take_turns(
    turns: dict[str, Callable[[], None]],
    rounds: int,
    device: torch.device,
    clock: Clock,
) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for index in range(rounds):
        first = index % len(turns)  # another begins each time
        for name in [*turns][first:] + [*turns][:first]:
            seconds[name].append(timed(turns[name], device, clock))
    return seconds


def timed(
    action: Callable[[], object], device: torch.device, clock: Clock
) -> float:
    """Seconds of an action, from an idle device to an idle device."""
    wait(device)
    started = clock()
    action()
    wait(device)
    return clock() - started


def repeated(step: Callable[[], None], times: int) -> Callable[[], None]:
    def turn() -> None:
        for _ in range(times):
            step()

    return turn


def spread(values: list[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"low": low, "median": median, "high": high}


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


def matmul_ceiling(
    device: torch.device, dtype: torch.dtype, clock: Clock = time.perf_counter
) -> float:
    """Operations per second of one large square matrix product, best of ten."""
    side = 8192 if device.type == "cuda" else 1024
    a, b = torch.randn(2, side, side, device=device).to(dtype)
    best = min(timed(lambda: a @ b, device, clock) for _ in range(10))
    return 2 * side**3 / best


def clock_of(device: torch.device) -> Clock:
    is_alone = device.type == "cpu" and torch.get_num_threads() == 1
    return time.process_time if is_alone else time.perf_counter


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@contextmanager
def num_threads(count: int | None) -> Iterator[None]:
    """Use `count` threads of the CPU inside; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
