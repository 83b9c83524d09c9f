"""Removing patches equals their absence; registers take the giants' part."""

import pytest
import torch
from torch.testing import assert_close

import vitedu
from tests.tiny import random_images, random_model
from vitedu.interpret import (
    attention_map,
    deletion_curve,
    outlier_tokens,
    test_time_registers,
    without,
)
from vitedu.model import Relative, RoPE

# not a test, in spite of its name
test_time_registers.__test__ = False


def some_removed(count=2):
    """(2, 6) of bool: other patches in each image."""
    removed = torch.zeros(2, 6, dtype=torch.bool)
    removed[0, [1, 4][:count]] = removed[1, [0, 3][:count]] = True
    return removed


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"registers": 2},
        {"class_token": False, "pool": "mean"},
        {"pool": "mean_norm"},
        {"class_token": False, "pool": "map"},
    ],
    ids=str,
)
def test_what_is_removed_might_as_well_not_be_there(fields):
    model, images = random_model(**fields), random_images()
    removed, prefix = some_removed(), model.config.num_prefix_tokens
    tokens = model.embed(images)
    kept = tokens[:, prefix:][~removed].view(2, 4, -1)
    tokens = model.norm(model.blocks(torch.cat([tokens[:, :prefix], kept], 1)))
    # the pools of patches read the last ones, however many there are
    model.pool.num_patches = 4
    want = model.forward_head(tokens)
    model.pool.num_patches = 6
    assert_close(without(model, images, removed), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("position", [RoPE(), Relative()])
def test_a_removed_patch_says_nothing_whatever_the_positions(position):
    model, images = random_model(position=position), random_images()
    removed = some_removed()
    before = without(model, images, removed)
    rows, columns = removed[0].view(2, 3).nonzero().T.tolist()
    changed = images.clone()
    for row, column in zip(rows, columns, strict=True):
        place = slice(4 * row, 4 * row + 4), slice(4 * column, 4 * column + 4)
        changed[0, :, *place] += 1
    after = without(model, changed, removed)
    assert_close(after, before, rtol=0, atol=1e-12)
    assert not torch.equal(model(changed)[0], model(images)[0])
    none = torch.zeros_like(removed)
    assert_close(without(model, images, none), model(images))
    # and the model is left as it was
    biases = [block.attn.position_bias for block in model.blocks]
    is_own = [each is None for each in biases]
    assert all(is_own) if isinstance(position, RoPE) else not any(is_own)


def test_a_curve_begins_with_the_whole_answer_and_follows_its_order():
    model, images = random_model(), random_images()
    order = attention_map(model, images).flatten(1).argsort(descending=True)
    curve = deletion_curve(model, images, order, shares=(0, 1 / 3, 5 / 6))
    assert curve.shape == (3, 2)
    probabilities = model(images).softmax(dim=-1)
    assert_close(curve[0], probabilities.amax(dim=-1))
    first = torch.zeros(2, 6, dtype=torch.bool).scatter(1, order[:, :2], True)
    labels = probabilities.argmax(dim=-1)
    want = without(model, images, first).softmax(dim=-1)
    assert_close(curve[1], want[torch.arange(2), labels])
    asked = deletion_curve(
        model, images, order, torch.tensor([4, 0]), shares=[0]
    )
    assert_close(asked[0], probabilities[[0, 1], [4, 0]])


@pytest.mark.parametrize(
    "removed",
    [torch.ones(2, 6, dtype=torch.bool), torch.tensor([6 * [False]] * 2)],
)
def test_images_lose_as_many_patches_each_and_keep_one(removed):
    removed[1, 0] = True
    with pytest.raises(vitedu.UserError, match="the same number of patches"):
        without(random_model(), random_images(), removed)


# ---------------------------------------------------------------- registers


def with_giants(*patches):
    """A model in which these places become giants, whatever is in them."""
    model = random_model()
    mark = torch.zeros(32, dtype=torch.float64)
    mark[0] = 50
    with torch.no_grad():
        model.pos_embed[0, 1:, 0] = 0
        for patch in patches:
            model.pos_embed[0, 1 + patch] += mark
    return model


def test_empty_tokens_take_the_places_of_the_giants():
    model, images = with_giants(0, 5), random_images(b=4)
    assert outlier_tokens(model, images).sum(dim=0).tolist() == [4, *4 * [0], 4]
    moved = test_time_registers(model, images)
    assert not outlier_tokens(moved, images).any()
    tokens, before = moved.embed(images), model.embed(images)
    assert tokens.shape == (4, 9, 32) and before.shape == (4, 7, 32)
    # the class token first; what isn't a giant is as it was
    assert torch.equal(tokens[:, 0], before[:, 0])
    assert torch.equal(tokens[:, 4:8], before[:, 2:6])
    registers = tokens[:, 1:3]
    assert (registers == registers[:1]).all() and registers[..., 0].min() > 40
    # a giant's content, at the place of its neighbour towards the middle
    content = before[:, 1] - model.pos_embed[0, 1]
    assert_close(tokens[:, 3], content + model.pos_embed[0, 2])
    # the model itself hasn't changed
    assert torch.equal(model.embed(images), before)
    assert moved(images).shape == model(images).shape


@pytest.mark.slow
def test_the_real_models_corners_are_registers():
    model = vitedu.load("ViT-Ti/16")
    images = vitedu.preprocess(
        model, [vitedu.data.photo(x) for x in ("cat", "coffee", "astronaut")]
    )
    corners = [0, 13, 182, 195]
    found = outlier_tokens(model, images)
    assert found.all(dim=0).nonzero().flatten().tolist() == corners
    assert not outlier_tokens(model, images, block=6).any()
    moved = test_time_registers(model, images)
    assert not outlier_tokens(moved, images).any()
    with torch.no_grad():
        before, after = model(images), moved(images)
    assert torch.equal(before.argmax(dim=-1), after.argmax(dim=-1))
