"""How far a run has come: a bar on a terminal, one line a minute elsewhere."""

import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from tqdm import tqdm

from vitedu.cli.talk import say, wrapped
from vitedu.train import Progress, Start

EVERY = 60.0  # seconds between two lines where there is no terminal
# columns of the bar itself; numbers are left out to keep them
LEAST_BAR = 5
SLOW_DATA = 0.1  # share of the time spent waiting for data that is worth a word
# what the accuracies of the log are called beside the bar
ACCURACIES = {"train": "acc", "validation": "val", "test": "test"}


class Part(NamedTuple):
    """A number beside the bar, and when to drop it from a narrow terminal."""

    text: str
    importance: int


class Bar(tqdm):
    """A bar no wider than the terminal, with what was measured last."""

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
        """What tqdm knows of the bar, and the line that fits its terminal."""
        known = super().format_dict
        columns = known["ncols"] or 80
        texts = fitting(self.parts(known), columns - len("100%|| ") - LEAST_BAR)
        line = "{percentage:3.0f}%|{bar}| " + "  ".join(texts)
        return known | {"bar_format": line}

    def parts(self, known: dict[str, Any]) -> list[Part]:
        """The numbers, from left to right."""
        parts = [Part(f"{known['n']}/{known['total']}", 1)]
        if "loss" in self.measured:
            parts.append(Part(f"loss {self.measured['loss']:.3g}", 6))
        parts += [
            Part(f"{label} {self.measured[f'{name}_accuracy']:.1f}%", 5)
            for name, label in ACCURACIES.items()
            if f"{name}_accuracy" in self.measured
        ]
        speed = self.measured.get("images_per_second")
        steps, seconds = known["n"] - known["initial"], known["elapsed"]
        if speed is None and steps:
            speed = steps * self.batch_size / seconds
        if speed is not None:
            parts.append(Part(f"{speed:,.0f} img/s", 2))
        if (wait := self.measured.get("data_wait", 0.0)) > SLOW_DATA:
            parts.append(Part(f"data wait {100 * wait:.0f}%", 3))
        left = time_left(known["n"], known["initial"], known["total"], seconds)
        if self.is_evaluating:
            left = "evaluating"
        return [*parts, Part(left, 4)] if left else parts


def fitting(parts: Sequence[Part], columns: int) -> list[str]:
    """The texts in order, without the least important if they don't fit."""
    kept = list(parts)
    while kept and sum(len(part.text) + 2 for part in kept) - 2 > columns:
        kept.remove(min(kept, key=lambda part: part.importance))
    return [part.text for part in kept]


def time_left(step: int, first: int, last: int, seconds: float) -> str:
    """ "01:23 left" at this speed; "" before the first step and at the end."""
    if step <= first or step >= last:
        return ""
    left = seconds / (step - first) * (last - step)
    return f"{tqdm.format_interval(left)} left"


class Reporter:
    """Shows a run on stderr, from its first step on."""

    def __init__(self, start: Start, shown_notes: Sequence[str] = ()) -> None:
        self.start = start
        self.shown_notes = shown_notes
        self.first = start.state.step
        self.began = time.monotonic()
        self.next_line = self.began  # the first measurement is shown at once
        self.numbers: dict[str, Any] = {}  # the last of each
        self.last_step: int | None = None  # at the last call of `stepped`
        self.bar = Bar(start) if sys.stderr.isatty() else None

    def stepped(self) -> None:
        """Look how far the run is: after every step, so this has to be cheap.

        Also between the batches of an evaluation, where the step stays the
        same.
        """
        step = self.start.state.step
        is_evaluating, self.last_step = step == self.last_step, step
        if self.bar is not None:
            self.bar.update(step - self.bar.n)
            if is_evaluating != self.bar.is_evaluating:
                self.bar.is_evaluating = is_evaluating
                self.bar.refresh()
        elif time.monotonic() >= max(self.next_line, self.began + EVERY):
            self.say_line(step)

    def measured(self, progress: Progress) -> None:
        """Show one measurement."""
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
            self.say_line(progress.step)

    def say_line(self, step: int) -> None:
        """Step, loss, accuracies, speed and the time left, in a line."""
        now = time.monotonic()
        self.next_line = now + EVERY
        last = self.start.num_steps
        parts = [
            f"{name} {self.numbers[key]:.4g}{unit}"
            for name, key, unit in (
                ("loss", "loss", ""),
                ("lr", "lr", ""),
                ("train accuracy", "train_accuracy", " %"),
                ("validation accuracy", "validation_accuracy", " %"),
                ("test accuracy", "test_accuracy", " %"),
            )
            if key in self.numbers
        ]
        if "images_per_second" in self.numbers:
            parts.append(f"{self.numbers['images_per_second']:,.0f} images/s")
        if (wait := self.numbers.get("data_wait", 0.0)) > SLOW_DATA:
            parts.append(f"{100 * wait:.0f} % of the time waiting for data")
        left = time_left(step, self.first, last, now - self.began)
        parts += [left] if left else []
        say(f"step {step} of {last}: {', '.join(parts) or 'under way'}")

    def close(self) -> None:
        """Leave the terminal's line."""
        if self.bar is not None:
            self.bar.close()
