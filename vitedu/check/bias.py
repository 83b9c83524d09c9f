"""Chapter 17: puzzles of two glyphs, and pictures in shuffled pieces."""

from collections.abc import Callable
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from vitedu.check.verdict import (
    Mistake,
    agreement,
    check_function,
    judged,
    numbers,
)

Answer = tuple[Tensor, Tensor]
ROWS = "n (r c) p q -> n (r p) (c q)"


def drawn(
    glyphs: Tensor,
    first: Tensor,
    second: Tensor,
    cells: Tensor,
    layout: str = ROWS,
) -> Tensor:
    """Pictures of 4 x 4 cells, two of which have a glyph: (n, h, w)."""
    patches = glyphs.new_zeros(len(first), 16, *glyphs.shape[1:])
    each = torch.arange(len(first))
    patches[each, cells[:, 0]] = glyphs[first]
    patches[each, cells[:, 1]] = glyphs[second]
    return rearrange(patches, layout, r=4)


def by(
    label: Callable[..., Tensor] = lambda g, a, b, cells: a == b,
    layout: str = ROWS,
    picture: Callable[..., Tensor] = drawn,
) -> Callable[..., Answer]:
    """The book's puzzles with one of their parts changed."""

    def puzzles(*case: Tensor) -> Answer:
        return picture(*case, layout), label(*case).long()

    return puzzles


def as_many(glyphs: Tensor, a: Tensor, b: Tensor, cells: Tensor) -> Tensor:
    lit = (glyphs > 0).sum(dim=(1, 2))
    return lit[a] == lit[b]


def of_first(
    glyphs: Tensor, a: Tensor, b: Tensor, cells: Tensor, layout: str
) -> Tensor:
    return drawn(glyphs, a, a, cells, layout)


PUZZLES = [
    Mistake(
        "your labels are the wrong way round: 1 is for the same",
        by(label=lambda g, a, b, cells: a != b),
    ),
    Mistake(
        "your label compares how many pixels are bright; other glyphs may "
        "have as many, so compare which glyphs they are",
        by(label=as_many),
    ),
    Mistake(
        "your label compares the cells, and the question is about glyphs",
        by(label=lambda g, a, b, cells: cells[:, 0] == cells[:, 1]),
    ),
    Mistake(
        "your cells run down the columns; cell 1 is to the right of cell 0, "
        "so rows come first: (r c)",
        by(layout="n (c r) p q -> n (r p) (c q)"),
    ),
    Mistake(
        "your glyphs are mirrored at their diagonal: p belongs to the rows",
        by(layout="n (r c) p q -> n (r q) (c p)"),
    ),
    Mistake(
        "both cells get the first glyph, so every picture shows the same one "
        "twice",
        by(picture=of_first),
    ),
]


@judged
def same_or_different(theirs: Any) -> str:
    """Check `same_or_different(glyphs, first, second, cells)`.

    Glyphs are (k, p, p), numbers of glyphs (n,), cells (n, 2) of 0 to 15; the
    results are pictures (n, 4p, 4p) and labels (n,), 1 for the same.
    """
    check_function(theirs)
    glyphs = numbers(5, 3, 3).sign()
    glyphs[3] = glyphs[0].flip(0)  # as many bright pixels
    first, second = torch.tensor([[0, 1, 2, 0, 4], [0, 2, 2, 3, 1]])
    cells = torch.tensor([[1, 14], [0, 7], [12, 3], [5, 6], [15, 8]])
    cases = [(glyphs, first, second, cells), (-glyphs, second, first, cells)]
    return agreement(theirs, by(), cases, PUZZLES)


def reordered(images: Tensor, order: Tensor, size: int) -> Tensor:
    """Place i gets patch order[i]: (b, c, h, w) -> the same."""
    cut = "b c (r p) (s q) -> b (r s) c p q"
    patches = rearrange(images, cut, p=size, q=size)[:, order]
    back = "b (r s) c p q -> b c (r p) (s q)"
    return rearrange(patches, back, r=images.shape[2] // size)


def columns_first(images: Tensor, order: Tensor, size: int) -> Tensor:
    return reordered(images.mT, order, size).mT


def whole(images: Tensor, order: Tensor, size: int) -> Tensor:
    """The pieces in order, but each one shuffled inside as well."""
    patches = reordered(images, order, size)
    cut = "b c (r p) (s q) -> b c (r q) (s p)"
    return rearrange(patches, cut, p=size, q=size)


SHUFFLES = [
    Mistake(
        "yours is the way back: place i should get patch order[i], so index "
        "the patches with order, and don't write to patches[order]",
        lambda x, order, size: reordered(x, order.argsort(), size),
    ),
    Mistake(
        "your pieces are counted down the columns; the book reads row by row",
        columns_first,
    ),
    Mistake(
        "your pieces are mirrored at their diagonal on the way back: p "
        "belongs to the rows, q to the columns",
        whole,
    ),
    Mistake(
        "nothing has moved; did you use order?",
        lambda x, order, size: x,
    ),
]


@judged
def shuffle(theirs: Any) -> str:
    """Check `shuffle(images, order, patch_size)`, the same for all images."""
    check_function(theirs)
    cases = []
    for seed, (height, width) in enumerate([(6, 6), (4, 10)]):
        count = height * width // 4
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(count, generator=generator)
        cases.append((numbers(2, 3, height, width, seed=seed), order, 2))
    return agreement(theirs, reordered, cases, SHUFFLES)
