"""What is between tokens and head: pools, and pre-logits behind each.

Attention pooling and per-token logits against the authors' outputs where
VITEDU_GOLDEN is set, against timm and against equations written out everywhere.
"""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.tiny import fill_randomly, random_images, random_model, tiny
from vitedu.compat import import_timm
from vitedu.model import ViT, ViTConfig
from vitedu.model.pool import AttentionPool, build_pool

# float64, at most 96 terms per sum in another order: measured below 1e-14
EXACT = {"rtol": 0, "atol": 1e-12}


def random_pool(**fields):
    pool = AttentionPool(32, 4, 96, 7, **fields).double()
    fill_randomly(pool)
    return pool


def random_tokens(t=7):
    torch.manual_seed(1)
    return torch.randn(2, t, 32, dtype=torch.float64)


@pytest.mark.parametrize("gelu", ["exact", "tanh"])
@pytest.mark.parametrize("norm_eps", [1e-6, 1e-2])
def test_attention_pooling_equals_timms_under_the_same_keys(gelu, norm_eps):
    import_timm()
    from timm.layers import AttentionPoolLatent

    pool = random_pool(gelu=gelu, norm_eps=norm_eps)
    approximate = {"exact": "none", "tanh": "tanh"}[gelu]
    theirs = AttentionPoolLatent(
        32,
        num_heads=4,
        mlp_ratio=3,
        norm_layer=partial(nn.LayerNorm, eps=norm_eps),
        act_layer=partial(nn.GELU, approximate=approximate),
    ).double()
    theirs.load_state_dict(pool.state_dict(), strict=True)
    assert_close(pool(random_tokens()), theirs(random_tokens()), **EXACT)


def test_attention_pooling_takes_the_fields_of_the_configuration():
    config = tiny(pool="map", gelu="tanh", norm_eps=1e-3, dropout=0.5)
    pool = build_pool(config)
    assert pool.num_heads == 4
    assert pool.mlp.fc1.out_features == 48
    assert pool.mlp.act.approximate == "tanh"
    assert pool.norm.eps == 1e-3


@pytest.fixture(scope="module")
def initial():
    torch.manual_seed(0)
    config = ViTConfig(image_size=32, embed_dim=192, depth=1, num_heads=3)
    return ViT(replace(config, mlp_dim=768, pool="map")).requires_grad_(False)


def assert_uniform(weight, bound, rel):
    assert weight.abs().max() <= bound * (1 + 1e-6)  # float32
    assert weight.abs().max() > 0.95 * bound
    assert weight.std() == pytest.approx(bound / math.sqrt(3), rel=rel)


def test_the_probe_is_xavier_uniform_as_a_matrix_of_one_row(initial):
    # of 192 draws the deviation's own error is 3.2%: 16% is 5 times that; that
    # none is above 0.95 of the bound has probability 5e-5
    assert_uniform(initial.pool.latent, math.sqrt(6 / 193), rel=0.16)


@pytest.mark.parametrize("half", [0, 1])
def test_k_and_v_of_the_pool_are_xavier_uniform_each_on_its_own(initial, half):
    # of 36,864 uniform draws the deviation's own error is 0.23%: 1.5% is 6
    # times that. One (2d, d) matrix would have a bound sqrt(1.5) smaller.
    matrix = initial.pool.kv.weight.chunk(2)[half]
    assert_uniform(matrix, math.sqrt(3 / 192), rel=0.015)


def test_the_rest_of_the_pool_starts_as_in_a_block(initial):
    pool = initial.pool
    for layer in (pool.q, pool.proj):
        assert_uniform(layer.weight, math.sqrt(3 / 192), rel=0.015)
    for layer in (pool.q, pool.kv, pool.proj):
        assert not layer.bias.any()
    for layer in (pool.mlp.fc1, pool.mlp.fc2):
        assert_uniform(layer.weight, math.sqrt(6 / (192 + 768)), rel=0.015)
        # of 192 draws: 5 times the deviation's own error is 26%
        assert layer.bias.std() == pytest.approx(1e-6, rel=0.26)


def test_a_pool_built_without_numbers_gets_them_from_reset_parameters():
    with torch.device("meta"):
        pool = AttentionPool(32, 4, 96, 7)
    pool = pool.to_empty(device="cpu")
    with torch.no_grad():
        for weight in (pool.latent, pool.kv.weight, pool.kv.bias):
            weight.fill_(math.nan)
    torch.manual_seed(0)
    pool.reset_parameters()
    torch.manual_seed(0)
    want = AttentionPool(32, 4, 96, 7)
    for name in ("latent", "kv.weight", "kv.bias"):
        assert pool.get_parameter(name).isfinite().all(), name
    assert 0 < pool.latent.abs().max() <= math.sqrt(6 / 33)
    assert pool.kv.weight.shape == want.kv.weight.shape


@pytest.mark.parametrize("pre_logits", [None, 8, 50])
@pytest.mark.parametrize("pool", ["token", "mean", "map", "none"])
def test_pre_logits_of_any_width_stand_behind_every_pool(pool, pre_logits):
    model = random_model(pool=pool, pre_logits=pre_logits)
    tokens = model.forward_features(random_images())
    y = model.pool(tokens)
    if pre_logits:
        fc = model.pre_logits.fc
        assert fc.out_features == pre_logits
        y = torch.tanh(y @ fc.weight.T + fc.bias)
    want = y @ model.head.weight.T + model.head.bias
    rows = (2, 7) if pool == "none" else (2,)
    assert want.shape == (*rows, 5)
    # the product is one kernel with the bias; logits are about 10
    assert_close(model(random_images()), want, rtol=0, atol=1e-11)
