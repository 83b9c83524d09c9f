"""Where a token is in the image: the second half of equation (1).

A position is a small frozen object in `ViTConfig.position`; see `Position` for
what a kind may do. Table 8 compares them: what they are, and where they enter,

    at="stem"      once, before the first block
    at="layers"    before every block, each with its own `block.pos_embed`
    at="shared"    before every block, all with the one table of the model

`vit("ViT-B/16", position=Learned2D(at="layers"))`
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from vitedu.errors import UserError
from vitedu.fields import check_fields
from vitedu.model.footprint import MODULE, NOTHING, Footprint
from vitedu.model.tables import (
    AddTable,
    FixedTable,
    GridTables,
    add_table,
    draw,
    recompute_after_loading,
    sincos_table,
)

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig
    from vitedu.model.vit import ViT

Place = Literal["stem", "layers", "shared"]


@dataclass(frozen=True)
class Position:
    """What every kind of position can do; a new kind overrides what it needs.

    It may add to the tokens (`AddedTable`), give the attention layers a bias
    from q (`Relative`), or rotate their q and k (`RoPE`). The tokens before the
    patches come first; how many there are is `config.num_prefix_tokens`.
    """

    name: str = field(default="Position", init=False, repr=False)

    def __post_init__(self) -> None:
        check_fields(self)

    def build(self, config: "ViTConfig") -> nn.Parameter | nn.Module | None:
        """What becomes the model's `pos_embed`; None: the model has none."""
        return None

    def add(self, tokens: Tensor, pos_embed: Any) -> Tensor:
        """(b, t, d) -> (b, t, d), before the first block."""
        return tokens

    def attach(self, model: "ViT") -> None:
        """Put positions into the blocks of a model that is otherwise built."""

    def footprint(self, config: "ViTConfig") -> tuple[Footprint, Footprint]:
        """What the model gets from `build`, and each block from `attach`."""
        return NOTHING, NOTHING


@dataclass(frozen=True)
class NoPosition(Position):
    """No positions: to the network, patches are a set without an order.

    Source: paper, Table 8, first row.
    """

    name: str = field(default="NoPosition", init=False, repr=False)


@dataclass(frozen=True)
class AddedTable(Position, ABC):
    """A table (1, t, d) that is added to the tokens; a kind says which."""

    at: Place = "stem"

    @abstractmethod
    def table(self, config: "ViTConfig") -> nn.Parameter | nn.Module:
        """The table, or a module that gives it when called."""

    @abstractmethod
    def footprint_of_table(self, config: "ViTConfig") -> Footprint:
        """What one such table takes up."""

    def build(self, config: "ViTConfig") -> nn.Parameter | nn.Module | None:
        """The table of the model; None where every block has its own."""
        return None if self.at == "layers" else self.table(config)

    def add(self, tokens: Tensor, pos_embed: Any) -> Tensor:
        """(b, t, d) -> (b, t, d)."""
        return add_table(tokens, pos_embed) if self.at == "stem" else tokens

    def attach(self, model: "ViT") -> None:
        """Have the blocks add the table, unless the stem does."""
        if self.at == "stem":
            return
        for block in model.blocks:
            if self.at == "layers":
                own = self.table(model.config)
                is_weight = isinstance(own, nn.Parameter)
                block.pos_embed = draw(own) if is_weight else own
            owner = block if self.at == "layers" else model
            block.register_forward_pre_hook(AddTable(owner))

    def footprint(self, config: "ViTConfig") -> tuple[Footprint, Footprint]:
        """The table, in the model or in every block."""
        table = self.footprint_of_table(config)
        return (NOTHING, table) if self.at == "layers" else (table, NOTHING)


@dataclass(frozen=True)
class Learned1D(AddedTable):
    """The paper's positions: a learned row per token, class token included.

    1-D because a row knows only its place in the sequence; that patches form a
    grid is left to learning. `at` is "stem" (the paper's choice), "layers" or
    "shared".

    UserError: `at` is something else.
    Source: paper, section 3.1 and appendix D.4.
    """

    name: str = field(default="Learned1D", init=False, repr=False)

    def table(self, config: "ViTConfig") -> nn.Parameter:
        """The table E_pos, (1, t, d), before it has its initial values."""
        return nn.Parameter(torch.zeros(1, config.num_tokens, config.embed_dim))

    def footprint_of_table(self, config: "ViTConfig") -> Footprint:
        """A number for each of its entries."""
        return Footprint(weights=config.num_tokens * config.embed_dim)


@dataclass(frozen=True)
class Learned2D(AddedTable):
    """A learned row per column and per line of the grid: X and Y tables of d/2.

    A patch gets the two rows of its place, X first. The tokens before the
    patches, which have no place, get learned rows of their own (the paper
    doesn't say). `at` as for Learned1D.

    UserError: `at` is unknown; when the model is built, `embed_dim` is odd.
    Source: paper, appendix D.4.
    """

    name: str = field(default="Learned2D", init=False, repr=False)

    def table(self, config: "ViTConfig") -> GridTables:
        """The three learned tables; called, they give (1, t, d)."""
        if config.embed_dim % 2:
            raise UserError(
                f"Learned2D gives half of embed_dim to X and half to Y; "
                f"embed_dim={config.embed_dim} is odd"
            )
        return GridTables(
            config.grid, config.embed_dim, config.num_prefix_tokens
        )

    def footprint_of_table(self, config: "ViTConfig") -> Footprint:
        """X, Y and the rows of the prefix tokens."""
        d = config.embed_dim
        weights = sum(config.grid) * (d // 2) + config.num_prefix_tokens * d
        return Footprint(weights=weights, modules=1)


@dataclass(frozen=True)
class SinCos2D(AddedTable):
    """Sines and cosines of row and column, fixed: nothing is learned or stored.

    The table is big_vision's (see `sincos_table`); the tokens before the
    patches get zeros. `at` as for Learned1D; since the table is fixed, "layers"
    and "shared" compute the same.

    UserError: `at` is unknown; when the model is built, `embed_dim` isn't a
    multiple of 4, or is below 8.
    Source: big_vision's "sincos2d"; not in the paper.
    """

    name: str = field(default="SinCos2D", init=False, repr=False)

    def table(self, config: "ViTConfig") -> FixedTable:
        """The table as a module; called, it gives (1, t, d)."""
        compute = partial(
            sincos_table,
            embed_dim=config.embed_dim,
            num_prefix_tokens=config.num_prefix_tokens,
        )
        return FixedTable(config.grid, compute)

    def footprint_of_table(self, config: "ViTConfig") -> Footprint:
        """A number for each of its entries."""
        return Footprint(buffers=config.num_tokens * config.embed_dim) + MODULE

    def attach(self, model: "ViT") -> None:
        """Have the blocks add the table, unless the stem does."""
        super().attach(model)
        model.register_load_state_dict_post_hook(recompute_after_loading)
