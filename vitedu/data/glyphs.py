"""Drawn puzzles of small glyphs, whose answers and the way there are known.

`puzzles = glyphs.twins(1000, seed=0)`: in each picture every glyph has a twin.

A glyph fills a patch, or lies across several (`on_grid=False`), so these tell
what a network with patches can see from what it can't. Bytes are equal on every
machine: each draw is a word of `PCG64.random_raw`, all arithmetic is on
integers. Picture i has its own words, so a set begins with every smaller set of
its seed.
"""

import re
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy import ndarray as Array
from torch import Tensor

from vitedu.errors import UserError, check_free
from vitedu.fields import Count, converted

# 6 x 6 in a patch of 8 x 8
DRAWN = """
..##..  .#..#.  ######  #....#  ..##..  #####.  ....##  ######
.#..#.  .#..#.  #....#  .#..#.  ..##..  ....#.  ...##.  ..##..
#....#  ######  #....#  ..##..  ######  ...#..  ..##..  ..##..
#....#  .#..#.  #....#  ..##..  ######  ..#...  .##...  ..##..
.#..#.  ######  #....#  .#..#.  ..##..  .#....  ##....  ..##..
..##..  .#..#.  ######  #....#  ..##..  #####.  #.....  ..##..
"""
COLOURS = np.array(
    [
        (230, 60, 60),
        (40, 170, 70),
        (70, 100, 240),
        (240, 190, 30),
        (170, 70, 200),
        (40, 190, 200),
    ],
    dtype=np.uint8,
)
SIDE = 4  # of the glyphs that are drawn at random, in pixels
KINDS = 16  # of these
# Two alphabets, of 3,000 seeds: any two glyphs of one differ in three pixels or
# more, and the first two of the first in eleven.
ALPHABETS = (799, 2272)
NOISE = 12  # grey levels, up or down
DARK, BRIGHT = 64, 192

Where = Literal["all", "upper", "lower"]
# "glyphs-same", "glyphs-which-off-3k", "glyphs-same-new-300": -new is the
# second alphabet, -off off the grid, 3k the number of pictures to train on
NAME = re.compile(
    r"glyphs-(same|which|left)(-new)?(-off)?(?:-([1-9]\d{0,4})(k?))?"
)
CLASSES = {
    "same": ("different", "same"),
    "which": ("first 8", "last 8"),
    "left": ("right", "left"),
}


class Twins(NamedTuple):
    """Pictures of 4 x 4 patches, 8 x 8 pixels each, read row by row."""

    images: Tensor  # (n, 3, 32, 32) uint8
    labels: Tensor  # (n, 16): the colour of each patch's twin, 0 to 5
    twins: Tensor  # (n, 16): the patch where the twin is


class Puzzles(NamedTuple):
    images: Tensor  # (n, 1, h, w) uint8
    labels: Tensor  # (n,) int64


def twins(count: int, *, seed: int = 0) -> Twins:
    """Eight glyphs, twice each, in two colours: what colour is my twin?

    A patch that knows its glyph and colour can find the only other one of its
    glyph, and nothing else helps: the right map of attention is `twins`.
    """
    words = Words(count, 32, seed)
    order = words.order(16)  # the place of glyphs 0 to 7, and of their twins
    first = words.below(6, 8)
    second = (first + 1 + words.below(5, 8)) % 6
    colours = np.concatenate([first, second], axis=1)
    seat, rows = np.argsort(order, axis=1), np.arange(count)[:, None]
    shapes, shades = order % 8, colours[rows, order]
    other = seat[rows, (order + 8) % 16]
    lit = drawn()[shapes][..., None] * COLOURS[shades][:, :, None, None]
    # b (gh gw) p q c -> b c (gh p) (gw q)
    grid = lit.reshape(count, 4, 4, 8, 8, 3).transpose(0, 5, 1, 3, 2, 4)
    return Twins(
        torch.from_numpy(grid.reshape(count, 3, 32, 32).copy()),
        torch.from_numpy(shades[rows, other]),
        torch.from_numpy(other),
    )


