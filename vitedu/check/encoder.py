"""Chapter 3: the norm, the MLP, and the block that they make."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu import plain
from vitedu.check.verdict import (
    Mistake,
    agreement,
    built,
    check_function,
    judged,
    numbers,
    shaken,
)


def normed(x: Tensor, eps: float = 1e-6, dim: Any = -1) -> Tensor:
    """LayerNorm before its scale and shift."""
    mean = x.mean(dim=dim, keepdim=True)
    variance = (x - mean).square().mean(dim=dim, keepdim=True)
    return (x - mean) / (variance + eps).sqrt()


def by_variance(x: Tensor, eps: float = 1e-6) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / (centred.square().mean(dim=-1, keepdim=True) + eps)


def by_one_less(x: Tensor, eps: float = 1e-6) -> Tensor:
    variance = x.var(dim=-1, keepdim=True)
    return (x - x.mean(dim=-1, keepdim=True)) / (variance + eps).sqrt()


def eps_outside(x: Tensor, eps: float = 1e-6) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / (centred.square().mean(dim=-1, keepdim=True).sqrt() + eps)


def not_centred(x: Tensor, eps: float = 1e-6) -> Tensor:
    return x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


NORM = [
    Mistake(
        "you divide by the variance; the root is missing, so large tokens "
        "come out small",
        by_variance,
    ),
    Mistake(
        "your variance divides by d - 1, as Tensor.var and Tensor.std do; "
        "LayerNorm divides by d (correction=0)",
        by_one_less,
    ),
    Mistake(
        "eps is added to the root; it belongs under it, beside the variance",
        eps_outside,
    ),
    Mistake(
        "eps is nowhere, so a token of equal numbers would divide 0 by 0",
        lambda x, eps: normed(x, 0),
    ),
    Mistake(
        "the mean isn't subtracted from what you divide (that's RMSNorm)",
        not_centred,
    ),
    Mistake(
        "you norm over the tokens: each token has its own mean, over its own "
        "numbers (dim=-1)",
        lambda x, eps: normed(x, eps, dim=-2),
    ),
    Mistake(
        "you norm over all tokens of an image at once; each token has its own "
        "mean (dim=-1)",
        lambda x, eps: normed(x, eps, dim=(-2, -1)),
    ),
    Mistake(
        "you norm over the batch, as BatchNorm does; each token has its own "
        "mean (dim=-1)",
        lambda x, eps: normed(x, eps, dim=0),
    ),
]


@judged
def layer_norm(theirs: Any) -> str:
    """Check `layer_norm(x, eps)`, without scale and shift: (..., d)."""
    check_function(theirs)
    cases = [(3 * numbers(2, 5, 8) + 1, 0.5), (numbers(3, 4, 6), 1e-6)]
    return agreement(theirs, normed, cases, NORM)


@judged
def mlp(theirs: Any) -> str:
    """Check `MLP(embed_dim, mlp_dim)`."""
    ours = shaken(plain.MLP(6, 10))
    module = built(theirs, ours, 6, 10)
    layer: Any = ours

    def act(function: Any) -> Any:
        return lambda x: layer.fc2(function(layer.fc1(x)))

    mistakes = [
        Mistake(
            "there is a ReLU between the layers; the paper has a GELU",
            act(F.relu),
        ),
        Mistake(
            "that GELU is the approximation by tanh; PyTorch's F.gelu without "
            "options is the exact one",
            act(lambda x: F.gelu(x, approximate="tanh")),
        ),
        Mistake(
            "that's SiLU; the paper has a GELU, which is x times the normal "
            "distribution, not x times a sigmoid",
            act(F.silu),
        ),
        Mistake(
            "nothing stands between the layers, so the two are one matrix; "
            "put a GELU there",
            act(lambda x: x),
        ),
        Mistake(
            "there's a second GELU at the end, so the block could hardly "
            "subtract anything; only one, between the layers",
            lambda x: F.gelu(ours(x)),
        ),
        Mistake(
            "there's an addition of x at the end; that's the encoder block's",
            lambda x: x + ours(x),
        ),
    ]
    return agreement(module, ours, [(numbers(2, 5, 6),)], mistakes)


@judged
def encoder_block(theirs: Any) -> str:
    """Check `EncoderBlock(embed_dim, num_heads, mlp_dim)`."""
    ours = shaken(plain.EncoderBlock(12, 3, 20))
    module = built(theirs, ours, 12, 3, 20)
    block: Any = ours
    attn, norm1, norm2, last = block.attn, block.norm1, block.norm2, block.mlp

    def rebuilt(first: Any, second: Any) -> Any:
        return lambda x: second(first(x))

    def add_attention(x: Tensor) -> Tensor:
        return x + attn(norm1(x))

    def add_mlp(x: Tensor) -> Tensor:
        return x + last(norm2(x))

    def after(x: Tensor) -> Tensor:
        x = norm1(x + attn(x))
        return norm2(x + last(x))

    def onto_normed(x: Tensor) -> Tensor:
        x = norm1(x)
        x = norm2(x + attn(x))
        return x + last(x)

    def other_eps(x: Tensor) -> Tensor:
        def norm(x: Tensor, layer: Any) -> Tensor:
            return F.layer_norm(x, x.shape[-1:], layer.weight, layer.bias, 1e-5)

        x = x + attn(norm(x, norm1))
        return x + last(norm(x, norm2))

    mistakes = [
        Mistake(
            "the norms come after the sums, as in the first Transformer; in a "
            "ViT they come before attention and MLP, and nothing is normed "
            "after the sum",
            after,
        ),
        Mistake(
            "you add to the normed tokens: x = norm(x) throws away what "
            "should be kept; write x = x + attn(norm1(x))",
            onto_normed,
        ),
        Mistake(
            "the sum around the attention is missing, so a token forgets what "
            "it was: x + attn(norm1(x))",
            rebuilt(lambda x: attn(norm1(x)), add_mlp),
        ),
        Mistake(
            "the sum around the MLP is missing: x + mlp(norm2(x))",
            rebuilt(add_attention, lambda x: last(norm2(x))),
        ),
        Mistake(
            "both sums are missing: x + attn(norm1(x)), then x + mlp(norm2(x))",
            rebuilt(lambda x: attn(norm1(x)), lambda x: last(norm2(x))),
        ),
        Mistake(
            "the MLP gets the tokens from before the attention; it should "
            "read what the attention has added",
            lambda x: x + attn(norm1(x)) + last(norm2(x)),
        ),
        Mistake(
            "norm1 stands in both places; the MLP has its own, norm2",
            rebuilt(add_attention, lambda x: x + last(norm1(x))),
        ),
        Mistake(
            "norm1 and norm2 are swapped: real weights would be read wrongly",
            rebuilt(lambda x: x + attn(norm2(x)), lambda x: x + last(norm1(x))),
        ),
        Mistake(
            "the MLP comes first; a block begins with its attention",
            rebuilt(add_mlp, add_attention),
        ),
        Mistake(
            "the first norm is missing: attn(norm1(x))",
            rebuilt(lambda x: x + attn(x), add_mlp),
        ),
        Mistake(
            "the second norm is missing: mlp(norm2(x))",
            rebuilt(add_attention, lambda x: x + last(x)),
        ),
        Mistake(
            "your norms have PyTorch's eps of 1e-5; the authors' is 1e-6, and "
            "their weights were trained with it",
            other_eps,
        ),
    ]
    # small inputs, so that eps counts
    cases = [(0.01 * torch.stack([numbers(5, 12), numbers(5, 12, seed=1)]),)]
    return agreement(module, ours, cases, mistakes)
