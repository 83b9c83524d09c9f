"""The lots of `gpu_day.py`, one module each: what they get and what they give.

Each has `run(options: Options) -> Iterator[Outcome]`, which yields after every
piece, so that what is measured is written before the next piece begins.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from vitedu.files import read_json, replace_file

# the dataset of a lot that only times
RANDOM = {
    "name": "random images and labels",
    "digest": "torch.randn, seed 0",
    "num_train": 0,
    "num_test": 0,
}


class Options(NamedTuple):
    """What a lot is given."""

    device: torch.device
    data: Path | None  # what `--pack` wrote
    folder: Path  # the lot's own: pieces that are there aren't measured again
    smoke: bool  # small, in seconds, on a CPU


class Outcome(NamedTuple):
    """All that a lot has measured so far, as a recorded result wants it."""

    config: dict[str, Any]  # what was run
    metrics: dict[str, Any]
    dataset: dict[str, Any]
    open: list[str]  # names of pieces that aren't done yet
    notes: str = ""
    seeds: tuple[int, ...] = (0,)


def piece(
    folder: Path, name: str, measure: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """What `measure` returns, from `folder` if it was measured before."""
    path = folder / f"{name}.json"
    if path.exists():
        return read_json(path)
    started = time.perf_counter()
    values = measure()
    values["wall_seconds"] = round(time.perf_counter() - started, 1)
    replace_file(path, json.dumps(values, indent=1) + "\n")
    return values


def is_done(folder: Path, name: str) -> bool:
    """Whether the piece has been measured."""
    return (folder / f"{name}.json").exists()


def tell(sentence: str) -> None:
    """Print a line at once, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {sentence}", flush=True)
