"""Learned positions: what they add, and what the network does not know without them."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitedu.errors import UserError
from vitedu.model import Learned1D, ViT, ViTConfig, patchify, unpatchify

FIELDS = {
    "image_size": (8, 12),
    "patch_size": 4,
    "num_classes": 5,
    "embed_dim": 32,
    "depth": 2,
    "num_heads": 4,
    "mlp_dim": 48,
}


def random_model(**fields):
    torch.manual_seed(0)
    model = ViT(ViTConfig(**FIELDS | fields)).double().eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model


def with_shuffled_patches(images):
    order = [4, 2, 0, 5, 3, 1]
    return unpatchify(patchify(images, 4)[:, order], 4, (2, 3))


def test_the_table_has_one_row_per_token():
    assert Learned1D().build(ViTConfig(**FIELDS)).shape == (1, 7, 32)


def test_without_class_token_the_table_has_one_row_per_patch():
    config = ViTConfig(**FIELDS, class_token=False, pool="mean")
    assert Learned1D().build(config).shape == (1, 6, 32)


def test_the_table_is_learned():
    assert isinstance(Learned1D().build(ViTConfig(**FIELDS)), nn.Parameter)


def test_each_row_is_added_to_its_token_in_every_image():
    tokens, table = torch.randn(3, 7, 32), torch.randn(1, 7, 32)
    added = Learned1D().add(tokens, table)
    for image in range(3):
        assert torch.equal(added[image], tokens[image] + table[0])


def test_the_first_row_belongs_to_the_class_token():
    model = random_model()
    images = torch.randn(1, 3, 8, 12, dtype=torch.float64)
    seen = []
    handle = model.blocks.register_forward_pre_hook(
        lambda _, args: seen.append(args[0])
    )
    model(images)
    handle.remove()
    assert_close(seen[0][:, :1], model.cls_token + model.pos_embed[:, :1])
    assert_close(
        seen[0][:, 1:], model.patch_embed(images) + model.pos_embed[:, 1:]
    )


def test_without_positions_the_order_of_the_patches_does_not_matter():
    model = random_model()
    nn.init.zeros_(model.pos_embed)
    images = torch.randn(2, 3, 8, 12, dtype=torch.float64)
    # sums over the same tokens in another order, in float64
    assert_close(
        model(with_shuffled_patches(images)), model(images), rtol=0, atol=1e-10
    )


def test_with_positions_the_order_of_the_patches_matters():
    model = random_model()
    images = torch.randn(2, 3, 8, 12, dtype=torch.float64)
    difference = model(with_shuffled_patches(images)) - model(images)
    assert difference.abs().max() > 1e-3


def test_an_unknown_place_is_an_error():
    with pytest.raises(
        UserError, match=r"Learned1D\(at='head'\) .* known: 'stem'"
    ):
        Learned1D(at="head")
