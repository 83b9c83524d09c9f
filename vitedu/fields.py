"""The fields of a frozen dataclass: checked, and written as JSON and read back.

What a field may be is its type, and a range is part of the type::

    @dataclass(frozen=True)
    class Mixing(Checked):
        alpha: Annotated[float, Range(0)] = 0.2
        kind: Literal["mixup", "cutmix"] = "mixup"
        images: Count | None = None

`Mixing(alpha=-1)` then says "alpha must be a number of at least 0, got -1".
"""

import inspect
import math
import re
import textwrap
import types
import typing
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from vitedu.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Kind = TypeVar("Kind", bound="DataclassInstance")
UNIONS = (types.UnionType, typing.Union)
# metadata of a field newer than files, left out of JSON at its default
LATER = {"later": True}


@dataclass(frozen=True)
class Range:
    """The numbers that a field may hold; None leaves a side open."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None

    def holds(self, number: float) -> bool:
        return (
            (self.at_least is None or number >= self.at_least)
            and (self.at_most is None or number <= self.at_most)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    def __str__(self) -> str:
        words = ("of at least", "above", "below", "at most")
        bounds = (self.at_least, self.above, self.below, self.at_most)
        pairs = zip(words, bounds, strict=True)
        return " and ".join(f"{x} {y}" for x, y in pairs if y is not None)


@dataclass(frozen=True)
class OneForAll:
    """Marks a tuple that a single number may stand for: (224, 224), (0.5,)."""


Count = Annotated[int, Range(1)]
Depth = Annotated[int, Range(1, 4096)]  # no network has more blocks
Positive = Annotated[float, Range(above=0)]
Rate = Annotated[float, Range(0, below=1)]
Share = Annotated[float, Range(0, at_most=1)]
Seed = Annotated[int, Range(0, 2**64 - 1)]  # what torch takes as one
Size = Annotated[tuple[Count, Count], OneForAll()]  # height, width


def is_left_out(each: "Field[Any]", owner: Any) -> bool:
    is_later = each.metadata.get("later", False)
    return is_later and getattr(owner, each.name) == each.default


def shown(config: Any) -> str:
    """`Standard(layer_scale=1e-05)`, without fields that LATER leaves out."""
    parts = ", ".join(
        f"{each.name}={getattr(config, each.name)!r}"
        for each in fields(config)
        if each.repr and not is_left_out(each, config)
    )
    return f"{type(config).__name__}({parts})"


def check_fields(config: Any) -> None:
    """Check every field of a frozen dataclass against its type, in place.

    An int becomes a float, a list a tuple and a number a pair where the type
    asks for it. UserError: a field is of another type or out of range.
    """
    for name, kind in field_types(type(config)).items():
        value = converted(name, getattr(config, name), kind)
        object.__setattr__(config, name, value)


class Checked:
    """What a frozen dataclass inherits: `check_fields`, to and from JSON."""

    def __post_init__(self) -> None:
        check_fields(self)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, strings and lists; the inverse of `from_json`."""
        return to_json(self)

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """What `to_json` wrote. UserError: a field is unknown or wrong."""
        kind: Any = cls
        return from_json(kind, values)


@dataclass(frozen=True)
class Variant(Checked):
    """One of several classes for a field; `name` says which, in JSON too."""

    name: str = field(init=False, repr=False)

    def __init_subclass__(cls) -> None:
        cls.name = cls.__name__


@cache
def field_types(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in fields(kind)}


