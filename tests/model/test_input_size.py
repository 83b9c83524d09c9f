"""`set_input_size`: a model that takes images of another size, in place."""

import copy

import pytest
import torch

from tests.tiny import TINY, random_model, tiny
from vitedu.errors import UserError
from vitedu.model import Relative
from vitedu.model.vit import take_any_size


def images(height, width):
    torch.manual_seed(1)
    return torch.randn(2, 3, height, width, dtype=torch.float64)


def test_a_resized_table_is_trained_if_it_was_before():
    model = random_model(TINY)
    model.set_input_size(16)
    assert model.pos_embed.requires_grad and model.pos_embed.is_leaf
    model.pos_embed.requires_grad_(False)
    model.set_input_size(8)
    assert not model.pos_embed.requires_grad


def test_the_global_generator_is_left_alone():
    model = random_model(tiny(pool="map"))
    torch.manual_seed(3)
    want = torch.rand(3)
    torch.manual_seed(3)
    model.set_input_size(16)
    assert torch.equal(torch.rand(3), want)


@pytest.mark.parametrize(
    ("config", "size", "mode", "sentence"),
    [
        (TINY, 18, "paper", "not a multiple of the patch size 4"),
        (TINY, (16, 16, 16), "paper", "image_size must be one number, or"),
        (TINY, 0, "paper", "image_size must be one number, or"),
        (TINY, 16, "bicubic", "no mode 'bicubic'"),
        (tiny(position=Relative()), 16, "paper", "keep image_size"),
    ],
)
def test_what_does_not_fit_changes_nothing(config, size, mode, sentence):
    model = random_model(config)
    want, before = model(images(8, 12)), copy.deepcopy(model.preprocess)
    with pytest.raises(UserError, match=sentence):
        model.set_input_size(size, mode=mode)
    assert model.config == config and model.preprocess == before
    assert torch.equal(model(images(8, 12)), want)


def test_a_size_that_does_not_divide_into_patches_is_one_sentence():
    model = random_model(TINY)
    take_any_size(model)
    with pytest.raises(UserError, match="18 is not a multiple of the patch"):
        model(images(18, 16))
    with pytest.raises(ValueError, match=r"one image is images\[None\]"):
        model(images(16, 16)[0])
    assert model.forward_features(images(16, 20)).shape == (2, 21, 32)
    (layer,) = model.forward_intermediates(
        images(16, 20), [1], intermediates_only=True
    )
    assert layer.shape == (2, 32, 4, 5)


def test_positions_of_any_size_are_trained_through_their_resizing():
    model = random_model(TINY)
    take_any_size(model)
    model(images(16, 16)).sum().backward()
    assert model.pos_embed.grad.shape == model.pos_embed.shape
    assert model.pos_embed.grad.any()
