"""Command-line words: plain ones, name=value, and weights described by them."""

from collections.abc import Container
from typing import Any

import torch

from vitedu.cli.command import Rows
from vitedu.errors import UserError
from vitedu.fields import Count, Size, converted
from vitedu.model.network import Network
from vitedu.train.config import parsed
from vitedu.weights import load
from vitedu.weights.checkpoint import ANSWERS

# the names in words on weights, such as image_size=384
OF_WEIGHTS = (*ANSWERS, "ignore")
# of the fields that are numbers, as text is read, and what they may be
NUMBERS = {"image_size": (tuple[int, int], Size), "num_heads": (int, Count)}
# for the help of the commands that read weights
WEIGHTS: Rows = [
    (
        "WEIGHTS",
        "a file, a run folder or a name: ViT-Ti/16, which needs no network, "
        "ViT-B/16 and others of the paper, or a model on the hub, OWNER/MODEL",
    ),
]
FIELDS_HELP: Rows = [
    ("image_size=384", "the positions are resized to another size of image"),
    (
        "num_heads=12",
        "attention heads, if the file doesn't say; the same goes for the next "
        "three",
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


def split_words(
    words: list[str], known: Container[str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """Plain words, and name=value ones; with `known`, only these names.

    UserError: a name is given twice.
    """
    plain, fields = [], {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or (known is not None and name not in known):
            plain.append(word)
        elif name in fields:
            raise UserError(f"{name}= is given twice")
        else:
            fields[name] = value
    return plain, fields


def answers_in(fields: dict[str, str]) -> dict[str, Any]:
    """What words say of weights, for `load`: image_size=384, ignore=extra/*.

    UserError: a number is needed.
    """
    answers: dict[str, Any] = {}
    for name, value in fields.items():
        if name == "ignore":
            answers[name] = tuple(value.split(","))
        elif name in NUMBERS:
            kind, allowed = NUMBERS[name]
            answers[name] = converted(name, parsed(value, kind), allowed)
        elif name in OF_WEIGHTS:
            answers[name] = value
    return answers


def load_model(
    name: str, fields: dict[str, str], device: torch.device | str = "cpu"
) -> Network:
    """`load`, with words for what the file cannot say."""
    return load(name, device=device, **answers_in(fields))
