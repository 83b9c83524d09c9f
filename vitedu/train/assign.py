"""Values of a configuration from `field=value`, as a command line has them."""

import types
import typing
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from vitedu.errors import UserError
from vitedu.fields import check_names
from vitedu.model.config import SEAMS, seam_from_json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Config = TypeVar("Config", bound="DataclassInstance")


def override(config: Config, assignments: dict[str, str]) -> Config:
    """`config` with fields set from text: {"lr": "3e-4", "model.depth": "4"}.

    A value is read by the field's type; "none" clears an optional field. A
    variant of the model is set by the name of its class, as in
    {"model.position": "RoPE"}, and its fields start from their defaults. All of
    them are set at once, so that the new values need to fit each other only in
    the end.
    UserError: a field is unknown, or a value is of another type.
    """
    changes: dict[str, Any] = {}
    variants: dict[str, Any] = {}
    nested: dict[str, dict[str, str]] = {}
    hints = typing.get_type_hints(type(config))
    for name, text in assignments.items():
        head, _, rest = name.partition(".")
        check_names(type(config).__name__, [head], hints)
        is_part = is_dataclass(getattr(config, head))
        if head in SEAMS and rest in ("", "name"):
            variants[head] = seam_from_json(head, {"name": text})
            nested.setdefault(head, {})
            continue
        if rest and not is_part:
            raise UserError(f"{head} has no fields, so {name!r} means nothing")
        if is_part and not rest:
            raise UserError(
                f"{head} cannot be set as a whole; set its fields, as in "
                f"{head}.NAME=VALUE"
            )
        if is_part:
            nested.setdefault(head, {})[rest] = text
        else:
            changes[head] = parsed(text, hints[head])
    for head in sorted(nested):  # the model before its preprocessing
        part: Any = variants.get(head) or getattr(config, head)
        if head == "preprocess":
            for name in ("image_size", "in_channels"):
                if name in nested[head]:
                    raise UserError(
                        f"preprocess.{name} follows the model; set model.{name}"
                    )
            model = changes.get("model", config.model)
            part = part.sized(model.image_size, model.in_channels)
        changes[head] = override(part, nested[head])
    return changed(config, changes)


def changed(config: Config, changes: dict[str, Any]) -> Config:
    """`config` with other values; steps replace epochs, and the reverse."""
    for one, other in (("steps", "epochs"), ("epochs", "steps")):
        if changes.get(one) is not None and other not in changes:
            changes = changes | {other: None}
    return replace(config, **changes)


def parsed(text: str, kind: Any) -> Any:
    """The value that `text` stands for in a field of type `kind`.

    If it stands for none the text itself, which the configuration then refuses
    with the sentence that it has for any wrong value.
    """
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        kinds = typing.get_args(kind)
        if text.lower() == "none" and type(None) in kinds:
            return None
        kind = next(each for each in kinds if each is not type(None))
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        values = tuple(parsed(part, inner) for part in text.split(","))
        # one number is taken for both sides of a pair of sizes
        return values[0] if len(values) == 1 and inner is int else values
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text
    return text
