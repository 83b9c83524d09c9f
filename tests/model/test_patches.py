"""Patches against loops; the patch embedding against patches times a matrix."""

import pytest
import torch
from einops import rearrange
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitedu.model import (
    PatchEmbedding,
    Patches,
    ViTConfig,
    patchify,
    unpatchify,
)

# No clock in tests, and the same examples in every run.
fixed = settings(deadline=None, derandomize=True, max_examples=60)
few = st.integers(1, 4)
patch_sides = st.integers(1, 5)


def numbered(*shape):
    """A tensor of different numbers, so that nothing changes places unseen."""
    return torch.arange(torch.tensor(shape).prod().item()).reshape(shape)


def patchify_by_loops(images, p, q):
    b, c, h, w = images.shape
    patches = torch.empty(b, (h // p) * (w // q), p * q * c, dtype=images.dtype)
    for image in range(b):
        for row in range(h):
            for column in range(w):
                for channel in range(c):
                    patch = (row // p) * (w // q) + column // q
                    place = ((row % p) * q + column % q) * c + channel
                    patches[image, patch, place] = images[
                        image, channel, row, column
                    ]
    return patches


@fixed
@given(few, few, few, few, patch_sides, patch_sides)
def test_patchify_equals_a_loop_over_pixels(b, c, rows, columns, p, q):
    images = numbered(b, c, rows * p, columns * q)
    assert torch.equal(
        patchify(images, (p, q)), patchify_by_loops(images, p, q)
    )


@fixed
@given(few, few, few, few, patch_sides, patch_sides)
def test_unpatchify_undoes_patchify(b, c, rows, columns, p, q):
    images = numbered(b, c, rows * p, columns * q)
    patches = patchify(images, (p, q))
    assert torch.equal(unpatchify(patches, (p, q), (rows, columns)), images)


@fixed
@given(few, few, few, few, patch_sides, patch_sides)
def test_patchify_undoes_unpatchify(b, c, rows, columns, p, q):
    patches = numbered(b, rows * columns, p * q * c)
    images = unpatchify(patches, (p, q), (rows, columns))
    assert images.shape == (b, c, rows * p, columns * q)
    assert torch.equal(patchify(images, (p, q)), patches)


def test_one_number_is_a_square_patch():
    images = numbered(2, 3, 8, 12)
    assert torch.equal(patchify(images, 4), patchify(images, (4, 4)))
    patches = patchify(images, 4)
    assert torch.equal(unpatchify(patches, 4, (2, 3)), images)


def test_patches_follow_each_other_row_by_row():
    images = numbered(1, 1, 4, 6)
    first_pixels = patchify(images, 2)[0, :, 0]
    assert first_pixels.tolist() == [0, 2, 4, 12, 14, 16]


def test_pixels_of_a_patch_follow_row_column_channel():
    images = numbered(1, 2, 2, 2)  # one patch; channel 1 is channel 0 plus 4
    assert patchify(images, 2)[0, 0].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_patchify_without_batch_axis_says_how_to_add_one():
    with pytest.raises(
        ValueError, match=r"got \(3, 8, 8\); one image is images\[None\]"
    ):
        patchify(torch.zeros(3, 8, 8), 4)


def test_patchify_names_the_size_and_what_is_left_over():
    message = (
        r"250x253 does not divide into patches of 16x16 "
        r"\(10 rows and 13 columns left over\)"
    )
    with pytest.raises(ValueError, match=message):
        patchify(torch.zeros(1, 3, 250, 253), 16)


def test_unpatchify_refuses_another_number_of_patches():
    message = r"needs \(b, 6, p\*q\*c\) for a 2x3 grid, got \(1, 5, 12\)"
    with pytest.raises(ValueError, match=message):
        unpatchify(torch.zeros(1, 5, 12), 2, (2, 3))


def test_unpatchify_refuses_part_of_a_pixel():
    message = "13 numbers do not divide into the 4 pixels of a 2x2 patch"
    with pytest.raises(ValueError, match=message):
        unpatchify(torch.zeros(1, 6, 13), 2, (2, 3))


@pytest.mark.parametrize("patch_size", [(4, 4), (2, 8), (8, 4)])
def test_patch_embedding_is_patches_times_a_matrix(patch_size):
    torch.manual_seed(0)
    stem = PatchEmbedding((8, 16), patch_size, 3, 32).double()
    images = torch.randn(2, 3, 8, 16, dtype=torch.float64)
    kernel = rearrange(stem.proj.weight, "d c p q -> d (p q c)")
    want = patchify(images, patch_size) @ kernel.mT + stem.proj.bias
    # float64, at most 96 terms per sum in another order: 1e-12 leaves room for
    # any BLAS
    assert_close(stem(images), want, rtol=0, atol=1e-12)


def test_patch_embedding_knows_its_grid():
    stem = PatchEmbedding((8, 48), (4, 8), 3, 32)
    assert (stem.grid, stem.num_patches) == ((2, 6), 12)


def test_the_stem_of_the_paper_builds_what_the_configuration_says():
    config = ViTConfig(image_size=(8, 12), patch_size=(4, 2), in_channels=2)
    stem = Patches().build(config)
    assert stem(torch.zeros(1, 2, 8, 12)).shape == (1, 12, 768)


def test_one_image_without_batch_axis_is_an_error():
    stem = PatchEmbedding((8, 16), (4, 4), 3, 32)
    message = (
        r"needs images \(b, 3, 8, 16\), got \(3, 8, 16\); "
        r"one image is images\[None\]"
    )
    with pytest.raises(ValueError, match=message):
        stem(torch.zeros(3, 8, 16))


def test_wrong_number_of_channels_names_both_numbers():
    stem = PatchEmbedding((8, 16), (4, 4), 3, 32)
    with pytest.raises(
        ValueError, match="3 channels, 8x16 pixels, got 1 channels, 8x16"
    ):
        stem(torch.zeros(2, 1, 8, 16))


@pytest.mark.parametrize("size", [(16, 8), (8, 12), (12, 16)])
def test_wrong_image_size_names_both_sizes(size):
    stem = PatchEmbedding((8, 16), (4, 4), 3, 32)
    given_size = f"got 3 channels, {size[0]}x{size[1]}"
    with pytest.raises(ValueError, match=f"8x16 pixels, {given_size}"):
        stem(torch.zeros(2, 3, *size))
