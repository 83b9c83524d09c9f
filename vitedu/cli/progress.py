"""Progress of long work: a bar on a terminal, one line a minute elsewhere."""

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from vitedu import budget
from vitedu.cli.output import as_typed, say, wrapped
from vitedu.data import Source
from vitedu.model import (
    HYBRIDS,
    NAMES,
    RESNETS,
    ResNetConfig,
    ViTConfig,
    vit_config,
)
from vitedu.train import Progress, Start, TrainConfig
from vitedu.train.config import MAY_DIFFER
from vitedu.train.processes import from_environment

EVERY = 60.0  # seconds between two lines where there is no terminal
# columns of the bar itself; numbers are dropped to keep them
LEAST_BAR = 5
SLOW_DATA = 0.1  # share of the time spent waiting for data that is worth a word
# labels of the log's accuracies beside the bar
ACCURACIES = {"train": "acc", "validation": "val", "test": "test"}
# of more classes than this, only the first are named
MOST_NAMED = 5
FIRST_NAMED = 3
# the fields that make a model of Table 1, for any images and classes
TABLE_1 = ("stem", "patch_size", "embed_dim", "depth", "num_heads", "mlp_dim")
# settings that follow from the model
DERIVED = ("preprocess.image_size", "preprocess.in_channels")

Item = TypeVar("Item")


# --- five lines before a run


def announcement(start: Start, out: Path, changed: dict[str, Any]) -> str:
    config, steps = start.config, counted(start.num_steps, "step")
    if config.epochs is not None:
        steps = f"{counted(config.epochs, 'epoch')} ({steps})"
    lines = [
        ("data", data_line(start)),
        ("model", model_line(config)),
        ("device", device_line(config)),
        (
            "plan",
            f"{steps}, batch size {config.batch_size:,}, {config.optimizer}, "
            f"learning rate {config.lr:g}",
        ),
        ("run", run_line(start, out, changed)),
        *(("note", note) for note in notes(start)),
    ]
    return "\n".join(wrapped(f"{name:<8}", line) for name, line in lines)


def notes(start: Start) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*start.sources.notes, *start.state.notes)))


def data_line(start: Start) -> str:
    dataset, train, validation, test = start.sources[:4]
    to_validate = ""
    if validation is not None:
        to_validate = f"{len(validation):,} to validate, "
    requested = getattr(dataset, "requested", dataset.name)
    instead = f" instead of {requested}" if requested != dataset.name else ""
    return (
        f"{dataset.name}{instead}: {len(train):,} images to train, "
        f"{to_validate}{len(test):,} to test; {class_line(train)}"
    )


def class_line(source: Source) -> str:
    line = f"{source.num_classes:,} classes"
    names = source.class_names
    if len(names) > MOST_NAMED:
        names = (*names[:FIRST_NAMED], "...")
    return f"{line}: {', '.join(names)}" if names else line


def model_line(config: TrainConfig) -> str:
    model = config.model
    height, width = model.image_size
    line = (
        f"{model_name(model)} of {height}x{width} images; "
        f"{budget.parameters(model).total:,} weights"
    )
    return f"{line}, from {config.weights}" if config.weights else line


def model_name(model: ViTConfig | ResNetConfig) -> str:
    """ "ViT-B/16", or its sizes if it has no name."""
    if isinstance(model, ResNetConfig):
        made_of = (model.family, model.layers, model.width)
        names = [name for name, row in RESNETS.items() if row == made_of]
        return names[0] if names else "a ResNet"
    for name in (*NAMES, *HYBRIDS):
        paper = vit_config(name)
        if all(getattr(model, x) == getattr(paper, x) for x in TABLE_1):
            return name
    height, width = model.patch_size
    return (
        f"{counted(model.depth, 'block')}, {model.embed_dim} wide, "
        f"{height}x{width} patches"
    )


def device_line(config: TrainConfig) -> str:
    parts = [config.device, config.precision]
    if config.threads is not None:
        parts.append(counted(config.threads, "thread"))
    if config.compile:
        parts.append("compiled")
    if (size := from_environment().world_size) > 1:
        parts.append(f"{size} processes")
    return ", ".join(parts)


def run_line(start: Start, out: Path, changed: dict[str, Any]) -> str:
    line = str(out)
    if start.state.step:
        line += f", going on at step {start.state.step:,}"
    # epochs or steps is none, whichever was not given
    words = [
        f"{name}={as_typed(value)}"
        for name, value in changed.items()
        if name not in (*MAY_DIFFER, *DERIVED) and value is not None
    ]
    return f"{line}; not as in the recipe: {' '.join(words)}" if words else line


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


# --- while it lasts


