"""What the commands that read weights have in common: words name=value, and loading."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from vitedu.cli.answer import say, wrapped
from vitedu.cli.command import Rows
from vitedu.errors import UserError
from vitedu.model import ResNet, ViT
from vitedu.weights import load
from vitedu.weights.stored import HINTS

# what can be said of weights, as in image_size=384
OF_WEIGHTS = (*HINTS, "ignore")
# for the help of the commands that read weights
WEIGHTS: Rows = [
    (
        "WEIGHTS",
        "a file, a run folder or a name: ViT-Ti/16, which needs no network, "
        "ViT-B/16 and others of the paper, or a model on the hub, OWNER/MODEL",
    ),
]
HINTS_HELP: Rows = [
    ("image_size=384", "the positions are resized to another size of image"),
    (
        "num_heads=12",
        "attention heads, if the file doesn't say; the same goes for the next three",
    ),
    ("pool=mean", "token, mean, map or none: how tokens become an answer"),
    ("position=none", "the positions, where there are no learned ones"),
    (
        "pool_padding=zeros",
        "or -inf: what a ResNet's first pooling finds beyond the edge",
    ),
    (
        "ignore=extra/*",
        "arrays of the file that may be left out, by name; several with commas",
    ),
]


def named_fields(
    words: list[str], known: tuple[str, ...]
) -> tuple[list[str], dict[str, str]]:
    """Plain words, and those of the form name=value with a `known` name."""
    plain, fields = [], {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in known:
            plain.append(word)
        elif name in fields:
            raise UserError(f"{name}= is given twice")
        else:
            fields[name] = value
    return plain, fields


def hints_in(fields: dict[str, str]) -> dict[str, Any]:
    """What words say of weights: image_size=384, pool=none, ignore=extra/*.

    UserError: no number where one is wanted.
    """
    return {
        name: hint(name, value)
        for name, value in fields.items()
        if name in OF_WEIGHTS
    }


def hint(name: str, value: str) -> Any:
    """The value of one such word."""
    if name == "ignore":
        return tuple(value.split(","))
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


@contextmanager
def warnings_said() -> Iterator[None]:
    """Say warnings in a line each, without Python's own line of code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            for each in caught:
                say(wrapped("warning: ", str(each.message)))


def load_model(
    name: str, fields: dict[str, str], device: torch.device | str = "cpu"
) -> ViT | ResNet:
    """`load`, with the words that answer what the file cannot say."""
    with warnings_said():
        return load(name, device=device, **hints_in(fields))
