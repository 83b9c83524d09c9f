"""The seams of a ViTConfig, where a variant is another small object; their JSON.

Each of these objects has its class's name as a field, so that `dataclasses.asdict`, and
whoever writes a configuration with it, keeps which of the variants it is.
"""

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor, nn

from vitedu.errors import UserError, did_you_mean
from vitedu.model.axial import Axial
from vitedu.model.encoder import Standard
from vitedu.model.hybrid import Hybrid
from vitedu.model.patches import Patches
from vitedu.model.position import (
    Learned1D,
    Learned2D,
    NoPosition,
    Relative,
    SinCos2D,
)

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig


class Stem(Protocol):
    """Images to a grid of tokens; its module becomes the model's `patch_embed`."""

    def grid(self, config: "ViTConfig") -> tuple[int, int]:
        """Rows and columns. UserError: the image does not fit."""

    def build(self, config: "ViTConfig") -> nn.Module:
        """(b, c, h, w) -> (b, n, d), n row by row."""


class Position(Protocol):
    """Where tokens stand: added at the stem or at a block, or a bias of attention."""

    def build(self, config: "ViTConfig") -> nn.Parameter | nn.Module | None:
        """What becomes the model's `pos_embed`; None: nothing at the root."""

    def add(self, tokens: Tensor, pos_embed: Any) -> Tensor:
        """(b, t, d) -> (b, t, d), before the first block."""

    def attach(self, model: nn.Module) -> None:
        """Put positions into the blocks of `model`, in place."""


class Block(Protocol):
    """One layer of the encoder."""

    def build(self, config: "ViTConfig", drop_path: float) -> nn.Module:
        """(b, t, d) -> (b, t, d), with its own share of stochastic depth."""


SEAMS = {
    "stem": (Patches, Hybrid),
    "position": (Learned1D, Learned2D, Relative, SinCos2D, NoPosition),
    "block": (Standard, Axial),
}


def seams_to_json(config: "ViTConfig") -> dict[str, Any]:
    """All fields as plain values; a seam is {"name": its class, its own fields}."""
    return plain(asdict(config))


def plain(value: Any) -> Any:
    """A tuple as the list that JSON makes of it, also inside of a dict."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return list(value) if isinstance(value, tuple) else value


def seam_from_json(seam: str, value: Any) -> Any:
    """The object of a seam that `seams_to_json` wrote; what is no dict stays.

    UserError: it names a class or a field that is unknown.
    """
    if not isinstance(value, dict):
        return value
    own = dict(value)
    name = str(own.pop("name", None))
    by_name = {kind.__name__: kind for kind in SEAMS[seam]}
    if name not in by_name:
        end = did_you_mean(name, by_name)
        raise UserError(f"there is no {seam} {name!r}; {end}")
    known = {each.name for each in fields(by_name[name]) if each.init}
    for field in own.keys() - known:
        end = did_you_mean(field, known)
        raise UserError(f"{name} has no field {field!r}; {end}")
    return by_name[name](**own)
