"""Patches against loops; the patch embedding against patches times a matrix."""

import pytest
import torch
from einops import rearrange
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitedu.model import PatchEmbedding, patchify, unpatchify

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


def embedded(*shape):
    return PatchEmbedding((8, 16), (4, 4), 3, 32)(torch.zeros(shape))
