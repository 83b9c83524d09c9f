"""What the commands that read weights have in common: words name=value, and loading."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from vitedu.cli.answer import say
from vitedu.errors import UserError
from vitedu.model import ViT
from vitedu.model.resnet import ResNet
from vitedu.weights import load
from vitedu.weights.load import HINTS


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
    """What words say that a file of weights cannot: image_size=384, pool=none.

    UserError: no number where one is wanted.
    """
    return {
        name: hint(name, value)
        for name, value in fields.items()
        if name in HINTS
    }


def hint(name: str, value: str) -> Any:
    """The value of one such word."""
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
                say(f"warning: {each.message}")


def load_model(
    name: str, fields: dict[str, str], device: torch.device | str = "cpu"
) -> ViT | ResNet:
    """`load`, with the words that answer what the file cannot say."""
    with warnings_said():
        return load(name, device=device, **hints_in(fields))
