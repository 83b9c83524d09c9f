"""Which weights decay, one step by hand, and the moving average."""

from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.model.test_mae import MAES, MPPS
from tests.train.runs import SHORT, SMALL
from vitedu.budget.meta import bytes_kept
from vitedu.compat import import_timm
from vitedu.model import Hybrid, Patches, Standard, ViT, new_network, resnet
from vitedu.model.position import Learned1D
from vitedu.train.config import Optimizer
from vitedu.train.optimizer import (
    OPTIMIZERS,
    MovingAverage,
    build_optimizer,
    freeze,
    layers_of,
    optimizer_of,
    parameter_groups,
    set_lr,
)
from vitedu.train.precision import build_precision

TINY = replace(SMALL, depth=2, pre_logits=6)
# float64, a dozen operations a step in another order than the fused kernel's
EXACT = {"rtol": 1e-12, "atol": 1e-14}


def config(**fields):
    return replace(SHORT, model=TINY, **fields)


def two_weights():
    """A kernel, which decays, and a bias, which does not, away from zero."""
    torch.manual_seed(0)
    layer = nn.Linear(3, 2).double()
    nn.init.normal_(layer.bias)
    return layer


def gradients(steps):
    """Drawn gradients of kernel and bias, step by step."""
    torch.manual_seed(1)
    shapes = ((2, 3), (2,))
    return [
        [torch.randn(shape, dtype=torch.float64) for shape in shapes]
        for _ in range(steps)
    ]


def after_steps(layer, steps, **fields):
    """Kernel and bias after a vitedu optimizer took the drawn steps."""
    optimizer = optimizer_of(layer, config(**fields))
    for kernel, bias in gradients(steps):
        layer.weight.grad, layer.bias.grad = kernel.clone(), bias.clone()
        optimizer.step()
    return layer.weight.detach(), layer.bias.detach()


def adam_by_hand(weight, grads, *, lr, betas, decay):
    """Kingma and Ba's algorithm 1, decay as Loshchilov and Hutter's line 12."""
    first, second = torch.zeros_like(weight), torch.zeros_like(weight)
    for count, grad in enumerate(grads, start=1):
        first = betas[0] * first + (1 - betas[0]) * grad
        second = betas[1] * second + (1 - betas[1]) * grad**2
        first_hat = first / (1 - betas[0] ** count)
        second_hat = second / (1 - betas[1] ** count)
        step = lr * first_hat / (second_hat.sqrt() + 1e-8) + lr * decay * weight
        weight = weight - step
    return weight


def sgd_by_hand(weight, grads, *, lr, momentum, decay):
    """Heavy ball on the gradient of the loss + decay / 2 times the square."""
    velocity = torch.zeros_like(weight)
    for grad in grads:
        velocity = momentum * velocity + grad + decay * weight
        weight = weight - lr * velocity
    return weight


def names_of(group, model):
    return {
        name
        for name, parameter in model.named_parameters()
        if any(parameter is other for other in group["params"])
    }


@pytest.mark.parametrize("pool", ["token", "mean"])
def test_only_kernels_of_dense_and_convolution_decay(pool):
    model = ViT(replace(TINY, pool=pool))
    kernels, others = parameter_groups(model, weight_decay=0.1)
    layers = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
    assert names_of(kernels, model) == {
        "patch_embed.proj.weight",
        *(f"blocks.{i}.{layer}.weight" for i in range(2) for layer in layers),
        "pre_logits.fc.weight",
        "head.weight",
    }
    assert (kernels["name"], kernels["weight_decay"]) == ("kernels", 0.1)
    assert (others["name"], others["weight_decay"]) == ("others", 0.0)
    assert kernels["lr_scale"] == others["lr_scale"] == 1.0


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize(
    ("name", "decay"), [("adamw", 0.2), ("adam", 0.0), ("sgd", 0.2)]
)
def test_an_optimizer_equals_the_formula(name, decay, steps):
    layer, drawn = two_weights(), gradients(steps)
    before = [each.detach().clone() for each in layer.parameters()]
    lr, betas = 0.03, (0.8, 0.95)
    ours = after_steps(
        layer, steps, optimizer=name, lr=lr, betas=betas, weight_decay=decay
    )
    # the kernel decays, the bias does not
    for number, own_decay in enumerate((decay, 0.0)):
        weight, grads = before[number], [each[number] for each in drawn]
        if name == "sgd":
            want = sgd_by_hand(
                weight, grads, lr=lr, momentum=betas[0], decay=own_decay
            )
        else:
            want = adam_by_hand(
                weight, grads, lr=lr, betas=betas, decay=own_decay
            )
        assert_close(ours[number], want, **EXACT)


