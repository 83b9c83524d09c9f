"""From the arguments of `vitedu` to an answer and an exit code.

Results go to stdout, messages to stderr; a UserError is one sentence and exit
code 2.
"""

import argparse
import json
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

from vitedu import __version__
from vitedu.cli import output
from vitedu.cli.bench import BENCH
from vitedu.cli.convert import CONVERT
from vitedu.cli.evaluate import EVALUATE
from vitedu.cli.explain import EXPLAIN
from vitedu.cli.info import INFO
from vitedu.cli.overrides import FIELDS_HELP, WEIGHTS, explain_settings
from vitedu.cli.predict import PREDICT
from vitedu.cli.prepare import PREPARE
from vitedu.cli.report import REPORT
from vitedu.cli.train import CTRL_C, TRAIN
from vitedu.errors import UserError, did_you_mean, printable, unknown
from vitedu.train.processes import from_environment

COMMANDS = {
    "info": INFO,
    "train": TRAIN,
    "evaluate": EVALUATE,
    "predict": PREDICT,
    "explain": EXPLAIN,
    "report": REPORT,
    "convert": CONVERT,
    "prepare": PREPARE,
    "bench": BENCH,
}
FIRST_STEPS = output.rows_in("""
    vitedu train digits  a first model; nothing to download
    vitedu predict ViT-Ti/16 photo.jpg  what a photograph shows
    vitedu info  recipes, models and data sets
    vitedu train --help  all of one command
""")
COMMON_OPTIONS = output.rows_in("""
    --device NAME  cpu, cuda, cuda:1 or mps; by default the fastest that is here
    --json  one JSON object on stdout, {"error": "..."} after a mistake
    --debug  the Python traceback of a mistake, not only its sentence
""")
READER_LEFT = 141  # as the shell says it of a program that SIGPIPE ended
EXIT_CODES = output.rows_in("""
    0  done; or stopped by SIGTERM, and saved
    1  a bug in vitedu, with a traceback
    2  a mistake that you can correct, in one sentence
    130  stopped by Ctrl-C; a training run is saved
    141  nobody reads the answer, as behind `| head`
""")


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code; see EXIT_CODES."""
    arguments = sys.argv[1:] if arguments is None else arguments
    before, _ = split_at_dashes(arguments)
    # the user's matplotlib backend may not be available, and isn't needed
    os.environ["MPLBACKEND"] = "agg"
    for stream in (sys.stdout, sys.stderr):
        # a terminal that is not UTF-8, a file name that is not
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    with output.one_line_warnings():
        try:
            return run(arguments)
        except (Exception, KeyboardInterrupt) as error:
            is_ctrl_c = isinstance(error, KeyboardInterrupt)
            is_bug = not is_ctrl_c and not isinstance(error, UserError)
            message = "interrupted" if is_ctrl_c else printable(str(error))
            if "--json" in before and from_environment().is_first:
                with suppress(UserError, BrokenPipeError):
                    output.print_answer(json.dumps({"error": message}))
            if is_bug or "--debug" in before:
                raise
            output.complain(message)
            return CTRL_C if is_ctrl_c else 2


def run(arguments: list[str]) -> int:
    name, *others = arguments or ["--help"]
    if name == "help" and others:
        name, *others = [*others, "--help"]
    code = 0
    if name == "--version":
        text = __version__
    elif name == "--print-completion":
        text = completion(" ".join(others))
    elif name in ("-h", "--help", "help"):
        text = overview()
    elif name == "settings" and others == ["--help"]:
        text = explain_settings()
    elif (options := parse(name, others)).help:
        text = parser_of(name).format_help().rstrip()
    else:
        options.arguments = arguments
        answer = COMMANDS[name].run(options)
        text, code = answer.text, answer.code
        if options.json:
            text = json.dumps(answer.values, sort_keys=True, allow_nan=False)
    try:
        if from_environment().is_first:
            output.print_answer(text)
    except BrokenPipeError:
        return READER_LEFT
    return code


def overview() -> str:
    rows = [(name, each.summary) for name, each in COMMANDS.items()]
    return "\n\n".join(
        [
            "usage: vitedu COMMAND ... [options]",
            output.section("commands", rows),
            output.section("first steps", FIRST_STEPS),
            output.section("exit codes", EXIT_CODES, indent=8),
            "`vitedu COMMAND --help` shows the words and options of a command, "
            "and examples.\n"
            "`vitedu --version` prints the version, `vitedu --print-completion "
            "bash`\n"
            "(or zsh, tcsh) a script that completes commands and options.",
        ]
    )


class Parser(argparse.ArgumentParser):
    """Reports an error as one sentence, without argparse's usage lines."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; `{self.prog} --help` shows how")


def parser_of(name: str) -> Parser:
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    command = COMMANDS[name]
    words = command.words
    if command.reads_weights:
        words = [*WEIGHTS, *words, *FIELDS_HELP]
    examples = [
        f"  {line}\n{output.filled(meaning, 6 * ' ')}"
        for line, meaning in command.examples
    ]
    about = output.filled(command.about)
    parser = Parser(
        prog=f"vitedu {name}",
        usage=f"vitedu {name} {command.usage} [options]",
        description=f"{about}\n\n{output.section('words', words)}",
        epilog="\n".join(["examples:", *examples]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    add_options(parser, command)
    return parser


def add_options(
    parser: argparse.ArgumentParser, command: output.Command
) -> None:
    for row, meaning in [*command.options, *COMMON_OPTIONS]:
        name, _, value = row.partition(" ")
        if value:
            kind = int if value == "N" else str
            parser.add_argument(name, metavar=value, type=kind, help=meaning)
        else:
            parser.add_argument(name, action="store_true", help=meaning)
    parser.set_defaults(device="auto", **command.defaults)
    parser.add_argument(
        "--help", "-h", action="store_true", help="show this help"
    )


def parse(name: str, arguments: list[str]) -> argparse.Namespace:
    parser = parser_of(name)
    before, after = split_at_dashes(arguments)
    options, words = parser.parse_known_args(before)
    for option in [word.partition("=")[0] for word in words if word[:1] == "-"]:
        known = [x for x in parser._option_string_actions if x[:2] == "--"]
        field = option.lstrip("-").replace("-", "_")
        raise UserError(
            f"{name} has no option {option!r}; {did_you_mean(option, known)} "
            f"(settings have no dashes: {field}=VALUE; what follows -- is "
            "never an option)"
        )
    options.words = words + after
    return options


def split_at_dashes(arguments: list[str]) -> tuple[list[str], list[str]]:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end + 1 :]


def completion(shell: str) -> str:
    try:
        import shtab
    except ImportError:
        raise UserError("install shtab first: `pip install shtab`") from None
    if shell not in shtab.SUPPORTED_SHELLS:
        end = did_you_mean(shell, shtab.SUPPORTED_SHELLS)
        raise UserError(f"no completion for the shell {shell!r}; {end}")
    parser = argparse.ArgumentParser(prog="vitedu", add_help=False)
    subparsers = parser.add_subparsers()
    for name, command in COMMANDS.items():
        each = subparsers.add_parser(name, help=command.summary, add_help=False)
        add_options(each, command)
        names = [*command.completions()] or None
        words: Any = each.add_argument("words", nargs="*", choices=names)
        if not names:
            words.complete = shtab.FILE  # an attribute of shtab's own
    return shtab.complete(parser, shell)
