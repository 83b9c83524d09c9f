"""What a command is: its function, the options it takes, and its help.

Help is written where the options are, so that the two cannot part.
"""

import argparse
import shutil
import textwrap
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from vitedu.cli.answer import Answer
from vitedu.errors import UserError

INDENT = 24  # columns of a name in the help, as in argparse's own tables

Rows = list[tuple[str, str]]  # names, and what they mean


def nothing(parser: argparse.ArgumentParser) -> None:
    """Options of a command that has none of its own."""


def no_sections() -> list[tuple[str, Rows]]:
    """Further tables in the help of a command that has none."""
    return []


class Command(NamedTuple):
    """One command of `vitedu`."""

    run: Callable[[argparse.Namespace], Answer]
    usage: str  # its words: "RECIPE [field=value ...]"
    summary: str  # its line in `vitedu --help`
    about: str  # the first lines of its own help
    words: Rows
    examples: Rows
    add_options: Callable[[argparse.ArgumentParser], None] = nothing
    sections: Callable[[], list[tuple[str, Rows]]] = no_sections


class Parser(argparse.ArgumentParser):
    """Argparse that says one sentence in place of its usage lines."""

    def error(self, message: str) -> NoReturn:
        """UserError with argparse's own sentence."""
        raise UserError(f"{message}; `{self.prog} --help` shows how")


def parser_of(name: str, command: Command) -> Parser:
    """What reads the options of a command, and prints its help."""
    parser = Parser(
        prog=f"vitedu {name}",
        usage=f"vitedu {name} {command.usage} [options]",
        description=f"{filled(command.about)}\n\n"
        + section("words", command.words),
        epilog=epilog(command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    command.add_options(parser)
    parser.add_argument(
        "--device",
        default="auto",
        metavar="NAME",
        help="cpu, cuda, cuda:1 or mps; by default the fastest that is here",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="one JSON object on stdout, and all talk on stderr",
    )
    parser.add_argument(
        "--debug",
        action="store_true",
        help="the Python traceback of a mistake, not only its sentence",
    )
    parser.add_argument(
        "--help", "-h", action="store_true", help="show this help"
    )
    return parser


def epilog(command: Command) -> str:
    """Everything in the help below the options."""
    examples = ["examples:"]
    for line, meaning in command.examples:
        examples += [f"  {line}", filled(meaning, 6 * " ")]
    parts = [section(*titled) for titled in command.sections()]
    return "\n\n".join([*parts, "\n".join(examples)])


def section(title: str, rows: Rows, indent: int = INDENT) -> str:
    """Names and meanings under a title; a long name has a line of its own."""
    lines = [f"{title}:"]
    for name, meaning in rows:
        wrapped = filled(meaning, indent * " ").splitlines()
        if wrapped and len(name) + 4 <= indent:
            lines.append(f"  {name:<{indent - 2}}{wrapped[0].lstrip()}")
            lines += wrapped[1:]
        else:
            lines += [f"  {name}", *wrapped]
    return "\n".join(lines)


def filled(text: str, indent: str = "") -> str:
    """Text in lines as wide as the terminal, but for two columns."""
    return textwrap.fill(
        text,
        width=max(shutil.get_terminal_size().columns - 2, len(indent) + 20),
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
