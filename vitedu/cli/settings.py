"""Every setting of a run as it is typed, with its default and what it means."""

from dataclasses import MISSING, fields, is_dataclass

from vitedu.cli.answer import shown
from vitedu.cli.command import Rows
from vitedu.data.augment import Augment
from vitedu.model import ViTConfig
from vitedu.model.checks import meanings
from vitedu.pictures import PreprocessSpec
from vitedu.train import TrainConfig

# fields that no word sets: parts, and what follows from others
NO_WORDS = {
    "": ("recipe", "tier", "model", "preprocess", "augment", "given"),
    "preprocess.": ("image_size", "in_channels"),
}


def settings() -> list[tuple[str, Rows]]:
    """Every field with its default and its meaning, as it is typed."""
    return [
        ("settings", rows_of(TrainConfig)),
        ("model.*, the network", rows_of(ViTConfig, "model.")),
        ("augment.*, changes to training images", rows_of(Augment, "augment.")),
        (
            "preprocess.*, from a picture to numbers",
            rows_of(PreprocessSpec, "preprocess."),
        ),
    ]


def rows_of(owner: type, prefix: str = "") -> Rows:
    """The fields of a configuration that a word can set: name=default, meaning."""
    known = meanings(owner)
    defaults = owner() if prefix else None
    rows = []
    for each in fields(owner):
        if each.name in NO_WORDS.get(prefix, ()):
            continue
        value = getattr(defaults, each.name, each.default)
        if is_dataclass(value):
            continue  # a part of the network is chosen in Python
        default = "NAME" if value is MISSING else shown(value)
        name = f"{prefix}{each.name}={default}"
        rows.append((name, known.get(each.name, "")))
    return rows
