"""Both ResNets against the authors' outputs, timm and their own definitions."""

import math
from dataclasses import fields, replace

import pytest
import torch
from torch.testing import assert_close

import tests.tiny
from tests.tiny import random_tensors
from vitedu.compat import import_timm
from vitedu.model.convolution import (
    SamePool,
    same_padding,
    standardise,
    standardise_bit,
)
from vitedu.model.resnet import (
    RESNETS,
    ResNet,
    ResNetConfig,
    resnet,
    resnet_config,
)

TINY = ResNetConfig(layers=(2, 1), width=0.5, num_classes=5)
FAMILIES = ("bit-v2", "bit-v1")
both_families = pytest.mark.parametrize("family", FAMILIES)
# float64; up to a few thousand terms per sum in another order: measured below
# 1e-13
EXACT = {"rtol": 0, "atol": 1e-11}

# Units of the two forms side by side: their convolution and their epsilons.
FORMS = [
    (standardise, lambda var: var.sqrt() + 1e-5),
    (standardise_bit, lambda var: (var + 1e-10).sqrt()),
]
both_forms = pytest.mark.parametrize(("form", "divisor"), FORMS)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def random_model(**changes):
    config = replace(TINY, pool_padding=None, **changes)
    return tests.tiny.random_model(config).requires_grad_(False)


def random_images(*shape):
    torch.manual_seed(1)
    return torch.randn(*shape, dtype=torch.float64)


# --- padding


@pytest.mark.parametrize(
    ("size", "kernel_size", "stride", "padding"),
    [
        (224, 7, 2, (2, 3)),
        (225, 7, 2, (3, 3)),
        (112, 3, 2, (0, 1)),
        (113, 3, 2, (1, 1)),
        (56, 3, 1, (1, 1)),
        (57, 1, 2, (0, 0)),
        (1, 7, 2, (3, 3)),
    ],
)
def test_same_padding_as_the_authors_code_has_it(
    size, kernel_size, stride, padding
):
    assert same_padding(size, kernel_size, stride) == padding


def test_same_pool_takes_the_largest_and_its_border_never_wins():
    x = torch.tensor([[[[-9.0, -8, -7], [-6, -5, -4], [-3, -2, -1]]]])
    assert SamePool()(x).tolist() == [[[[-5, -4], [-2, -1]]]]
    assert SamePool()(x[:, :, :2, :2]).tolist() == [[[[-5]]]]


# --- standardised filters


@both_forms
def test_each_filter_is_standardised_by_its_formula(form, divisor):
    weight = 1e-4 * random_images(6, 5, 3, 3)  # so small that epsilons show
    for filter, ours in zip(weight, form(weight), strict=True):
        var = (filter - filter.mean()).square().mean()
        assert_close(ours, (filter - filter.mean()) / divisor(var), **EXACT)


@both_forms
def test_a_constant_filter_becomes_zero_and_its_gradient_is_finite(
    form, divisor
):
    weight = torch.full((2, 3, 3, 3), 0.7, requires_grad=True)
    filters = form(weight)
    (filters * torch.randn(2, 3, 3, 3)).sum().backward()
    assert not filters.any()
    assert weight.grad.isfinite().all()


@both_forms
@pytest.mark.parametrize("scale", [1e-1, 1e-3, 1e-4])
def test_small_filters_keep_their_form_in_float16(form, divisor, scale):
    weight = (scale * random_images(4, 32, 3, 3)).half()
    filters = form(weight)
    assert filters.dtype == torch.float16
    # Numbers of up to 4 with 11 bits are 0.002 off; the deviation adds as much.
    # At 1e-4 its own few bits add 2%. (Without float32 inside, BiT's would be
    # infinite.)
    wanted = form(weight.double())
    assert (filters - wanted).abs().max() < 0.01 + 1e-5 / scale


# --- initial values, without their outputs


@both_families
def test_convolutions_start_as_lecun_normal_and_the_head_at_zero(family):
    torch.manual_seed(0)
    model = ResNet(replace(TINY, family=family, pool_padding=None))
    weight = model.stages[1].blocks[0].conv2.weight  # 36,864 draws
    # 6 times the error of the deviation
    assert weight.std().item() == pytest.approx(1 / 24, rel=0.022)
    assert not model.head.fc.weight.any()
    assert not model.head.fc.bias.any()