class Reporter:
    def __init__(self, out: Path, changed: dict[str, Any]) -> None:
        self.out, self.changed = out, changed
        # None before the first step, and in all processes but the first
        self.begun: Start | None = None
        self.bar: StepBar | None = None
        self.numbers: dict[str, Any] = {}  # the last of each
        self.last_step: int | None = None  # at the last call of `stepped`

    def start(self, start: Start) -> None:
        say(announcement(start, self.out, self.changed))
        self.begun, self.first = start, start.state.step
        self.shown_notes = notes(start)
        self.began = time.monotonic()
        self.next_line = self.began  # the first measurement is shown at once
        if sys.stderr.isatty():
            self.bar = StepBar(start)

    def stepped(self) -> None:
        """Also called between the batches of an evaluation."""
        if self.begun is None:
            return
        step = self.begun.state.step
        is_evaluating, self.last_step = step == self.last_step, step
        if self.bar is not None:
            self.bar.update(step - self.bar.n)
            if is_evaluating != self.bar.is_evaluating:
                self.bar.is_evaluating = is_evaluating
                self.bar.refresh()
        elif time.monotonic() >= max(self.next_line, self.began + EVERY):
            self.say_line(step, self.begun.num_steps)

    def measured(self, progress: Progress) -> None:
        if self.begun is None:
            return
        if "note" in progress.line:
            if progress.line["note"] not in self.shown_notes:
                say(wrapped("note    ", progress.line["note"]))
            return
        self.numbers |= progress.line
        if self.bar is not None:
            self.bar.measured = self.numbers
            self.bar.is_evaluating = False
            self.bar.update(progress.step - self.bar.n)
            self.bar.refresh()
        elif (
            time.monotonic() >= self.next_line
            or progress.step == progress.num_steps
        ):
            self.say_line(progress.step, self.begun.num_steps)

    def say_line(self, step: int, last: int) -> None:
        now = time.monotonic()
        self.next_line = now + EVERY
        units = {"loss": "", "lr": ""}
        units |= {f"{part}_accuracy": " %" for part in ACCURACIES}
        parts = [
            f"{key.replace('_', ' ')} {self.numbers[key]:.4g}{unit}"
            for key, unit in units.items()
            if key in self.numbers
        ]
        if "images_per_second" in self.numbers:
            parts.append(f"{self.numbers['images_per_second']:,.0f} images/s")
        if (wait := self.numbers.get("data_wait", 0.0)) > SLOW_DATA:
            parts.append(f"{100 * wait:.0f} % of the time waiting for data")
        if left := time_left(step, self.first, last, now - self.began):
            parts.append(left)
        say(f"step {step} of {last}: {', '.join(parts) or 'under way'}")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


class StepBar(tqdm):
    measured: dict[str, Any]
    is_evaluating: bool

    def __init__(self, start: Start) -> None:
        self.measured = {}
        self.is_evaluating = False
        self.batch_size = start.config.batch_size
        super().__init__(
            total=start.num_steps,
            initial=start.state.step,
            file=sys.stderr,
            dynamic_ncols=True,
        )

    @property
    def format_dict(self) -> dict[str, Any]:
        known = super().format_dict
        columns = known["ncols"] or 80
        texts = fitting(self.parts(known), columns - len("100%|| ") - LEAST_BAR)
        line = "{percentage:3.0f}%|{bar}| " + "  ".join(texts)
        return known | {"bar_format": line}

    def parts(self, known: dict[str, Any]) -> list[tuple[int, str]]:
        """(importance, text) from left to right; higher is kept longer."""
        parts = [(1, f"{known['n']}/{known['total']}")]
        if "loss" in self.measured:
            parts.append((6, f"loss {self.measured['loss']:.3g}"))
        parts += [
            (5, f"{label} {self.measured[f'{name}_accuracy']:.1f}%")
            for name, label in ACCURACIES.items()
            if f"{name}_accuracy" in self.measured
        ]
        speed = self.measured.get("images_per_second")
        steps, seconds = known["n"] - known["initial"], known["elapsed"]
        if speed is None and steps:
            speed = steps * self.batch_size / seconds
        if speed is not None:
            parts.append((2, f"{speed:,.0f} img/s"))
        if (wait := self.measured.get("data_wait", 0.0)) > SLOW_DATA:
            parts.append((3, f"data wait {100 * wait:.0f}%"))
        left = time_left(known["n"], known["initial"], known["total"], seconds)
        if self.is_evaluating:
            left = "evaluating"
        return [*parts, (4, left)] if left else parts


def fitting(parts: list[tuple[int, str]], columns: int) -> list[str]:
    kept = list(parts)
    while kept and sum(len(text) + 2 for _, text in kept) - 2 > columns:
        kept.remove(min(kept, key=lambda part: part[0]))
    return [text for _, text in kept]


def time_left(step: int, first: int, last: int, seconds: float) -> str:
    """ "01:23 left"; "" before the first step and at the end."""
    if step <= first or step >= last:
        return ""
    left = seconds / (step - first) * (last - step)
    return f"{tqdm.format_interval(left)} left"


class Counter:
    def __init__(self) -> None:
        self.began = self.last_line = time.monotonic()
        self.first: int | None = None  # done before, by another run
        self.bar: Any = None

    def show(self, num_done: int, num_all: int) -> None:
        if self.first is None:
            self.first = num_done
        if sys.stderr.isatty():
            if self.bar is None:
                self.bar = tqdm(
                    total=num_all,
                    initial=num_done,
                    unit=" pictures",
                    file=sys.stderr,
                    dynamic_ncols=True,
                )
            self.bar.update(num_done - self.bar.n)
        elif time.monotonic() >= self.last_line + EVERY:
            self.last_line = time.monotonic()
            seconds = self.last_line - self.began
            left = time_left(num_done, self.first, num_all, seconds)
            end = f", {left}" if left else ""
            say(f"{num_done:,} of {num_all:,} pictures{end}")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def with_progress(
    batches: Iterable[Item], batch_size: int, num_all: int
) -> Iterator[Item]:
    counter = Counter()
    counter.show(0, num_all)
    try:
        for number, batch in enumerate(batches, start=1):
            yield batch
            counter.show(min(number * batch_size, num_all), num_all)
    finally:
        counter.close()
