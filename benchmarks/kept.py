"""What several processes measure together, each part kept as a file at once.

`found = kept(Path("runs/race/vit-1k-0.json"), lambda: {"value": 93.1})`
"""

import fcntl
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from vitedu import results


def kept(path: Path, measure: Callable[[], Any]) -> Any:
    """What the file has, measured if it isn't there; None: another is at it.

    A process that dies gives its part up. What ends halfway leaves no file.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            if not path.exists():  # it wasn't finished in between
                part = path.with_suffix(".part")
                part.write_text(json.dumps(measure()))
                part.rename(path)
                print(path.stem, path.read_text()[:200], flush=True)
    return read(path)


def kept_with_time(
    path: Path, measure: Callable[[], Any], device: torch.device
) -> dict[str, Any] | None:
    """As `kept`, but {"found", "seconds", "hardware", ...}."""

    def timed() -> dict[str, Any]:
        started = time.perf_counter()
        found = {"found": measure()}
        found["seconds"] = round(time.perf_counter() - started, 1)
        return found | results.machine(device)

    return kept(path, timed)


def read(path: Path) -> Any:
    """What is kept there, if anything is."""
    return json.loads(path.read_text()) if path.exists() else None


def climb(
    measure: Callable[[float], Any],
    rates: Iterable[float],
    score: Callable[[Any], float],
    factor: float = 2.0,
) -> dict[float, Any] | None:
    """What each learning rate comes to; None: another process is at one.

    While the best by `score` is at an end of the list, one further on follows,
    `factor` times as high or as low.
    """
    waiting, reached = list(rates), {}
    while waiting:
        found = {lr: measure(lr) for lr in waiting}
        if None in found.values():
            return None
        reached |= found
        best = max(reached, key=lambda lr: score(reached[lr]))
        waiting = []
        if best == max(reached):
            waiting.append(factor * best)
        elif best == min(reached):
            waiting.append(best / factor)
    return reached
