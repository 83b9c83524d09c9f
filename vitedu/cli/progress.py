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
from vitedu.errors import UserError, counted
from vitedu.model import (
    HYBRIDS,
    NAMES,
    RESNETS,
    ResNetConfig,
    ViTConfig,
    vit_config,
)
from vitedu.train import RECIPES, Progress, Start, TrainConfig, recipe
from vitedu.train.config import differences, dotted
from vitedu.train.processes import from_environment
from vitedu.train.recipes import WITH_ROWS

EVERY = 60.0  # seconds between two lines where there is no terminal
SHORTLY = 0.05  # seconds between two looks at the bar
SLOW_DATA = 10  # percent of the time spent waiting for data: worth a word
# numbers of a run, the most important first: on a narrow terminal the last are
# cut off; as written beside the bar, and in a line
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
# What a recipe cannot know of your data, what follows from the model, and what
# trained weights bring along.
OF_THE_DATA = (
    *("dataset", "data", "model.num_classes", "given"),
    *("preprocess.image_size", "preprocess.in_channels"),
)
OF_THE_MODEL = ("model.", "preprocess.")
NOT_OF_THE_MODEL = {"model.dropout", "model.drop_path"}

Item = TypeVar("Item")


# --- five lines before a run


def announcement(start: Start, out: Path) -> str:
    config, steps = start.config, counted(start.num_steps, "step")
    if config.epochs is not None:
        steps = f"{counted(config.epochs, 'epoch')} ({steps})"
    num_train = len(start.sources.train)
    is_all = config.batch_size > num_train
    plan = (
        f"{steps}, batch size {config.batch_size:,}"
        f"{f' (all {num_train:,} images at once)' if is_all else ''}, "
        f"{config.optimizer}, learning rate {config.lr:g}"
    )
    lines = [
        ("data", data_line(start)),
        ("model", model_line(config) + learning(start)),
        ("device", device_line(config)),
        ("plan", plan),
        ("run", run_line(start, out)),
        *(("note", note) for note in notes(start)),
    ]
    return "\n".join(wrapped(f"{name:<8}", line) for name, line in lines)


def notes(start: Start) -> tuple[str, ...]:
    of_data = start.sources.dataset.notes
    return tuple(dict.fromkeys((*of_data, *start.state.notes)))


def data_line(start: Start) -> str:
    dataset, train, validation, test = start.sources[:4]
    name, requested = dataset.name, getattr(dataset, "requested", dataset.name)
    if requested != name:
        name += f" instead of {requested}"
    to_validate = f"{len(validation):,} to validate, " if validation else ""
    return (
        f"{name}: {counted(len(train), 'image')} to train, {to_validate}"
        f"{len(test):,} to test; {class_line(train)}"
    )


def class_line(source: Source) -> str:
    line = counted(source.num_classes, "class")
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


def learning(start: Start) -> str:
    """How many weights learn, if not all."""
    weights = list(start.state.network.parameters())
    count = sum(each.numel() for each in weights if each.requires_grad)
    if all(each.requires_grad for each in weights):
        return ""
    return f"; {count:,} of them learn"


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


def run_line(start: Start, out: Path) -> str:
    line = str(out)
    if start.state.step:
        line += f", going on at step {start.state.step:,}"
    changed = changed_settings(start.config) or {}
    # epochs or steps is none, whichever was not given
    words = [
        f"{x}={as_typed(y)}" for x, (_, y) in changed.items() if y is not None
    ]
    return f"{line}; not as in the recipe: {' '.join(words)}" if words else line


