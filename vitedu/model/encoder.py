"""The Transformer encoder: equations (2) and (3), L times."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vitedu.model.attention import MultiHeadAttention

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig


class MLP(nn.Module):
    """Two dense layers with a GELU between them: (b, t, d) -> (b, t, d).

    `gelu` is "exact" (erf, PyTorch's and timm's) or "tanh" (the authors' code).
    Dropout after both layers. Source: paper, section 3.1.
    """

    def __init__(
        self,
        embed_dim: int,
        mlp_dim: int,
        gelu: str = "exact",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, mlp_dim)
        self.act = nn.GELU(approximate="none" if gelu == "exact" else "tanh")
        self.fc2 = nn.Linear(mlp_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(self.act(self.fc1(x)))  # (b, t, mlp_dim)
        return self.dropout(self.fc2(x))


class DropPath(nn.Module):
    """Stochastic depth: in training, leave a branch out, image by image.

    What is kept is divided by the probability of keeping it, so the mean stays.
    Source: Huang et al. 2016, "Deep Networks with Stochastic Depth".
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        keep = 1.0 - self.rate
        # one draw an image
        mask = x.new_empty(x.shape[0], 1, 1).bernoulli_(keep)
        return x * mask / keep


class EncoderBlock(nn.Module):
    """Equations (2) and (3): (b, t, d) -> (b, t, d).

    Pre-norm: the norms leave the residual path untouched. `drop_path` is the
    probability of leaving a branch out.
    Source: paper, section 3.1.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        mlp_dim: int,
        *,
        gelu: str = "exact",
        norm_eps: float = 1e-6,
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.attn = MultiHeadAttention(embed_dim, num_heads, dropout)
        self.norm2 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.mlp = MLP(embed_dim, mlp_dim, gelu, dropout)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.attn(self.norm1(x)))  # equation (2)
        return x + self.drop_path(self.mlp(self.norm2(x)))  # equation (3)


@dataclass(frozen=True)
class Standard:
    """The paper's block: attention, then MLP."""

    name: str = field(default="Standard", init=False, repr=False)

    def build(self, config: "ViTConfig", drop_path: float) -> EncoderBlock:
        """One block of the encoder, with its own share of stochastic depth."""
        return EncoderBlock(
            config.embed_dim,
            config.num_heads,
            config.mlp_dim,
            gelu=config.gelu,
            norm_eps=config.norm_eps,
            dropout=config.dropout,
            drop_path=drop_path,
        )


class Encoder(nn.Sequential):
    """L blocks, without the final norm: (b, t, d) -> (b, t, d).

    Stochastic depth rises linearly from 0 to `config.drop_path` at the last.
    """

    def __init__(self, config: "ViTConfig") -> None:
        rates = torch.linspace(
            0.0, config.drop_path, config.depth, device="cpu"
        )
        super().__init__(
            *(config.block.build(config, rate) for rate in rates.tolist())
        )

    def __getitem__(self, index: int | slice) -> Any:
        """A block; for a slice, an nn.Sequential of the same modules."""
        if isinstance(index, slice):
            return nn.Sequential(*[*self][index])
        return super().__getitem__(index)