def same_or_different(
    count: int, *, on_grid: bool = True, seed: int = 0, alphabet: int = 0
) -> Puzzles:
    """Two of 16 glyphs on 16 x 16 pixels: 1 if both are the same."""
    words = Words(count, 280, seed)
    labels = words.below(2, 1)[:, 0]
    first = words.below(KINDS, 1)[:, 0]
    other = (first + 1 + words.below(KINDS - 1, 1)[:, 0]) % KINDS
    second = np.where(labels == 1, first, other)
    return of_two(words, first, second, labels, on_grid, alphabet)


def which(
    count: int, *, on_grid: bool = True, seed: int = 0, alphabet: int = 0
) -> Puzzles:
    """As `same_or_different` draws: 1 if the first glyph is of the last 8.

    That takes a comparison, and this none: the second glyph, always of the
    first 8, distracts.
    """
    words = Words(count, 280, seed)
    labels = words.below(2, 1)[:, 0]
    half = KINDS // 2
    first = half * labels + words.below(half, 1)[:, 0]
    second = words.below(half, 1)[:, 0]
    return of_two(words, first, second, labels, on_grid, alphabet)


def left_of(
    count: int,
    *,
    where: Where = "all",
    on_grid: bool = True,
    seed: int = 0,
    alphabet: int = 0,
) -> Puzzles:
    """Glyphs 0 and 1 on 24 x 24 pixels: 1 if glyph 0 is further left.

    Both are anywhere, or in the upper or the lower half. Columns are drawn from
    left to right: a third of the pairs is in the last two, if `on_grid`.
    """
    words = Words(count, 600, seed)
    images = words.ground(24)
    height = 24 if where == "all" else 12
    step = SIDE if on_grid else 1
    rows = step * words.below((height - SIDE) // step + 1, 2)
    columns = (24 - SIDE) // step + 1
    first = words.below(columns, 1)[:, 0]
    # two columns at least a glyph apart, so that neither hides the other
    apart = SIDE // step
    left = np.minimum(first, columns - 1 - apart)
    room = columns - apart - left
    right = left + apart + (words.below(1 << 20, 1)[:, 0] * room >> 20)
    labels = words.below(2, 1)[:, 0]
    pair = (
        np.where(labels == 1, left, right),
        np.where(labels == 1, right, left),
    )
    for glyph, column in enumerate(pair):
        row = rows[:, glyph] + (12 if where == "lower" else 0)
        corners = np.stack([row, step * column], axis=1)
        glyphs = np.repeat(kinds(alphabet)[glyph, None], count, axis=0)
        stamp(images, glyphs, corners)
    return puzzles(images, labels)


def named(name: str, num_test: int) -> tuple[Puzzles, Puzzles]:
    """The pictures of NAME to train on, 10,000 if it says none, and others."""
    match = NAME.fullmatch(name)
    assert match
    question, new, off, count, thousands = match.groups()
    draw = {"same": same_or_different, "which": which, "left": left_of}
    sizes = int(count or 10_000) * (1000 if thousands else 1), num_test
    train, test = (
        draw[question](
            size, on_grid=off is None, seed=seed, alphabet=new is not None
        )
        for seed, size in enumerate(sizes)
    )
    return train, test


class Words:
    def __init__(self, count: int, each: int, seed: int) -> None:
        count = converted("count", count, Count)
        check_free(
            32 * count * each, f"{count:,} pictures of glyphs", "draw fewer"
        )
        raw = np.random.PCG64(seed).random_raw((count, each))
        self.words: Array = (raw >> 33).astype(np.int64)  # 31 bits
        self.count, self.taken = count, 0

    def take(self, each: int) -> Array:
        self.taken += each
        return self.words[:, self.taken - each : self.taken]

    def below(self, end: int, each: int) -> Array:
        """`each` numbers from 0 to `end` - 1 for every picture."""
        return self.take(each) * end >> 31

    def order(self, size: int) -> Array:
        return np.argsort(self.take(size), axis=1, kind="stable")

    def ground(self, side: int) -> Array:
        noise = self.below(2 * NOISE + 1, side * side) - NOISE
        return (128 + noise).reshape(self.count, side, side)

    def corners(self, side: int, on_grid: bool) -> tuple[Array, Array]:
        """Upper left corners (count, 2) of two glyphs that don't touch."""
        if on_grid:
            cells = self.order((side // SIDE) ** 2)[:, :2]
            row, column = cells // (side // SIDE), cells % (side // SIDE)
            first, second = SIDE * np.stack([row, column], axis=2).swapaxes(
                0, 1
            )
            return first, second
        # one in the upper half and one in the lower, or left and right
        half = side // 2
        near = self.below(half - SIDE + 1, 1)
        far = half + self.below(half - SIDE + 1, 1)
        along = self.below(side - SIDE + 1, 2)
        first = np.concatenate([near, along[:, :1]], axis=1)
        second = np.concatenate([far, along[:, 1:]], axis=1)
        turned, swapped = self.below(2, 2).T[..., None] == 1
        first = np.where(turned, first[:, ::-1], first)
        second = np.where(turned, second[:, ::-1], second)
        return np.where(swapped, second, first), np.where(
            swapped, first, second
        )


def drawn() -> Array:
    """The eight glyphs of `twins` in their patches: (8, 8, 8), 0 or 1."""
    rows = [line.split() for line in DRAWN.strip().splitlines()]
    lit = [[[pixel == "#" for pixel in row] for row in line] for line in rows]
    return np.pad(np.array(lit).swapaxes(0, 1), ((0, 0), (1, 1), (1, 1)))


def kinds(alphabet: int = 0) -> Array:
    """The 16 glyphs of the grey puzzles: (16, 4, 4), 0 or 1."""
    if alphabet not in range(len(ALPHABETS)):
        raise UserError(f"alphabet is {alphabet!r}; there are 0 and 1")
    seed = ALPHABETS[alphabet]
    bits = np.random.PCG64(seed).random_raw(KINDS) >> np.uint64(48)
    lit = bits.astype(np.int64)[:, None] >> np.arange(SIDE**2) & 1
    return lit.reshape(KINDS, SIDE, SIDE)


def of_two(
    words: Words,
    first: Array,
    second: Array,
    labels: Array,
    on_grid: bool,
    alphabet: int,
) -> Puzzles:
    images, glyphs = words.ground(16), kinds(alphabet)
    corners = words.corners(16, on_grid)
    for number, corner in zip((first, second), corners, strict=True):
        stamp(images, glyphs[number], corner)
    return puzzles(images, labels)


def stamp(images: Array, glyphs: Array, corners: Array) -> None:
    """Add glyphs (n, 4, 4) at corners (n, 2) to (n, h, w), in place."""
    size = np.array(images.shape[1:])
    if glyphs.shape[1:] != (SIDE, SIDE):
        found = " x ".join(map(str, glyphs.shape[1:]))
        raise UserError(f"a glyph has {SIDE} x {SIDE} pixels, not {found}")
    if (corners < 0).any() or (corners > size - SIDE).any():
        raise UserError(
            f"a glyph of {SIDE} x {SIDE} pixels reaches over the edge of its "
            f"picture, {size[0]} x {size[1]}"
        )
    step = np.arange(SIDE)
    rows = corners[:, 0, None, None] + step[:, None]
    columns = corners[:, 1, None, None] + step
    each = np.arange(len(images))[:, None, None]
    noise = images[each, rows, columns] - 128
    lit = np.where(glyphs == 1, BRIGHT, DARK)
    images[each, rows, columns] = lit + noise


def puzzles(images: Array, labels: Array) -> Puzzles:
    return Puzzles(
        torch.from_numpy(images[:, None].astype(np.uint8)),
        torch.from_numpy(labels.copy()),
    )
