"""Recorded results: JSON files beside this module, one writer and one reader.

`read("mnist-tiny")` is what `vitedu/results/mnist-tiny.json` holds.
"""

import json
import math
import platform
import re
import subprocess
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import torch

from vitedu.errors import UserError, did_you_mean
from vitedu.files import replace_file

SCHEMA = 1
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
STATUSES = ("finished", "interrupted")
FIELDS = {
    "schema": int,
    "status": str,
    "name": str,
    "command": str,
    "config": dict,
    "tier": str,
    "metrics": dict,
    "seeds": list,
    "dataset": dict,
    "hardware": str,
    "versions": dict,
    "commit": str | None,
    "date": str,
    "wall_seconds": int | float,
}
OPTIONAL = {"reproduces": dict, "notes": str}


def names() -> list[str]:
    """The recorded results, sorted."""
    folder = resources.files("vitedu.results")
    return sorted(
        file.name.removesuffix(".json")
        for file in folder.iterdir()
        if file.name.endswith(".json")
    )


def read(name: str) -> dict[str, Any]:
    """One recorded result. UserError: there is none of that name."""
    if name not in names():
        raise UserError(
            f"no result {name!r} is recorded; " + did_you_mean(name, names())
        )
    file = resources.files("vitedu.results") / f"{name}.json"
    return json.loads(file.read_text())


def read_file(path: str | Path) -> dict[str, Any]:
    """A result by its path, checked. UserError: it is missing or no result."""
    try:
        result = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as a result: {error}") from None
    check(result, str(path))
    return result


def write(path: str | Path, result: dict[str, Any]) -> None:
    """Write a result that follows the schema, whole or not at all."""
    check(result, str(path))
    replace_file(path, json.dumps(result, indent=2, sort_keys=True) + "\n")


def check(result: dict[str, Any], where: str) -> None:
    """UserError naming the first thing in `result` that the schema does not allow."""
    if not isinstance(result, dict):
        raise UserError(f"{where} is no result: it holds no object")
    for name, kind in FIELDS.items():
        if name not in result:
            raise UserError(f"{where} is no result: {name!r} is missing")
        if not isinstance(result[name], kind):
            raise UserError(
                f"{where} is no result: {name} is {result[name]!r}, wanted {kind}"
            )
    for name, value in result.items():
        kind = FIELDS.get(name) or OPTIONAL.get(name)
        if kind is None:
            end = did_you_mean(name, [*FIELDS, *OPTIONAL])
            raise UserError(
                f"{where} is no result: there is no field {name!r}; {end}"
            )
        if not isinstance(value, kind):
            raise UserError(
                f"{where} is no result: {name} is {value!r}, wanted {kind}"
            )
    if result["schema"] != SCHEMA or result["status"] not in STATUSES:
        raise UserError(
            f"{where} has schema {result['schema']} and status {result['status']!r}; "
            f"known: {SCHEMA} and {' or '.join(STATUSES)}"
        )
    if not result["seeds"] or not all(
        is_whole(seed) for seed in result["seeds"]
    ):
        raise UserError(
            f"{where}: seeds are {result['seeds']}, wanted whole numbers"
        )
    if not is_number(result["wall_seconds"]) or result["wall_seconds"] < 0:
        raise UserError(f"{where}: wall_seconds is {result['wall_seconds']}")
    if not DATE.fullmatch(result["date"]):
        raise UserError(
            f"{where}: date is {result['date']!r}, wanted YYYY-MM-DD"
        )
    for name, metric in result["metrics"].items():
        check_metric(metric, len(result["seeds"]), f"{where}: metric {name}")
    for name in ("name", "digest", "num_train", "num_test"):
        value = result["dataset"].get(name)
        right = is_whole(value) if name.startswith("num_") else bool(value)
        if not right:
            raise UserError(f"{where}: dataset has {name}={value!r}")
    if "reproduces" in result:
        check_reproduces(result["reproduces"], f"{where}: reproduces")


def check_metric(metric: Any, num_seeds: int, where: str) -> None:
    """UserError unless `metric` has a number, a unit, and a number for each seed."""
    if not isinstance(metric, dict) or not {"value", "unit"} <= metric.keys():
        raise UserError(f"{where} wants a value and a unit")
    if not is_number(metric["value"]) or not isinstance(metric["unit"], str):
        raise UserError(f"{where} is {metric['value']!r} in {metric['unit']!r}")
    values = metric.get("per_seed", [metric["value"]] * num_seeds)
    if not isinstance(values, list) or not all(map(is_number, values)):
        raise UserError(
            f"{where} has per_seed={values!r}, wanted a list of numbers"
        )
    if len(values) != num_seeds:
        raise UserError(
            f"{where} has {len(values)} values for {num_seeds} seeds"
        )


def check_reproduces(values: dict[str, Any], where: str) -> None:
    """UserError unless `values` say which row, at which scale, ours and the paper's."""
    missing = {"row", "scale", "ours", "paper", "n"} - values.keys()
    if missing:
        raise UserError(f"{where} lacks {', '.join(sorted(missing))}")
    if values["scale"] not in ("full", "small") or not is_whole(values["n"]):
        raise UserError(
            f"{where} has scale={values['scale']!r} and n={values['n']!r}; "
            "wanted full or small, and a whole number"
        )


def is_whole(value: Any) -> bool:
    """Whether `value` is a whole number of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value: Any) -> bool:
    """Whether `value` is a finite number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


def machine(device: torch.device) -> dict[str, Any]:
    """Hardware, versions and commit of this process, as fields of a result."""
    versions = {"python": platform.python_version()}
    for package in ("torch", "vitedu", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except (
            metadata.PackageNotFoundError
        ):  # run from a checkout, not installed
            versions[package] = "not installed"
    return {
        "hardware": hardware(device),
        "versions": versions,
        "commit": commit(),
    }


def hardware(device: torch.device) -> str:
    """The accelerator, or the processor with the number of threads in use."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "mps":
        return f"Apple {platform.machine()} (mps)"
    threads = torch.get_num_threads()
    return f"{processor()}, {threads} thread{'s' if threads > 1 else ''}"


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [
        line.split(":", 1)[1].strip() for line in lines if "model name" in line
    ]
    return models[0] if models else platform.machine()


def commit() -> str | None:
    """The commit of the checkout that this package lies in; None outside of one."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "--quiet", "HEAD"],
            cwd=root,
            capture_output=True,
            text=True,
        )
    except OSError:  # a checkout on a machine without git
        return None
    return done.stdout.strip() or None
