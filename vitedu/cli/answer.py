"""What a command answers, and how it is shown."""

import shutil
import sys
import textwrap
from typing import Any, NamedTuple

from vitedu.train.loop import this_process


class Answer(NamedTuple):
    """What a command found: for `--json`, and for a person."""

    values: dict[str, Any]
    text: str
    code: int = 0  # the command's exit code


def table(rows: list[tuple[str, Any]]) -> str:
    """Names and values in two columns."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {shown(value)}" for name, value in rows)


def shown(value: Any) -> str:
    """A value as the command line takes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(shown(item) for item in value)
    return str(value)


def wrapped(name: str, line: str) -> str:
    """A line behind its name; on a terminal, broken where it is too long for it."""
    if not sys.stderr.isatty():
        return name + line
    return textwrap.fill(
        line,
        width=shutil.get_terminal_size().columns - 1,
        initial_indent=name,
        subsequent_indent=" " * len(name),
        break_on_hyphens=False,
    )


def say(text: str) -> None:
    """Talk to the user on stderr, so that stdout holds results alone.

    Of several processes the first one talks.
    """
    if this_process().is_first:
        print(text, file=sys.stderr, flush=True)
