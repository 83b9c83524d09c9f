"""The lots of `gpu_day.py`, one module each: what they get and what they give.

Each has `run(options: Options) -> Iterator[Outcome]`, which yields after every
piece, so that what is measured is written before the next piece begins.
"""

import gc
import json
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from vitedu.errors import UserError
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
    epochs: int | None = None  # of lots 5 and 10, instead of their own
    stop_at: float | None = None  # by `time.monotonic`, if it is to stop


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


def tell(sentence: str) -> None:
    """Print a line at once, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {sentence}", flush=True)


def attempt(
    options: Options, name: str, measure: Callable[[], dict[str, Any]]
) -> dict[str, Any] | None:
    """A piece that may not work on this card; None if it broke off.

    What the card can't do or has no memory for is written as {"away": why}, so
    that it isn't tried again.
    """
    try:
        return piece(options.folder, name, measure)
    except UserError as error:
        why = str(error)
    except torch.cuda.OutOfMemoryError:
        why = "it doesn't fit into the memory of the card"
    except Exception:  # a mistake of ours; the other pieces can still run
        traceback.print_exc()
        tell(f"{name}: broke off")
        return None
    tell(f"{name}: left out, {why}")
    return piece(options.folder, name, lambda: {"away": why})


def in_pieces(
    options: Options,
    pieces: dict[str, Callable[[], dict[str, Any]]],
    outcome: Callable[[dict[str, dict[str, Any]], list[str]], Outcome],
) -> Iterator[Outcome]:
    """Measure each piece that isn't there yet; an outcome of all after each.

    `outcome` gets what the pieces have measured, and the names of those that
    are open.
    """
    done: dict[str, dict[str, Any]] = {}
    for name, measure in pieces.items():
        values = attempt(options, name, measure)
        free(options.device)
        if values is not None:
            done[name] = values
        yield outcome(done, [each for each in pieces if each not in done])


def free(device: torch.device) -> None:
    """Give back the memory of what is no longer used."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
