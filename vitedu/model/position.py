"""Where a token is in the image: the second half of equation (1).

A position is a small frozen object in `ViTConfig.position`; `Position` shows
what a kind may do. Table 8 compares kinds and places to add them:

    at="stem"      once, before the first block
    at="layers"    before every block, each with its own `block.pos_embed`
    at="shared"    before every block, all with the one table of the model

`vit("ViT-B/16", position=Learned2D(at="layers"))`
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.nn.functional as F
from einops import repeat
from torch import Tensor, fx, nn

from vitedu.errors import UserError
from vitedu.fields import LATER, Variant, shown

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig
    from vitedu.model.vit import ViT

# calls that torch.fx keeps, as in vitedu.model.attention
fx.wrap("repeat")
fx.wrap("beside")

Place = Literal["stem", "layers", "shared"]


@dataclass(frozen=True)
class Position(Variant):
    """What every kind of position can do; a new kind overrides what it needs.

    It may add to the tokens (`AddedTable`), give the attention layers a bias
    from q (`Relative`), or rotate their q and k (`RoPE`).
    """

    def build(self, config: "ViTConfig") -> nn.Parameter | nn.Module | None:
        """What becomes the model's `pos_embed`; None: the model has none."""
        return None

    def add(self, tokens: Tensor, pos_embed: Any) -> Tensor:
        """(b, t, d) -> (b, t, d), before the first block; on meta too."""
        return tokens

    def attach(self, model: "ViT") -> None:
        """Put positions into the blocks of a model that is otherwise built."""


@dataclass(frozen=True)
class NoPosition(Position):
    """No positions: to the network, patches are a set without an order.

    Source: paper, Table 8, first row.
    """


@dataclass(frozen=True)
class AddedTable(Position, ABC):
    """A table (1, t, d) that is added to the tokens; subclasses provide it."""

    at: Place = "stem"

    @abstractmethod
    def table(self, config: "ViTConfig") -> nn.Parameter | nn.Module:
        """The table (1, t, d), not yet drawn, or a module that gives it."""

    def build(self, config: "ViTConfig") -> nn.Parameter | nn.Module | None:
        return None if self.at == "layers" else self.table(config)

    def add(self, tokens: Tensor, pos_embed: Any) -> Tensor:
        return add_table(tokens, pos_embed) if self.at == "stem" else tokens

    def attach(self, model: "ViT") -> None:
        if self.at == "stem":
            return
        for block in model.blocks:
            owner = model
            if self.at == "layers":
                owner, own = block, self.table(model.config)
                is_weight = isinstance(own, nn.Parameter)
                block.pos_embed = draw(own) if is_weight else own
            block.register_forward_pre_hook(AddTable(owner))


@dataclass(frozen=True)
class Learned1D(AddedTable):
    """The paper's positions: a learned row per token, class token included.

    1-D: a row knows only its place in the sequence, the grid is left to
    learning. `at` is "stem" (the paper's choice), "layers" or "shared".
    With `prefix=False` the class token and the registers have no row (DeiT-III,
    DINOv2 with registers; timm's no_embed_class), which needs at="stem".

    UserError: prefix=False with another `at`.
    Source: paper, section 3.1 and appendix D.4.
    """

    prefix: bool = field(default=True, metadata=LATER)
    __repr__ = shown

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.prefix and self.at != "stem":
            raise UserError(
                f"Learned1D(prefix=False) needs at='stem', not {self.at!r}"
            )

    def table(self, config: "ViTConfig") -> nn.Parameter:
        rows = config.num_tokens if self.prefix else config.num_patches
        return nn.Parameter(torch.zeros(1, rows, config.embed_dim))

    def add(self, tokens: Tensor, pos_embed: Any) -> Tensor:
        if self.prefix:
            return super().add(tokens, pos_embed)
        rows = tokens.shape[1] - pos_embed.shape[1]
        return super().add(tokens, F.pad(pos_embed, (0, 0, rows, 0)))


@dataclass(frozen=True)
class Learned2D(AddedTable):
    """A learned row per column and per line of the grid: X and Y tables of d/2.

    A patch gets the two rows of its place, X first. Prefix tokens, which have
    no place, get learned rows of their own (the paper doesn't say). `at` as for
    Learned1D.

    UserError, when the model is built: `embed_dim` is odd.
    Source: paper, appendix D.4.
    """

    def table(self, config: "ViTConfig") -> "GridTables":
        if config.embed_dim % 2:
            raise UserError(
                f"Learned2D gives half of embed_dim to X and half to Y; "
                f"embed_dim={config.embed_dim} is odd"
            )
        return GridTables(
            config.grid, config.embed_dim, config.num_prefix_tokens
        )


@dataclass(frozen=True)
class SinCos2D(AddedTable):
    """Sines and cosines of row and column, fixed: nothing is learned or stored.

    See `sincos_table`. `at` as for Learned1D; "layers" and "shared" compute the
    same.

    UserError, when the model is built: what `sincos_table` says.
    Source: big_vision's "sincos2d"; not in the paper.
    """

    def table(self, config: "ViTConfig") -> "FixedTable":
        compute = partial(
            sincos_table,
            embed_dim=config.embed_dim,
            num_prefix_tokens=config.num_prefix_tokens,
        )
        return FixedTable(config.grid, compute)


