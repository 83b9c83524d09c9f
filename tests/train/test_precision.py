"""Number formats: what is computed in them, and what a scaled loss does."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from tests.train.runs import SHORT, SMALL
from vitedu.errors import UserError
from vitedu.model import ViT
from vitedu.train.config import Attention, Precision
from vitedu.train.precision import DTYPES as FORMATS
from vitedu.train.precision import (
    KERNELS,
    build_precision,
    concrete,
    float32_products,
    resolve_precision,
)

CPU = torch.device("cpu")
GPU = torch.device("cuda")
# those of the CPU; TF32 is for GPUs alone
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# 65536 is a float16 scaler's first scale: a power of two, so that scaling and
# unscaling change no bit
FIRST_SCALE = 2.0**16


def one_weight(value=1.0, fused=True):
    """A layer with one weight, plain SGD of rate 1: step equals gradient."""
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, value)
    return layer, torch.optim.SGD(layer.parameters(), lr=1.0, fused=fused)


@pytest.mark.parametrize("name", DTYPES)
def test_logits_are_in_the_named_format_weights_and_gradients_not(name):
    precision, model = build_precision(name, CPU), ViT(SMALL)
    with precision.autocast():
        logits = model(torch.randn(2, 1, 8, 8))
    assert logits.dtype == DTYPES[name]
    precision.backward(logits.float().sum())
    for parameter in model.parameters():
        assert parameter.dtype == parameter.grad.dtype == torch.float32


@pytest.mark.parametrize("name", DTYPES)
def test_a_step_moves_by_the_sum_of_gradients_and_clears_it(name):
    precision = build_precision(name, CPU)
    layer, optimizer = one_weight()
    for factor in (1.0, 2.0, 4.0):
        precision.backward((factor * layer.weight).sum())
    assert precision.update(optimizer, None) is None  # no norm of no clipping
    assert layer.weight.item() == 1.0 - 7.0
    assert layer.weight.grad is None or layer.weight.grad.item() == 0.0


@pytest.mark.parametrize("name", DTYPES)
def test_clipping_scales_the_true_gradient_to_the_norm(name):
    precision = build_precision(name, CPU)
    layer, optimizer = one_weight()
    precision.backward((3.0 * layer.weight).sum())
    norm = precision.update(optimizer, 0.5)
    assert norm.item() == 3.0
    # clip_grad_norm_ divides by the norm + 1e-6
    assert layer.weight.item() == pytest.approx(0.5, abs=1e-6)


def test_the_norm_is_that_of_all_groups_together():
    weights = [nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))]
    for weight, gradient in zip(weights, (3.0, 4.0), strict=True):
        weight.grad = torch.tensor([gradient])
    optimizer = torch.optim.SGD([{"params": [x]} for x in weights], lr=1.0)
    norm = build_precision("fp32", CPU).update(optimizer, 1.0)
    assert norm.item() == 5.0
    # clip_grad_norm_ divides by the norm + 1e-6
    moved = [-weight.item() for weight in weights]
    assert moved == pytest.approx([0.6, 0.8], abs=1e-6)


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
    # and no gradient is left behind
    precision.backward((2.0 * layer.weight).sum())
    precision.update(optimizer, None)
    assert layer.weight.item() == -1.0


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
    assert set(get_args(Precision)) == {"auto", *FORMATS}
    assert set(get_args(Attention)) == {"auto", *KERNELS}


@pytest.fixture
def gpu_of(monkeypatch):
    """A GPU of some compute capability, as far as PyTorch tells."""

    def pretend(*capability):
        monkeypatch.setattr(
            torch.cuda, "get_device_capability", lambda device: capability
        )
        return GPU

    return pretend


@pytest.mark.parametrize(
    ("capability", "want"),
    [
        ((6, 1), "fp32"),  # P40: float16 at a 64th of the speed
        ((7, 0), "fp16"),  # V100
        ((7, 5), "fp16"),  # T4
        ((8, 0), "bf16"),  # A100
        ((9, 0), "bf16"),  # H100
        ((12, 0), "bf16"),
    ],
)
def test_auto_is_decided_by_the_capability_of_a_gpu(gpu_of, capability, want):
    assert resolve_precision("auto", gpu_of(*capability)) == want


@pytest.mark.parametrize("kind", ["cpu", "mps"])
def test_other_devices_take_what_is_asked_for_by_name(kind):
    device = torch.device(kind)
    assert resolve_precision("auto", device) == "fp32"
    for name in ("fp32", "bf16", "fp16"):
        assert resolve_precision(name, device) == name
    with pytest.raises(UserError, match=f"is a {kind}; use precision=fp32"):
        resolve_precision("tf32", device)


@pytest.mark.parametrize("name", FORMATS)
def test_a_gpu_from_ampere_on_has_every_precision(gpu_of, name):
    assert resolve_precision(name, gpu_of(8, 0)) == name


@pytest.mark.parametrize(
    ("name", "capability", "sentence"),
    [
        ("bf16", (7, 5), "GPU of capability 7.5; use precision=fp16"),
        ("bf16", (6, 0), "GPU of capability 6.0; use precision=fp32"),
        ("tf32", (7, 0), "GPU of capability 7.0; use precision=fp16"),
    ],
)
def test_what_a_gpu_lacks_is_one_sentence_with_the_remedy(
    gpu_of, name, capability, sentence
):
    with pytest.raises(UserError, match=f"precision={name} needs") as error:
        resolve_precision(name, gpu_of(*capability))
    assert str(error.value).endswith(sentence)


def test_a_configuration_made_concrete_changes_in_its_precision_alone():
    given = replace(SHORT, precision="auto")
    assert concrete(given, CPU) == replace(given, precision="fp32")
    assert concrete(concrete(given, CPU), CPU) == concrete(given, CPU)
    with pytest.raises(UserError, match="precision=tf32 needs a GPU"):
        concrete(replace(given, precision="tf32"), CPU)


def test_a_precision_knows_what_auto_became():
    assert build_precision("auto", CPU).name == "fp32"
    with pytest.raises(UserError, match="precision=tf32 needs a GPU"):
        build_precision("tf32", CPU)


def rounding():
    """What products of float32 matrices, and convolutions, may do on a GPU."""
    matmul = torch.get_float32_matmul_precision()
    return matmul, torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(
    ("tf32", "want"), [(True, ("high", True)), (False, ("highest", False))]
)
def test_products_of_a_gpu_are_rounded_for_a_while(tf32, want):
    # switches of PyTorch that can be set where there is no GPU, too
    before = rounding()
    with float32_products(GPU, tf32=tf32):
        assert rounding() == want
    assert rounding() == before
    with pytest.raises(KeyError), float32_products(GPU, tf32=tf32):
        raise KeyError
    assert rounding() == before


def test_products_of_the_cpu_are_left_alone():
    before = rounding()
    with float32_products(CPU, tf32=True):
        assert rounding() == before


def kernels_of(logits):
    """Whether the CPU's fused attention is in the graph behind `logits`."""
    seen, todo = set(), [logits.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [before for before, _ in node.next_functions]
    return any("FlashAttention" in type(node).__name__ for node in seen)


@pytest.mark.parametrize(
    ("name", "attention", "is_fused"),
    [
        ("fp32", "auto", True),
        ("fp32", "flash", True),
        ("fp32", "math", False),
        ("bf16", "auto", False),  # twice as fast there, backward included
        ("bf16", "flash", True),
        ("bf16", "math", False),
        ("fp16", "math", False),
    ],
)
def test_attention_is_computed_by_the_named_kernel(name, attention, is_fused):
    precision = build_precision(name, CPU, attention)
    with precision.autocast():
        logits = ViT(SMALL)(torch.randn(2, 1, 8, 8))
    assert kernels_of(logits) == is_fused


@pytest.mark.parametrize("attention", ["efficient", "cudnn"])
def test_a_kernel_that_the_device_lacks_is_one_sentence(attention):
    precision, model = build_precision("fp32", CPU, attention), ViT(SMALL)
    with (
        pytest.raises(UserError, match=f"attention={attention}: that kernel"),
        precision.autocast(),
    ):
        model(torch.randn(2, 1, 8, 8))


def test_an_error_that_is_not_the_kernels_stays_what_it_was():
    with (
        pytest.raises(RuntimeError, match="of another kind"),
        build_precision("fp32", CPU, "math").kernels(),
    ):
        raise RuntimeError("of another kind")


@pytest.mark.gpu
@pytest.mark.parametrize("name", FORMATS)
def test_a_gpu_takes_nearly_the_step_of_float32(name):
    torch.manual_seed(0)
    model, images = ViT(SMALL), torch.randn(4, 1, 8, 8)
    nn.init.normal_(model.head.weight)
    want = torch.autograd.grad(model(images).square().sum(), model.parameters())
    model, precision = model.cuda(), build_precision(name, GPU)
    with precision.autocast():
        logits = model(images.cuda())
    precision.backward(logits.float().square().sum())
    scale = precision.scaler.get_scale() if name == "fp16" else 1.0
    off = sum(
        (weight.grad.cpu() / scale - grad).square().sum()
        for weight, grad in zip(model.parameters(), want, strict=True)
    )
    norm = sum(grad.square().sum() for grad in want)
    # 24, 11, 8 and 11 bits of each factor, a few dozen operations deep
    bound = {"fp32": 1e-5, "tf32": 1e-2, "bf16": 5e-2, "fp16": 1e-2}[name]
    assert (off / norm).sqrt() < bound


def test_cudnns_attention_is_only_used_if_it_is_asked_for():
    cuda = torch.backends.cuda
    before = cuda.cudnn_sdp_enabled(), cuda.flash_sdp_enabled()
    with build_precision("fp32", CPU).autocast():
        assert (cuda.cudnn_sdp_enabled(), cuda.flash_sdp_enabled()) == (0, 1)
    with build_precision("fp32", CPU, "cudnn").kernels():
        assert (cuda.cudnn_sdp_enabled(), cuda.flash_sdp_enabled()) == (1, 0)
    assert (cuda.cudnn_sdp_enabled(), cuda.flash_sdp_enabled()) == before


@pytest.mark.gpu
def test_gradients_of_a_gpus_attention_are_finite():
    # where cuDNN's weren't: 64 tokens, all products far below zero
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, 64, 64, device="cuda", dtype=torch.bfloat16)
    q, k = q * 0.1, k * 0.1
    q[..., 0], k[..., 0] = 1.0, -120 * 64**0.5
    q.requires_grad_()
    with build_precision("bf16", GPU).kernels():
        F.scaled_dot_product_attention(q, k, v).sum().backward()
    assert q.grad.isfinite().all()


@pytest.mark.gpu
def test_tf32_rounds_a_product_and_fp32_does_not():
    torch.manual_seed(0)
    a, b = torch.randn(2, 256, 256, device="cuda")
    exact, off = (a.double() @ b.double()), {}
    for name in ("fp32", "tf32"):
        with build_precision(name, GPU).autocast():
            off[name] = (a @ b - exact).abs().max().item()
    # 256 terms, each off by 2^-24 or by 2^-11 of itself
    assert off["fp32"] < 1e-4 < 1e-3 < off["tf32"]


@pytest.mark.gpu
@pytest.mark.parametrize("attention", ["flash", "efficient", "math"])
def test_kernels_of_a_gpu_give_the_same_attention(attention):
    torch.manual_seed(0)
    model = ViT(replace(SMALL, embed_dim=64)).cuda()
    nn.init.normal_(model.head.weight)
    images = torch.randn(4, 1, 8, 8, device="cuda")
    with build_precision("bf16", GPU, attention).autocast():
        logits = model(images).float()
    # bfloat16 keeps 8 bits
    assert_close(logits, model(images), rtol=0.1, atol=0.1)