def test_every_choice_of_a_config_is_built():
    kinds = [
        type(optimizer_of(two_weights(), config(optimizer=name)))
        for name in get_args(Optimizer)
    ]
    assert kinds == [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD]
    assert list(get_args(Optimizer)) == list(OPTIMIZERS)


def test_a_group_learns_at_its_share_of_the_rate():
    # stem, two blocks, what is behind them; kernels and others of each
    want = [0.1, 0.1, 0.2, 0.2, 0.4, 0.4, 0.8, 0.8]
    optimizer = build_optimizer(ViT(TINY), lr=0.8, layer_decay=0.5)
    assert [group["lr"] for group in optimizer.param_groups] == want
    optimizer = optimizer_of(ViT(TINY), config(layer_decay=0.5))
    set_lr(optimizer, 0.8)
    assert [group["lr"] for group in optimizer.param_groups] == want


def test_layers_are_numbered_from_stem_to_head():
    model = ViT(replace(TINY, position=Learned1D(at="layers")))
    groups = parameter_groups(model, weight_decay=0.1, layer_decay=0.5)
    kernels = {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"}
    others = {f"{layer}.bias" for layer in (*kernels, "norm1", "norm2")}
    others |= {"norm1.weight", "norm2.weight", "pos_embed"}
    want = [{"patch_embed.proj.weight"}, {"patch_embed.proj.bias", "cls_token"}]
    for i in range(2):
        want.append({f"blocks.{i}.{layer}.weight" for layer in kernels})
        want.append({f"blocks.{i}.{name}" for name in others})
    want[-1] |= {"norm.weight", "norm.bias"}  # with the last block
    want.append({"pre_logits.fc.weight", "head.weight"})
    want.append({"pre_logits.fc.bias", "head.bias"})
    assert [names_of(group, model) for group in groups] == want


def scale_of(model, name):
    """The share of the rate at which a parameter learns."""
    groups = parameter_groups(model, weight_decay=0.1, layer_decay=0.5)
    (scale,) = [x["lr_scale"] for x in groups if name in names_of(x, model)]
    return scale


# timm's arguments, and our fields
NORMS = [
    ({}, {}),
    ({"pre_norm": True}, {"stem": Patches(bias=False, norm=True)}),
    ({"init_values": 1e-5}, {"block": Standard(layer_scale=1e-5)}),
]


@pytest.mark.parametrize(("args", "fields"), NORMS)
def test_layer_decay_scales_as_timm_does(args, fields):
    timm = import_timm()
    from timm.optim import param_groups_layer_decay

    ours = ViT(replace(TINY, pre_logits=None, **fields))
    theirs = timm.models.VisionTransformer(
        img_size=8,
        patch_size=4,
        in_chans=1,
        num_classes=3,
        embed_dim=8,
        depth=2,
        num_heads=2,
        mlp_ratio=2.0,
        **args,
    )
    scales = {
        id(parameter): group["lr_scale"]
        for group in param_groups_layer_decay(theirs, 0.1, layer_decay=0.5)
        for parameter in group["params"]
    }
    for name, parameter in theirs.named_parameters():
        assert scale_of(ours, name) == scales[id(parameter)], name


def test_the_norm_of_the_mean_learns_with_the_last_block():
    model = ViT(replace(TINY, pool="mean_norm", pre_logits=None))
    assert scale_of(model, "fc_norm.weight") == 0.5
    assert scale_of(model, "blocks.1.norm2.weight") == 0.5
    freeze(model, 2)
    assert model.fc_norm.weight.requires_grad


def test_a_resnet_has_a_layer_for_each_unit():
    model = resnet("BiT-R50x1", layers=(1, 2), width=0.5, num_classes=3)
    units = ("stages.0.blocks.0", "stages.1.blocks.0", "stages.1.blocks.1")
    # stem, three units and the norm with the last of them, head
    assert scale_of(model, "stem.conv.weight") == 0.5**4
    for number, unit in enumerate(units):
        assert scale_of(model, f"{unit}.conv1.weight") == 0.5 ** (3 - number)
    assert scale_of(model, "norm.weight") == 0.5
    assert scale_of(model, "head.fc.weight") == 1.0


def test_the_resnet_of_a_hybrid_is_its_stem():
    fields = {"image_size": 32, "patch_size": 1, "in_channels": 3}
    model = ViT(replace(TINY, stem=Hybrid((1,)), **fields))
    names = [
        name for name, _ in model.patch_embed.named_parameters("patch_embed")
    ]
    assert len(names) > 10
    assert {scale_of(model, name) for name in names} == {0.5**3}


@pytest.mark.parametrize("layer_decay", [1.0, 0.75])
def test_frozen_weights_are_in_no_group(layer_decay):
    model = ViT(TINY)
    for parameter in model.blocks.parameters():
        parameter.requires_grad_(False)
    groups = parameter_groups(model, weight_decay=0.1, layer_decay=layer_decay)
    inside = {id(p) for group in groups for p in group["params"]}
    assert inside == {id(p) for p in model.parameters() if p.requires_grad}
    assert all(group["params"] for group in groups)


@pytest.mark.parametrize(
    ("what", "learning"),
    [
        (0, {"blocks", "norm", "pre_logits", "head"}),
        (1, {"blocks", "norm", "pre_logits", "head"}),
        (2, {"norm", "pre_logits", "head"}),
        ("backbone", {"head"}),
    ],
)
def test_what_is_frozen_is_named_or_counted_in_blocks(what, learning):
    model = ViT(TINY)
    frozen = freeze(model, what)
    named = dict(model.named_parameters())
    assert {id(x) for x in frozen} == {
        id(x) for x in named.values() if not x.requires_grad
    }
    free = {name for name, x in named.items() if x.requires_grad}
    assert {name.partition(".")[0] for name in free} == learning
    if what == 1:
        assert not any(name.startswith("blocks.0") for name in free)
    # what learned nothing before isn't named
    assert freeze(model, what) == []


def test_frozen_weights_keep_nothing_for_the_backward_pass():
    model = ViT(TINY)
    images = torch.zeros(3, 1, 8, 8)
    kept = [bytes_kept(model, images)]
    for what in (1, 2, "backbone"):
        freeze(model, what)
        kept.append(bytes_kept(model, images))
    assert kept == sorted(kept, reverse=True) and len({*kept}) == 4
    # the images, and what the head multiplies
    assert kept[-1] == images.nbytes + 4 * 3 * TINY.pre_logits


@pytest.mark.parametrize("layer_decay", [1.0, 0.75])
@pytest.mark.parametrize("kind", [replace(TINY, pool="map"), MAES, MPPS])
def test_every_parameter_is_in_exactly_one_group_of_a_layer(kind, layer_decay):
    model = new_network(replace(kind, registers=2))
    groups = parameter_groups(model, weight_decay=0.1, layer_decay=layer_decay)
    counts = Counter(id(p) for group in groups for p in group["params"])
    assert counts == Counter(id(p) for p in model.parameters())
    assert set(counts.values()) == {1}
    assert max(layers_of(model).values()) == 3  # behind the norm


def test_a_first_step_that_the_scaler_skips_leaves_no_momentum():
    # PyTorch's fused SGD would go on from whatever the memory held
    layer = two_weights().float()
    start = layer.weight.detach().clone()
    given = config(optimizer="sgd", betas=(0.5, 0.0), lr=1.0)
    optimizer = optimizer_of(layer, given)
    precision = build_precision("fp16", torch.device("cpu"))
    for factor in (1e38, 2.0, 2.0):
        precision.backward(factor * layer.weight.sum() + 0 * layer.bias.sum())
        precision.update(optimizer, None)
    # float32: 2, then 2 + 0.5 * 2
    assert_close(layer.weight.detach(), start - 2.0 - 3.0, rtol=0, atol=1e-5)


@pytest.mark.parametrize("decay", [0.1, 0.9, 0.9999])
def test_moving_average_is_lerp_to_the_last_bit(decay):
    layer = two_weights()
    want = layer.weight.detach().clone()
    average = MovingAverage(layer, decay)
    for count in range(1, 41):
        with torch.no_grad():
            layer.weight.add_(torch.randn_like(layer.weight))
        average.update(layer)
        share = 1.0 - min(decay, (1 + count) / (10 + count))
        want.lerp_(layer.weight.detach(), share)
    assert torch.equal(average.average["weight"], want)


def test_moving_average_covers_buffers():
    layer = nn.BatchNorm1d(2, track_running_stats=True)
    del layer.num_batches_tracked  # a count, of which there is no average
    average = MovingAverage(layer, 0.25)
    layer.running_mean += 1.0
    average.update(layer)
    # the first share of the old is 2 / 11
    assert_close(average.average["running_mean"], torch.full((2,), 9 / 11))


def test_moving_average_goes_on_from_its_state():
    layer = two_weights()
    first = MovingAverage(layer, 0.9)
    for _ in range(3):
        with torch.no_grad():
            layer.weight.mul_(1.5)
        first.update(layer)
    second = MovingAverage(two_weights(), 0.9)
    second.load_state_dict(first.state_dict())
    for average in (first, second):
        average.update(layer)
    assert torch.equal(first.average["weight"], second.average["weight"])
    assert second.num_updates == 4
    # and is no view of the state
    first.average["weight"].zero_()
    assert second.average["weight"].abs().min() > 0
