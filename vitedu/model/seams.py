"""The seams of a ViTConfig: where a variant is another small object.

Each of these objects has its class's name as a field, so that
`dataclasses.asdict`, and what else writes a configuration with it, keeps which
of the variants it is.
"""

from typing import Any, TypeAlias, get_args

from vitedu.errors import UserError, did_you_mean
from vitedu.fields import from_json
from vitedu.model.axial import Axial
from vitedu.model.encoder import Standard
from vitedu.model.hybrid import Hybrid
from vitedu.model.patches import Patches
from vitedu.model.position import Learned1D, Learned2D, NoPosition, SinCos2D
from vitedu.model.relative import Relative
from vitedu.model.rope import RoPE

Stem: TypeAlias = Patches | Hybrid
Position: TypeAlias = (
    Learned1D | Learned2D | Relative | SinCos2D | RoPE | NoPosition
)
Block: TypeAlias = Standard | Axial

SEAMS = {
    "stem": get_args(Stem),
    "position": get_args(Position),
    "block": get_args(Block),
}


def seam_from_json(seam: str, value: Any) -> Any:
    """The object of a seam that `to_json` wrote as a dict; anything else stays.

    UserError: it names a class or a field that is unknown.
    """
    if not isinstance(value, dict):
        return value
    fields = dict(value)
    name = str(fields.pop("name", None))
    by_name = {kind.__name__: kind for kind in SEAMS[seam]}
    if name not in by_name:
        end = did_you_mean(name, by_name)
        raise UserError(f"there is no {seam} {name!r}; {end}")
    return from_json(by_name[name], fields)