def changed_settings(config: TrainConfig) -> dict[str, tuple[Any, Any]] | None:
    """The recipe's value and the run's, where a setting differs.

    None if the recipe no longer exists.
    """
    if config.recipe not in RECIPES:
        return None
    row = model_name(config.model) if config.recipe in WITH_ROWS else None
    try:
        original = recipe(config.recipe, config.tier, row)
    except UserError:  # a model that isn't a row of the paper's table
        original = recipe(config.recipe, config.tier)
    before, now = differences(original, config)
    left_out = {*OF_THE_DATA}
    if original.precision == "auto":  # which became what the device does best
        left_out.add("precision")
    if config.starts_trained:
        of_the_model = {name for name in now if name.startswith(OF_THE_MODEL)}
        left_out |= of_the_model - NOT_OF_THE_MODEL
    known = dict(dotted(config.to_json()))  # a ResNet has other fields
    return {
        name: (before[name], now[name])
        for name in now
        if name in known and name not in left_out
    }


# --- while it lasts


class Lines:
    """A stream for tqdm where there is no terminal: it writes whole lines."""

    def write(self, text: str) -> None:
        if line := text.strip():
            say(line)

    def flush(self) -> None:
        pass


def new_bar(total: int, done: int) -> Any:
    """A bar on a terminal; elsewhere a line every `EVERY` seconds."""
    if sys.stderr.isatty():
        return tqdm(
            total=total,
            initial=done,
            unit=" pictures",
            miniters=0,
            file=sys.stderr,
            dynamic_ncols=True,
        )
    return tqdm(
        total=total,
        initial=done,
        miniters=0,
        file=Lines(),
        mininterval=EVERY,
        delay=EVERY,
        leave=False,
        bar_format="{n:,} of {total:,} pictures, {remaining} left",
    )


class Reporter:
    """Callbacks of `fit`, which calls `start` in the first process alone."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.begun: Start | None = None
        self.numbers: dict[str, Any] = {}  # the last of each
        self.last_step: int | None = None  # at the last call of `stepped`
        self.is_evaluating = False
        self.due = 0.0  # when `stepped` looks at the bar again

    def start(self, start: Start) -> None:
        say(announcement(start, self.out))
        self.begun = start
        self.shown_notes = notes(start)
        self.is_terminal = sys.stderr.isatty()
        self.bar = new_bar(start.num_steps, start.state.step)

    def stepped(self) -> None:
        """Also called between the batches of an evaluation."""
        if self.begun is None:
            return
        step = self.begun.state.step
        is_evaluating, self.last_step = step == self.last_step, step
        is_new = is_evaluating != self.is_evaluating
        self.is_evaluating = is_evaluating
        # not at every step: writing the texts may take longer than a step
        if is_new or time.monotonic() >= self.due:
            self.due = time.monotonic() + min(EVERY, SHORTLY)
            self.show(self.begun, step, is_new and self.is_terminal)

    def measured(self, progress: Progress) -> None:
        if self.begun is None:
            return
        if "note" in progress.line:
            if progress.line["note"] not in self.shown_notes:
                say(wrapped("note    ", progress.line["note"]))
            return
        is_first, is_last = (
            not self.numbers,
            progress.step == progress.num_steps,
        )
        self.numbers |= progress.line
        self.is_evaluating = False
        is_new = is_first or is_last or self.is_terminal
        self.show(self.begun, progress.step, is_new)

    def show(self, start: Start, step: int, is_new: bool) -> None:
        """Move the bar; what `is_new` is to be seen at once."""
        numbers, last = dict(self.numbers), start.num_steps
        numbers["left"] = "{remaining} left"
        if self.is_evaluating:
            numbers["left"] = "evaluating"
        numbers["data_wait"] = 100 * numbers.get("data_wait", 0)
        if numbers["data_wait"] <= SLOW_DATA:
            del numbers["data_wait"]
        if rate := self.bar.format_dict["rate"]:  # steps per second
            speed = rate * start.config.batch_size
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
        if self.begun is not None:
            self.bar.close()


def with_progress(
    batches: Iterable[Item], batch_size: int, num_all: int
) -> Iterator[Item]:
    with new_bar(num_all, 0) as bar:
        for batch in batches:
            yield batch
            bar.update(min(batch_size, num_all - bar.n))
