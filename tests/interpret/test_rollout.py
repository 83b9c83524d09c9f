"""Attention rollout: by hand, in its limits, and on the real model."""

import pytest
import torch
from torch.testing import assert_close

import vitedu
from tests.tiny import tiny
from vitedu.interpret import attention_map, attention_rollout
from vitedu.model import ViT


def model(**fields):
    torch.manual_seed(0)
    network = ViT(tiny(depth=3, **fields)).eval()
    for weight in network.parameters():  # so that the maps aren't even
        torch.nn.init.normal_(weight, std=0.5)
    return network


def images():
    return torch.randn(2, 3, 8, 12, generator=torch.manual_seed(1))


def test_rollout_of_two_layers_by_hand():
    first = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])  # all take the second
    second = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])  # all take the first
    # first: (1/2, 1/2), (0, 1); second: (1, 0), (1/2, 1/2)
    want = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]])
    assert torch.equal(attention_rollout([first, second]), want)
    # without the residual path: all take the second of the first
    raw = attention_rollout([first, second], identity=0.0)
    assert torch.equal(raw, torch.tensor([[[0.0, 1.0], [0.0, 1.0]]]))
    # one head of two; the other stays where it is
    both = [
        torch.cat([torch.eye(2)[None, None], x], 1) for x in (first, second)
    ]
    assert torch.equal(attention_rollout(both, head=1), want)
    assert torch.equal(attention_rollout(both, head=0), torch.eye(2)[None])


def test_every_row_of_a_rollout_sums_to_one():
    network = model()
    with torch.no_grad(), vitedu.record_attention(network) as maps:
        network(images())
    rows = attention_rollout(maps).sum(dim=-1)
    # float32, 7 terms in each of 3 products
    assert_close(rows, torch.ones(2, 7), rtol=0, atol=1e-6)


@pytest.mark.parametrize("registers", [0, 2])
def test_the_map_is_the_class_tokens_row_of_the_rollout(registers):
    network = model(registers=registers)
    with torch.no_grad(), vitedu.record_attention(network) as maps:
        network(images())
    want = attention_rollout(maps)[:, 0, 1 + registers :].reshape(2, 2, 3)
    assert_close(attention_map(network, images()), want)


@pytest.mark.parametrize("pool", ["mean", "mean_norm"])
def test_a_model_that_pools_by_the_mean_has_the_mean_over_patches(pool):
    network = model(pool=pool, class_token=False)
    with torch.no_grad(), vitedu.record_attention(network) as maps:
        network(images())
    want = attention_rollout(maps).mean(dim=1).reshape(2, 2, 3)
    found = attention_map(network, images())
    assert_close(found, want)
    # nothing but patches, so the whole answer is made of them
    assert_close(found.sum(dim=(1, 2)), torch.ones(2))


@pytest.mark.slow
def test_on_a_photograph_the_face_counts_more_than_the_sky():
    network = vitedu.load("ViT-Ti/16")
    photo = vitedu.preprocess(network, vitedu.data.photo("hopper"))
    (shares,) = attention_map(network, photo)
    assert shares.shape == (14, 14) and 0 < shares.sum() < 1
    assert shares[2:9, 5:9].mean() > 1.5 * shares[2:9, 11:].mean()
