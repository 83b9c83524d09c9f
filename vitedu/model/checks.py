"""What a ViTConfig must be: each check says in one sentence what does not fit."""

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from vitedu.errors import UserError, did_you_mean
from vitedu.model.seams import SEAMS

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig

CHOICES = {
    "pool": ("token", "mean", "map", "none"),
    "gelu": ("exact", "tanh"),
}
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
