"""What a command is: its function, the options it takes, and its help.

Help is written where the options are, so that the two cannot part.
"""

import argparse
import shutil
import textwrap
from collections.abc import Callable, Iterable
from typing import NamedTuple, NoReturn

from vitedu.cli.answer import Answer
from vitedu.errors import UserError, did_you_mean

INDENT = 24  # columns of a name in the help, as in argparse's own tables

Rows = list[tuple[str, str]]  # names, and what they mean


def no_options(parser: argparse.ArgumentParser) -> None:
    """For a command without options of its own."""


class Command(NamedTuple):
    """One command of `vitedu`."""

    run: Callable[[argparse.Namespace], Answer]
    usage: str  # its words: "RECIPE [field=value ...]"
    summary: str  # its line in `vitedu --help`
    about: str  # the first lines of its own help
    words: Rows
    examples: Rows
    add_options: Callable[[argparse.ArgumentParser], None] = no_options
    # the names in name=value, and what a shell completes plain words to, if not
    # files
    fields: Callable[[], Iterable[str]] = tuple
    completions: Callable[[], Iterable[str]] = tuple
    more_help: Callable[[], str] = str


class Parser(argparse.ArgumentParser):
    """Argparse that says one sentence in place of its usage lines."""

    def error(self, message: str) -> NoReturn:
        """UserError with argparse's own sentence."""
        raise UserError(f"{message}; `{self.prog} --help` shows how")


def parse(
    name: str, command: Command, arguments: list[str]
) -> argparse.Namespace:
    """Options by name, and all other words, in any order, as `words`.

    Behind `--` everything is a word. UserError: there is no such option.
    """
    parser = parser_of(name, command)
    before, after = split_at_dashes(arguments)
    options, words = parser.parse_known_args(before)
    for index, word in enumerate(words):
        if word.startswith("-"):
            value = [*words[index + 1 :], "VALUE"][0]
            known = parser._option_string_actions
            raise unknown_option(name, command, word, value, known)
    options.words = words + after
    return options


def split_at_dashes(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What comes before `--`, and what comes behind it."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end + 1 :]


def unknown_option(
    name: str, command: Command, word: str, value: str, known: Iterable[str]
) -> UserError:
    """The sentence about an unknown option; a setting may have been meant."""
    option, equals, given = word.partition("=")
    field = option.lstrip("-").replace("-", "_")
    if field in command.fields():
        value = given if equals else value
        return UserError(
            f"{name} has no option {option!r}; settings have no dashes: "
            f"{field}={value}"
        )
    end = did_you_mean(option, [x for x in known if x.startswith("--")])
    return UserError(
        f"{name} has no option {option!r}; {end} (what follows -- is never an "
        "option)"
    )


def parser_of(name: str, command: Command) -> Parser:
    """What reads the options of a command, and prints its help."""
    examples = ["examples:"]
    for line, meaning in command.examples:
        examples += [f"  {line}", filled(meaning, 6 * " ")]
    parser = Parser(
        prog=f"vitedu {name}",
        usage=f"vitedu {name} {command.usage} [options]",
        description=f"{filled(command.about)}\n\n"
        + section("words", command.words),
        epilog="\n\n".join(
            filter(None, [command.more_help(), "\n".join(examples)])
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    command.add_options(parser)
    add_common_options(parser)
    return parser


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """What every command takes."""
    parser.add_argument(
        "--device",
        default="auto",
        metavar="NAME",
        help="cpu, cuda, cuda:1 or mps; by default the fastest that is here",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help='one JSON object on stdout, {"error": "..."} after a mistake',
    )
    parser.add_argument(
        "--debug",
        action="store_true",
        help="the Python traceback of a mistake, not only its sentence",
    )
    parser.add_argument(
        "--help", "-h", action="store_true", help="show this help"
    )


def section(title: str, rows: Rows, indent: int = INDENT) -> str:
    """Names and meanings under a title; a long name has a line of its own."""
    lines = [f"{title}:"]
    for name, meaning in rows:
        meaning_lines = filled(meaning, indent * " ").splitlines()
        if meaning_lines and len(name) + 4 <= indent:
            lines.append(f"  {name:<{indent - 2}}{meaning_lines[0].lstrip()}")
            lines += meaning_lines[1:]
        else:
            lines += [f"  {name}", *meaning_lines]
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