@both_families
def test_only_the_post_activation_units_start_with_a_last_scale_of_zero(family):
    model = ResNet(replace(TINY, family=family, pool_padding=None))
    for name, weight in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            is_zero = family == "bit-v1" and ".norm3." in name
            assert weight.unique().item() == (0 if is_zero else 1), name


# --- against timm

TIMM_NAMES = {
    "BiT-R50x1": "resnetv2_50x1_bit",
    "BiT-R101x1": "resnetv2_101x1_bit",
}


@pytest.fixture(
    scope="module",
    params=["BiT-R50x1", pytest.param("BiT-R101x1", marks=pytest.mark.slow)],
)
def timm_pair(request):
    """Ours and timm's with the same random weights, in float64; made once."""
    timm, name = import_timm(), request.param
    with torch.device("meta"):
        ours = resnet(name, num_classes=10).eval()
        theirs = timm.create_model(TIMM_NAMES[name], num_classes=10).eval()
    ours.load_state_dict(random_tensors(ours), strict=True, assign=True)
    theirs.load_state_dict(ours.state_dict(), strict=True, assign=True)
    return ours, theirs


def largest_difference(pair, size, timm_epsilon):
    """A share of the largest logit; `timm_epsilon` is under timm's root."""
    ours, theirs = pair
    for module in theirs.modules():
        if type(module).__name__ == "StdConv2d":
            module.eps = timm_epsilon
    images = random_images(1, 3, *size)
    with torch.inference_mode():
        want = theirs(images)
        return ((ours(images) - want).abs().max() / want.abs().max()).item()


@pytest.mark.slow
@pytest.mark.parametrize("size", [(32, 32), (33, 47)])
def test_equals_timm_with_the_authors_epsilon(timm_pair, size):
    # float64, through 50 or 101 layers; measured 1e-13
    assert largest_difference(timm_pair, size, timm_epsilon=1e-10) < 1e-8


@pytest.mark.slow
def test_timms_own_epsilon_moves_the_logits_by_what_the_docstring_says(
    timm_pair,
):
    moved = largest_difference(timm_pair, (32, 32), timm_epsilon=1e-8)
    assert 1e-6 < moved < 1e-4


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if "R26" in name else pytest.mark.slow)
        for name in RESNETS
        if name[-1] in "12"
    ],
)
def test_keys_and_shapes_are_timms(name):
    family, layers, width = RESNETS[name]
    create = import_timm().models.resnetv2.ResNetV2
    with torch.device("meta"):
        ours = resnet(name)
        theirs = create(
            list(layers), width_factor=width, preact=family == "bit-v2"
        )
    shapes = [
        {key: value.shape for key, value in model.state_dict().items()}
        for model in (ours, theirs)
    ]
    assert shapes[0] == shapes[1]


# --- the whole network


@both_families
@pytest.mark.parametrize("size", [(32, 32), (33, 50), (1, 1)])
def test_any_image_size_will_do(family, size):
    model = random_model(family=family)
    features = model.forward_features(random_images(2, 3, *size))
    assert features.shape == (2, 256, *(math.ceil(side / 8) for side in size))
    assert model.forward_head(features).shape == (2, 5)


def test_the_pools_border_counts_in_bit_v2():
    zeros = random_model()
    other = ResNet(replace(zeros.config, pool_padding="-inf")).double()
    other.load_state_dict(zeros.state_dict())
    images = random_images(2, 3, 32, 32)
    assert (zeros(images) - other(images)).abs().max() > 1e-3


# --- configurations


def test_json_holds_every_field_and_the_family():
    written = ResNetConfig().to_json()
    assert list(written) == [field.name for field in fields(ResNetConfig)]
    assert written["family"] == "bit-v2"
    assert written["pool_padding"] == "zeros"
    assert resnet_config("R50x1").to_json()["pool_padding"] == "-inf"
