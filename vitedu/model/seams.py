"""The seams of a ViTConfig, where a variant is another small object; their JSON."""

from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from vitedu.errors import UserError, did_you_mean
from vitedu.model.encoder import Standard
from vitedu.model.patches import Patches
from vitedu.model.position import Learned1D

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig

SEAMS = {
    "stem": (Patches,),
    "position": (Learned1D,),
    "block": (Standard,),
}


def seams_to_json(config: "ViTConfig") -> dict[str, Any]:
    """All fields as plain values; a seam is {"name": its class, its own fields}."""
    out: dict[str, Any] = {}
    for each in fields(config):
        value = getattr(config, each.name)
        if is_dataclass(value):
            value = {"name": type(value).__name__, **asdict(value)}
        out[each.name] = list(value) if isinstance(value, tuple) else value
    return out


def seams_from_json(values: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a ViTConfig that `seams_to_json` wrote.

    UserError: a seam names a class or a field that is unknown.
    """
    values = dict(values)
    for seam, kinds in SEAMS.items():
        if not isinstance(values.get(seam), dict):
            continue
        own = dict(values[seam])
        name = str(own.pop("name", None))
        by_name = {kind.__name__: kind for kind in kinds}
        if name not in by_name:
            end = did_you_mean(name, by_name)
            raise UserError(f"there is no {seam} {name!r}; {end}")
        known = {each.name for each in fields(by_name[name])}
        for field in own.keys() - known:
            end = did_you_mean(field, known)
            raise UserError(f"{name} has no field {field!r}; {end}")
        values[seam] = by_name[name](**own)
    return values
