"""All tokens to one row: equation (4), and what can replace it."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, fx, nn

from vitedu.model.encoder import MLP

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig

# a call that torch.fx keeps, as in vitedu.model.attention
fx.wrap("rearrange")


class Pool(nn.Module):
    """Equation (4): (b, t, d) -> (b, d), the class token or the patch mean.

    `kind` is "token" or a mean, which leaves the class token out.
    Source: paper, section 3.1; the mean, appendix D.3.
    """

    def __init__(self, kind: str, num_patches: int) -> None:
        super().__init__()
        self.kind = kind
        self.num_patches = num_patches

    def forward(self, tokens: Tensor) -> Tensor:
        if self.kind == "token":
            return tokens[:, 0]
        return tokens[:, -self.num_patches :].mean(dim=1)


class KeyValue(nn.Module):
    """k and v of every token in one product: (b, t, d) -> (b, t, 2*d).

    Not an nn.Linear, which `initialise` would take for one (2d, d) matrix, with
    a bound sqrt(1.5) too small.
    """

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * embed_dim, embed_dim))
        self.bias = nn.Parameter(torch.empty(2 * embed_dim))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set the initial values, in place."""
        for matrix in self.weight.chunk(2):
            nn.init.xavier_uniform_(matrix)
        nn.init.zeros_(self.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.linear(tokens, self.weight, self.bias)


class AttentionPool(nn.Module):
    """A learned probe attends to the patches: (b, t, d) -> (b, d), pool "map".

    With x what the probe reads, the result is x + MLP(LN(x)). The probe itself
    isn't added; there is no dropout, and no norm before the attention (the
    tokens come normed). Prefix tokens are left out, as in the mean.

    `record_attention` leaves the probe out: its weights are no (t, t) map.

    Source: big_vision's vit.py, MAPHead; keys as in timm's AttentionPoolLatent.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        mlp_dim: int,
        num_patches: int,
        *,
        gelu: str = "exact",
        norm_eps: float = 1e-6,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.num_patches = num_patches
        self.latent = nn.Parameter(torch.empty(1, 1, embed_dim))  # the probe
        self.q = nn.Linear(embed_dim, embed_dim)
        self.kv = KeyValue(embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.norm = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.mlp = MLP(embed_dim, mlp_dim, gelu)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set the initial values that `initialise` doesn't set, in place."""
        # one row (1, d), as the authors' fan-in of 1: bound sqrt(6 / (1 + d))
        nn.init.xavier_uniform_(self.latent[0])
        self.kv.reset_parameters()

    def forward(self, tokens: Tensor) -> Tensor:
        patches = tokens[:, -self.num_patches :]
        q = rearrange(
            self.q(self.latent),
            "one t (heads hd) -> one heads t hd",
            heads=self.num_heads,
        ).expand(patches.shape[0], -1, -1, -1)  # one question for all images
        k, v = rearrange(
            self.kv(patches),
            "b t (two heads hd) -> two b heads t hd",
            two=2,
            heads=self.num_heads,
        )
        values = F.scaled_dot_product_attention(q, k, v)  # (b, heads, 1, hd)
        x = self.proj(rearrange(values, "b heads 1 hd -> b (heads hd)"))
        return x + self.mlp(self.norm(x))


def build_pool(config: "ViTConfig") -> nn.Module:
    """The module that `config.pool` names; "none" keeps every token.

    With "none" the head gives logits (b, t, classes), prefix tokens included,
    as with vit_jax's classifier "token_unpooled".
    """
    if config.pool == "none":
        return nn.Identity()
    if config.pool == "map":
        return AttentionPool(
            config.embed_dim,
            config.num_heads,
            config.mlp_dim,
            config.num_patches,
            gelu=config.gelu,
            norm_eps=config.norm_eps,
        )
    return Pool(config.pool, config.num_patches)
