"""Budgets of ResNets and hybrids: the paper's counts, and a step's memory."""

import weakref
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vitedu.budget import (
    flops,
    macs,
    memory,
    parameters,
    training_flops,
)
from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig, vit_config
from vitedu.model.hybrid import Hybrid
from vitedu.model.relative import Relative
from vitedu.model.resnet import ResNet, ResNetConfig, resnet_config

pytestmark = pytest.mark.slow  # large networks, built on no device

# 1,000 classes: weights of bit-v1 and of bit-v2, GMAC of bit-v1 at 224 as
# printed
TABLE = {
    "R50x1": (25_557_032, 25_549_352, "4.09"),
    "R50x2": (98_004_072, 97_988_712, "16.12"),
    "R101x1": (44_549_160, 44_541_480, "7.80"),
    "R152x1": (60_192_808, 60_185_128, "11.51"),
    "R152x2": (236_350_568, 236_335_208, "45.81"),
    "R200x3": (568_656_040, 568_633_000, "134.35"),
    "R152x4": (936_563_944, 936_533_224, "182.78"),
}
HYBRID = ViTConfig(
    image_size=(37, 48),
    patch_size=1,
    num_classes=5,
    embed_dim=32,
    depth=2,
    num_heads=4,
    mlp_dim=48,
    stem=Hybrid((2, 1), width=0.5),
)
RESNET = ResNetConfig(
    layers=(2, 1), width=0.5, num_classes=5, image_size=(37, 48)
)
SHAPES = {
    "hybrid": HYBRID,
    "hybrid-root": replace(
        HYBRID, stem=Hybrid((), width=0.5), patch_size=(5, 2)
    ),
    "hybrid-wide-encoder": replace(HYBRID, embed_dim=256, mlp_dim=1024),
    "bit-v2": RESNET,
    "bit-v1": replace(RESNET, family="bit-v1", pool_padding=None),
    "grey": replace(RESNET, in_channels=1),
    "no-head": replace(RESNET, num_classes=0),
}
small_configs = pytest.mark.parametrize("shape", SHAPES)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def built(config):
    """The model of a configuration, ready."""
    torch.manual_seed(0)
    kind = ResNet if isinstance(config, ResNetConfig) else ViT
    return kind(config).eval()


def images_of(config, batch_size):
    return torch.randn(batch_size, config.in_channels, *config.image_size)


@pytest.mark.parametrize("name", TABLE)
def test_weights_of_the_resnets_are_the_papers(name):
    v1, v2, _ = TABLE[name]
    assert parameters(resnet_config(name)).total == v1
    assert parameters(resnet_config(f"BiT-{name}")).total == v2


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if "50" in name else pytest.mark.slow)
        for name in TABLE
    ],
)
def test_products_of_the_resnets_are_the_papers(name):
    printed = TABLE[name][2]
    assert f"{macs(resnet_config(name)) / 1e9:.2f}" == printed


def test_training_of_a_hybrid_refits_table_6():
    images = 303e6 * 7  # JFT-300M, 7 epochs
    counted = training_flops(vit_config("R50+ViT-B/16")) * images / 1e18
    assert f"{counted:.1f}" == "274.1"


def test_products_of_the_resnets_are_those_of_their_layers():
    # by hand: 7x7 root at half size, then two units and one, at a quarter, an
    # eighth
    config = replace(RESNET, image_size=(32, 32))
    root = 16 * 16 * 32 * 3 * 49
    first = 8 * 8 * (32 * 32 + 32 * 32 * 9 + 32 * 128 + 32 * 128)
    second = 8 * 8 * (128 * 32 + 32 * 32 * 9 + 32 * 128)
    third = 8 * 8 * 128 * 64 + 4 * 4 * (64 * 64 * 9 + 64 * 256 + 128 * 256)
    assert macs(config) == root + first + second + third + 256 * 5
    assert flops(config) == 2 * macs(config)


@small_configs
def test_parts_are_those_of_the_built_model(shape):
    config = SHAPES[shape]
    total, by_part = parameters(config)
    model = built(config)
    assert total == sum(weight.numel() for weight in model.parameters())
    for part, count in by_part.items():
        module = getattr(model, part)
        if isinstance(module, torch.nn.Module):
            assert count == sum(each.numel() for each in module.parameters())


@small_configs
@pytest.mark.parametrize("batch_size", [1, 3])
def test_activations_are_what_autograd_saves(
    shape, batch_size, bytes_saved_for_backward
):
    # Exact on the CPU. 1% for the few bytes another version of a kernel may
    # keep.
    config = SHAPES[shape]
    images = images_of(config, batch_size)
    counted = memory(config, batch_size=batch_size).activations
    saved = bytes_saved_for_backward(built(config), images)
    assert counted == pytest.approx(saved, rel=0.01)


def storages(values):
    return [
        leaf.untyped_storage()
        for leaf in tree_leaves(values)
        if isinstance(leaf, torch.Tensor)
    ]


class LiveBytes(TorchDispatchMode):
    """The most bytes that were alive at once, of what was made inside."""

    def __init__(self):
        super().__init__()
        self.alive, self.peak = {}, 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        known = {storage._cdata for storage in storages((args, kwargs))}
        out = operator(*args, **(kwargs or {}))
        for storage in storages(out):
            key = storage._cdata
            if key not in known and key not in self.alive:
                self.alive[key] = storage.nbytes()
                weakref.finalize(storage, self.alive.pop, key)
        self.peak = max(self.peak, sum(self.alive.values()))
        return out


@small_configs
def test_activations_without_training_are_the_widest_moment(shape):
    config = SHAPES[shape]
    model, images = built(config), images_of(config, 3)
    with torch.inference_mode(), LiveBytes() as live:
        model(images)
    counted = memory(config, batch_size=3, training=False).activations
    # Equal but for attention's row sums: one number a head and token.
    assert counted == pytest.approx(images.nbytes + live.peak, rel=0.02)


@small_configs
def test_bytes_of_half_as_wide_numbers_are_about_half(shape):
    # The places that the pool remembers are wider, and bit-v2 standardises its
    # filters in float32; in networks as small as these, filters are most of
    # what is held.
    whole, half = (
        memory(SHAPES[shape], batch_size=2, dtype=dtype)
        for dtype in (torch.float32, torch.bfloat16)
    )
    assert half.weights == whole.weights // 2
    assert 0.5 <= half.activations / whole.activations < 0.9


@pytest.mark.parametrize(
    "changes",
    [{"position": Relative()}, {"pool": "map"}],
    ids=["relative", "map"],
)
def test_memory_of_what_no_formula_describes_is_refused(changes):
    with pytest.raises(UserError, match="measure this model on its device"):
        memory(replace(HYBRID, **changes), batch_size=1)


def test_products_of_what_no_formula_describes_are_counted():
    config = vit_config("ViT-Ti/16", depth=1, image_size=32)
    mapped = replace(config, pool="map")
    d, n, m = 192, 4, 768
    # q and output of one row, k and v of the patches, both products, the MLP
    pool = 2 * d * d + 2 * n * d * d + 2 * n * d + 2 * d * m
    assert macs(mapped) == macs(config) + pool
