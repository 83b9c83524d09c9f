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
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from einops import rearrange, repeat
from torch import Tensor, nn

from vitedu.errors import UserError

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig


@dataclass(frozen=True)
class NoPosition:
    """No positions: to the network, patches are a set without an order.

    Source: paper, Table 8, first row.
    """

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

    at: str = "stem"

    def __post_init__(self) -> None:
        check_place(self, ("stem", "layers", "shared"))

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

    at: str = "stem"

    def __post_init__(self) -> None:
        check_place(self, ("stem", "layers", "shared"))

    def table(self, config: "ViTConfig") -> "GridTables":
        """The three learned tables; called, they give (1, t, d)."""
        if config.embed_dim % 2:
            raise UserError(
                f"Learned2D gives half of embed_dim to X and half to Y; "
                f"embed_dim={config.embed_dim} is odd"
            )
        return GridTables(config.grid, config.embed_dim, config.class_token)

    def build(self, config: "ViTConfig") -> "GridTables | None":
        """The tables of the model; None where every block has its own."""
        return None if self.at == "layers" else self.table(config)

    def add(self, tokens: Tensor, pos_embed: "GridTables | None") -> Tensor:
        """(b, t, d) -> (b, t, d)."""
        return tokens if self.at != "stem" else add_table(tokens, pos_embed)

    def attach(self, model: nn.Module) -> None:
        """Have the blocks add the tables, unless the stem does."""
        add_in_blocks(model, self.at, self.table)


class GridTables(nn.Module):
    """What Learned2D learns: () -> (1, t, d).

    `x` (1, gw, d/2), `y` (1, gh, d/2) and, with a class token, `cls` (1, 1, d), all
    normal with std 0.02.
    """

    def __init__(
        self, grid: tuple[int, int], embed_dim: int, class_token: bool
    ) -> None:
        super().__init__()
        rows, columns = grid
        half = embed_dim // 2
        self.x = draw(nn.Parameter(torch.zeros(1, columns, half)))
        self.y = draw(nn.Parameter(torch.zeros(1, rows, half)))
        self.cls = None
        if class_token:
            self.cls = draw(nn.Parameter(torch.zeros(1, 1, embed_dim)))

    def forward(self) -> Tensor:
        """() -> (1, t, d), patches row by row."""
        x = repeat(self.x, "1 gw c -> 1 (gh gw) c", gh=self.y.shape[1])
        y = repeat(self.y, "1 gh c -> 1 (gh gw) c", gw=self.x.shape[1])
        patches = torch.cat([x, y], dim=-1)  # (1, n, d)
        if self.cls is None:
            return patches
        return torch.cat([self.cls, patches], dim=1)


@dataclass(frozen=True)
class SinCos2D:
    """Sines and cosines of row and column, fixed: nothing is learned or stored.

    The table is big_vision's (see `sincos_table`); the class token gets zeros. `at` as
    for Learned1D; since the table is fixed, "layers" and "shared" are one function.

    UserError: `at` is unknown; when the model is built, `embed_dim` is no multiple of
    4, or below 8.
    Source: big_vision's "sincos2d"; not in the paper.
    """

    at: str = "stem"

    def __post_init__(self) -> None:
        check_place(self, ("stem", "layers", "shared"))

    def table(self, config: "ViTConfig") -> "FixedTable":
        """The table as a module; called, it gives (1, t, d)."""
        return FixedTable(config.grid, config.embed_dim, config.class_token)

    def build(self, config: "ViTConfig") -> "FixedTable | None":
        """The table of the model; None where every block has its own."""
        return None if self.at == "layers" else self.table(config)

    def add(self, tokens: Tensor, pos_embed: "FixedTable | None") -> Tensor:
        """(b, t, d) -> (b, t, d)."""
        return tokens if self.at != "stem" else add_table(tokens, pos_embed)

    def attach(self, model: nn.Module) -> None:
        """Have the blocks add the table, unless the stem does."""
        add_in_blocks(model, self.at, self.table)
        model.register_load_state_dict_post_hook(refit_fixed_tables)


