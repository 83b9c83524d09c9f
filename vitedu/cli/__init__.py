"""The command `vitedu`. The only modules that print to a user or exit.

stdout is for results, stderr for talk; a UserError is one sentence and exit code 2.
"""

import argparse
import json
import os
import sys

from vitedu import __version__
from vitedu.cli.bench import BENCH
from vitedu.cli.command import parser_of, section
from vitedu.cli.convert import CONVERT
from vitedu.cli.evaluate import EVALUATE
from vitedu.cli.info import INFO
from vitedu.cli.predict import PREDICT
from vitedu.cli.train import TRAIN
from vitedu.errors import UserError, did_you_mean
from vitedu.train.loop import this_process

COMMANDS = {
    "info": INFO,
    "train": TRAIN,
    "evaluate": EVALUATE,
    "predict": PREDICT,
    "convert": CONVERT,
    "bench": BENCH,
}
FIRST_STEPS = [
    ("vitedu train digits", "a first model; nothing to download"),
    ("vitedu predict ViT-Ti/16 photo.jpg", "what a photograph shows"),
    ("vitedu info", "recipes, models and data sets"),
    ("vitedu train --help", "all of one command"),
]


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    0: done, or stopped by SIGTERM and saved. 2: the user can mend it. 130: Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    world = this_process()
    try:
        if asked := help_asked(arguments):
            print(asked)
            return 0
        if arguments[0] == "--version":
            print(__version__)
            return 0
        options = parse(arguments)
        if options.help:
            print(help_of(options.command))
            return 0
        answer = COMMANDS[options.command].run(options)
        if world.is_first:
            print(
                json.dumps(answer.values, sort_keys=True)
                if options.json
                else answer.text
            )
        return answer.code
    except UserError as error:
        if "--debug" in arguments:
            raise
        who = f"process {world.rank}: " if world.size > 1 else ""
        sentence = " ".join(str(error).split())
        print(f"vitedu: {who}{sentence}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if "--debug" in arguments:
            raise
        print("vitedu: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever reads stdout has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def help_asked(arguments: list[str]) -> str | None:
    """The help that the words ask for: `vitedu`, `vitedu help [COMMAND]`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        return overview()
    if arguments[0] != "help":
        return None
    return help_of(arguments[1]) if arguments[1:] else overview()


def overview() -> str:
    """The help of all: a line a command."""
    rows = [(name, each.summary) for name, each in COMMANDS.items()]
    return "\n\n".join(
        [
            "usage: vitedu COMMAND ... [options]",
            section("commands", rows),
            section("first steps", FIRST_STEPS),
            "`vitedu COMMAND --help` shows the words and options of a command, "
            "and examples.\n"
            "`vitedu --version` prints the version.",
        ]
    )


def help_of(name: str) -> str:
    """The help of one command. UserError: there is no such command."""
    check_command(name)
    return parser_of(name, COMMANDS[name]).format_help().rstrip()


def check_command(name: str) -> None:
    """UserError with the nearest name if there is no such command."""
    if name not in COMMANDS:
        end = did_you_mean(name, COMMANDS)
        raise UserError(f"there is no command {name!r}; {end}")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Options by name, and all other words, in any order, as `words`."""
    name = arguments[0]
    check_command(name)
    parser = parser_of(name, COMMANDS[name])
    options, words = parser.parse_known_args(arguments[1:])
    for word in words:
        if word.startswith("-"):
            known = [x for x in parser._option_string_actions if "--" in x]
            end = did_you_mean(word.split("=")[0], known)
            raise UserError(f"{name} has no option {word!r}; {end}")
    options.command, options.words = name, words
    options.arguments = arguments
    return options
