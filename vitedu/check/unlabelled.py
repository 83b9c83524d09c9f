"""Chapter 19: which patches are hidden, what they cost, and their colours."""

from typing import Any

import torch
from torch import Tensor

from vitedu.check.verdict import (
    Mistake,
    Wrong,
    agreement,
    call,
    check_function,
    judged,
    numbers,
)
from vitedu.model import mae, mpp


@judged
def random_mask(theirs: Any) -> str:
    """Check `random_mask(num_images, num_patches, share)`: (b, n) booleans."""
    check_function(theirs)
    b, n, share = 400, 20, 0.75
    mask = call(theirs, b, n, share)
    if not isinstance(mask, Tensor) or mask.shape != (b, n):
        shape = tuple(getattr(mask, "shape", ())) or type(mask).__name__
        raise Wrong(f"expected booleans of shape ({b}, {n}), got {shape}")
    if mask.dtype != torch.bool:
        raise Wrong(f"expected booleans, got {mask.dtype}; compare with <")
    counts = mask.sum(dim=1)
    if counts.min() != counts.max():
        raise Wrong(
            f"some pictures have {counts.min()} hidden patches, others "
            f"{counts.max()}: that's a coin for each patch. Rank the random "
            "numbers of a picture, and hide as many in each"
        )
    if counts[0] == n - 15:
        raise Wrong("True should mean hidden; yours marks what can be seen")
    if counts[0] != 15:
        raise Wrong(f"{counts[0]} of {n} are hidden, and 75% of {n} are 15")
    if (mask == mask[0]).all():
        raise Wrong(
            "every picture hides the same patches; draw (num_images, "
            "num_patches) numbers, not one row for all"
        )
    often = mask.double().mean(dim=0)
    if (often - share).abs().max() > 0.15:
        raise Wrong(
            "some patches are hidden far more often than others; an argsort "
            "gives which patch comes first, and its argsort each patch's rank"
        )
    if torch.equal(mask, call(theirs, b, n, share)):
        raise Wrong("a second call hides the same; draw anew each time")
    return "hides 15 of 20 patches in each picture, every patch as often"


def error(
    found: Tensor,
    pixels: Tensor,
    mask: Tensor,
    where: str = "hidden",
    power: int = 2,
    mean: bool = True,
) -> Tensor:
    """`masked_error`, with one thing done differently."""
    errors = (found - pixels).abs() ** power
    errors = errors.mean(dim=-1) if mean else errors.sum(dim=-1)
    if where == "all":
        return errors.mean(dim=1)
    kept = ~mask if where == "seen" else mask
    total = (errors * kept).sum(dim=1)
    return total / (mask.shape[1] if where == "over n" else kept.sum(dim=1))


ERROR = [
    Mistake(
        "that's the error over all patches; the visible ones were given away, "
        "and only hidden ones should count",
        lambda *case: error(*case, where="all"),
    ),
    Mistake(
        "that's the error of the patches that can be seen; True in the mask "
        "means hidden",
        lambda *case: error(*case, where="seen"),
    ),
    Mistake(
        "the sum over hidden patches is right, but divide by how many are "
        "hidden, not by all n",
        lambda *case: error(*case, where="over n"),
    ),
    Mistake(
        "the error isn't squared",
        lambda *case: error(*case, power=1),
    ),
    Mistake(
        "in a patch, take the mean over its numbers, not their sum",
        lambda *case: error(*case, mean=False),
    ),
    Mistake(
        "that's one number for the whole batch; give one for each picture",
        lambda *case: error(*case).mean(),
    ),
]


@judged
def masked_error(theirs: Any) -> str:
    """Check `masked_error(found, pixels, mask)`: one number a picture, (b,)."""
    check_function(theirs)
    generator = torch.Generator().manual_seed(3)
    cases = [
        (
            numbers(4, n, 6, seed=n),
            numbers(4, n, 6, seed=n + 1),
            mae.random_mask(4, n, 0.75, generator),
        )
        for n in (8, 20)
    ]
    return agreement(theirs, mae.masked_error, cases, ERROR)


def classes(
    colours: Tensor,
    top: int = 7,
    rounds: bool = False,
    backwards: bool = False,
    base: int = 8,
) -> Tensor:
    """`colour_classes`, with one thing done differently."""
    scaled = colours * 8
    bins = (scaled.round() if rounds else scaled.floor()).long().clamp(0, top)
    bins = bins.flip(-1) if backwards else bins
    red, green, blue = bins.unbind(dim=-1)
    return red * base**2 + green * base + blue


COLOURS = [
    Mistake(
        "full brightness has no ninth level: 8 times 1.0 is 8, and the levels "
        "are 0 to 7; clamp them",
        lambda colours: classes(colours, top=8),
    ),
    Mistake(
        "cut off the fraction, don't round: 0.99 of a level is still level 0",
        lambda colours: classes(colours, rounds=True),
    ),
    Mistake(
        "blue counts 64 and red 1; red is the first digit",
        lambda colours: classes(colours, backwards=True),
    ),
    Mistake(
        "three digits with eight values each: 64 r + 8 g + b. You have base 3",
        lambda colours: classes(colours, base=3),
    ),
    Mistake(
        "those are the three levels; make one class of them, 64 r + 8 g + b",
        lambda colours: (colours * 8).long().clamp(0, 7),
    ),
    Mistake(
        "those are the classes of colours between -1 and 1; here they're "
        "between 0 and 1",
        lambda colours: classes((colours + 1) / 2),
    ),
]


@judged
def colour_classes(theirs: Any) -> str:
    """Check `colour_classes(pixels)`: colours (..., 3) in 0..1 to 0 to 511."""
    check_function(theirs)
    ends = torch.tensor([[0.0, 0.5, 1.0], [1.0, 0.124, 0.126]])
    colours = torch.cat([ends, numbers(60, 3, seed=5).float().sigmoid()])
    return agreement(theirs, mpp.colour_classes, [(colours,)], COLOURS)
