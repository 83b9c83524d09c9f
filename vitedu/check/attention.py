"""Chapter 2: attention, and many heads of it."""

import math
from typing import Any

import torch
from einops import rearrange
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

Pair = tuple[Tensor, Tensor]


def mixed(v: Tensor, scores: Tensor, dim: int = -1) -> Pair:
    weights = scores.softmax(dim=dim)
    return weights @ v, weights


def over_queries(q: Tensor, k: Tensor, v: Tensor) -> Pair:
    return mixed(v, q @ k.mT / math.sqrt(q.shape[-1]), dim=-2)


def not_scaled(q: Tensor, k: Tensor, v: Tensor) -> Pair:
    return mixed(v, q @ k.mT)


def no_root(q: Tensor, k: Tensor, v: Tensor) -> Pair:
    return mixed(v, q @ k.mT / q.shape[-1])


def by_tokens(q: Tensor, k: Tensor, v: Tensor) -> Pair:
    return mixed(v, q @ k.mT / math.sqrt(q.shape[-2]))


def multiplied(q: Tensor, k: Tensor, v: Tensor) -> Pair:
    return mixed(v, q @ k.mT * math.sqrt(q.shape[-1]))


def keys_ask(q: Tensor, k: Tensor, v: Tensor) -> Pair:
    return mixed(v, k @ q.mT / math.sqrt(q.shape[-1]))


def scaled_late(q: Tensor, k: Tensor, v: Tensor) -> Pair:
    weights = (q @ k.mT).softmax(dim=-1) / math.sqrt(q.shape[-1])
    return weights @ v, weights


def no_softmax(q: Tensor, k: Tensor, v: Tensor) -> Pair:
    weights = q @ k.mT / math.sqrt(q.shape[-1])
    return weights @ v, weights


