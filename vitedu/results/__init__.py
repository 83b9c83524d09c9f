"""Recorded results: JSON files beside this module, one writer and one reader.

`read("mnist-tiny")` is what `vitedu/results/mnist-tiny.json` holds.
"""

import json
import platform
import subprocess
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import torch

from vitedu.errors import UserError, did_you_mean, explained
from vitedu.fields import Checked, Range, Seed, Share, from_json
from vitedu.files import read_json, replace_file

FOLDER = Path(__file__).parent
SCHEMA = 1
Whole = Annotated[int, Range(0)]


@dataclass(frozen=True)
class Metric(Checked):
    """One number that was measured. A result may say more about it."""

    value: float
    unit: str
    per_seed: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Dataset(Checked):
    """The data of a run; `skipped` are pictures that could not be read.

    `num_images` counts all that there were, `contents` hashes their files.
    """

    name: str
    digest: str
    num_train: Whole
    num_test: Whole
    num_images: Whole | None = None
    contents: str | None = None
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reproduces(Checked):
    """A row of the paper's tables, and how far it was reproduced.

    "recomputed" is from the paper's own numbers, with nothing trained.
    """

    row: str
    scale: Literal["full", "small", "recomputed"]
    ours: float | str | None
    paper: float | str | None
    n: Whole


@dataclass(frozen=True)
class Result(Checked):
    """A measurement or training run, and the machine it ran on."""

    schema: int
    status: Literal["finished", "interrupted"]
    name: str
    command: str
    config: dict[str, Any]
    tier: str
    metrics: dict[str, Any]  # a Metric for each name
    seeds: tuple[Seed, ...]
    dataset: Dataset
    hardware: str
    versions: dict[str, Any]
    commit: str | None
    date: str  # YYYY-MM-DD
    wall_seconds: Annotated[float, Range(0)]
    start: str | None = None  # hash of the weights it started from, if known
    data_wait: Share | None = None  # of the time, spent waiting for data
    facts: dict[str, Any] = field(default_factory=dict)  # lines for a person
    reproduces: dict[str, Any] = field(default_factory=dict)
    notes: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schema != SCHEMA:
            raise UserError(
                f"its schema is {self.schema}, and this vitedu reads {SCHEMA}"
            )
        if not self.seeds:
            raise UserError("seeds must be a list of at least one whole number")
        if self.status == "finished" and not self.metrics:
            raise UserError("the run is finished, but metrics is empty")


def names() -> list[str]:
    """The recorded results, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def read(name: str) -> dict[str, Any]:
    """One recorded result. UserError: no result has that name."""
    if name not in names():
        raise UserError(
            f"no result {name!r} is recorded; " + did_you_mean(name, names())
        )
    return json.loads((FOLDER / f"{name}.json").read_text())


def read_file(path: str | Path) -> dict[str, Any]:
    """A result from its path, checked. UserError: missing, or not a result."""
    result = read_json(path)
    check(result, str(path))
    return result


def write(path: str | Path, result: dict[str, Any]) -> None:
    """Write a result that follows the schema, whole or not at all."""
    check(result, str(path))
    replace_file(path, json.dumps(result, indent=2, sort_keys=True) + "\n")


def check(result: Any, where: str) -> None:
    """UserError with the first thing in `result` that the schema forbids."""
    with explained(f"{where} is not a result", UserError):
        checked = from_json(Result, result)
        if checked.reproduces:
            from_json(Reproduces, checked.reproduces)
    for name, values in checked.metrics.items():
        if isinstance(values, dict):
            known = values.keys() & {"value", "unit", "per_seed"}
            values = {each: values[each] for each in sorted(known)}
        with explained(f"{where}: metric {name}", UserError):
            per_seed = from_json(Metric, values).per_seed
        if per_seed is not None and len(per_seed) != len(checked.seeds):
            raise UserError(
                f"{where}: metric {name}: it has {len(per_seed)} values for "
                f"{len(checked.seeds)} seeds"
            )


def machine(device: torch.device) -> dict[str, Any]:
    """Hardware, versions and commit of this process, as fields of a result."""
    versions = {"python": platform.python_version()}
    for package in ("torch", "vitedu", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # vitedu, run from a checkout
            versions[package] = "not installed"
    found = {"hardware": hardware(device), "commit": commit()}
    return found | {"versions": versions}


def hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "mps":
        return f"Apple {platform.machine()} (mps)"
    threads = torch.get_num_threads()
    return f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"


def _processor() -> str:
    described = Path("/proc/cpuinfo")  # of Linux
    lines = described.read_text().splitlines() if described.exists() else []
    for line in lines:
        if "model name" in line:
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> str | None:
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    except OSError:  # a checkout on a machine without git
        return None
    return done.stdout.strip() or None
