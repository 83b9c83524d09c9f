"""Words of a command line: plain ones, and name=value."""

from collections.abc import Container, Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from vitedu.cli.output import Rows, rows_in, section
from vitedu.data.augment import Augment
from vitedu.errors import UserError, same_as, unknown
from vitedu.fields import (
    Count,
    Size,
    converted,
    field_types,
    meanings,
)
from vitedu.model import ViTConfig
from vitedu.pictures import PreprocessSpec
from vitedu.train import TrainConfig
from vitedu.train.config import as_typed, parsed
from vitedu.weights.checkpoint import ANSWERS

# fields of commands on weights, such as image_size=384
OF_WEIGHTS = (*ANSWERS, "ignore")
# of the fields that are numbers, as text is read, and what they may be
NUMBERS = {"image_size": (tuple[int, int], Size), "num_heads": (int, Count)}
# for the help of the commands that read weights
WEIGHTS = rows_in("""
    WEIGHTS  a file, a run folder or a name: ViT-Ti/16, which needs no network,
        ViT-B/16 and others of the paper, or a model on the hub, OWNER/MODEL
""")
FIELDS_HELP = rows_in("""
    image_size=384  the positions are resized to another size of image
    num_heads=12  attention heads, if the file doesn't say; the same goes for
        the next three
    pool=mean  token, mean, mean_norm, map or none: how tokens become an
        answer
    position=none  the positions, where there are no learned ones
    pool_padding=zeros  or -inf: what a ResNet's first pooling finds beyond the
        edge
    ignore=extra/*  arrays of the file that may be left out, by name; several
        with commas
""")
# the settings of a run, with titles for the help
SETTINGS: list[tuple[str, str, type]] = [
    ("settings", "", TrainConfig),
    ("model.*, the network", "model.", ViTConfig),
    ("augment.*, changes to training images", "augment.", Augment),
    ("preprocess.*, from a picture to numbers", "preprocess.", PreprocessSpec),
]
# fields that can't be set: nested ones, and what other fields decide
NO_WORDS = {
    "": ("recipe", "tier", "model", "preprocess", "augment", "given"),
    "preprocess.": ("image_size", "in_channels"),
}


def split_words(
    words: list[str], known: Container[str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """Plain words, and name=value ones; `known` limits the names."""
    plain, given = [], {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or (known is not None and name not in known):
            plain.append(word)
        elif name in given:
            raise UserError(f"{name}= is given twice")
        else:
            given[name] = value
    return plain, given


def load_fields(given: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name == "ignore":
            found[name] = tuple(value.split(","))
        elif name in NUMBERS:
            kind, allowed = NUMBERS[name]
            found[name] = converted(name, parsed(value, kind), allowed)
        elif name in OF_WEIGHTS:
            found[name] = value
    return found


def settings() -> list[tuple[str, Rows]]:
    return [
        (title, rows_of(prefix, owner)) for title, prefix, owner in SETTINGS
    ]


def check_settings(given: Iterable[str]) -> None:
    rows = [row for _, rows in settings() for row in rows]
    known = {name.partition("=")[0]: meaning for name, meaning in rows}
    for name in given:
        head, _, rest = name.partition(".")
        is_known = f"{head}.{rest.partition('.')[0]}".rstrip(".") in known
        if not is_known and (same := same_as(name, known)):
            what = " or ".join(f"{x!r} ({known[x]})" for x in same)
            raise UserError(
                f"there is no setting {name!r}; did you mean {what}?"
            )
        if head not in (names := field_types(TrainConfig)):
            raise unknown("setting", head, names)


def rows_of(prefix: str, owner: type) -> Rows:
    known = meanings(owner)
    defaults = owner() if prefix else None
    rows = []
    for each in fields(owner):
        if each.name in NO_WORDS.get(prefix, ()):
            continue
        value = getattr(defaults, each.name, each.default)
        if is_dataclass(value):  # a variant of the network, set by its name
            value = type(value).__name__
        default = as_typed(value) or "NAME"
        name = f"{prefix}{each.name}={default}"
        rows.append((name, known.get(each.name, "")))
    return rows


def explain_settings() -> str:
    return "\n\n".join(section(title, rows) for title, rows in settings())
