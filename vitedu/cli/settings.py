"""Every setting of a run as it is typed, with its default and what it means."""

from dataclasses import MISSING, fields, is_dataclass

from vitedu.cli.answer import as_typed
from vitedu.cli.command import Rows, filled, section
from vitedu.data.augment import Augment
from vitedu.fields import meanings
from vitedu.model import ViTConfig
from vitedu.pictures import PreprocessSpec
from vitedu.train import TrainConfig

# fields that cannot be typed: parts, and what other fields decide
NO_WORDS = {
    "": ("recipe", "tier", "model", "preprocess", "augment", "given"),
    "preprocess.": ("image_size", "in_channels"),
}


def settings() -> list[tuple[str, Rows]]:
    """Titles, and under each the fields as name=default with their meanings."""
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
    """The fields that a word can set: name=default, and what they mean."""
    known = meanings(owner)
    defaults = owner() if prefix else None
    rows = []
    for each in fields(owner):
        if each.name in NO_WORDS.get(prefix, ()):
            continue
        value = getattr(defaults, each.name, each.default)
        if is_dataclass(value):  # a variant of the network, set by its name
            default = type(value).__name__
        else:
            default = "NAME" if value is MISSING else as_typed(value)
        name = f"{prefix}{each.name}={default}"
        rows.append((name, known.get(each.name, "")))
    return rows


def setting_names() -> list[str]:
    """What can stand before the "=" of a word of `vitedu train`."""
    return [row.partition("=")[0] for _, rows in settings() for row, _ in rows]


def overview() -> str:
    """All settings with their defaults, for the help of train."""
    parts = []
    for title, rows in settings():
        names = filled("  ".join(name for name, _ in rows), "  ")
        parts.append(f"{title}:\n{names}")
    parts[0] = parts[0].replace(
        ":", " (what they mean: `vitedu help settings`):", 1
    )
    return "\n\n".join(parts)


def explanations() -> str:
    """All settings with what they mean."""
    return "\n\n".join(section(title, rows) for title, rows in settings())
