"""Values of a configuration from `field=value`, as a command line gives them."""

import types
import typing
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from vitedu.errors import UserError
from vitedu.model.checks import check_fields
from vitedu.train.config import fitted

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Config = TypeVar("Config", bound="DataclassInstance")


def override(config: Config, assignments: dict[str, str]) -> Config:
    """`config` with fields set from text: {"lr": "3e-4", "model.depth": "4"}.

    A value is read by the field's type; "none" clears an optional field. All of them
    are set at once, so that the new values need to fit each other only in the end.
    UserError: a field is unknown, or a value is of another type.
    """
    changes: dict[str, Any] = {}
    nested: dict[str, dict[str, str]] = {}
    hints = typing.get_type_hints(type(config))
    for name, text in assignments.items():
        head, _, rest = name.partition(".")
        check_fields(type(config).__name__, [head], hints)
        if rest and is_dataclass(getattr(config, head)):
            nested.setdefault(head, {})[rest] = text
        elif rest:
            raise UserError(f"{head} has no fields, so {name!r} means nothing")
        else:
            changes[head] = parse(head, text, hints[head])
    for head in sorted(nested):  # the model before its preprocessing
        part = getattr(config, head)
        if head == "preprocess":
            for name in ("image_size", "in_channels"):
                if name in nested[head]:
                    raise UserError(
                        f"preprocess.{name} follows the model; set model.{name}"
                    )
            part = fitted(part, changes.get("model", config.model))
        changes[head] = override(part, nested[head])
    return changed(config, changes)


def changed(config: Config, changes: dict[str, Any]) -> Config:
    """`config` with other values; steps take the place of epochs, and the reverse."""
    for one, other in (("steps", "epochs"), ("epochs", "steps")):
        if changes.get(one) is not None and other not in changes:
            changes = changes | {other: None}
    return replace(config, **changes)


def parse(name: str, text: str, kind: Any) -> Any:
    """The value that `text` stands for in a field of type `kind`."""
    if isinstance(kind, types.UnionType):
        kinds = typing.get_args(kind)
        if text.lower() == "none" and type(None) in kinds:
            return None
        kind = next(k for k in kinds if k is not type(None))
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        values = tuple(parse(name, part, inner) for part in text.split(","))
        # one number is taken for both sides of a pair of sizes
        return values[0] if len(values) == 1 and inner is int else values
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise UserError(f"{name} must be true or false, got {text!r}")
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise UserError(f"{name} must be {wanted}, got {text!r}") from None
    if kind is str or typing.get_origin(kind) is typing.Literal:
        return text
    raise UserError(f"{name} cannot be set from the command line")
