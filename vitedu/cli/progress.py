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
BAR = "{percentage:3.0f}%|{bar}| "  # and texts, cut off on a narrow terminal
SLOW_DATA = 10  # percent of the time spent waiting for data: worth a word
# numbers of a run, as written beside the bar and in a line
SHOWN = {
    "loss": ("loss {:.3g}", "loss {:.4g}"),
    "lr": ("", "lr {:.4g}"),
    "train_accuracy": ("acc {:.1f}%", "train accuracy {:.4g} %"),
    "validation_accuracy": ("val {:.1f}%", "validation accuracy {:.4g} %"),
    "test_accuracy": ("test {:.1f}%", "test accuracy {:.4g} %"),
    "left": ("{}", "{}"),
    "data_wait": ("data wait {:.0f}%", "{:.0f} % of the time waiting for data"),
    "images_per_second": ("{:,.0f} img/s", "{:,.0f} images/s"),
}
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
    plan = (
        f"{steps}, batch size {config.batch_size:,}, {config.optimizer}, "
        f"learning rate {config.lr:g}"
    )
    lines = [
        ("data", data_line(start)),
        ("model", model_line(config)),
        ("device", device_line(config)),
        ("plan", plan),
        ("run", run_line(start, out, changed)),
        *(("note", note) for note in notes(start)),
    ]
    return "\n".join(wrapped(f"{name:<8}", line) for name, line in lines)


def notes(start: Start) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*start.sources.notes, *start.state.notes)))


def data_line(start: Start) -> str:
    dataset, train, validation, test = start.sources[:4]
    name, requested = dataset.name, getattr(dataset, "requested", dataset.name)
    if requested != name:
        name += f" instead of {requested}"
    to_validate = f"{len(validation):,} to validate, " if validation else ""
    return (
        f"{name}: {len(train):,} images to train, {to_validate}"
        f"{len(test):,} to test; {class_line(train)}"
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
    """Callbacks of `fit`, which calls `start` in the first process alone."""

    def __init__(self, out: Path, changed: dict[str, Any]) -> None:
        self.out, self.changed = out, changed
        self.begun: Start | None = None
        self.bar: Any = None
        self.numbers: dict[str, Any] = {}  # the last of each
        self.last_step: int | None = None  # at the last call of `stepped`
        self.is_evaluating = False

    def start(self, start: Start) -> None:
        say(announcement(start, self.out, self.changed))
        self.begun, self.first = start, start.state.step
        self.shown_notes = notes(start)
        self.began = time.monotonic()
        self.next_line = self.began  # the first measurement is shown at once
        if sys.stderr.isatty():
            self.bar = tqdm(
                total=start.num_steps,
                initial=self.first,
                file=sys.stderr,
                dynamic_ncols=True,
                bar_format=BAR,
            )

    def stepped(self) -> None:
        """Also called between the batches of an evaluation."""
        if self.begun is None:
            return
        step = self.begun.state.step
        is_evaluating, self.last_step = step == self.last_step, step
        is_new = is_evaluating != self.is_evaluating
        self.is_evaluating = is_evaluating
        if self.bar is not None:
            self.show_bar(self.begun, step, is_new)
        elif time.monotonic() >= max(self.next_line, self.began + EVERY):
            self.say_line(self.begun, step)

    def measured(self, progress: Progress) -> None:
        if self.begun is None:
            return
        if "note" in progress.line:
            if progress.line["note"] not in self.shown_notes:
                say(wrapped("note    ", progress.line["note"]))
            return
        self.numbers |= progress.line
        self.is_evaluating = False
        is_last = progress.step == progress.num_steps
        if self.bar is not None:
            self.show_bar(self.begun, progress.step, is_new=True)
        elif is_last or time.monotonic() >= self.next_line:
            self.say_line(self.begun, progress.step)

    def show_bar(self, start: Start, step: int, is_new: bool) -> None:
        texts = [*self.texts(start, step, 0), f"{step}/{start.num_steps}"]
        self.bar.bar_format = BAR + "  ".join(texts)
        self.bar.update(step - self.bar.n)
        if is_new:  # to be seen at once
            self.bar.refresh()

    def say_line(self, start: Start, step: int) -> None:
        self.next_line = time.monotonic() + EVERY
        texts = ", ".join(self.texts(start, step, 1))
        say(f"step {step} of {start.num_steps}: {texts}")

    def texts(self, start: Start, step: int, form: int) -> list[str]:
        """What is known, the most important first, in a form of SHOWN."""
        seconds, numbers = time.monotonic() - self.began, dict(self.numbers)
        if step > self.first and "images_per_second" not in numbers:
            num_images = (step - self.first) * start.config.batch_size
            numbers["images_per_second"] = num_images / seconds
        numbers["data_wait"] = 100 * numbers.get("data_wait", 0)
        if numbers["data_wait"] <= SLOW_DATA:
            del numbers["data_wait"]
        left = time_left(step, self.first, start.num_steps, seconds)
        numbers["left"] = "evaluating" if self.is_evaluating else left
        return [
            forms[form].format(numbers[name])
            for name, forms in SHOWN.items()
            if numbers.get(name, "") != "" and forms[form]
        ]

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def time_left(step: int, first: int, last: int, seconds: float) -> str:
    """ "01:23 left"; "" before the first step and at the end."""
    if step <= first or step >= last:
        return ""
    left = seconds / (step - first) * (last - step)
    return f"{tqdm.format_interval(left)} left"


class Counter:
    """How many pictures are done."""

    def __init__(self) -> None:
        self.began = self.last_line = time.monotonic()
        self.first: int | None = None  # done before, by another run
        self.bar: Any = None

    def show(self, num_done: int, num_all: int) -> None:
        if self.first is None:
            self.first = num_done
            if sys.stderr.isatty():
                self.bar = tqdm(
                    total=num_all,
                    initial=num_done,
                    unit=" pictures",
                    file=sys.stderr,
                    dynamic_ncols=True,
                )
        if self.bar is not None:
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