def values_alone(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return plain.attention(q, k, v)[0]


def weights_first(q: Tensor, k: Tensor, v: Tensor) -> Pair:
    values, weights = plain.attention(q, k, v)
    return weights, values


def scores_too(q: Tensor, k: Tensor, v: Tensor) -> Pair:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return scores.softmax(dim=-1) @ v, scores


ATTENTION = [
    Mistake(
        "right shapes, but the columns of your weights sum to 1, and the rows "
        "should: the softmax runs over the queries; the keys are dim=-1",
        over_queries,
    ),
    Mistake(
        "the scores aren't divided by the root of the head's width, so with "
        "wide heads the softmax would pick a single token",
        not_scaled,
    ),
    Mistake(
        "you divide by the width itself, and the equation says its root: "
        "math.sqrt(q.shape[-1])",
        no_root,
    ),
    Mistake(
        "you divide by the root of the number of tokens; it's the head's "
        "width, the last axis of q",
        by_tokens,
    ),
    Mistake(
        "you multiply by the root, and the equation divides by it", multiplied
    ),
    Mistake(
        "your keys ask and your queries answer; row i belongs to query i: "
        "q @ k.mT",
        keys_ask,
    ),
    Mistake(
        "you divide after the softmax, so the rows of the weights no longer "
        "sum to 1; divide the scores",
        scaled_late,
    ),
    Mistake(
        "the softmax is missing: some of your weights are negative, and the "
        "rows don't sum to 1",
        no_softmax,
    ),
    Mistake(
        "the values are right; return the weights as well: values, weights",
        values_alone,
    ),
    Mistake(
        "both are right, in the wrong order; return values, weights",
        weights_first,
    ),
    Mistake(
        "the values are right, but the second result is the scores before "
        "their softmax; the weights are what comes out of it",
        scores_too,
    ),
]


@judged
def attention(theirs: Any) -> str:
    """Check `attention(q, k, v)`: values (..., t, hd), weights (..., t, t)."""
    check_function(theirs)
    cases = [
        tuple(numbers(*shape, seed=seed) for seed in range(3))
        for shape in ((2, 3, 5, 4), (2, 7, 9))
    ]
    return agreement(theirs, plain.attention, cases, ATTENTION)


@judged
def multi_head_attention(theirs: Any) -> str:
    """Check `MultiHeadAttention(embed_dim, num_heads)`."""
    ours = shaken(plain.MultiHeadAttention(12, 3))
    module = built(theirs, ours, 12, 3)
    layer: Any = ours

    def parts(x: Tensor, order: str = "three heads hd") -> Tensor:
        split = f"b t ({order}) -> three b heads t hd"
        return rearrange(layer.qkv(x), split, three=3, heads=3)

    def heads(
        x: Tensor,
        split: str = "three heads hd",
        join: str = "heads hd",
        attend: Any = plain.attention,
    ) -> Tensor:
        values, _ = attend(*parts(x, split))
        joined = rearrange(values, f"b heads t hd -> b t ({join})")
        return layer.proj(joined)

    def over_batch(x: Tensor) -> Tensor:
        return ours(x.transpose(0, 1)).transpose(0, 1)

    def reshaped(x: Tensor) -> Tensor:
        # b three heads t hd
        cut = layer.qkv(x).reshape(len(x), 3, 3, -1, 4)
        values, _ = plain.attention(*cut.unbind(1))
        return layer.proj(values.transpose(1, 2).flatten(2))

    def not_moved_back(x: Tensor) -> Tensor:
        q, k, v = parts(x)
        return layer.proj(plain.attention(q, k, v)[0].reshape(x.shape))

    def wide_root(q: Tensor, k: Tensor, v: Tensor) -> Pair:
        return mixed(v, q @ k.mT / math.sqrt(3 * q.shape[-1]))

    def one_head(x: Tensor) -> Tensor:
        q, k, v = layer.qkv(x).chunk(3, dim=-1)
        return layer.proj(plain.attention(q, k, v)[0])

    def no_proj(x: Tensor) -> Tensor:
        values, _ = plain.attention(*parts(x))
        return rearrange(values, "b heads t hd -> b t (heads hd)")

    def ordered(*order: int) -> Any:
        def attend(*qkv: Tensor) -> Pair:
            return plain.attention(*(qkv[place] for place in order))

        return lambda x: heads(x, attend=attend)

    mistakes = [
        Mistake(
            "the heads are interleaved: each of yours takes every third "
            "number, where ours take neighbours; split into (three heads hd)",
            lambda x: heads(x, "three hd heads", "hd heads"),
        ),
        Mistake(
            "you split by heads first and by q, k and v inside each; in our "
            "qkv all queries come first: (three heads hd)",
            lambda x: heads(x, "heads three hd"),
        ),
        Mistake(
            "the split is right, but the heads are joined as (hd heads), so "
            "the numbers of different heads are shuffled",
            lambda x: heads(x, join="hd heads"),
        ),
        Mistake(
            "you joined the heads without bringing them back behind the "
            "tokens, so a token gets numbers of others; transpose first",
            not_moved_back,
        ),
        Mistake(
            "reshape splits the tokens, not their numbers: with the heads as "
            "an axis before the tokens you need a transpose as well",
            reshaped,
        ),
        Mistake(
            "it attends over the batch: images look at each other, and tokens "
            "don't (PyTorch's own layer does this without batch_first=True)",
            over_batch,
        ),
        Mistake(
            "the scores are divided by the root of embed_dim; each head has "
            "its own width, embed_dim / num_heads",
            lambda x: heads(x, attend=wide_root),
        ),
        Mistake(
            "the scores aren't divided by the root of the head's width",
            lambda x: heads(x, attend=not_scaled),
        ),
        Mistake(
            "the softmax runs over the queries; the keys are dim=-1",
            lambda x: heads(x, attend=over_queries),
        ),
        Mistake(
            "there is a single head as wide as all of them: num_heads is "
            "never used",
            one_head,
        ),
        Mistake(
            "the last matrix is missing: proj mixes what the heads found",
            no_proj,
        ),
        Mistake(
            "keys and queries are swapped; our qkv has queries first",
            ordered(1, 0, 2),
        ),
        Mistake(
            "values and queries are swapped; our qkv is in the order q, k, v",
            ordered(2, 1, 0),
        ),
        Mistake(
            "there's an addition of x at the end; that's the encoder block's, "
            "in chapter 3",
            lambda x: x + ours(x),
        ),
    ]
    cases = [(torch.stack([numbers(5, 12), numbers(5, 12, seed=1)]),)]
    return agreement(module, ours, cases, mistakes)
