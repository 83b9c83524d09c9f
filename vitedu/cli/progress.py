"""Progress of long work: a bar on a terminal, one line a minute elsewhere."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from vitedu.cli.output import say, wrapped
from vitedu.train import Progress, Start
from vitedu.train.config import as_typed
from vitedu.train.processes import from_environment
from vitedu.train.recipes.compare import changed_settings
from vitedu.train.watch.bar import Bar, open_bar
from vitedu.train.watch.facts import facts

EVERY = 60.0  # seconds between two lines where there is no terminal

Item = TypeVar("Item")


# --- five lines before a run


def announcement(start: Start, out: Path) -> str:
    num_processes = from_environment().world_size
    lines = [
        *facts(start.state, start.sources, num_processes).items(),
        ("run", run_line(start, out)),
        *(("note", note) for note in notes(start)),
    ]
    return "\n".join(wrapped(f"{name:<8}", line) for name, line in lines)


def notes(start: Start) -> tuple[str, ...]:
    of_data = start.sources.dataset.notes
    return tuple(dict.fromkeys((*of_data, *start.state.notes)))


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


# --- while it lasts


class Lines:
    """A stream for tqdm where there is no terminal: it writes whole lines."""

    def write(self, text: str) -> None:
        if line := text.strip():
            say(line)

    def flush(self) -> None:
        pass


def new_bar(total: int, done: int) -> Any:
    if sys.stderr.isatty():
        return open_bar(total, done)
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


class Reporter(Bar):
    """Callbacks of `fit`, which calls `start` in the first process alone."""

    begun: Start | None = None

    def __init__(self, out: Path) -> None:
        self.out = out

    def start(self, start: Start) -> None:
        say(announcement(start, self.out))
        self.begun, self.shown_notes = start, notes(start)
        bar = new_bar(start.num_steps, start.state.step)
        super().__init__(start.state, bar, is_terminal=sys.stderr.isatty())

    def measured(self, progress: Progress) -> None:
        note = progress.line.get("note")
        if self.begun and note is not None and note not in self.shown_notes:
            say(wrapped("note    ", note))
        super().measured(progress)


def with_progress(
    batches: Iterable[Item], batch_size: int, num_all: int
) -> Iterator[Item]:
    with new_bar(num_all, 0) as bar:
        for batch in batches:
            yield batch
            bar.update(min(batch_size, num_all - bar.n))
