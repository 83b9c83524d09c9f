"""`vitedu convert`: weights in another format."""

import argparse
import warnings
from typing import Any

from vitedu.cli.answer import Answer, say
from vitedu.cli.evaluate import named_fields
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
    hints = {name: hint(name, value) for name, value in given.items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = convert_weights(*words, to=options.to, **hints)
    for each in caught:
        say(f"warning: {each.message}")
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


def hint(name: str, value: str) -> Any:
    """What a word name=value says. UserError: no number where one is wanted."""
    if name not in ("image_size", "num_heads"):
        return value
    numbers = value.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise UserError(
            f"{name}={value} must be whole numbers, as in {name}=16"
        )
    if len(numbers) == 1:
        return int(value)
    return tuple(map(int, numbers))
