"""The encoder against equations (2) and (3) written out."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.tiny import fill_randomly
from vitedu.model import (
    MLP,
    DropPath,
    Encoder,
    EncoderBlock,
    Standard,
    ViTConfig,
)

# float64, at most 96 terms per sum in another order: measured below 1e-14, and
# 1e-12 leaves room for another BLAS.
EXACT = {"rtol": 0, "atol": 1e-12}
TINY = ViTConfig(
    image_size=8, patch_size=4, embed_dim=32, depth=4, num_heads=4, mlp_dim=96
)


def block_by_equations(x, weights, num_heads, norm_eps, approximate):
    """Equations (2) and (3), head by head, from the tensors of a state_dict."""
    d = x.shape[-1]
    head_dim = d // num_heads

    def norm(z, name):
        scale, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return F.layer_norm(z, (d,), scale, shift, norm_eps)

    def dense(z, name):
        return z @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    q, k, v = dense(norm(x, "norm1"), "attn.qkv").split(d, dim=-1)
    heads = []
    for head in range(num_heads):
        at = slice(head * head_dim, (head + 1) * head_dim)
        scores = torch.einsum("bid,bjd->bij", q[..., at], k[..., at])
        heads.append((scores / math.sqrt(head_dim)).softmax(-1) @ v[..., at])
    x = x + dense(torch.cat(heads, dim=-1), "attn.proj")
    hidden = F.gelu(dense(norm(x, "norm2"), "mlp.fc1"), approximate=approximate)
    return x + dense(hidden, "mlp.fc2")


@pytest.mark.parametrize("gelu", ["exact", "tanh"])
@pytest.mark.parametrize("norm_eps", [1e-6, 1e-2])
def test_block_equals_equations_2_and_3(gelu, norm_eps):
    block = EncoderBlock(32, 4, 96, gelu=gelu, norm_eps=norm_eps).double()
    fill_randomly(block)
    x = torch.randn(2, 7, 32, dtype=torch.float64)
    approximate = {"exact": "none", "tanh": "tanh"}[gelu]
    want = block_by_equations(x, block.state_dict(), 4, norm_eps, approximate)
    assert_close(block(x), want, **EXACT)


def test_the_block_of_the_paper_takes_every_field():
    config = replace(TINY, gelu="tanh", norm_eps=1e-3, dropout=0.3)
    block = Standard().build(config, drop_path=0.2)
    assert block.attn.num_heads == 4
    assert block.mlp.fc1.out_features == 96
    assert block.mlp.act.approximate == "tanh"
    assert block.norm1.eps == block.norm2.eps == 1e-3
    assert block.attn.dropout.p == block.mlp.dropout.p == 0.3
    assert block.drop_path.rate == 0.2


def test_tanh_gelu_is_the_authors_formula():
    act = MLP(32, 96, gelu="tanh").act
    z = torch.linspace(-6, 6, 1001, dtype=torch.float64)
    inner = math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)
    assert_close(act(z), 0.5 * z * (1 + torch.tanh(inner)), **EXACT)


def test_dropout_of_the_mlp_acts_after_both_layers():
    torch.manual_seed(0)
    mlp = MLP(32, 96, dropout=0.5)
    x = torch.randn(4, 7, 32)
    whole = mlp.eval()(x)
    dropped = mlp.train()(x)
    kept = dropped != 0
    # were there only the last dropout, what is kept would be exactly doubled
    assert (dropped[kept] - 2 * whole[kept]).abs().max() > 1e-3


def test_drop_path_keeps_or_drops_whole_images():
    torch.manual_seed(0)
    x = torch.rand(400, 3, 8, dtype=torch.float64) + 0.5
    ratio = DropPath(0.25)(x) / x
    assert set(ratio.flatten().round(decimals=9).tolist()) == {
        0.0,
        round(4 / 3, 9),
    }
    assert torch.equal(ratio.amin((1, 2)) > 0, ratio.amax((1, 2)) > 0)


def test_drop_path_keeps_the_mean():
    torch.manual_seed(0)
    ones = torch.ones(20_000, 1, 1)
    # sd of the mean is sqrt(0.25 / 0.75 / 20000) = 0.0041: 0.02 is 4.9 sd,
    # alarm 1e-6
    assert DropPath(0.25)(ones).mean().item() == pytest.approx(1, abs=0.02)


def test_drop_path_is_off_in_evaluation_and_at_rate_zero():
    x = torch.randn(50, 3, 8)
    assert DropPath(0.9).eval()(x) is x
    assert DropPath(0.0).train()(x) is x


def test_drop_path_leaves_a_whole_branch_out_of_a_block():
    torch.manual_seed(0)
    block = EncoderBlock(32, 4, 96, drop_path=0.5)
    x = torch.randn(1, 7, 32).expand(200, -1, -1)
    outputs = {tuple(row) for row in block.train()(x)[:, 0].tolist()}
    # neither branch, one, the other, both; to miss one of them has probability
    # 4e-25
    assert len(outputs) == 4
    assert tuple(x[0, 0].tolist()) in outputs


def test_drop_path_rises_linearly_from_zero_to_the_last_block():
    rates = [
        block.drop_path.rate for block in Encoder(replace(TINY, drop_path=0.3))
    ]
    # float32 steps
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3], abs=1e-7)
    assert rates[0] == 0


def test_a_part_of_the_encoder_is_its_own_blocks():
    encoder = Encoder(TINY).double()
    part = encoder[1:3]
    assert [*part] == [encoder[1], encoder[2]]
    x = torch.randn(2, 7, 32, dtype=torch.float64)
    assert torch.equal(part(x), encoder[2](encoder[1](x)))
