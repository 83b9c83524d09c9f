"""Tokens: giants, colours, kin; on made-up tokens and real models."""

from types import SimpleNamespace

import torch
from torch import nn
from torch.testing import assert_close

from vitedu.interpret import components, outlier_tokens, similar_to


class Given(nn.Module):
    """A model with these tokens (b, n, d) after its only block."""

    def __init__(self, tokens, grid):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Identity()])
        self.tokens = tokens
        self.patch_embed = SimpleNamespace(grid=grid)

    def get_intermediate_layers(self, images, n):
        assert n == [0]
        return [self.tokens]


def two_kinds(b=2, d=8):
    """(b, 12, d) on a grid (3, 4): the left half is of another kind."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.randn(2, d, generator=generator)
    column = torch.arange(12) % 4
    noise = torch.randn(b, 12, d, generator=generator)
    return kinds[(column < 2).long()] + 0.05 * noise


def test_a_giant_is_many_times_as_long_as_the_others():
    tokens = two_kinds()
    tokens[1, 3] *= 20
    tokens[0, 5] *= 2
    found = outlier_tokens(Given(tokens, (3, 4)), torch.zeros(2))
    assert found.nonzero().tolist() == [[1, 3]]
    found = outlier_tokens(Given(tokens, (3, 4)), torch.zeros(2), times=1.5)
    assert found.nonzero().tolist() == [[0, 5], [1, 3]]


def test_kinds_of_patches_have_a_colour_each_and_giants_are_grey():
    tokens = two_kinds()
    tokens[0, 3] = 40 * torch.randn(8)
    shown = components(Given(tokens, (3, 4)), torch.zeros(2))
    assert shown.shape == (2, 3, 4, 3)
    # each component by itself
    assert torch.equal(shown[1].amin((0, 1)), torch.zeros(3))
    assert torch.equal(shown[1].amax((0, 1)), torch.ones(3))
    assert_close(shown[0, 0, 3], torch.full((3,), 0.5))
    first = shown[1, ..., 0]  # the first component tells left from right
    left, right = first[:, :2], first[:, 2:]
    assert left.max() < 0.2 < 0.8 < right.min() or (
        right.max() < 0.2 < 0.8 < left.min()
    )
    # a giant changes nothing but its own place
    tokens[0, 3] *= 100
    again = components(Given(tokens, (3, 4)), torch.zeros(2))
    assert_close(again, shown)


def test_one_patch_alone_is_grey():
    shown = components(Given(torch.ones(1, 1, 2), (1, 1)), torch.zeros(1))
    assert shown.shape == (1, 1, 1, 3) and shown.isfinite().all()


def test_a_patch_is_most_like_itself_then_like_its_kind():
    found = similar_to(Given(two_kinds(), (3, 4)), torch.zeros(2), (2, 0))
    assert found.shape == (2, 3, 4)
    assert_close(found[:, 2, 0], torch.ones(2))
    assert found[..., :2].min() > 0.8 > -0.8 > found[..., 2:].max()
