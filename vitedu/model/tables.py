"""What positions are made of: tables (1, t, d), and adding them to the tokens.

`sincos_table((14, 14), 768)` is the fixed one, (1, 196, 768); `vitedu.model.position`
says which of them a model has.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from einops import repeat
from torch import Tensor, fx, nn

from vitedu.errors import UserError

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig

fx.wrap("repeat")  # calls that torch.fx keeps, as in vitedu.model.attention
fx.wrap("beside")


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
        # dtype first: not every device has float64
        table = self.compute().to(self.table.dtype)
        self.table = table.to(self.table.device)
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


def add_table(tokens: Tensor, pos_embed: nn.Parameter | nn.Module) -> Tensor:
    """(b, t, d) plus a table (1, t, d), or what a module gives for one."""
    if isinstance(pos_embed, nn.Module):
        # a fixed table lies on the CPU also in a model without numbers
        pos_embed = beside(tokens, pos_embed())
    return tokens + pos_embed


def beside(tokens: Tensor, table: Tensor) -> Tensor:
    """`table` on the device of the tokens."""
    return table.to(tokens.device)


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
