"""Chapter 1: patches, and their embedding."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
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


def cut(pattern: str) -> Callable[[Tensor, int], Tensor]:
    return lambda images, p: rearrange(images, pattern, p=p, q=p)


PATCHES = [
    Mistake(
        "inside a patch you list all reds, then all greens, then all blues; "
        "the authors go pixel by pixel, and colours come last: (p q c)",
        cut("b c (gh p) (gw q) -> b (gh gw) (c p q)"),
    ),
    Mistake(
        "the patches come column by column; we read row by row: (gh gw)",
        cut("b c (gh p) (gw q) -> b (gw gh) (p q c)"),
    ),
    Mistake(
        "the pixels of a patch come column by column, so every patch is "
        "mirrored at its diagonal; rows first: (p q c)",
        cut("b c (gh p) (gw q) -> b (gh gw) (q p c)"),
    ),
    Mistake(
        "each of your patches has pixels from all over the picture, since gh "
        "and p are swapped: a height splits into (gh p), the patch first",
        cut("b c (p gh) (q gw) -> b (gh gw) (p q c)"),
    ),
    Mistake(
        "the patches of all images are in one long list; keep the batch as an "
        "axis of its own: b (gh gw) (p q c)",
        cut("b c (gh p) (gw q) -> (b gh gw) (p q c)"),
    ),
    Mistake(
        "the patches are still in a grid; make rows and columns one axis: "
        "(gh gw)",
        cut("b c (gh p) (gw q) -> b gh gw (p q c)"),
    ),
    Mistake(
        "the patches aren't flat yet; make their pixels one axis: (p q c)",
        cut("b c (gh p) (gw q) -> b (gh gw) p q c"),
    ),
    Mistake(
        "reshape alone cuts no squares: it goes through the memory in order, "
        "so you get stripes of one colour",
        lambda x, p: x.reshape(len(x), -1, p * p * x.shape[1]),
    ),
    Mistake(
        "F.unfold puts the patches into the last axis, and colours first; it "
        "takes a transpose and another order to get (b, n, p*p*c)",
        lambda x, p: F.unfold(x, p, stride=p),
    ),
]


@judged
def patchify(theirs: Any) -> str:
    """Check `patchify(images, patch_size)`: (b, c, h, w) -> (b, n, p*p*c)."""
    check_function(theirs)
    cases = [(numbers(2, 3, 8, 12), 4), (numbers(1, 3, 6, 6), 2)]
    return agreement(theirs, plain.patchify, cases, PATCHES)


@judged
def patch_embedding(theirs: Any) -> str:
    """Check `PatchEmbedding(patch_size, in_channels, embed_dim)`."""
    ours = shaken(plain.PatchEmbedding(4, 3, 5))
    module = built(theirs, ours, 4, 3, 5)
    proj: Any = ours.proj
    mistakes = [
        Mistake(
            "the convolution goes pixel by pixel, so the patches overlap; it "
            "has to jump by a whole patch: stride=patch_size",
            lambda x: tokens(F.conv2d(x, proj.weight, proj.bias)),
        ),
        Mistake(
            "tokens and numbers are swapped: the result is (b, d, n), and it "
            "should be (b, n, d); flatten(2) still wants a transpose",
            lambda x: proj(x).flatten(2),
        ),
        Mistake(
            "reshape doesn't swap axes: your tokens are pieces of feature "
            "maps; bring d to the end first (rearrange, or flatten(2).mT)",
            lambda x: proj(x).reshape(len(x), -1, 5),
        ),
        Mistake(
            "the tokens come column by column; we read row by row: (gh gw)",
            lambda x: rearrange(proj(x), "b d gh gw -> b (gw gh) d"),
        ),
        Mistake(
            "the tokens are still in a grid; make rows and columns one axis",
            lambda x: rearrange(proj(x), "b d gh gw -> b gh gw d"),
        ),
        Mistake(
            "that's still the convolution's result, (b, d, gh, gw); a token "
            "per patch is (b, gh * gw, d)",
            proj,
        ),
    ]
    return agreement(module, ours, [(numbers(2, 3, 8, 12),)], mistakes)


def tokens(x: Tensor) -> Tensor:
    return rearrange(x, "b d gh gw -> b (gh gw) d")
