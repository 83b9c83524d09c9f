"""What building a network takes, by formula.

Exact for what is built, instant for what cannot be.
"""

import time
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitedu.budget import check_memory, flops, memory, parameters
from vitedu.budget.building import building_bytes, footprint
from vitedu.errors import UserError
from vitedu.model import (
    Axial,
    Hybrid,
    Learned1D,
    Learned2D,
    NoPosition,
    Patches,
    Relative,
    ResNetConfig,
    RoPE,
    SinCos2D,
    Standard,
    ViTConfig,
    new_network,
)
from vitedu.model.config import SEAMS

small = st.integers(1, 3)
PLACES = ["stem", "layers", "shared"]
POSITIONS = [
    NoPosition(),
    RoPE(),
    Relative("layers"),
    Relative("shared"),
    *[kind(at) for kind in (Learned1D, Learned2D, SinCos2D) for at in PLACES],
]
STEMS = [Patches(), Hybrid((), 0.5), Hybrid((1,), 0.5), Hybrid((2, 1), 0.5)]


@st.composite
def vits(draw):
    """Any small ViT that can be built."""
    class_token = draw(st.booleans())
    position = draw(st.sampled_from(POSITIONS))
    in_attention = isinstance(position, Relative | RoPE)
    pools = ["mean", "map", "none"] + ["token"] * class_token
    heads = draw(small)
    return ViTConfig(
        image_size=(8 * draw(small), 8 * draw(small)),
        patch_size=1,
        in_channels=draw(small),
        num_classes=draw(st.integers(0, 3)),
        embed_dim=heads * 4 * draw(st.integers(2, 3)),
        depth=draw(small),
        num_heads=heads,
        mlp_dim=draw(small),
        stem=draw(st.sampled_from(STEMS)),
        position=position,
        block=Standard()
        if in_attention
        else draw(st.sampled_from([Standard(), Axial()])),
        pool=draw(st.sampled_from(pools)),
        class_token=class_token,
        registers=draw(st.integers(0, 2)),
        pre_logits=draw(st.none() | small),
    )


resnets = st.builds(
    ResNetConfig,
    family=st.sampled_from(["bit-v2", "bit-v1"]),
    layers=st.lists(small, min_size=1, max_size=3).map(tuple),
    width=st.sampled_from([0.5, 1.0]),
    num_classes=st.integers(0, 3),
    in_channels=small,
    image_size=st.just(32),
)


def built(config):
    """Bytes of weights, bytes of tables, modules below the network itself."""
    model = new_network(config)
    return (
        sum(weight.nbytes for weight in model.parameters()),
        sum(table.nbytes for table in model.buffers()),
        len(list(model.modules())) - 1,
    )


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=60)
@given(vits() | resnets)
def test_the_formula_is_exact_for_any_network_that_is_built(config):
    counted = footprint(config)
    bytes_and_modules = (
        4 * counted.weights,
        4 * counted.buffers,
        counted.modules,
    )
    assert bytes_and_modules == built(config)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(vits() | resnets)
def test_every_part_is_an_attribute_of_the_network(config):
    by_part = dict.fromkeys(parameters(config).by_part, 0)
    with torch.device("meta"):
        model = new_network(config)
    for name, weight in model.named_parameters():
        by_part[name.split(".")[0]] += weight.numel()
    assert by_part == parameters(config).by_part


def test_every_variant_is_tried():
    tried = {
        "stem": STEMS,
        "position": POSITIONS,
        "block": [Standard(), Axial()],
    }
    for seam, kinds in SEAMS.items():
        assert {type(one) for one in tried[seam]} == set(kinds)


HOSTILE = {
    "a hybrid of 4096 wide units": ViTConfig(
        stem=Hybrid((4096, 4, 9), width=64.0), patch_size=1
    ),
    "embed_dim of 4 million": ViTConfig(embed_dim=4_000_000, num_heads=1),
    "sin-cos of an image of 10^5 pixels": ViTConfig(
        image_size=160_000, position=SinCos2D()
    ),
    "RoPE of an image of 10^6 pixels": ViTConfig(
        image_size=1_600_000, position=RoPE()
    ),
    "an image of 10^9 pixels a side": ViTConfig(
        image_size=16 * 10**9, position=NoPosition()
    ),
    "a head of 10^12 classes": ViTConfig(num_classes=10**12),
    "a ResNet for images of 10^9 pixels a side": ResNetConfig(image_size=10**9),
    "everything at once": ViTConfig(
        image_size=(2**62, 2**62),
        patch_size=1,
        embed_dim=2**62,
        num_heads=1,
        depth=4096,
        mlp_dim=2**62,
        num_classes=2**62,
        position=Relative(),
    ),
}


@pytest.mark.parametrize("config", HOSTILE.values(), ids=HOSTILE)
def test_a_size_that_no_machine_holds_is_refused_at_once(config):
    started = time.perf_counter()
    with pytest.raises(UserError) as error:
        check_memory(config, "x.safetensors: its network")
    assert time.perf_counter() - started < 0.1
    message = str(error.value)
    assert message.startswith("x.safetensors: its network needs ")
    assert " are free; make the model smaller" in message and len(message) < 200


# a hybrid's cost is counted by a run, which takes minutes where units are many
COUNTED = {
    name: config
    for name, config in HOSTILE.items()
    if name != "a hybrid of 4096 wide units"
}


@pytest.mark.parametrize("config", COUNTED.values(), ids=COUNTED)
def test_its_cost_is_a_number_or_a_sentence_at_once(config):
    started = time.perf_counter()
    try:
        assert flops(config) > 10**9
        assert memory(config, batch_size=1).total > 10**9
    except UserError as error:
        assert "make the model smaller" in str(error)
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize("depth", [20_000, 10**9])
def test_more_blocks_than_any_network_has_are_refused(depth):
    wanted = "of at least 1 and at most 4096, got"
    with pytest.raises(UserError, match=f"depth must be .* {wanted}"):
        ViTConfig(depth=depth, embed_dim=8, num_heads=1, mlp_dim=8)
    for build in (Hybrid, lambda layers: ResNetConfig(layers=layers)):
        with pytest.raises(UserError, match=f"layers must be .* {wanted}"):
            build((depth, 4, 9))


def test_a_model_that_fits_passes():
    check_memory(ViTConfig())


def test_every_copy_of_the_weights_counts():
    config = ViTConfig()
    four = building_bytes(config, copies=4) - building_bytes(config)
    assert four == 3 * 4 * parameters(config).total


def test_a_stage_counts_all_of_its_units():
    one, two, ten = (
        footprint(ResNetConfig(layers=(depth,))).weights for depth in (1, 2, 10)
    )
    assert ten - one == 9 * (two - one)


def test_the_formulas_of_variants_do_not_depend_on_the_position_alone():
    plain = ViTConfig(position=NoPosition())
    with_registers = replace(plain, registers=4)
    more = footprint(with_registers).weights - footprint(plain).weights
    assert more == 4 * 768