def sincos_table(grid: tuple[int, int], embed_dim: int) -> Tensor:
    """Grid (rows, columns) -> (1, n, d) of float64, patches row by row.

    With k = d/4 frequencies w, falling geometrically from 1 to 1/10,000, a patch at
    row r and column c has [sin(c w), cos(c w), sin(r w), cos(r w)]. Always on the CPU.

    UserError: d is no multiple of 4, or below 8, where the frequencies are undefined.
    Source: big_vision's table, which it equals to 1e-15.
    """
    if embed_dim % 4 or embed_dim < 8:
        raise UserError(
            "SinCos2D needs an embed_dim that is a multiple of 4 and at least 8, "
            f"got {embed_dim}"
        )
    # the device is named, since a model may be built under torch.device("meta")
    exact: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}
    k = embed_dim // 4
    frequency = 10_000.0 ** -(torch.arange(k, **exact) / (k - 1))
    rows, columns = (torch.arange(side, **exact)[:, None] for side in grid)
    y = repeat(rows * frequency, "gh k -> (gh gw) k", gw=grid[1])
    x = repeat(columns * frequency, "gw k -> (gh gw) k", gh=grid[0])
    return torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], dim=-1)[None]


class FixedTable(nn.Module):
    """The table of SinCos2D, a row of zeros first for a class token: () -> (1, t, d).

    It is not part of the state_dict. A change of dtype computes it again, so that a
    model turned to float64 has it in float64 and not float32 widened. Built under
    torch.device("meta") it lies on the CPU all the same, since no file will bring it.
    """

    def __init__(
        self, grid: tuple[int, int], embed_dim: int, class_token: bool
    ) -> None:
        super().__init__()
        self.grid = grid
        self.embed_dim = embed_dim
        self.class_token = class_token
        table = self.compute().to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def compute(self) -> Tensor:
        """() -> (1, t, d) of float64 on the CPU."""
        patches = sincos_table(self.grid, self.embed_dim)
        return nn.functional.pad(patches, (0, 0, int(self.class_token), 0))

    def forward(self) -> Tensor:
        """() -> (1, t, d)."""
        return self.table

    def _apply(
        self, fn: Callable[[Tensor], Tensor], recurse: bool = True
    ) -> nn.Module:
        # what `.to()`, `.double()`, `.cuda()` and `.to_empty()` all call
        super()._apply(fn, recurse)
        self.table = (
            self.compute().to(self.table.dtype).to(self.table.device)
        )  # dtype first: not every device has float64
        return self


def refit_fixed_tables(model: nn.Module, incompatible_keys: Any) -> None:
    """After loading: give fixed tables the dtype and device of the loaded weights.

    `load_state_dict(assign=True)` changes those of all else without a call to `.to()`.
    """
    if model.norm.weight.is_meta:
        return
    for module in model.modules():
        if isinstance(module, FixedTable):
            module.to(model.norm.weight)


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

    at: str = "layers"

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
        place = torch.arange(t, device=q.device)
        offset = place[:, None] - place  # of query and key, (t, t)
        row = offset + table.shape[1] // 2
        return scores.gather(-1, row.expand(b, heads, t, t))


def check_place(position: Any, known: tuple[str, ...]) -> None:
    """UserError unless `position.at` is one of `known`."""
    if position.at not in known:
        places = ", ".join(map(repr, known))
        raise UserError(
            f"{type(position).__name__}(at={position.at!r}) is not known; "
            f"known: {places}"
        )


def add_table(tokens: Tensor, pos_embed: nn.Parameter | nn.Module) -> Tensor:
    """(b, t, d) plus a table (1, t, d), or what a module gives for one."""
    if isinstance(pos_embed, nn.Module):
        # a fixed table lies on the CPU also in a model without numbers
        pos_embed = pos_embed().to(tokens.device)
    return tokens + pos_embed


def add_in_blocks(
    model: nn.Module,
    at: str,
    table: Callable[["ViTConfig"], nn.Parameter | nn.Module],
) -> None:
    """Hook the adding of a table into every block; nothing for at="stem"."""
    if at == "stem":
        return
    for block in model.blocks:
        owner = model
        if at == "layers":
            owner = block
            own = table(model.config)
            block.pos_embed = (
                draw(own) if isinstance(own, nn.Parameter) else own
            )
        block.register_forward_pre_hook(AddTable(owner))


class AddTable:
    """A block's forward pre-hook: adds the table that `owner.pos_embed` then is.

    An object and no closure, so that copy.deepcopy and pickle take the copy's owner.
    """

    def __init__(self, owner: nn.Module) -> None:
        self.owner = owner

    def __call__(self, block: nn.Module, args: tuple[Tensor]) -> Tensor:
        """The block's argument, (b, t, d), with the table added."""
        return add_table(args[0], self.owner.pos_embed)


def draw(table: nn.Parameter) -> nn.Parameter:
    """`table`, filled with the authors' initial values: normal with std 0.02.

    For all tables but a parameter of the model itself, which `initialise` sees to.
    """
    return nn.init.normal_(table, std=0.02)
