"""Where a token stands in the image: the second half of equation (1).

A position is a small frozen object in `ViTConfig.position`. `build` makes what is
learned (it becomes the model's `pos_embed`), `add` puts it into the tokens.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from vitedu.errors import UserError

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig


@dataclass(frozen=True)
class Learned1D:
    """The paper's positions: one learned row per token, the class token's included.

    1-D because a row knows only its place in the sequence; that patches form a grid
    is left to learning. `at="stem"`: added once, before the first block.
    Source: paper, section 3.1 and appendix D.4.
    """

    at: str = "stem"

    def __post_init__(self) -> None:
        if self.at != "stem":
            raise UserError(
                f"Learned1D(at={self.at!r}) is not known; known: 'stem'"
            )

    def build(self, config: "ViTConfig") -> nn.Parameter:
        """The table E_pos, (1, t, d)."""
        return nn.Parameter(torch.zeros(1, config.num_tokens, config.embed_dim))

    def add(self, tokens: Tensor, pos_embed: Tensor) -> Tensor:
        """(b, t, d) -> (b, t, d)."""
        return tokens + pos_embed