class GridTables(nn.Module):
    """What Learned2D learns: () -> (1, t, d), patches row by row."""

    def __init__(
        self, grid: tuple[int, int], embed_dim: int, num_prefix_tokens: int
    ) -> None:
        super().__init__()
        rows, columns = grid
        half = embed_dim // 2
        self.x = draw(nn.Parameter(torch.zeros(1, columns, half)))
        self.y = draw(nn.Parameter(torch.zeros(1, rows, half)))
        self.cls = None
        if num_prefix_tokens:
            prefix = torch.zeros(1, num_prefix_tokens, embed_dim)
            self.cls = draw(nn.Parameter(prefix))

    def forward(self) -> Tensor:
        x = repeat(self.x, "1 gw c -> 1 (gh gw) c", gh=self.y.shape[1])
        y = repeat(self.y, "1 gh c -> 1 (gh gw) c", gw=self.x.shape[1])
        patches = torch.cat([x, y], dim=-1)  # (1, n, d)
        if self.cls is None:
            return patches
        return torch.cat([self.cls, patches], dim=1)


def sincos_table(
    grid: tuple[int, int],
    embed_dim: int,
    *,
    dtype: torch.dtype = torch.float64,
    num_prefix_tokens: int = 0,
) -> Tensor:
    """Grid (rows, columns) -> (1, t, d), patches row by row, always on the CPU.

    With k = d/4 frequencies w, falling geometrically from 1 to 1/10,000, a
    patch at row r and column c has [sin(c w), cos(c w), sin(r w), cos(r w)],
    computed in float64. Prefix tokens come first, with rows of zeros.

    UserError: d isn't a multiple of 4, or is below 8, where w is undefined.
    Source: big_vision's table, which it equals to 1e-15.
    """
    if embed_dim % 4 or embed_dim < 8:
        raise UserError(
            "SinCos2D needs an embed_dim that is a multiple of 4 and at least "
            f"8, got {embed_dim}"
        )
    k = embed_dim // 4
    places = [numbers(size) for size in grid]
    y, x = angles(places, 10_000.0 ** -(numbers(k) / (k - 1)))
    patches = torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], dim=1).to(dtype)
    return F.pad(patches, (0, 0, num_prefix_tokens, 0))[None]


def rotation_table(
    grid: tuple[int, int],
    head_dim: int,
    theta: float,
    *,
    dtype: torch.dtype = torch.float64,
    num_prefix_tokens: int = 0,
    rows_first: bool = False,
    across: int | None = None,
    unit: bool = False,
) -> Tensor:
    """Grid (rows, columns) -> RoPE's cosines and sines, (2, t, hd/2), on CPU.

    With k = hd/4 speeds w, falling geometrically from 1 to theta^(1/k - 1), a
    patch at row r and column c is turned by the angles [c w, r w], computed in
    float64. Prefix tokens come first, and are turned by 0. The last three
    are RoPE's.
    """
    k = head_dim // 4
    places = [numbers(size) for size in grid]
    if across:
        places = [each * across / len(each) for each in places]
    if unit:
        places = [
            2 * math.pi * ((2 * each + 1) / len(each) - 1) for each in places
        ]
    y, x = angles(places, theta ** -(numbers(k) / k))
    turns = torch.cat([y, x] if rows_first or unit else [x, y], dim=1)
    both = F.pad(turns, (0, 0, num_prefix_tokens, 0))
    return torch.stack([both.cos(), both.sin()]).to(dtype)


def angles(places: list[Tensor], speeds: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of each patch times each speed (k,): both (n, k)."""
    y, x = torch.meshgrid(*places, indexing="ij")
    return y.reshape(-1, 1) * speeds, x.reshape(-1, 1) * speeds


def numbers(count: int) -> Tensor:
    """0, 1, ... in float64, on the CPU under torch.device("meta") too."""
    return torch.arange(count, dtype=torch.float64, device="cpu")


class FixedTable(nn.Module):
    """A table that isn't learned or stored: () -> `compute(grid, dtype=...)`.

    A change of dtype computes it again, so that float64 isn't float32 widened.
    Under torch.device("meta") it is on the CPU, since no file will bring it.
    """

    table: Tensor

    def __init__(
        self, grid: tuple[int, int], compute: Callable[..., Tensor]
    ) -> None:
        super().__init__()
        self.grid = grid
        self.compute = compute
        table = compute(grid, dtype=torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def forward(self) -> Tensor:
        return self.table

    def _apply(
        self, fn: Callable[[Tensor], Tensor], recurse: bool = True
    ) -> nn.Module:
        # what `.to()`, `.double()`, `.cuda()` and `.to_empty()` all call
        super()._apply(fn, recurse)
        table = self.compute(self.grid, dtype=self.table.dtype)
        self.table = table.to(self.table.device)
        return self


def recompute_after_loading(model: nn.Module, incompatible_keys: Any) -> None:
    """Give fixed tables the dtype and device of the weights that were loaded.

    `load_state_dict(assign=True)` changes those without calling `.to()`.
    """
    weight = next(model.parameters())
    if weight.is_meta:
        return
    for module in model.modules():
        if isinstance(module, FixedTable):
            module.to(weight)


def add_table(tokens: Tensor, pos_embed: nn.Parameter | nn.Module) -> Tensor:
    """(b, t, d) plus a table (1, t, d), or the table that a module returns."""
    if isinstance(pos_embed, nn.Module):
        # a fixed table is on the CPU also in a model without numbers
        pos_embed = beside(tokens, pos_embed())
    return tokens + pos_embed


def beside(tokens: Tensor, table: Tensor) -> Tensor:
    return table.to(tokens.device)


class AddTable:
    """A block's forward pre-hook: adds the table in `owner.pos_embed`."""

    # not a closure, so that copy.deepcopy and pickle use the copied owner

    def __init__(self, owner: nn.Module) -> None:
        self.owner = owner

    def __call__(self, block: nn.Module, args: tuple[Tensor]) -> Tensor:
        return add_table(args[0], self.owner.pos_embed)


def draw(table: nn.Parameter) -> nn.Parameter:
    # on meta there are no numbers to fill, and trying imports torch._dynamo
    return table if table.is_meta else nn.init.normal_(table, std=0.02)