def converted(name: str, value: Any, kind: Any) -> Any:
    """`value` as the type `kind` keeps it. UserError: it isn't of that type."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in UNIONS and type(None) in parts:
        if value is None:
            return None
        others = [part for part in parts if part is not type(None)]
        if len(others) == 1:
            return converted(name, value, others[0])
    if origin is Literal and value not in parts:
        end = did_you_mean(str(value), map(str, parts))
        raise UserError(f"{name}={value!r} is not known; {end}")
    try:
        return _fitted(value, kind)
    except Misfit:
        raise UserError(
            f"{name} must be {wanted(kind)}, got {value!r}"
        ) from None


class Misfit(Exception):
    """A value isn't of its field's type."""


def _fitted(value: Any, kind: Any) -> Any:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _in_range(value, parts[0], parts[1:])
    if origin is tuple:
        return _each(value, parts)
    if origin in UNIONS:
        for part in parts:
            with suppress(Misfit):
                return _fitted(value, part)
        raise Misfit
    if kind is int and _is_number(value, Integral):
        return int(value)
    if kind is float and _is_number(value, Real) and math.isfinite(value):
        return float(value)
    if origin is Literal:
        is_one = value in parts
    else:
        is_one = kind is Any or (
            kind not in (int, float) and isinstance(value, origin or kind)
        )
    if is_one:
        return value
    raise Misfit


def _in_range(value: Any, kind: Any, marks: tuple[Any, ...]) -> Any:
    if OneForAll() in marks and not isinstance(value, list | tuple):
        parts = typing.get_args(kind)
        value = (value,) * (1 if parts[-1] is Ellipsis else len(parts))
    value = _fitted(value, kind)
    if not all(mark.holds(value) for mark in marks if isinstance(mark, Range)):
        raise Misfit
    return value


def _each(value: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise Misfit
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        raise Misfit
    return tuple(map(_fitted, value, kinds))


def _is_number(value: Any, kind: type) -> bool:
    """NumPy's numbers count too, True and False don't."""
    return isinstance(value, kind) and not isinstance(value, bool)


def wanted(kind: Any) -> str:
    """A type in words: "a whole number of at least 1"."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        one = "one number, or " if OneForAll() in parts else ""
        ranges = "".join(f" {x}" for x in parts[1:] if isinstance(x, Range))
        return one + wanted(parts[0]) + ranges
    if origin is tuple:
        each = wanted(parts[0]).removeprefix("a ").replace("number", "numbers")
        if parts[-1] is Ellipsis:
            return f"a list of {each}"
        return f"{len(parts)} {each}"
    if origin in UNIONS:
        return " or ".join(map(wanted, parts))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    words = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        type(None): "none",
    }
    name = getattr(kind, "__name__", str(kind))
    article = "an" if name[0] in "AEIOU" else "a"
    return words.get(kind) or f"{article} {name}"


def check_names(owner: str, names: Iterable[Any], known: Iterable[str]) -> None:
    """UserError with the nearest field if a name isn't among the `known`."""
    known = list(known)
    for name in names:
        if name not in known:
            end = did_you_mean(str(name), known)
            raise UserError(f"{owner} has no field {str(name)!r}; {end}")


def from_json(kind: type[Kind], values: Any) -> Kind:
    """The dataclass `to_json` wrote. UserError: a field is missing or wrong."""
    owner = kind.__name__
    if not isinstance(values, Mapping):
        raise UserError(f"{owner} must be a JSON object, got {values!r}")
    known = [each for each in fields(kind) if each.init]
    check_names(owner, values, (each.name for each in known))
    missing = [
        each.name
        for each in known
        if each.default is each.default_factory is MISSING
        and each.name not in values
    ]
    if missing:
        raise UserError(f"{owner} lacks {' and '.join(missing)}")
    types_of = field_types(kind)
    parts = {
        name: from_json(types_of[name], value)
        for name, value in values.items()
        if is_dataclass(types_of[name]) and isinstance(value, Mapping)
    }
    return kind(**{**values, **parts})


def to_json(config: Any) -> dict[str, Any]:
    """A frozen dataclass as plain JSON values, by field."""
    return {
        each.name: plain(getattr(config, each.name))
        for each in fields(config)
        if not is_left_out(each, config)
    }


def plain(value: Any) -> Any:
    """`value` as JSON has it: tuples as lists, dataclasses as dicts."""
    if is_dataclass(value) and not isinstance(value, type):
        own = getattr(value, "to_json", None)
        return own() if own else to_json(value)
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def meanings(owner: type) -> dict[str, str]:
    """{field: meaning} from `Attributes:` of the docstring; {} under -OO."""
    _, _, section = (inspect.getdoc(owner) or "").partition("Attributes:\n")
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {5}.+)*)", section, re.M)
    return {name: " ".join(meaning.split()) for name, meaning in entries}


def with_meanings(doc: str | None, owner: type) -> str | None:
    """`doc` with the meanings of `owner`'s fields; None (-OO) stays None."""
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
