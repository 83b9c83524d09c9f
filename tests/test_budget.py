"""Weights and operations against the paper's counts and PyTorch's counter."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.tiny import tiny
from vitedu.budget import (
    datasheet,
    flops,
    macs,
    mfu,
    parameters,
    training_flops,
)
from vitedu.model import (
    NAMES,
    Hybrid,
    Learned1D,
    Patches,
    ResNetConfig,
    Standard,
    new_network,
    resnet_config,
    vit_config,
)

HYBRID = tiny(image_size=(37, 48), patch_size=1, stem=Hybrid((2, 1), 0.5))
RESNET = ResNetConfig(
    layers=(2, 1), width=0.5, num_classes=5, image_size=(37, 48)
)
# small networks; each of the first changes one term of the formulas
SHAPES = {
    "plain": tiny(),
    "three-blocks": tiny(depth=3),
    "narrow-mlp": tiny(mlp_dim=16),
    "grey": tiny(in_channels=1),
    "pre-logits": tiny(pre_logits=24),
    "no-head": tiny(num_classes=0),
    "pre-logits-no-head": tiny(num_classes=0, pre_logits=24),
    "mean": tiny(pool="mean", class_token=False, pre_logits=24),
    "map": tiny(pool="map", registers=2),
    "mean-norm": tiny(pool="mean_norm", registers=2),
    "clip": tiny(stem=Patches(bias=False, norm=True), gelu="quick"),
    "dinov2": tiny(
        block=Standard(layer_scale=1e-5), position=Learned1D(prefix=False)
    ),
    "q-k-norm": tiny(block=Standard(qk_norm=True, qkv_bias=False)),
    "swiglu": tiny(block=Standard(swiglu=True)),
    "hybrid": HYBRID,
    "bit-v2": RESNET,
    "bit-v1": replace(RESNET, family="bit-v1", pool_padding=None),
    "resnet-no-head": replace(RESNET, num_classes=0),
}
small_configs = pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)

# 224 px, 1,000 classes, one linear head
TABLE = {
    "ViT-Ti/8": 5_719_720,
    "ViT-Ti/14": 5_694_376,
    "ViT-Ti/16": 5_717_416,
    "ViT-Ti/32": 6_131_560,
    "ViT-S/8": 22_055_272,
    "ViT-S/14": 22_004_584,
    "ViT-S/16": 22_050_664,
    "ViT-S/32": 22_878_952,
    "ViT-B/8": 86_576_872,
    "ViT-B/14": 86_475_496,
    "ViT-B/16": 86_567_656,
    "ViT-B/32": 88_224_232,
    "ViT-L/8": 304_338_920,
    "ViT-L/14": 304_203_752,
    "ViT-L/16": 304_326_632,
    "ViT-L/32": 306_535_400,
    "ViT-H/8": 632_214_760,
    "ViT-H/14": 632_045_800,
    "ViT-H/16": 632_199_400,
    "ViT-H/32": 634_960_360,
}

I21K = 21_843
OTHER_COUNTS = [
    ("ViT-B/16", {"image_size": 384}, 86_859_496),
    ("ViT-L/16", {"image_size": 512}, 305_174_504),
    ("ViT-H/14", {"image_size": 518}, 633_470_440),
    ("ViT-B/16", {"num_classes": 0}, 85_798_656),
    ("ViT-B/16", {"pool": "mean", "class_token": False}, 86_566_120),
    ("ViT-B/16", {"num_classes": I21K}, 102_595_923),
    ("ViT-B/16", {"num_classes": I21K, "pre_logits": 768}, 103_186_515),
    ("ViT-L/16", {"num_classes": I21K, "pre_logits": 1024}, 326_740_307),
    ("ViT-H/14", {"num_classes": I21K, "pre_logits": 1280}, 660_385_363),
    ("ViT-B/16", {"pre_logits": 768}, 87_158_248),
    (
        "ViT-Ti/16",
        {"patch_size": 4, "image_size": 32, "num_classes": 10},
        5_362_762,
    ),
]

# Multiply-adds in billions, to the digits that are printed in tables. (L/16 at
# 224 is 61.5547; tables that count the class token as a patch print 61.56.)
GMACS = [
    ("ViT-Ti/16", 224, "1.25"),
    ("ViT-S/16", 224, "4.60"),
    ("ViT-B/8", 224, "78.15"),
    ("ViT-B/16", 224, "17.56"),
    ("ViT-B/32", 224, "4.41"),
    ("ViT-L/16", 224, "61.55"),
    ("ViT-L/32", 224, "15.38"),
    ("ViT-H/14", 224, "167.3"),
    ("ViT-Ti/16", 384, "4.68"),
    ("ViT-B/16", 384, "55.48"),
    ("ViT-B/32", 384, "13.04"),
    ("ViT-L/16", 384, "191.1"),
    ("ViT-L/32", 384, "45.28"),
    ("ViT-L/16", 512, "361.99"),
    ("ViT-H/14", 518, "1016.7"),
]

# 1,000 classes: weights of bit-v1 and of bit-v2, GMAC of bit-v1 at 224 as
# printed
RESNETS = {
    "R50x1": (25_557_032, 25_549_352, "4.09"),
    "R50x2": (98_004_072, 97_988_712, "16.12"),
    "R101x1": (44_549_160, 44_541_480, "7.80"),
    "R152x1": (60_192_808, 60_185_128, "11.51"),
    "R152x2": (236_350_568, 236_335_208, "45.81"),
    "R200x3": (568_656_040, 568_633_000, "134.35"),
    "R152x4": (936_563_944, 936_533_224, "182.78"),
}


def test_every_name_has_an_expected_count():
    assert set(TABLE) == set(NAMES)


@pytest.mark.parametrize("name", TABLE)
def test_parameters_of_the_named_models(name):
    assert parameters(vit_config(name)).total == TABLE[name]


@pytest.mark.parametrize(("name", "fields", "count"), OTHER_COUNTS)
def test_parameters_of_other_sizes_and_heads(name, fields, count):
    assert parameters(vit_config(name, **fields)).total == count


@pytest.mark.parametrize(("name", "image_size", "printed"), GMACS)
def test_macs_of_the_named_models_as_printed(name, image_size, printed):
    decimals = len(printed.split(".")[1])
    counted = macs(vit_config(name, image_size=image_size))
    assert f"{counted / 1e9:.{decimals}f}" == printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "epochs", "exaflops"),
    [
        ("ViT-B/32", 7, "56.1"),
        ("ViT-B/16", 7, "223.5"),
        ("ViT-L/32", 7, "195.7"),
        ("ViT-L/16", 7, "783.3"),
        ("ViT-L/16", 14, "1566.7"),
        ("ViT-H/14", 14, "4258"),
        ("R50+ViT-B/16", 7, "274.1"),
    ],
)
def test_training_flops_refit_table_6(name, epochs, exaflops):
    decimals = len(exaflops.partition(".")[2])
    images = 303e6 * epochs  # JFT-300M
    counted = training_flops(vit_config(name)) * images / 1e18
    assert f"{counted:.{decimals}f}" == exaflops


@pytest.mark.slow  # large networks, on no device
@pytest.mark.parametrize("name", RESNETS)
def test_weights_and_products_of_the_resnets_are_the_papers(name):
    v1, v2, printed = RESNETS[name]
    assert parameters(resnet_config(name)).total == v1
    assert parameters(resnet_config(f"BiT-{name}")).total == v2
    assert f"{macs(resnet_config(name)) / 1e9:.2f}" == printed


@small_configs
def test_parts_are_those_of_the_built_model(config):
    total, by_part = parameters(config)
    model = new_network(config)
    assert total == sum(weight.numel() for weight in model.parameters())
    for part, count in by_part.items():
        built = getattr(model, part)
        if isinstance(built, torch.nn.Module):
            built = sum(each.numel() for each in built.parameters())
        else:
            built = 0 if built is None else built.numel()
        assert count == built, part


def counted_by_torch(config, device="meta", backward=False):
    with torch.device(device):
        model = new_network(config)
        images = torch.empty(1, config.in_channels, *config.image_size)
    with FlopCounterMode(display=False) as counter:
        logits = model(images)
        if backward:
            logits.sum().backward()
    return counter.get_total_flops()


@pytest.mark.slow
@small_configs
def test_flops_equal_torchs_counter_on_the_meta_device(config):
    assert flops(config) == counted_by_torch(config)


@pytest.mark.parametrize(
    "name",
    ["ViT-Ti/16", "ViT-B/32", pytest.param("ViT-H/14", marks=pytest.mark.slow)],
)
def test_flops_of_named_models_equal_torchs_counter(name):
    assert flops(vit_config(name)) == counted_by_torch(vit_config(name))


def test_training_flops_are_torchs_count_plus_the_gradient_of_the_pixels():
    # three times forward includes a gradient of the images, which nobody asks
    # for
    config = tiny()
    stem = 2 * config.num_patches * (4 * 4 * 3) * config.embed_dim
    counted = counted_by_torch(config, backward=True)
    assert training_flops(config) == counted + stem


def test_products_of_the_resnets_are_those_of_their_layers():
    # by hand: 7x7 root at half size, then two units and one, at a quarter, an
    # eighth
    root = 16 * 16 * 32 * 3 * 49
    first = 8 * 8 * (32 * 32 + 32 * 32 * 9 + 32 * 128 + 32 * 128)
    second = 8 * 8 * (128 * 32 + 32 * 32 * 9 + 32 * 128)
    third = 8 * 8 * 128 * 64 + 4 * 4 * (64 * 64 * 9 + 64 * 256 + 128 * 256)
    want = root + first + second + third + 256 * 5
    assert macs(replace(RESNET, image_size=(32, 32))) == want


def test_products_of_attention_pooling_are_counted():
    config = vit_config("ViT-Ti/16", depth=1, image_size=32)
    d, n, m = 192, 4, 768
    # q and output of one row, k and v of the patches, both products, the MLP
    pool = 2 * d * d + 2 * n * d * d + 2 * n * d + 2 * d * m
    assert macs(replace(config, pool="map")) == macs(config) + pool


def test_utilisation_is_the_share_of_a_ceiling():
    config = vit_config("ViT-B/16")
    # by hand: 17.56 GMAC forward, three times that in training, two operations
    # each
    assert mfu(config, 1000, 6 * 17.5637e12 * 4) == pytest.approx(
        0.25, rel=1e-4
    )
    trained = mfu(config, 1000, 1e15)
    seen = mfu(config, 1000, 1e15, training=False)
    assert trained == pytest.approx(3 * seen)


@pytest.mark.parametrize(
    ("name", "precision", "tera"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989.5),
        ("NVIDIA H100 PCIe", "bf16", 756),
        ("NVIDIA H200", "tf32", 494.7),
        ("NVIDIA A100-SXM4-40GB", "bf16", 312),
        ("Tesla T4", "fp16", 65),
        ("Tesla T4", "bf16", None),
        ("Tesla V100-SXM2-16GB", "fp16", 125),
        ("Tesla V100-PCIE-16GB", "fp16", None),
        ("NVIDIA L4", "bf16", 121),
        ("NVIDIA L40S", "bf16", None),
        ("NVIDIA H100 NVL", "bf16", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "bf16", None),
    ],
)
def test_the_data_sheet_is_found_by_the_devices_name(name, precision, tera):
    expected = None if tera is None else tera * 1e12
    assert datasheet(name, precision) == expected
