"""Initial values against the authors' distributions, tensor by tensor.

The bounds and deviations are those of their code; where VITEDU_GOLDEN is set,
also against what their code drew.
"""

import math

import pytest
import torch
from torch import nn

from vitedu import vit
from vitedu.model import initialise, lecun_normal

# One block; 64 pixels in patches of 16 leave 17 tokens.
SMALL = {"image_size": 64, "depth": 1, "num_classes": 100}


@pytest.fixture(scope="module")
def base():
    """Eight million draws, made once."""
    torch.manual_seed(0)
    return vit("ViT-B/16", **SMALL, pre_logits=768).requires_grad_(False)


def assert_uniform(weight, bound):
    # Of at least 589,000 uniform draws the largest is below 0.999 of the bound
    # with probability 1e-256; the deviation's own error is 0.06%, 0.4% is 6
    # times that.
    assert weight.abs().max() <= bound * (1 + 1e-6)  # float32
    assert weight.abs().max() > 0.999 * bound
    assert weight.std() == pytest.approx(bound / math.sqrt(3), rel=0.004)
    assert weight.mean().abs() < 6 * weight.std() / math.sqrt(weight.numel())


@pytest.mark.parametrize("third", [0, 1, 2])
def test_q_k_and_v_are_xavier_uniform_each_on_its_own(base, third):
    matrix = base.blocks[0].attn.qkv.weight.chunk(3)[third]
    assert_uniform(matrix, 0.0625)  # sqrt(3 / 768)


def test_attention_output_is_xavier_uniform(base):
    assert_uniform(base.blocks[0].attn.proj.weight, 0.0625)


@pytest.mark.parametrize("layer", ["fc1", "fc2"])
def test_mlp_kernels_are_xavier_uniform(base, layer):
    weight = base.blocks[0].mlp.get_submodule(layer).weight
    bound = math.sqrt(6 / (768 + 3072))
    assert f"{bound:.4f}" == "0.0395"
    assert_uniform(weight, bound)


@pytest.mark.parametrize("layer", ["fc1", "fc2"])
def test_mlp_biases_are_normal_with_a_deviation_of_one_millionth(base, layer):
    bias = base.blocks[0].mlp.get_submodule(layer).bias
    # of 768 draws the deviation's own error is 2.6%: 13% is 5 times that, alarm
    # 6e-7
    assert bias.std() == pytest.approx(1e-6, rel=0.13)
    assert bias.mean().abs() < 6e-6 / math.sqrt(len(bias))


@pytest.mark.parametrize("name", ["attn.qkv", "attn.proj"])
def test_attention_biases_are_zero(base, name):
    assert not base.blocks[0].get_submodule(name).bias.any()


def test_patch_embedding_is_lecun_normal_over_a_patch(base):
    proj = base.patch_embed.proj
    assert not proj.bias.any()
    std = 1 / math.sqrt(16 * 16 * 3)
    assert f"{std:.4f}" == "0.0361"
    # 590,000 draws: the deviation's own error is below 0.1%
    assert proj.weight.std() == pytest.approx(std, rel=0.01)
    # cut at two deviations of the normal before cutting: 2 / 0.87963
    assert 2.2 * std < proj.weight.abs().max() <= 2.2738 * std


def test_pre_logits_are_lecun_normal_with_zero_bias(base):
    fc = base.pre_logits.fc
    assert not fc.bias.any()
    assert fc.weight.std() == pytest.approx(1 / math.sqrt(768), rel=0.01)
    assert fc.weight.abs().max() <= 2.2738 / math.sqrt(768)


def test_lecun_normal_is_a_truncated_normal():
    torch.manual_seed(0)
    weight = torch.empty(1000, 1000)
    lecun_normal(weight)
    normal = weight * math.sqrt(1000) * 0.87962566103423978  # cut at 2
    # the share within one deviation, of the 95.45% within two: 0.6827 / 0.9545
    share = (normal.abs() < 1).float().mean().item()
    assert share == pytest.approx(0.7152, abs=0.003)  # 6 times its own error


def test_positions_are_normal_with_a_deviation_of_one_fiftieth(base):
    positions = base.pos_embed
    # 13,056 draws: the deviation's own error is 0.6%
    assert positions.std() == pytest.approx(0.02, rel=0.04)
    # not truncated: of so many draws some are above 3 deviations (all below:
    # 5e-16)
    assert positions.abs().max() > 0.06
    class_token = positions[0, 0]
    assert class_token.std() == pytest.approx(0.02, rel=0.16)


def test_class_token_and_head_are_zero(base):
    for weight in (base.cls_token, base.head.weight, base.head.bias):
        assert not weight.any()


def test_norms_are_one_and_zero(base):
    for module in base.modules():
        if isinstance(module, nn.LayerNorm):
            assert torch.equal(module.weight, torch.ones(768))
            assert not module.bias.any()


def test_every_weight_is_set_back_to_an_initial_value():
    fresh, trained = (vit("ViT-Ti/16", **SMALL) for _ in range(2))
    for weight in trained.parameters():
        nn.init.constant_(weight, 7.0)
    for model in (fresh, trained):
        torch.manual_seed(1)
        initialise(model)
    for name, weight in trained.state_dict().items():
        assert torch.equal(weight, fresh.state_dict()[name]), name
