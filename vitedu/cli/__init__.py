"""The command `vitedu`. The only modules that print to a user or exit.

stdout is for results, stderr for talk; a UserError is one sentence and exit
code 2.
"""

import json
import sys
from contextlib import suppress

from vitedu import __version__
from vitedu.cli.bench import BENCH
from vitedu.cli.command import (
    Command,
    Rows,
    parse,
    parser_of,
    section,
    split_at_dashes,
)
from vitedu.cli.completion import completion
from vitedu.cli.convert import CONVERT
from vitedu.cli.evaluate import EVALUATE
from vitedu.cli.info import INFO
from vitedu.cli.interrupt import CTRL_C
from vitedu.cli.predict import PREDICT
from vitedu.cli.prepare import PREPARE
from vitedu.cli.report import REPORT
from vitedu.cli.settings import explanations
from vitedu.cli.talk import (
    complain,
    print_answer,
    safe_streams,
    this_process,
)
from vitedu.cli.train import TRAIN
from vitedu.errors import UserError, did_you_mean, printable
from vitedu.train.processes import from_environment

COMMANDS = {
    "info": INFO,
    "train": TRAIN,
    "evaluate": EVALUATE,
    "predict": PREDICT,
    "report": REPORT,
    "convert": CONVERT,
    "prepare": PREPARE,
    "bench": BENCH,
}
FIRST_STEPS: Rows = [
    ("vitedu train digits", "a first model; nothing to download"),
    ("vitedu predict ViT-Ti/16 photo.jpg", "what a photograph shows"),
    ("vitedu info", "recipes, models and data sets"),
    ("vitedu train --help", "all of one command"),
]
READER_LEFT = 141  # as the shell says it of a program that SIGPIPE ended
EXIT_CODES: Rows = [
    ("0", "done; or stopped by SIGTERM, and saved"),
    ("1", "a bug in vitedu, with a traceback"),
    ("2", "a mistake that you can correct, in one sentence"),
    ("130", "stopped by Ctrl-C; a training run is saved"),
    ("141", "nobody reads the answer, as behind `| head`"),
]


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code; see EXIT_CODES."""
    arguments = sys.argv[1:] if arguments is None else arguments
    before, _ = split_at_dashes(arguments)
    with safe_streams():
        try:
            return run(arguments)
        except (Exception, KeyboardInterrupt) as error:
            is_bug = not isinstance(error, UserError | KeyboardInterrupt)
            is_ctrl_c = isinstance(error, KeyboardInterrupt)
            message = "interrupted" if is_ctrl_c else printable(str(error))
            if "--json" in before and this_process().is_first:
                with suppress(UserError, BrokenPipeError):
                    print_answer(json.dumps({"error": message}))
            if is_bug or "--debug" in before:
                raise
            complain(message)
            return CTRL_C if is_ctrl_c else 2


def run(arguments: list[str]) -> int:
    """Print what the arguments ask for; the exit code."""
    is_first = from_environment().is_first
    code = 0
    if arguments[:1] == ["--version"]:
        text = __version__
    elif arguments[:1] == ["--print-completion"]:
        text = completion(" ".join(arguments[1:]), COMMANDS)
    elif not arguments or arguments[0] in ("-h", "--help"):
        text = overview()
    elif arguments[0] == "help":
        text = help_of(arguments[1]) if arguments[1:] else overview()
    else:
        name = arguments[0]
        options = parse(name, command_of(name), arguments[1:])
        if options.help:
            text = help_of(name)
        else:
            options.arguments = arguments
            answer = COMMANDS[name].run(options)
            text, code = answer.text, answer.code
            if options.json:
                text = json.dumps(
                    answer.values, sort_keys=True, allow_nan=False
                )
    try:
        if is_first:
            print_answer(text)
    except BrokenPipeError:
        return READER_LEFT
    return code


def overview() -> str:
    """The help of all: a line a command."""
    rows = [(name, each.summary) for name, each in COMMANDS.items()]
    return "\n\n".join(
        [
            "usage: vitedu COMMAND ... [options]",
            section("commands", rows),
            section("first steps", FIRST_STEPS),
            section("exit codes", EXIT_CODES, indent=8),
            "`vitedu COMMAND --help` shows the words and options of a command, "
            "and examples.\n"
            "`vitedu --version` prints the version, `vitedu --print-completion "
            "bash`\n"
            "(or zsh, tcsh) a script that completes commands and options.",
        ]
    )


def help_of(name: str) -> str:
    """The help of a command, or of all settings. UserError: there is none."""
    if name == "settings":
        return explanations()
    return parser_of(name, command_of(name)).format_help().rstrip()


def command_of(name: str) -> Command:
    """The command of this name. UserError names the nearest if it's unknown."""
    if name not in COMMANDS:
        end = did_you_mean(name, COMMANDS)
        raise UserError(f"there is no command {name!r}; {end}")
    return COMMANDS[name]
