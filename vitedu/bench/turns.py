"""Timing contestants in turns.

A round is one turn of each contestant. Another one begins each round, so that a
slow minute of the machine hits all of them alike. On one thread of the CPU the
clock is the process's own, which stops while other programs have the processor.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

Clock = Callable[[], float]  # seconds


def repeated(step: Callable[[], None], times: int) -> Callable[[], None]:
    """A turn: `step`, this many times."""

    def turn() -> None:
        for _ in range(times):
            step()

    return turn


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
    """The order of a round: another contestant begins each time."""
    first = index % len(names)
    return names[first:] + names[:first]


def matmul_ceiling(
    device: torch.device, dtype: torch.dtype, clock: Clock = time.perf_counter
) -> float:
    """Operations per second of one large square matrix product, best of ten."""
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
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@contextmanager
def num_threads(count: int | None) -> Iterator[None]:
    """Use `count` threads of the CPU inside; None leaves them as they are."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
