"""Puzzles of glyphs: their answers are right, and their bytes the same."""

import hashlib
from itertools import combinations

import numpy as np
import pytest
import torch
from einops import rearrange

from vitedu.data import glyphs

GREY = ("same_or_different", "which", "left_of")


def grey(name, count, **options):
    return getattr(glyphs, name)(count, **options)


def patches(images, side):
    return rearrange(
        images, "b c (gh p) (gw q) -> b (gh gw) c p q", p=side, q=side
    )


def found(picture):
    """The two glyphs of a grey picture and their corners, from its pixels."""
    far = (picture[0].int() - 128).abs() > 2 * glyphs.NOISE
    assert far.sum() == 32
    corners = [
        (row, column)
        for row in range(len(far) - 3)
        for column in range(len(far) - 3)
        if far[row : row + 4, column : column + 4].all()
    ]
    for pair in combinations(corners, 2):
        seen = torch.zeros_like(far)
        for row, column in pair:
            seen[row : row + 4, column : column + 4] = True
        if torch.equal(seen, far):
            bright = picture[0] > 128
            return [
                (corner, bright[corner[0] :, corner[1] :][:4, :4].flatten())
                for corner in pair
            ]
    raise AssertionError("two glyphs were expected")


def test_a_twin_has_the_same_glyph_in_the_colour_of_the_label():
    puzzles = glyphs.twins(50, seed=3)
    cells = patches(puzzles.images, 8)
    lit = (cells > 0).any(dim=2)
    pick = puzzles.twins[..., None, None].expand_as(lit)
    assert torch.equal(lit.gather(1, pick), lit)
    own = torch.arange(16)
    assert torch.equal(
        puzzles.twins.gather(1, puzzles.twins), own.expand(50, 16)
    )
    assert (puzzles.twins != own).all()
    colours = cells.amax(dim=(3, 4))
    wanted = torch.from_numpy(glyphs.COLOURS)[puzzles.labels]
    other = puzzles.twins[..., None].expand_as(colours)
    assert torch.equal(colours.gather(1, other), wanted)
    assert (colours != wanted).any(dim=2).all()  # twins differ in colour


def test_every_picture_of_twins_has_all_eight_glyphs():
    cells = patches(glyphs.twins(20).images, 8).amax(dim=2) > 0
    for picture in cells.flatten(2):
        assert len(picture.unique(dim=0)) == 8


@pytest.mark.parametrize("on_grid", [True, False])
def test_same_says_whether_both_glyphs_are_the_same(on_grid):
    puzzles = glyphs.same_or_different(200, on_grid=on_grid)
    for picture, label in zip(puzzles.images, puzzles.labels, strict=True):
        (_, first), (_, second) = found(picture)
        assert torch.equal(first, second) == bool(label)


@pytest.mark.parametrize("on_grid", [True, False])
def test_which_needs_no_comparison(on_grid):
    puzzles = glyphs.which(200, on_grid=on_grid)
    late = torch.from_numpy(glyphs.kinds()[8:]).flatten(1).bool()
    for picture, label in zip(puzzles.images, puzzles.labels, strict=True):
        seen = [
            bool((late == glyph).all(dim=1).any())
            for _, glyph in found(picture)
        ]
        assert sum(seen) == label


@pytest.mark.slow
@pytest.mark.parametrize("where", ["all", "upper", "lower"])
@pytest.mark.parametrize("on_grid", [True, False])
def test_left_is_left(where, on_grid):
    puzzles = glyphs.left_of(200, where=where, on_grid=on_grid)
    first, second = torch.from_numpy(glyphs.kinds()[:2]).flatten(1).bool()
    rows = set()
    for picture, label in zip(puzzles.images, puzzles.labels, strict=True):
        place = {}
        for (row, column), glyph in found(picture):
            rows.add(row)
            place[torch.equal(glyph, first)] = column
            assert torch.equal(glyph, first) or torch.equal(glyph, second)
        assert (place[True] < place[False]) == bool(label)
    low, high = {"all": (0, 20), "upper": (0, 8), "lower": (12, 20)}[where]
    assert (min(rows), max(rows)) == (low, high)


@pytest.mark.parametrize("name", GREY)
def test_on_the_grid_a_glyph_fills_a_patch_and_off_it_rarely_does(name):
    on, off = (
        [
            corner
            for picture in grey(name, 100, on_grid=on_grid).images
            for corner, _ in found(picture)
        ]
        for on_grid in (True, False)
    )
    assert all(row % 4 == column % 4 == 0 for row, column in on)
    fits = [row % 4 == column % 4 == 0 for row, column in off]
    assert sum(fits) < 0.2 * len(fits)


@pytest.mark.parametrize("name", GREY)
def test_half_of_the_answers_are_yes(name):
    # 10,000 coin tosses: five standard errors are 2.5%
    assert abs(grey(name, 10_000).labels.double().mean() - 0.5) < 0.025


@pytest.mark.parametrize("name", [*GREY, "twins"])
def test_a_set_begins_with_every_smaller_one(name):
    small, large = (grey(name, count, seed=5) for count in (3, 9))
    for few, many in zip(small, large, strict=True):
        assert torch.equal(few, many[:3])
    assert not torch.equal(grey(name, 9, seed=6).images, large.images)


DIGESTS = {
    "twins": "e2685787d8beb1b0",
    "same_or_different": "d542a298359edced",
    "which": "f41668e43ad4b526",
    "left_of": "f9c0893ce5a04d73",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_the_bytes_are_the_same_everywhere(name):
    digest = hashlib.sha256()
    for part in grey(name, 100):
        digest.update(part.numpy().tobytes())
    assert digest.hexdigest()[:16] == DIGESTS[name]


@pytest.mark.parametrize("alphabet", [0, 1])
def test_the_grey_glyphs_differ_in_three_pixels_or_more(alphabet):
    kinds = torch.from_numpy(glyphs.kinds(alphabet)).flatten(1).float()
    apart = torch.cdist(kinds, kinds, p=1)
    assert alphabet == 1 or apart[0, 1] == 11
    assert (apart + 99 * torch.eye(16)).min() == 3


@pytest.mark.parametrize("name", GREY)
def test_another_alphabet_has_other_glyphs_in_the_same_places(name):
    first, second = (grey(name, 9, alphabet=each) for each in (0, 1))
    assert torch.equal(first.labels, second.labels)
    lit = [
        (x.images.int() - 128).abs() > 2 * glyphs.NOISE for x in (first, second)
    ]
    assert torch.equal(*lit)
    assert not torch.equal(first.images, second.images)


@pytest.mark.parametrize(
    ("name", "count", "first", "second"),
    [
        ("glyphs-same", 10_000, "same_or_different", {}),
        ("glyphs-which-off-300", 300, "which", {"on_grid": False}),
        ("glyphs-left-new-2k", 2_000, "left_of", {"alphabet": 1}),
    ],
)
def test_a_name_says_what_is_drawn(name, count, first, second):
    train, test = glyphs.named(name, 5)
    assert len(train.labels) == count and len(test.labels) == 5
    assert torch.equal(train.images[:9], grey(first, 9, **second).images)
    assert torch.equal(test.images, grey(first, 5, seed=1, **second).images)


def stamped(shape, corner):
    images = np.zeros((2, 8, 8), dtype=np.int64)
    corners = np.full((2, 2), corner)
    glyphs.stamp(images, np.ones(shape, dtype=np.int64), corners)
