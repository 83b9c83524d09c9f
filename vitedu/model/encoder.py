"""The Transformer encoder: equations (2) and (3), L times."""

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vitedu.fields import LATER, Positive, Variant, shown
from vitedu.model.attention import MultiHeadAttention

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig


class QuickGELU(nn.Module):
    """x times the logistic function of 1.702 x, nearly a GELU; source: CLIP."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


GELUS = {
    "exact": nn.GELU,
    "tanh": partial(nn.GELU, approximate="tanh"),
    "quick": QuickGELU,
}


class MLP(nn.Module):
    """Two dense layers with a GELU between them: (b, t, d) -> (b, t, d).

    `gelu` is "exact" (erf, PyTorch's and timm's), "tanh" (the authors' code) or
    "quick" (CLIP's). Dropout after both layers. Source: paper, section 3.1.
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
        self.act = GELUS[gelu]()
        self.fc2 = nn.Linear(mlp_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(self.act(self.fc1(x)))  # (b, t, mlp_dim)
        return self.dropout(self.fc2(x))


class SwiGLU(nn.Module):
    """An MLP with a gate: (b, t, d) -> (b, t, d).

    `fc1` gives the gate, which goes through a SiLU, and what it multiplies.
    Source: Shazeer 2020, "GLU Variants Improve Transformer"; keys as in timm.
    """

    def __init__(
        self, embed_dim: int, mlp_dim: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, 2 * mlp_dim)
        self.act = nn.SiLU()
        self.fc2 = nn.Linear(mlp_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        gate, x = self.fc1(x).chunk(2, dim=-1)  # (b, t, mlp_dim) each
        return self.dropout(self.fc2(self.dropout(self.act(gate) * x)))


class LayerScale(nn.Module):
    """A learned factor per number of a token: (b, t, d) -> (b, t, d).

    Source: Touvron et al. 2021, "Going deeper with Image Transformers".
    """

    def __init__(self, embed_dim: int, value: float) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((embed_dim,), value))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


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
    probability of leaving a branch out; the last four are Standard's fields.
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
        layer_scale: float | None = None,
        qkv_bias: bool = True,
        qk_norm: bool = False,
        swiglu: bool = False,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.attn = MultiHeadAttention(
            embed_dim,
            num_heads,
            dropout,
            bias=qkv_bias,
            norm_eps=norm_eps if qk_norm else None,
        )
        self.norm2 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.mlp: nn.Module = MLP(embed_dim, mlp_dim, gelu, dropout)
        if swiglu:
            self.mlp = SwiGLU(embed_dim, mlp_dim, dropout)
        self.ls1: nn.Module = nn.Identity()
        self.ls2: nn.Module = nn.Identity()
        if layer_scale is not None:
            self.ls1 = LayerScale(embed_dim, layer_scale)
            self.ls2 = LayerScale(embed_dim, layer_scale)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        # equations (2) and (3)
        x = x + self.drop_path(self.ls1(self.attn(self.norm1(x))))
        return x + self.drop_path(self.ls2(self.mlp(self.norm2(x))))


@dataclass(frozen=True)
class Standard(Variant):
    """The paper's block: attention, then MLP.

    Later models change parts of it; the defaults are the paper's.

    - layer_scale: first value of a learned factor for each number that a
      branch adds (DINOv2, DeiT-III: 1e-5); None leaves the factors out
    - qkv_bias: whether q, k and v have a bias
    - qk_norm: whether q and k go through a LayerNorm of each head
    - swiglu: whether the MLP has a gate (DINOv2's giant); `gelu` counts for
      attention pooling alone then

    UserError: layer_scale isn't positive.
    """

    layer_scale: Positive | None = field(default=None, metadata=LATER)
    qkv_bias: bool = field(default=True, metadata=LATER)
    qk_norm: bool = field(default=False, metadata=LATER)
    swiglu: bool = field(default=False, metadata=LATER)
    __repr__ = shown

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
            layer_scale=self.layer_scale,
            qkv_bias=self.qkv_bias,
            qk_norm=self.qk_norm,
            swiglu=self.swiglu,
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
