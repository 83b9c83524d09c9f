"""What the command writes: the answer to stdout, help and messages to stderr.

`return Answer({"accuracy": 98.1}, "accuracy 98.1%")`
"""

import argparse
import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, TextIO

from tqdm import tqdm

from vitedu.errors import UserError, escaped, printable, reason
from vitedu.train.config import as_typed
from vitedu.train.processes import from_environment

INDENT = 24  # columns of a name in the help, as in argparse's own tables

Rows = list[tuple[str, str]]  # names, and what they mean


class Answer(NamedTuple):
    """`values` for `--json`, `text` for a person."""

    values: dict[str, Any]
    text: str
    code: int = 0  # the command's exit code


class Command(NamedTuple):
    run: Callable[[argparse.Namespace], Answer]
    usage: str  # its words: "RECIPE [field=value ...]"
    summary: str  # its line in `vitedu --help`
    about: str  # the first lines of its own help
    words: Rows
    examples: Rows
    reads_weights: bool = False  # and takes what `load` wants to know of them
    options: Sequence[tuple[str, str]] = ()  # "--rounds N", and its meaning
    defaults: Mapping[str, Any] = MappingProxyType({})  # of options
    # what a shell completes plain words to, if not files
    completions: Callable[[], Iterable[str]] = tuple


def table(rows: list[tuple[str, Any]]) -> str:
    rows = [(escaped(name), escaped(as_typed(value))) for name, value in rows]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def rows_in(text: str) -> Rows:
    """Parse lines of "name  meaning"; an indented line continues a row."""
    rows: Rows = []
    for line in textwrap.dedent(text).strip().splitlines():
        if line.startswith(" "):
            name, meaning = rows.pop()
            rows.append((name, f"{meaning} {line.strip()}".strip()))
        else:
            name, _, meaning = line.partition("  ")
            rows.append((name, meaning.strip()))
    return rows


def section(title: str, rows: Rows, indent: int = INDENT) -> str:
    lines = [f"{title}:"]
    for name, meaning in rows:
        if len(name) + 4 > indent:
            lines.append(f"  {name}")
            name = ""
        lines.append(filled(meaning, f"  {name:<{indent - 2}}"))
    return "\n".join(lines)


def filled(text: str, start: str = "") -> str:
    return textwrap.fill(
        text,
        width=max(shutil.get_terminal_size().columns - 2, len(start) + 20),
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
        break_long_words=False,
    )


def wrapped(name: str, line: str) -> str:
    return filled(line, name) if sys.stderr.isatty() else name + line


def say(text: str) -> None:
    if from_environment().is_first:
        talk(text)


def say_notes(notes: Iterable[str]) -> None:
    for note in notes:
        say(wrapped("note: ", note))


def complain(text: str) -> None:
    process = from_environment()
    who = f"process {process.rank}: " if process.world_size > 1 else ""
    talk(f"vitedu: {who}{text}")


def talk(text: str) -> None:
    """Write to stderr; a closed pipe doesn't stop a run."""
    try:
        tqdm.write(without_controls(text), file=sys.stderr)
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def print_answer(text: str) -> None:
    """BrokenPipeError: the reader has gone. UserError: the disk is full."""
    try:
        sys.stdout.write(f"{without_controls(text)}\n")
        sys.stdout.flush()
    except OSError as error:
        abandon(sys.stdout)
        if isinstance(error, BrokenPipeError):
            raise
        raise UserError(f"cannot print the answer: {reason(error)}") from None


def abandon(stream: TextIO) -> None:
    """Send the rest of `stream` nowhere, since Python flushes it at exit."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def without_controls(text: str) -> str:
    """Escape control characters, which file names may contain."""
    return "\n".join(map(escaped, text.split("\n")))


@contextmanager
def one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, *where: Any, **file: Any) -> None:
        say(wrapped("vitedu: warning: ", printable(str(message))))

    with warnings.catch_warnings():
        warnings.showwarning = show
        if not sys.warnoptions:
            warnings.simplefilter("default", UserWarning)
        # of pictures that pillow could read all the same
        warnings.filterwarnings("ignore", module="PIL")
        yield
