"""The command `vitedu`. The only modules that print to a user or exit."""

from vitedu.cli.main import main

__all__ = ["main"]
