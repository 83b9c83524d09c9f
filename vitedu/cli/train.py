"""`vitedu train`: a recipe, with fields of its configuration set by name."""

import argparse
import os
import shlex
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from vitedu.cli.answer import Answer, say, table
from vitedu.errors import UserError
from vitedu.files import replace_file
from vitedu.model import ViT
from vitedu.train import (
    RECIPES,
    Progress,
    TrainConfig,
    find_device,
    fit,
    override,
    recipe,
)
from vitedu.train.config import MAY_DIFFER
from vitedu.train.folder import RunFolder, differences, flat
from vitedu.train.loop import this_process
from vitedu.train.optimizer import decay_table
from vitedu.train.precision import concrete


def train(options: argparse.Namespace) -> Answer:
    """Train a recipe, or go on with a run; draw its curves."""
    config, out = run_of(options)
    is_first = this_process().is_first
    if options.fresh and is_first and (old := RunFolder(out).set_aside()):
        say(f"the folder that was there is now {old}")
    say(table(flat(config.to_json())))
    say(table(optimizer_rows(config)))
    say(f"run folder: {out}{found_there(RunFolder(out))}")
    reporter = Reporter()
    with Interrupt() as interrupt:
        run = fit(
            config,
            out,
            on_progress=reporter,
            should_stop=interrupt.asked,
            command=shlex.join(["vitedu", *options.arguments]),
        )
        reporter.close()
        if is_first:
            draw_curves(run.history, out)
    values = run.result | {"out": str(out)}
    if run.result["status"] == "interrupted":
        return Answer(
            values, f"interrupted and saved; the same command goes on: {out}"
        )
    test = run.result["metrics"]["test_accuracy"]["value"]
    trained = run.result["dataset"]
    lines = [
        f"test accuracy {test:.2f} % on {trained['num_test']:,} images of "
        f"{trained['name']}, {run.result['wall_seconds']:.0f} s of training",
        f"weights: {RunFolder(out).weights}",
    ]
    return Answer(values, "\n".join(lines))


def found_there(folder: RunFolder) -> str:
    """What the folder holds before the run begins, for a sentence."""
    if folder.weights.exists():
        return ", where it is done; --fresh repeats it"
    if folder.checkpoint.exists():
        return ", going on from its checkpoint"
    return ""


def run_of(options: argparse.Namespace) -> tuple[TrainConfig, Path]:
    """The configuration and the folder that the words and options of train mean."""
    names = [word for word in options.words if "=" not in word]
    fields = dict(word.split("=", 1) for word in options.words if "=" in word)
    if "recipe" in fields:
        raise UserError("recipe= is no setting; name the recipe after train")
    if options.device != "auto":
        fields.setdefault("device", options.device)
    if len(names) > 1:
        raise UserError(f"train takes one recipe, got {', '.join(names)}")
    if options.resume:
        return resumed(options, names, fields)
    if not names:
        raise UserError(
            f"train wants a recipe; known: {', '.join(sorted(RECIPES))}"
        )
    tier = tier_of(fields.pop("tier", options.tier), options)
    chosen = recipe(names[0], tier, fields.pop("model", None))
    config = on_device(override(chosen, fields))
    out = options.out or Path("runs") / f"{config.recipe}-{config.digest()}"
    return config, Path(out)


def resumed(
    options: argparse.Namespace, names: list[str], fields: dict[str, str]
) -> tuple[TrainConfig, Path]:
    """The configuration in the folder, where only what may differ can be changed."""
    if options.fresh or options.out or "--tier" in options.arguments:
        raise UserError(
            "--resume goes on in its own folder at its own tier; leave out --fresh, "
            "--out and --tier"
        )
    config = RunFolder(options.resume).read_config()
    if names and names[0] != config.recipe:
        raise UserError(
            f"{options.resume} holds a run of {config.recipe}, not of {names[0]}"
        )
    changed = on_device(override(config, fields))
    _, asked = differences(config, changed)
    if asked:
        raise UserError(
            f"{' and '.join(asked)} cannot change when a run goes on; only "
            f"{', '.join(MAY_DIFFER)} can"
        )
    return changed, Path(options.resume)


def on_device(config: TrainConfig) -> TrainConfig:
    """`config` with the device and the precision that "auto" means here."""
    device = find_device(config.device)
    return concrete(replace(config, device=str(device)), device)


def optimizer_rows(config: TrainConfig) -> list[tuple[str, str]]:
    """Which weights decay, and at what share of the rate they learn."""
    with torch.device("meta"):  # shapes alone, no memory
        model = ViT(config.model)
    return [
        (
            group.name,
            f"{group.num_weights:,} weights in {group.num_tensors} tensors, "
            f"weight_decay {group.weight_decay:g}, lr x {group.lr_scale:.3g}",
        )
        for group in decay_table(model, config)
        if group.num_tensors
    ]


class Reporter:
    """Progress on stderr: a bar on a terminal, one line a minute elsewhere."""

    def __init__(self) -> None:
        self.bar = None
        self.next_line = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Show one measurement."""
        line = {
            name: f"{value:.4g}" if isinstance(value, float) else value
            for name, value in progress.line.items()
            if name not in ("step", "wall_seconds")
        }
        if sys.stderr.isatty():
            from tqdm import tqdm

            if self.bar is None:
                first = progress.step
                self.bar = tqdm(
                    total=progress.num_steps, initial=first, unit="step"
                )
            self.bar.n = progress.step
            self.bar.set_postfix(line)
        elif (
            time.monotonic() >= self.next_line
            or progress.step == progress.num_steps
        ):
            self.next_line = time.monotonic() + 60
            text = " ".join(f"{name}={value}" for name, value in line.items())
            say(f"step {progress.step} of {progress.num_steps}: {text}")

    def close(self) -> None:
        """Leave the terminal's line."""
        if self.bar is not None:
            self.bar.close()


class Interrupt:
    """Ctrl-C or SIGTERM as a question; a second one stops at once.

    The second counts from a second after the first: whoever started this process may
    pass on a signal that it was sent itself, as torchrun does at Ctrl-C.
    """

    def __init__(self) -> None:
        self.signals = (signal.SIGINT, signal.SIGTERM)
        self.received: float | None = None  # when, in seconds

    def __enter__(self) -> "Interrupt":
        self.before = [
            signal.signal(number, self.receive) for number in self.signals
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in zip(self.signals, self.before, strict=True):
            signal.signal(number, handler)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Note the first signal; a later one does what it does elsewhere."""
        if self.received is None:
            self.received = time.monotonic()
            # print cannot be entered again if the signal came in the middle of it
            os.write(2, b"stopping after this step, to save; again: at once\n")
        elif time.monotonic() > self.received + 1:
            self.__exit__()
            signal.raise_signal(number)

    def asked(self) -> bool:
        """Whether a signal came."""
        return self.received is not None


def tier_of(given: str | None, options: argparse.Namespace) -> str:
    """The tier asked for; by default gpu where an accelerator is used, else cpu."""
    if given:
        return given
    return "cpu" if find_device(options.device).type == "cpu" else "gpu"


def draw_curves(history: list[dict[str, Any]], out: Path) -> None:
    """`curves.png` in the run folder, if there is anything to draw yet."""
    from vitedu import figures

    if not any("loss" in line for line in history):
        return
    figure, _ = figures.curves(history)
    try:
        replace_file(
            out / "curves.png",
            lambda file: figure.savefig(file, format="png", dpi=120),
        )
    except UserError as error:  # the run is complete without them
        say(str(error))
