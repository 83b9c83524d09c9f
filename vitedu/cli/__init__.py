"""The command `vitedu`. The only modules that print to a user or exit.

stdout is for results, stderr for talk; a UserError is one sentence and exit code 2.
"""

import argparse
import json
import os
import sys

from vitedu import __version__
from vitedu.cli.bench import add_options, bench
from vitedu.cli.convert import convert
from vitedu.cli.evaluate import evaluate, predict
from vitedu.cli.info import info
from vitedu.cli.train import train
from vitedu.errors import UserError, did_you_mean
from vitedu.train.loop import this_process

COMMANDS = {
    "info": info,
    "train": train,
    "evaluate": evaluate,
    "predict": predict,
    "convert": convert,
    "bench": bench,
}
USAGE = """usage: vitedu COMMAND ... [--json] [--device NAME] [--debug]

  info [MODEL|WEIGHTS|RECIPE|data|device]       what there is, what it costs
  train RECIPE [field=value ...] [--out DIR] [--resume DIR] [--fresh] [--tier TIER]
  evaluate WEIGHTS [DATASET|FOLDER] [data=PATH] [labels=FILE.csv]   accuracy
  predict WEIGHTS IMAGE... [--top 5]            the likeliest classes of pictures
  convert WEIGHTS TARGET --to FORMAT [name=value ...]   write weights for others
  bench MODEL [field=value ...] [--against LIST] [--batch N] [--precision P]
      [--compile] [--threads N] [--rounds N] [--inference] [--training]
                                                speed beside other libraries'

WEIGHTS is a file, a folder or a name: ViT-Ti/16, which needs no network, ViT-B/16 and
others of the paper, or a model on the hub. DATASET is a named set or FILE.npz (its
test part), FOLDER pictures in class folders, or flat with a table of labels.
FORMAT is vitedu, npz, timm, hf or torchvision; timm's and hf's are folders.
LIST is of timm, torchvision, transformers, vit-pytorch; P auto, fp32, tf32, bf16, fp16.
`torchrun --nproc-per-node N -m vitedu train ...` trains in N processes, one a GPU.
`vitedu info` lists recipes, models and data sets. `vitedu --version` says the version.
"""


class Parser(argparse.ArgumentParser):
    """Argparse that says one sentence in place of its usage lines."""

    def error(self, message: str) -> None:
        """UserError with argparse's own sentence."""
        raise UserError(f"{message}; `vitedu --help` shows how")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 0, or 2 for what the user can mend."""
    arguments = sys.argv[1:] if arguments is None else arguments
    world = this_process()
    try:
        if not arguments or arguments[0] in ("-h", "--help", "help"):
            print(USAGE, end="")
            return 0
        if arguments[0] == "--version":
            print(__version__)
            return 0
        options = parse(arguments)
        answer = COMMANDS[options.command](options)
        if not world.is_first:
            return 0
        print(
            json.dumps(answer.values, sort_keys=True)
            if options.json
            else answer.text
        )
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


def parse(arguments: list[str]) -> argparse.Namespace:
    """Options by name, and all other words, in any order, as `words`."""
    command = arguments[0]
    if command not in COMMANDS:
        end = did_you_mean(command, COMMANDS)
        raise UserError(f"there is no command {command!r}; {end}")
    parser = Parser(
        prog=f"vitedu {command}", add_help=False, allow_abbrev=False
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("--device", default="auto")
    if command == "train":
        parser.add_argument("--tier", default=os.environ.get("VITEDU_TIER"))
        parser.add_argument("--out")
        parser.add_argument("--resume")
        parser.add_argument("--fresh", action="store_true")
    if command == "predict":
        parser.add_argument("--top", type=int, default=5)
    if command == "convert":
        parser.add_argument("--to")
    if command == "bench":
        add_options(parser)
    options, words = parser.parse_known_args(arguments[1:])
    if options.help:
        print(USAGE, end="")
        sys.exit(0)
    for word in words:
        if word.startswith("-"):
            known = [
                name for name in parser._option_string_actions if "--" in name
            ]
            end = did_you_mean(word.split("=")[0], known)
            raise UserError(f"{command} has no option {word!r}; {end}")
    options.command, options.words, options.arguments = (
        command,
        words,
        arguments,
    )
    return options
