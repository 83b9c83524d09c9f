"""What the command writes: the answer to stdout, all talk to stderr.

Talk that nobody reads never ends a run: where stderr is closed, full or a pipe
whose reader has left, it is dropped.
"""

import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from typing import Any, TextIO

from tqdm import tqdm

from vitedu.errors import UserError, escaped, printable, reason
from vitedu.train.processes import SINGLE, Processes, from_environment


class Droppable:
    """A stream for talk; writing to it always succeeds.

    What cannot be written goes to `nowhere`, and so does all that follows.
    """

    def __init__(self, stream: TextIO | None, nowhere: TextIO) -> None:
        self.stream = stream or nowhere  # None: it is closed
        self.nowhere = nowhere

    def write(self, text: str) -> int:
        """Write `text`, or drop it."""
        try:
            self.stream.write(text)
        except (OSError, ValueError):
            self.drop()
        return len(text)

    def flush(self) -> None:
        """Flush the stream, or drop what it still had to write."""
        try:
            self.stream.flush()
        except (OSError, ValueError):
            self.drop()

    def drop(self) -> None:
        """Give the stream up."""
        abandon(self.stream)
        self.stream = self.nowhere

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def abandon(stream: TextIO) -> None:
    """From now on, what is written to `stream` goes nowhere.

    Python would otherwise try once more at exit, and fail.
    """
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


@contextmanager
def safe_streams() -> Iterator[None]:
    """All stderr inside is talk, warnings of other packages too."""
    fill_closed_descriptors()
    for stream in (sys.stdout, sys.stderr):
        # a terminal that is not UTF-8, a file name that is not
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    with (
        open(os.devnull, "w") as nowhere,
        redirect_stderr(Droppable(sys.stderr, nowhere)),
        warnings.catch_warnings(),
    ):
        warnings.showwarning = say_warning
        if not sys.warnoptions:
            warnings.simplefilter("default", UserWarning)
        # of pictures that pillow could read all the same
        warnings.filterwarnings("ignore", module="PIL")
        yield


def fill_closed_descriptors() -> None:
    """Keep files opened later from becoming stdin, stdout or stderr."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free


def print_answer(text: str) -> None:
    """Write the answer of the command.

    BrokenPipeError: the reader of stdout has left. UserError: it is closed, or
    the disk is full.
    """
    if sys.stdout is None:
        raise UserError("cannot print the answer: stdout is closed")
    try:
        sys.stdout.write(f"{without_controls(text)}\n")
        sys.stdout.flush()
    except OSError as error:
        abandon(sys.stdout)
        if isinstance(error, BrokenPipeError):
            raise
        raise UserError(f"cannot print the answer: {reason(error)}") from None


def say(text: str) -> None:
    """Talk to the user; a bar on the terminal moves below it.

    Of several processes only the first one talks.
    """
    if from_environment().is_first:
        tqdm.write(without_controls(text), file=sys.stderr)
        sys.stderr.flush()


def complain(text: str) -> None:
    """Say what went wrong; of several processes, which one it happened to."""
    process = this_process()
    who = f"process {process.rank}: " if process.world_size > 1 else ""
    tqdm.write(without_controls(f"vitedu: {who}{text}"), file=sys.stderr)


def this_process() -> Processes:
    """Which one this is; the only one if the environment contradicts itself."""
    try:
        return from_environment()
    except UserError:
        return SINGLE


def say_warning(message: Warning | str, *where: Any, **file: Any) -> None:
    """A warning of any package in one line, without its line of code."""
    say(wrapped("vitedu: warning: ", printable(str(message))))


def without_controls(text: str) -> str:
    """Lines that cannot change the terminal, whatever names they contain."""
    return "\n".join(map(escaped, text.split("\n")))


def wrapped(name: str, line: str) -> str:
    """A line after its name; on a terminal, wrapped to its width."""
    if not sys.stderr.isatty():
        return name + line
    return textwrap.fill(
        line,
        width=shutil.get_terminal_size().columns - 1,
        initial_indent=name,
        subsequent_indent=" " * len(name),
        break_on_hyphens=False,
    )
