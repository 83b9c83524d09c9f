"""Number formats: what is computed in them, and what a scaled loss does."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitedu.model import ViT, ViTConfig
from vitedu.train.config import CHOICES
from vitedu.train.precision import PRECISIONS, build_precision, clip

CPU = torch.device("cpu")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
TINY = ViTConfig(
    image_size=8,
    patch_size=4,
    in_channels=1,
    num_classes=3,
    embed_dim=8,
    depth=1,
    num_heads=2,
    mlp_dim=16,
)
# 65536 is a float16 scaler's first scale: a power of two, so that scaling and
# unscaling change no bit
FIRST_SCALE = 2.0**16


def one_weight(value=1.0, fused=True):
    """A layer with one weight and plain SGD of rate 1: the step is the gradient."""
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, value)
    return layer, torch.optim.SGD(layer.parameters(), lr=1.0, fused=fused)


@pytest.mark.parametrize("name", PRECISIONS)
def test_the_forward_pass_is_in_the_named_format(name):
    precision, model = build_precision(name, CPU), ViT(TINY)
    with precision.autocast():
        assert model(torch.randn(2, 1, 8, 8)).dtype == DTYPES[name]


@pytest.mark.parametrize("name", PRECISIONS)
def test_weights_and_their_gradients_are_float32(name):
    precision, model = build_precision(name, CPU), ViT(TINY)
    with precision.autocast():
        logits = model(torch.randn(2, 1, 8, 8))
    precision.backward(logits.float().sum())
    for parameter in model.parameters():
        assert parameter.dtype == parameter.grad.dtype == torch.float32


@pytest.mark.parametrize("name", PRECISIONS)
def test_outside_the_context_nothing_is_cast(name):
    precision, layer = build_precision(name, CPU), nn.Linear(2, 2)
    with precision.autocast():
        pass
    assert layer(torch.ones(1, 2)).dtype == torch.float32


@pytest.mark.parametrize("name", PRECISIONS)
def test_a_step_moves_by_the_gradient_and_clears_it(name):
    precision = build_precision(name, CPU)
    layer, optimizer = one_weight()
    precision.backward((3.0 * layer.weight).sum())
    precision.update(optimizer, None)
    assert layer.weight.item() == 1.0 - 3.0
    assert layer.weight.grad is None or layer.weight.grad.item() == 0.0


@pytest.mark.parametrize("name", PRECISIONS)
def test_gradients_of_several_parts_add_up(name):
    precision = build_precision(name, CPU)
    layer, optimizer = one_weight()
    for factor in (1.0, 2.0, 4.0):
        precision.backward((factor * layer.weight).sum())
    precision.update(optimizer, None)
    assert layer.weight.item() == 1.0 - 7.0


@pytest.mark.parametrize("name", PRECISIONS)
def test_clipping_scales_the_true_gradient_to_the_norm(name):
    precision = build_precision(name, CPU)
    layer, optimizer = one_weight()
    precision.backward((3.0 * layer.weight).sum())
    norm = precision.update(optimizer, 0.5)
    assert norm.item() == 3.0
    # clip_grad_norm_ divides by the norm + 1e-6
    assert layer.weight.item() == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("name", PRECISIONS)
def test_a_gradient_within_the_norm_is_left_alone(name):
    precision = build_precision(name, CPU)
    layer, optimizer = one_weight()
    precision.backward((0.25 * layer.weight).sum())
    assert precision.update(optimizer, 0.5).item() == 0.25
    assert layer.weight.item() == 0.75


@pytest.mark.parametrize("name", PRECISIONS)
def test_without_clipping_no_norm_is_computed(name):
    precision = build_precision(name, CPU)
    layer, optimizer = one_weight()
    precision.backward(layer.weight.sum())
    assert precision.update(optimizer, None) is None


def test_the_norm_is_that_of_all_groups_together():
    weights = [nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))]
    for weight, gradient in zip(weights, (3.0, 4.0), strict=True):
        weight.grad = torch.tensor([gradient])
    groups = [{"params": [weight]} for weight in weights]
    assert clip(torch.optim.SGD(groups, lr=1.0), 1.0).item() == 5.0
    # clip_grad_norm_ divides by the norm + 1e-6
    assert [w.grad.item() for w in weights] == pytest.approx(
        [0.6, 0.8], abs=1e-6
    )


def test_float16_keeps_gradients_too_small_for_it():
    # 2^-26 is zero in float16, whose smallest number is 2^-24
    tiny = 2.0**-26
    layer, optimizer = one_weight(value=0.0)
    precision = build_precision("fp16", CPU)
    with precision.autocast():
        out = layer(torch.full((1, 1), 1.0))
    precision.backward(out.float().sum() * tiny)
    precision.update(optimizer, None)
    assert layer.weight.item() == -tiny


def test_bfloat16_does_not_scale():
    layer, _ = one_weight()
    build_precision("bf16", CPU).backward(layer.weight.sum())
    assert layer.weight.grad.item() == 1.0


@pytest.mark.parametrize("max_norm", [None, 1.0])
@pytest.mark.parametrize("fused", [True, False])
def test_a_step_whose_gradient_overflows_is_skipped_and_the_scale_halved(
    max_norm, fused
):
    layer, optimizer = one_weight(fused=fused)
    precision = build_precision("fp16", CPU)
    precision.backward((1e38 * layer.weight).sum())
    precision.update(optimizer, max_norm)
    assert layer.weight.item() == 1.0
    assert precision.scaler.get_scale() == FIRST_SCALE / 2


def test_a_skipped_step_leaves_no_gradient_behind():
    layer, optimizer = one_weight()
    precision = build_precision("fp16", CPU)
    precision.backward((1e38 * layer.weight).sum())
    precision.update(optimizer, None)
    precision.backward((2.0 * layer.weight).sum())
    precision.update(optimizer, None)
    assert layer.weight.item() == -1.0


def test_a_skipped_step_leaves_the_moments_of_adam_alone():
    layer, _ = one_weight()
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    precision = build_precision("fp16", CPU)
    precision.backward(layer.weight.sum())
    precision.update(optimizer, None)
    before = [value.clone() for value in optimizer.state[layer.weight].values()]
    precision.backward((1e38 * layer.weight).sum())
    precision.update(optimizer, None)
    for value, old in zip(
        optimizer.state[layer.weight].values(), before, strict=True
    ):
        assert_close(value, old, rtol=0, atol=0)


def test_the_scale_and_its_history_come_back():
    layer, optimizer = one_weight()
    first = build_precision("fp16", CPU)
    first.backward((1e38 * layer.weight).sum())
    first.update(optimizer, None)
    first.backward(layer.weight.sum())
    first.update(optimizer, None)
    second = build_precision("fp16", CPU)
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()
    assert second.state_dict()["scale"] == FIRST_SCALE / 2
    assert second.state_dict()["_growth_tracker"] == 1


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_formats_without_a_scale_have_no_state(name):
    precision = build_precision(name, CPU)
    assert precision.state_dict() == {}
    precision.load_state_dict({})


def test_every_choice_of_a_config_has_its_class():
    assert set(CHOICES["precision"]) == set(PRECISIONS)
