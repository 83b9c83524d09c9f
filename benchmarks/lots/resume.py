"""Lot 8: runs that are killed and go on, on the device: are they the same?

Once with deterministic kernels, where a run that was killed twice must end with
the bytes of one that was left alone, and once with the usual ones, where two
runs that were both left alone say how far apart the same run comes out. All six
are processes of their own, side by side.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lots import Options, Outcome, in_pieces, tell
from vitedu.errors import UserError
from vitedu.train import TrainConfig, fit, recipe
from vitedu.train.run_folder import RunFolder
from vitedu.weights import read_weights

STEPS, KILLS = 200, (50, 120)
# what cuBLAS needs to be repeatable; read once, when it starts
WORKSPACE = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
SECONDS = 240  # after which a process is given up
KINDS = ("deterministic", "usual")


def run(options: Options) -> Iterator[Outcome]:
    """Yield after each kind of kernels."""
    kinds = KINDS[:1] if options.smoke else KINDS
    pieces = {kind: partial(compared, kind, options) for kind in kinds}
    yield from in_pieces(options, pieces, partial(outcome, options))


def settings(options: Options, out: Path) -> dict[str, Any]:
    """Of one process, as JSON."""
    steps = 6 if options.smoke else STEPS
    return {
        "device": str(options.device),
        "out": str(out),
        "steps": steps,
        "smoke": options.smoke,
    }


def config_of(asked: dict[str, Any]) -> TrainConfig:
    """Everything that carries a state from step to step, or draws.

    RandAugment, mixup, cutmix, stochastic depth, clipping, averages, in the
    format that the device computes fastest; a checkpoint every 10 steps.
    """
    config = recipe("cifar10-scratch", "gpu")
    config = replace(
        config,
        model=replace(config.model, dropout=0.1),
        dataset="shapes-1k",
        epochs=None,
        steps=asked["steps"],
        batch_size=64,
        micro_batch_size=40,
        compile=False,
        device=asked["device"],
        log_every=1,
        save_every=10,
    )
    if not asked["smoke"]:
        return config
    thin = {"embed_dim": 24, "depth": 1, "num_heads": 2, "mlp_dim": 24}
    return replace(
        config,
        model=replace(config.model, patch_size=(8, 8), **thin),
        batch_size=8,
        micro_batch_size=5,
        max_images=32,
        precision="fp32",
        threads=1,
        save_every=1,
    )


def compared(kind: str, options: Options) -> dict[str, Any]:
    """One run killed and two left alone: equal bytes, largest difference."""
    kills = (2,) if options.smoke else KILLS
    names = ["killed", "alone", "alone-too"]
    if options.smoke:
        names = names[:2]
    outs = [options.folder / kind / name for name in names]
    with ThreadPoolExecutor(1 if options.smoke else len(outs)) as pool:
        runs = [
            pool.submit(
                finished, kind, options, out, kills if out == outs[0] else ()
            )
            for out in outs
        ]
        num_kills, *_ = [run.result() for run in runs]
    killed, alone, *others = outs
    values = {
        "kills": num_kills,
        "equal": same_bytes(killed, alone),
        "difference": difference(killed, alone),
        "log": log(killed) == log(alone),
        "loss": abs(log(killed)[-1]["loss"] - log(alone)[-1]["loss"]),
    }
    for other in others:
        values |= {
            "alone_equal": same_bytes(alone, other),
            "alone_difference": difference(alone, other),
        }
    tell(
        f"resume: {kind} kernels, {num_kills} kills: "
        + ("the same bytes" if values["equal"] else "not the same bytes")
        + f", weights {values['difference']:.2g} apart"
        + (
            f"; left alone twice, {values['alone_difference']:.2g} apart"
            if others
            else ""
        )
    )
    return values


def finished(
    kind: str, options: Options, out: Path, kills: tuple[int, ...]
) -> int:
    """Run to the end, killed after some steps; how often that was.

    UserError: a process failed, with the last line of what it said.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    num_kills = 0
    for step in (*kills, None):
        if options.smoke and step is None:  # a process takes seconds to start
            main(settings(options, out) | {"kind": "usual"})
            break
        process = started(kind, options, out)
        until = time.monotonic() + SECONDS
        while process.poll() is None:
            if time.monotonic() > until:
                process.kill()
                process.wait()
                raise UserError(f"a run took more than {SECONDS} seconds")
            if step is not None and last_step(out) >= step:
                process.kill()
            time.sleep(0.01)
        if process.returncode == -signal.SIGKILL and step is not None:
            num_kills += 1
        elif process.returncode != 0:
            said = out.with_suffix(".stderr").read_text().split("\n")
            raise UserError(f"a run failed: {' '.join(said[-3:]).strip()}")
    return num_kills


def started(kind: str, options: Options, out: Path) -> subprocess.Popen:
    """This module as a process, `main` below."""
    root = Path(__file__).parents[2]
    places = [str(root), str(root / "benchmarks"), *sys.path[1:]]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    if kind == "deterministic":
        environment |= WORKSPACE
    words = json.dumps(settings(options, out) | {"kind": kind})
    with open(out.with_suffix(".stderr"), "a") as talk:
        return subprocess.Popen(
            [sys.executable, "-m", "lots.resume", words],
            stdout=talk,
            stderr=talk,
            env=environment,
        )


def last_step(out: Path) -> int:
    """The last step in a run's log."""
    history = RunFolder(out).history() if out.exists() else []
    return history[-1]["step"] if history else 0


def log(out: Path) -> list[dict[str, Any]]:
    """Lines with a loss, without what a clock wrote."""
    kept = ("step", "loss", "lr", "grad_norm")
    return [
        {name: line[name] for name in kept if name in line}
        for line in RunFolder(out).history()
        if "loss" in line
    ]


def same_bytes(one: Path, other: Path) -> bool:
    """Whether two runs wrote the same weights."""
    first, second = (RunFolder(x).weights.read_bytes() for x in (one, other))
    return first == second


def difference(one: Path, other: Path) -> float:
    """Of all weights the largest difference, as a share of the largest."""
    first, second = (
        read_weights(RunFolder(x).weights).state_dict for x in (one, other)
    )
    largest = max(x.abs().max().item() for x in first.values())
    return max(
        (first[name] - second[name]).abs().max().item() / largest
        for name in first
    )


def outcome(
    options: Options, done: dict[str, dict[str, Any]], still_open: list[str]
) -> Outcome:
    """What came of it, as a recorded result."""
    metrics: dict[str, Any] = {}
    notes = []
    share = "of the largest weight"
    for kind, values in done.items():
        if "away" in values:
            notes.append(f"{kind}: {values['away']}")
            continue
        for name, unit in (
            ("kills", "kills"),
            ("equal", "1: a killed run ends with the same bytes"),
            ("log", "1: a killed run has the same log"),
            ("difference", share),
            ("loss", "nats apart at the end"),
            ("alone_equal", "1: two runs left alone have the same bytes"),
            ("alone_difference", share),
        ):
            if name in values:
                value = float(values[name])
                metrics[f"{kind}/{name}"] = {"value": value, "unit": unit}
    return Outcome(
        config=config_of(settings(options, Path("out"))).to_json(),
        metrics=metrics,
        dataset={
            "name": "shapes-1k",
            "digest": "drawn",
            "num_train": 1000,
            "num_test": 0,
        },
        open=still_open,
        notes="; ".join(notes),
    )


def main(asked: dict[str, Any]) -> None:
    """One of the processes: train, or go on."""
    if asked["kind"] == "deterministic":
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
    fit(config_of(asked), asked["out"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
