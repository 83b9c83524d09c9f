"""The bar of a run, on a terminal or in a notebook."""

import sys
import time
from typing import Any

from tqdm import tqdm

from vitedu.train.journal import Progress
from vitedu.train.step import TrainState

SHORTLY = 0.05  # seconds between two looks at the bar
SLOW_DATA = 10  # percent of the time spent waiting for data: worth a word
# numbers of a run, the most important first: on a narrow terminal the last are
# cut off; as written beside the bar, and in a line
SHOWN = {
    "loss": ("loss {:.3g}", "loss {:.4g}"),
    "lr": ("", "lr {:.4g}"),
    "train_accuracy": ("acc {:.1f}%", "train accuracy {:.4g}%"),
    "validation_accuracy": ("val {:.1f}%", "validation accuracy {:.4g}%"),
    "test_accuracy": ("test {:.1f}%", "test accuracy {:.4g}%"),
    "left": ("{}", "{}"),
    "data_wait": ("data wait {:.0f}%", "{:.0f}% of the time waiting for data"),
    "images_per_second": ("{:,.0f} img/s", "{:,.0f} images/s"),
}


def open_bar(total: int, done: int) -> Any:
    return tqdm(
        total=total,
        initial=done,
        unit=" pictures",
        miniters=0,
        file=sys.stderr,
        dynamic_ncols=True,
    )


class Bar:
    """A run on tqdm's bar; its methods are callbacks of `fit`."""

    bar: Any = None  # until it begins
    every = SHORTLY

    def __init__(
        self, state: TrainState, bar: Any, *, is_terminal: bool = True
    ) -> None:
        self.state = state
        self.bar = bar
        self.is_terminal = is_terminal
        self.numbers: dict[str, Any] = {}  # the last of each
        self.last_step: int | None = None  # at the last call of `stepped`
        self.is_evaluating = False
        self.due = 0.0  # when `stepped` looks at the bar again

    def stepped(self) -> None:
        """Also called between the batches of an evaluation."""
        if self.bar is None:
            return
        step = self.state.step
        is_evaluating, self.last_step = step == self.last_step, step
        is_new = is_evaluating != self.is_evaluating
        self.is_evaluating = is_evaluating
        # not at every step: writing the texts may take longer than a step
        if is_new or time.monotonic() >= self.due:
            self.due = time.monotonic() + self.every
            self.show(step, is_new and self.is_terminal)

    def measured(self, progress: Progress) -> None:
        if self.bar is None or "note" in progress.line:
            return
        is_first, is_last = (
            not self.numbers,
            progress.step == progress.num_steps,
        )
        self.numbers |= progress.line
        self.is_evaluating = False
        is_new = is_first or is_last or self.is_terminal
        self.show(progress.step, is_new)
        if "test_accuracy" in progress.line:  # the last one
            self.close()

    def show(self, step: int, is_new: bool) -> None:
        """Move the bar; what `is_new` is to be seen at once."""
        numbers, last = dict(self.numbers), self.state.num_steps
        numbers["left"] = "{remaining} left"
        if self.is_evaluating:
            numbers["left"] = "evaluating"
        numbers["data_wait"] = 100 * numbers.get("data_wait", 0)
        if numbers["data_wait"] <= SLOW_DATA:
            del numbers["data_wait"]
        if rate := self.bar.format_dict["rate"]:  # steps per second
            speed = rate * self.state.config.batch_size
            numbers.setdefault("images_per_second", speed)
        texts = [
            (short if self.is_terminal else long).format(numbers[name])
            for name, (short, long) in SHOWN.items()
            if name in numbers
        ]
        line = f"step {step} of {last}: {', '.join(texts)}"
        if self.is_terminal:
            line = "{percentage:3.0f}%|{bar}| "
            line += "  ".join([*filter(None, texts), f"{step}/{last}"])
        self.bar.bar_format = line
        self.bar.update(step - self.bar.n)
        if is_new:
            self.bar.refresh()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
