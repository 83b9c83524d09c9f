"""Attention against the formula, PyTorch's kernel and PyTorch's layer."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from tests.tiny import random_images, random_model
from vitedu.model import MultiHeadAttention, attention, record_attention

# float64, at most 32 terms per sum in another order: measured below 1e-15, and
# 1e-12 leaves room for another BLAS.
EXACT = {"rtol": 0, "atol": 1e-12}


def queries_keys_values(b=2, heads=3, t=7, head_dim=8):
    torch.manual_seed(0)
    return torch.randn(3, b, heads, t, head_dim, dtype=torch.float64).unbind()


def layer_and_tokens(embed_dim=32, num_heads=4, b=5, t=7):
    torch.manual_seed(0)
    layer = MultiHeadAttention(embed_dim, num_heads).double()
    return layer, torch.randn(b, t, embed_dim, dtype=torch.float64)


def image_model_and_images():
    return random_model(depth=3), random_images()


class BiasFromQueries(nn.Module):
    """A position bias that depends on q, as relative positions do."""

    def __init__(self, t, head_dim):
        super().__init__()
        self.table = nn.Parameter(torch.randn(head_dim, t, dtype=torch.float64))

    def forward(self, q):
        return q @ self.table  # (b, heads, t, t)


def test_attention_equals_the_formula_written_in_loops():
    q, k, v = queries_keys_values()
    values, weights = attention(q, k, v)
    for image, head, row in [(0, 0, 0), (1, 2, 6), (0, 1, 3)]:
        scores = [
            math.exp(sum(q[image, head, row] * key) / math.sqrt(8))
            for key in k[image, head]
        ]
        want = torch.tensor(
            [s / sum(scores) for s in scores], dtype=torch.float64
        )
        assert_close(weights[image, head, row], want, **EXACT)
        mean = sum(
            w * value for w, value in zip(want, v[image, head], strict=True)
        )
        assert_close(values[image, head, row], mean, **EXACT)


@pytest.mark.parametrize("shape", [(2, 3, 7, 7), (3, 7, 7), (7, 7), (1, 1, 7)])
def test_attention_with_bias_equals_the_fused_kernel(shape):
    q, k, v = queries_keys_values()
    bias = torch.randn(shape, dtype=torch.float64)
    want = F.scaled_dot_product_attention(
        q, k, v, attn_mask=bias.expand(2, 3, 7, 7)
    )
    assert_close(attention(q, k, v, bias)[0], want, **EXACT)


@pytest.mark.parametrize("num_heads", [1, 4, 32])
def test_equals_torch_multihead_attention(num_heads):
    ours, x = layer_and_tokens(num_heads=num_heads)
    theirs = nn.MultiheadAttention(32, num_heads, batch_first=True).double()
    theirs.load_state_dict(
        {
            "in_proj_weight": ours.qkv.weight,
            "in_proj_bias": ours.qkv.bias,
            "out_proj.weight": ours.proj.weight,
            "out_proj.bias": ours.proj.bias,
        }
    )
    want, _ = theirs(x, x, x)
    assert_close(ours(x), want, **EXACT)


def test_position_bias_is_the_same_in_both_implementations():
    layer, x = layer_and_tokens()
    without = layer(x)
    layer.position_bias = BiasFromQueries(7, 8)
    fast = layer(x)
    assert (fast - without).abs().max() > 1e-3
    with record_attention(nn.ModuleDict({"attn": layer})) as maps:
        readable = layer(x)
    assert_close(fast, readable, **EXACT)
    assert len(maps) == 1


def test_gradients_are_the_same_in_both_implementations():
    layer, x = layer_and_tokens()
    fast = torch.autograd.grad(layer(x).square().sum(), layer.parameters())
    with record_attention(nn.ModuleDict({"attn": layer})):
        readable = torch.autograd.grad(
            layer(x).square().sum(), layer.parameters()
        )
    for one, other in zip(fast, readable, strict=True):
        # sums of up to 35 products of numbers up to 10: relative as well as
        # absolute
        assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_dropout_acts_after_the_projection_and_in_training_only():
    torch.manual_seed(0)
    layer = MultiHeadAttention(32, 4, dropout=0.5)
    x = torch.randn(4, 7, 32)
    whole = layer.eval()(x)
    dropped = layer.train()(x)
    zero = dropped == 0
    # 896 numbers kept with probability 1/2; outside 0.4 ... 0.6 with
    # probability 2e-9
    assert 0.4 < zero.float().mean() < 0.6
    assert_close(dropped[~zero], 2 * whole[~zero])


def test_maps_are_in_the_order_of_computation():
    model, images = image_model_and_images()
    with record_attention(model) as maps:
        model(images)
    tokens = torch.cat(
        [model.cls_token.expand(2, -1, -1), model.patch_embed(images)], dim=1
    )
    tokens = tokens + model.pos_embed
    for block, weights in zip(model.blocks, maps, strict=True):
        q, k, v = block.attn.qkv(block.norm1(tokens)).chunk(3, dim=-1)
        q, k, v = (x.reshape(2, 7, 4, 8).transpose(1, 2) for x in (q, k, v))
        assert_close(weights, attention(q, k, v)[1], **EXACT)
        tokens = block(tokens)


def test_maps_kept_in_the_graph_have_the_gradient_of_a_logit():
    model, images = image_model_and_images()
    with record_attention(model, detach=False) as maps:
        logit = model(images)[:, 1].sum()
    gradients = torch.autograd.grad(logit, maps)
    assert [g.shape for g in gradients] == [m.shape for m in maps]
    assert all(gradient.abs().max() > 0 for gradient in gradients)


def test_the_gradient_of_a_map_is_the_change_of_the_logit_with_it():
    layer, x = layer_and_tokens()
    with record_attention(nn.ModuleDict({"attn": layer}), detach=False) as maps:
        y = layer(x)
    (gradient,) = torch.autograd.grad(y.sum(), maps)
    # the layer is linear in its weights A: values are A v, then projected
    v = layer.qkv(x).chunk(3, dim=-1)[2]
    v = v.unflatten(-1, (layer.num_heads, -1)).transpose(1, 2)
    by_value = layer.proj.weight.sum(0).reshape(layer.num_heads, 1, -1)
    want = (v * by_value).sum(-1)[:, :, None].expand_as(gradient)
    assert_close(gradient, want, **EXACT)


def test_nothing_is_recorded_after_the_block():
    model, images = image_model_and_images()
    with record_attention(model) as maps:
        model(images)
        model(images)
    model(images)
    assert len(maps) == 6 and torch.equal(maps[1], maps[4])
    assert not any(weights.requires_grad for weights in maps)
    assert all(block.attn.maps is None for block in model.blocks)


def test_layers_are_restored_after_an_exception():
    model, images = image_model_and_images()
    with (
        pytest.raises(ValueError, match="one image is"),
        record_attention(model),
    ):
        model(images[0])
    assert all(block.attn.maps is None for block in model.blocks)


def test_an_inner_recording_ends_and_the_outer_goes_on():
    model, images = image_model_and_images()
    with record_attention(model) as outer:
        with record_attention(model) as inner:
            model(images)
        model(images)
    assert len(inner) == len(outer) == 3


def test_a_model_without_attention_is_an_error():
    model = nn.Sequential(nn.Linear(2, 2))
    message = "Sequential doesn't have an attention layer named 'attn'"
    with pytest.raises(ValueError, match=message), record_attention(model):
        pass


class Redefined(nn.Module):
    """Attention as a chapter rewrites it: another class under the same name."""

    def __init__(self):
        super().__init__()
        self.maps = None

    def forward(self, x):
        values, weights = attention(x[:, None], x[:, None], x[:, None])
        if self.maps is not None:
            self.maps.append(weights)
        return values[:, 0]


def test_attention_is_found_by_its_name_not_its_class():
    model, images = image_model_and_images()
    model.blocks[1].attn = Redefined()
    with record_attention(model) as maps:
        model(images)
    assert [tuple(weights.shape) for weights in maps] == [
        (2, 4, 7, 7),
        (2, 1, 7, 7),
        (2, 4, 7, 7),
    ]
