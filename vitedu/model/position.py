"""Where a token stands in the image: the second half of equation (1).

A position is a small frozen object in `ViTConfig.position`. `build` makes what is
learned (it becomes the model's `pos_embed`), `add` puts it into the tokens, `attach`
puts positions into the blocks of a model that is otherwise built. Table 8 compares
them: what they are, and where they enter,

    at="stem"      once, before the first block
    at="layers"    before every block, each with a table of its own, `block.pos_embed`
    at="shared"    before every block, all with the one table of the model

`vit("ViT-B/16", position=Learned2D(at="layers"))`
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from einops import rearrange
from torch import Tensor, fx, nn

from vitedu.errors import UserError
from vitedu.model.tables import (
    FixedTable,
    GridTables,
    add_in_blocks,
    add_table,
    draw,
    refit_fixed_tables,
)

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig

# calls that torch.fx keeps, as in vitedu.model.attention
fx.wrap("rearrange")
fx.wrap("rows_of_offsets")

Place = Literal["stem", "layers", "shared"]


@dataclass(frozen=True)
class NoPosition:
    """No positions: to the network, patches are a set without an order.

    Source: paper, Table 8, first row.
    """

    name: str = field(default="NoPosition", init=False, repr=False)

    def build(self, config: "ViTConfig") -> None:
        """Nothing is learned."""

    def add(self, tokens: Tensor, pos_embed: None) -> Tensor:
        """(b, t, d), returned as they are."""
        return tokens

    def attach(self, model: nn.Module) -> None:
        """Nothing: the blocks know no positions."""


@dataclass(frozen=True)
class Learned1D:
    """The paper's positions: one learned row per token, the class token's included.

    1-D because a row knows only its place in the sequence; that patches form a grid
    is left to learning. `at` is "stem" (the paper's choice), "layers" or "shared".

    UserError: `at` is none of them.
    Source: paper, section 3.1 and appendix D.4.
    """

    name: str = field(default="Learned1D", init=False, repr=False)
    at: Place = "stem"

    def __post_init__(self) -> None:
        check_place(self, get_args(Place))

    def table(self, config: "ViTConfig") -> nn.Parameter:
        """The table E_pos, (1, t, d), before it has its initial values."""
        return nn.Parameter(torch.zeros(1, config.num_tokens, config.embed_dim))

    def build(self, config: "ViTConfig") -> nn.Parameter | None:
        """The table of the model; None where every block has its own."""
        return None if self.at == "layers" else self.table(config)

    def add(self, tokens: Tensor, pos_embed: nn.Parameter | None) -> Tensor:
        """(b, t, d) -> (b, t, d)."""
        if self.at != "stem":
            return tokens
        return tokens + pos_embed

    def attach(self, model: nn.Module) -> None:
        """Have the blocks add the table, unless the stem does."""
        add_in_blocks(model, self.at, self.table)


@dataclass(frozen=True)
class Learned2D:
    """A learned row per column and per line of the grid: X and Y tables of d/2.

    A patch gets the two of its place, X first, one behind the other. The class token,
    which has no place, gets a learned row of its own (the paper does not say). `at` as
    for Learned1D.

    UserError: `at` is unknown; when the model is built, `embed_dim` is odd.
    Source: paper, appendix D.4.
    """

    name: str = field(default="Learned2D", init=False, repr=False)
    at: Place = "stem"

    def __post_init__(self) -> None:
        check_place(self, get_args(Place))

    def table(self, config: "ViTConfig") -> GridTables:
        """The three learned tables; called, they give (1, t, d)."""
        if config.embed_dim % 2:
            raise UserError(
                f"Learned2D gives half of embed_dim to X and half to Y; "
                f"embed_dim={config.embed_dim} is odd"
            )
        return GridTables(config.grid, config.embed_dim, config.class_token)

    def build(self, config: "ViTConfig") -> GridTables | None:
        """The tables of the model; None where every block has its own."""
        return None if self.at == "layers" else self.table(config)

    def add(self, tokens: Tensor, pos_embed: GridTables | None) -> Tensor:
        """(b, t, d) -> (b, t, d)."""
        return tokens if self.at != "stem" else add_table(tokens, pos_embed)

    def attach(self, model: nn.Module) -> None:
        """Have the blocks add the tables, unless the stem does."""
        add_in_blocks(model, self.at, self.table)


@dataclass(frozen=True)
class SinCos2D:
    """Sines and cosines of row and column, fixed: nothing is learned or stored.

    The table is big_vision's (see `sincos_table`); the class token gets zeros. `at` as
    for Learned1D; since the table is fixed, "layers" and "shared" are one function.

    UserError: `at` is unknown; when the model is built, `embed_dim` is no multiple of
    4, or below 8.
    Source: big_vision's "sincos2d"; not in the paper.
    """

    name: str = field(default="SinCos2D", init=False, repr=False)
    at: Place = "stem"

    def __post_init__(self) -> None:
        check_place(self, get_args(Place))

    def table(self, config: "ViTConfig") -> FixedTable:
        """The table as a module; called, it gives (1, t, d)."""
        return FixedTable(config.grid, config.embed_dim, config.class_token)

    def build(self, config: "ViTConfig") -> FixedTable | None:
        """The table of the model; None where every block has its own."""
        return None if self.at == "layers" else self.table(config)

    def add(self, tokens: Tensor, pos_embed: FixedTable | None) -> Tensor:
        """(b, t, d) -> (b, t, d)."""
        return tokens if self.at != "stem" else add_table(tokens, pos_embed)

    def attach(self, model: nn.Module) -> None:
        """Have the blocks add the table, unless the stem does."""
        add_in_blocks(model, self.at, self.table)
        model.register_load_state_dict_post_hook(refit_fixed_tables)


@dataclass(frozen=True)
class Relative:
    """1-D relative attention: a bias of the logits, from the query and the offset.

    Every offset p_q - p_k has a learned key embedding; its product with the query,
    divided by sqrt(hd) as all logits are, is added before the softmax. Places are those
    of the sequence: the class token has place 0 and the patches 1 to n, so that offsets
    run from -(t-1) to t-1, and the offsets of the class token are also those of pairs
    of patches. Row o + t - 1 of the table (1, 2t - 1, d) belongs to offset o; each head
    has its own part of the row, as it has of a key.

    `at` is "layers", a table for every block, or "shared". The paper says neither
    whether layers or heads share, nor what the class token's offsets are.

    UserError: `at` is something else, as is "stem": tokens have no query there. When
    the model is built: the blocks are not those of `Standard()`.
    Source: paper, appendix D.4.
    """

    name: str = field(default="Relative", init=False, repr=False)
    at: Literal["layers", "shared"] = "layers"

    def __post_init__(self) -> None:
        if self.at == "stem":
            raise UserError(
                "Relative(at='stem') cannot be: offsets meet queries, which the "
                "blocks alone have; use at='layers' or at='shared'"
            )
        check_place(self, ("layers", "shared"))

    def table(self, config: "ViTConfig") -> nn.Parameter:
        """A key embedding per offset, (1, 2t - 1, d), before its initial values."""
        offsets = 2 * config.num_tokens - 1
        return nn.Parameter(torch.zeros(1, offsets, config.embed_dim))

    def build(self, config: "ViTConfig") -> nn.Parameter | None:
        """The table of the model; None where every block has its own."""
        return None if self.at == "layers" else self.table(config)

    def add(self, tokens: Tensor, pos_embed: nn.Parameter | None) -> Tensor:
        """(b, t, d), returned as they are: only pairs of tokens have an offset."""
        return tokens

    def attach(self, model: nn.Module) -> None:
        """Give every attention layer its `position_bias`."""
        for block in model.blocks:
            if not hasattr(getattr(block, "attn", None), "position_bias"):
                raise UserError(
                    "Relative() needs blocks with one attention over all tokens, as "
                    f"block=Standard() builds them, not {type(block).__name__}"
                )
        for block in model.blocks:
            owner = model
            if self.at == "layers":
                owner = block
                block.pos_embed = draw(self.table(model.config))
            block.attn.position_bias = RelativeBias(owner)


class RelativeBias(nn.Module):
    """The bias of Relative: q (b, heads, t, hd) -> (b, heads, t, t).

    Reads the table from `owner.pos_embed` at every call. The owner, the block or the
    model, stands in a tuple: a module in an attribute would become a part of this one.
    """

    def __init__(self, owner: nn.Module) -> None:
        super().__init__()
        self.owner = (owner,)

    def forward(self, q: Tensor) -> Tensor:
        """(b, heads, t, hd) -> (b, heads, t, t)."""
        b, heads, t, hd = q.shape
        table = self.owner[0].pos_embed
        keys = rearrange(table, "1 o (heads hd) -> heads hd o", heads=heads)
        scores = q @ keys / math.sqrt(hd)  # (b, heads, t, 2t - 1)
        return scores.gather(-1, rows_of_offsets(q).expand(b, heads, t, t))


def rows_of_offsets(q: Tensor) -> Tensor:
    """The row of the table for each query and key: (b, heads, t, hd) -> (t, t)."""
    t = q.shape[2]
    place = torch.arange(t, device=q.device)
    return place[:, None] - place + t - 1


def check_place(position: Any, known: tuple[str, ...]) -> None:
    """UserError unless `position.at` is one of `known`."""
    if position.at not in known:
        places = ", ".join(map(repr, known))
        raise UserError(
            f"{type(position).__name__}(at={position.at!r}) is not known; "
            f"known: {places}"
        )
