"""The fields of a configuration: what they mean, and what they must be.

Each check says in one sentence what does not fit.
"""

import inspect
import math
import textwrap
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, get_args

from vitedu.errors import UserError, did_you_mean
from vitedu.model.seams import SEAMS

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig

Pooling = Literal["token", "mean", "map", "none"]
Gelu = Literal["exact", "tanh"]
CHOICES = {"pool": get_args(Pooling), "gelu": get_args(Gelu)}
# what others call ours, where the nearest spelling would lead astray ("gap", "map")
ELSEWHERE = {"gap": "mean", "avg": "mean", "tok": "token"}


def check_config(config: "ViTConfig") -> None:
    """UserError naming the first field that is wrong, or two that do not fit."""
    for name in ("in_channels", "embed_dim", "depth", "num_heads", "mlp_dim"):
        check_count(name, getattr(config, name), at_least=1)
    check_count("num_classes", config.num_classes, at_least=0)
    if config.pre_logits is not None:
        check_count("pre_logits", config.pre_logits, at_least=1)
    if config.embed_dim % config.num_heads:
        raise UserError(
            f"embed_dim={config.embed_dim} does not divide into "
            f"{config.num_heads} heads"
        )
    for name, known in CHOICES.items():
        value = getattr(config, name)
        if value not in known:
            end = did_you_mean(ELSEWHERE.get(str(value), str(value)), known)
            raise UserError(f"{name}={value!r} is not known; {end}")
    if not isinstance(config.class_token, bool):
        raise UserError(
            f"class_token must be true or false, got {config.class_token!r}"
        )
    if config.pool == "token" and not config.class_token:
        raise UserError(
            "pool='token' needs class_token=True; or set pool='mean'"
        )
    check_number("norm_eps", config.norm_eps, lambda eps: eps > 0, "above 0")
    for name in ("dropout", "drop_path"):
        rate = getattr(config, name)
        check_number(name, rate, lambda rate: 0 <= rate < 1, "in [0, 1)")
    for name, kinds in SEAMS.items():
        if not isinstance(getattr(config, name), kinds):
            raise UserError(
                f"{name} must be one of "
                f"{', '.join(kind.__name__ + '()' for kind in kinds)}, "
                f"got {getattr(config, name)!r}"
            )
    config.stem.grid(config)  # says itself what does not fit


def pair(name: str, value: Any) -> tuple[int, int]:
    """An int or a pair of ints as (height, width), both positive."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = (value, value)
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise UserError(
            f"{name} must be a number or (height, width), got {value!r}"
        )
    for side in value:
        check_count(name, side, at_least=1)
    return value[0], value[1]


def check_count(name: str, value: Any, at_least: int) -> None:
    """UserError unless `value` is an int of at least `at_least`."""
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or value < at_least
    ):
        raise UserError(
            f"{name} must be a whole number of at least {at_least}, got {value!r}"
        )


def check_number(
    name: str, value: Any, holds: Callable[[float], bool], wanted: str
) -> None:
    """UserError unless `value` is a finite number for which `holds` is true."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not holds(value):
        raise UserError(f"{name} is {value!r}, it must be {wanted}")


def check_fields(
    owner: str, values: Iterable[str], known: Iterable[str]
) -> None:
    """UserError naming the nearest field if a key of `values` is not among `known`."""
    known = list(known)
    for name in values:
        if name not in known:
            raise UserError(
                f"{owner} has no field {name!r}; " + did_you_mean(name, known)
            )


def meanings(owner: type) -> dict[str, str]:
    """What each field means, by its name: the `Attributes:` of a class's docstring.

    An entry is "name: what it means", indented below the heading; its further lines
    are indented once more. Line breaks become spaces. The order is the docstring's.
    Without docstrings (python -OO) nothing is found.
    """
    _, _, section = (inspect.getdoc(owner) or "").partition("Attributes:\n")
    entries: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if line.strip() and not line.startswith("    "):
            break  # the section ends where the indentation does
        if line.startswith("     "):
            entries[name] += f" {line.strip()}"
        elif line.strip():
            name, _, meaning = line.strip().partition(": ")
            entries[name] = meaning
    return entries


def with_meanings(doc: str | None, owner: type) -> str | None:
    """A function's docstring, and behind it what each field of `owner` means.

    For a function that takes the fields as keywords: `help` then shows them all. None,
    where docstrings are left out, stays None.
    """
    if doc is None:
        return None
    entries = [
        textwrap.fill(
            f"{name}: {meaning}",
            width=80,
            initial_indent=4 * " ",
            subsequent_indent=8 * " ",
        )
        for name, meaning in meanings(owner).items()
    ]
    return "\n".join([inspect.cleandoc(doc), "", "Keyword Args:", *entries])
