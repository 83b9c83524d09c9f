"""`vitedu convert`: weights in another format."""

import argparse

from vitedu.cli.answer import Answer
from vitedu.cli.words import hints_in, named_fields, warnings_said
from vitedu.errors import UserError
from vitedu.weights.convert import SUFFIXES
from vitedu.weights.convert import convert as convert_weights
from vitedu.weights.load import HINTS


def convert(options: argparse.Namespace) -> Answer:
    """Write weights in another format; what that cannot say is told on stderr."""
    words, given = named_fields(options.words, HINTS)
    if len(words) != 2 or options.to is None:
        raise UserError(
            "convert wants WEIGHTS, TARGET and --to FORMAT, of which there are "
            + ", ".join(SUFFIXES)
        )
    with warnings_said():
        done = convert_weights(*words, to=options.to, **hints_in(given))
    values = {
        "source": done.source,
        "dialect": done.dialect,
        "target": done.target,
        "format": done.format,
        "num_arrays": done.num_arrays,
        "config": done.config.to_json(),
        "notes": list(done.notes),
    }
    text = (
        f"{done.target}: {done.num_arrays} arrays of {done.source} ({done.dialect}) "
        f"as {done.format}"
    )
    return Answer(values, text)
