"""`vitedu --print-completion bash`: shell completion of words and options."""

import argparse
from collections.abc import Mapping
from typing import Any

from vitedu.cli.command import Command, add_common_options
from vitedu.errors import UserError, did_you_mean


def completion(shell: str, commands: Mapping[str, Command]) -> str:
    """The script that teaches `shell` the commands. UserError: no shtab."""
    try:
        import shtab
    except ImportError:
        raise UserError(
            "shell completion is written by shtab; install it with `pip "
            "install shtab`"
        ) from None
    if shell not in shtab.SUPPORTED_SHELLS:
        end = did_you_mean(shell, shtab.SUPPORTED_SHELLS)
        raise UserError(f"no completion for the shell {shell!r}; {end}")
    parser = argparse.ArgumentParser(prog="vitedu", add_help=False)
    subparsers = parser.add_subparsers()
    for name, command in commands.items():
        each = subparsers.add_parser(name, help=command.summary, add_help=False)
        command.add_options(each)
        add_common_options(each)
        names = list(command.completions())
        # an attribute of shtab's own
        words: Any = each.add_argument(
            "words", nargs="*", choices=names or None
        )
        if not names:
            words.complete = shtab.FILE
    return shtab.complete(parser, shell)
