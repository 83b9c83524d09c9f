"""Filters and positions: exact on made-up weights."""

import math

import torch
from torch.testing import assert_close

from tests.tiny import tiny
from vitedu.interpret import filters, position_similarity
from vitedu.model import Learned1D, SinCos2D, ViT


def test_filters_are_the_directions_in_which_the_weights_differ():
    model = ViT(tiny())
    weight = model.patch_embed.proj.weight
    shape = weight.shape[1:]
    first, second = torch.linalg.qr(torch.randn(math.prod(shape), 2))[0].T
    rows = torch.randn(len(weight), 2) * torch.tensor([5.0, 1.0])
    with torch.no_grad():
        weight.copy_((rows @ torch.stack([first, second])).view_as(weight) + 3)
    found, shares = filters(model, 2)
    assert found.shape == (2, *shape)
    assert_close(shares.sum(), torch.tensor(1.0))
    assert shares[0] > 0.8
    # the two span the same plane
    plane = torch.stack([first, second])
    inside = found.flatten(1) @ plane.T
    assert_close(inside @ inside.T, torch.eye(2), rtol=0, atol=1e-4)


def test_a_position_is_like_itself_and_rows_of_other_sides_fit():
    model = ViT(tiny(position=Learned1D()))
    torch.nn.init.normal_(model.pos_embed)
    found = position_similarity(model)
    rows, columns = model.config.grid
    assert rows != columns and found.shape == (rows, columns, rows, columns)
    for row in range(rows):
        for column in range(columns):
            one = model.pos_embed[0, 1 + row * columns + column]
            other = model.pos_embed[0, 1 + columns]  # row 1, column 0
            want = torch.cosine_similarity(one, other, dim=0)
            assert_close(found[row, column, 1, 0], want)


def test_computed_positions_have_a_similarity_too():
    found = position_similarity(ViT(tiny(position=SinCos2D())))
    assert_close(found[1, 2, 1, 2], torch.tensor(1.0))
