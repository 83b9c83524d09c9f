"""Attention: equations (5) to (8).

`attention` is the implementation to read; `MultiHeadAttention` uses PyTorch's
fused kernel unless `record_attention` asks for the weights.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, fx, nn

from vitedu.errors import UserError

# a call that torch.fx keeps, since einops needs real tensors
fx.wrap("rearrange")


def attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Equations (6), (7): q, k, v (b, heads, t, hd) -> values and weights.

    Values are (b, heads, t, hd), weights (b, heads, t, t) with rows that sum to
    1. `bias` broadcasts to the weights and is added before the softmax.
    """
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (b, heads, t, t)
    if bias is not None:
        scores = scores + bias
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


class MultiHeadAttention(nn.Module):
    """Equations (5) to (8), all heads at once: (b, t, d) -> (b, t, d).

    `qkv` holds q, k and v of all heads, in this order, as timm does; `bias` is
    theirs. With `norm_eps`, q and k of each head are normed. A position may put
    a module into `position_bias`, q (b, heads, t, hd) -> bias (b, heads, t, t),
    or into `rotate`, (q, k) -> (q, k).

    ValueError: `embed_dim` does not divide into `num_heads`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        *,
        bias: bool = True,
        norm_eps: float | None = None,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim={embed_dim} does not divide into {num_heads} heads"
            )
        self.num_heads = num_heads
        # U_qkv of equation (5) and U_msa of equation (8)
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim, bias=bias)
        self.q_norm: nn.Module | None = None
        self.k_norm: nn.Module | None = None
        if norm_eps is not None:
            self.q_norm = nn.LayerNorm(embed_dim // num_heads, eps=norm_eps)
            self.k_norm = nn.LayerNorm(embed_dim // num_heads, eps=norm_eps)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)
        self.position_bias: nn.Module | None = None
        self.rotate: nn.Module | None = None
        # see record_attention
        self.maps: list[Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = rearrange(
            self.qkv(x),
            "b t (three heads hd) -> three b heads t hd",
            three=3,
            heads=self.num_heads,
        )
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        values = self.attend(q, k, v)
        return self.dropout(
            self.proj(rearrange(values, "b heads t hd -> b t (heads hd)"))
        )

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Equations (6), (7): q, k, v (b, heads, t, hd) -> values, as large."""
        if self.rotate is not None:
            q, k = self.rotate(q, k)
        bias = None if self.position_bias is None else self.position_bias(q)
        if self.maps is None:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        values, weights = attention(q, k, v, bias)
        self.maps.append(weights)
        return values


def attention_layers(blocks: Iterable[nn.Module], position: str) -> list[Any]:
    """Each block's attention. UserError: one doesn't attend over all tokens."""
    for block in blocks:
        if not isinstance(getattr(block, "attn", None), MultiHeadAttention):
            raise UserError(
                f"{position} needs blocks with one attention over all tokens, "
                f"as block=Standard() builds them, not {type(block).__name__}"
            )
    return [block.attn for block in blocks]


class Detached(list[Tensor]):
    """A list that keeps what is appended without its gradient."""

    def append(self, weights: Tensor) -> None:
        super().append(weights.detach())


@contextmanager
def record_attention(
    model: nn.Module, detach: bool = True
) -> Iterator[list[Tensor]]:
    """Collect the attention weights of every forward pass in a `with` block.

    Yields a list that gains one (b, heads, t, t) per layer and pass, in the
    order of computation. `detach=False` keeps the graph, for gradients with
    respect to the weights:

    >>> with record_attention(model, detach=False) as maps:
    ...     logits = model(images)
    >>> gradients = torch.autograd.grad(logits[:, 207].sum(), maps)

    A layer is any sub-module called `attn`; its own forward appends the weights
    to its attribute `maps` where that is a list and not None. For gradients,
    neither compile the model nor let it recompute blocks
    (`set_grad_checkpointing`): the backward pass would go through other weights
    than these. timm's `AttentionExtract(model)` is made in a `with` block too.

    ValueError: no sub-module of the model is called `attn`.
    """
    found = [m for x, m in model.named_modules() if x.split(".")[-1] == "attn"]
    if not (layers := [m for m in found if hasattr(m, "maps")]):
        raise ValueError(
            f"{type(model).__name__} doesn't have an attention layer named "
            "'attn' that keeps its weights, as a ViT of vitedu.load does"
        )
    maps: list[Tensor] = Detached() if detach else []
    previous = [layer.maps for layer in layers]
    try:
        for layer in layers:
            layer.maps = maps
        yield maps
    finally:
        for layer, before in zip(layers, previous, strict=True):
            layer.maps = before
