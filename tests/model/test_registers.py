"""Registers: learned tokens no pool reads, counted with the class token."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitedu.compat import import_timm
from vitedu.model import (
    Axial,
    Learned1D,
    Learned2D,
    NoPosition,
    Relative,
    SinCos2D,
    ViT,
    ViTConfig,
    record_attention,
)

TINY = {
    "image_size": (8, 12),
    "patch_size": 4,
    "num_classes": 5,
    "embed_dim": 32,
    "depth": 2,
    "num_heads": 4,
    "mlp_dim": 48,
    "registers": 4,
}
POSITIONS = [
    NoPosition(),
    *[kind(at) for kind in (Learned1D, Learned2D) for at in ("stem", "layers")],
    SinCos2D(),
    Relative(),
]


def random_model(**fields):
    torch.manual_seed(0)
    model = ViT(ViTConfig(**TINY | fields)).double().eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model


def random_images(size=(8, 12)):
    torch.manual_seed(1)
    return torch.randn(2, 3, *size, dtype=torch.float64)


def timms(**fields):
    import_timm()
    from timm.models import create_model

    model = create_model(
        "vit_small_patch14_reg4_dinov2",
        img_size=(8, 12),
        patch_size=4,
        embed_dim=32,
        depth=2,
        num_heads=4,
        mlp_ratio=1.5,
        num_classes=5,
        # a scale behind each branch, which is 1 here
        init_values=1.0,
        **fields,
    )
    return model.double().eval()


def load(theirs, state):
    scales = {n: w for n, w in theirs.state_dict().items() if "gamma" in n}
    theirs.load_state_dict(state | scales)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {"global_pool": "token"}),
        ({"pool": "mean"}, {"global_pool": "avg", "fc_norm": False}),
        (
            {"pool": "mean", "class_token": False},
            {"global_pool": "avg", "fc_norm": False, "class_token": False},
        ),
    ],
    ids=["token", "mean", "mean without class token"],
)
def test_equals_timms_dinov2_with_registers(ours, theirs):
    model, theirs = random_model(**ours), timms(**theirs)
    prefix = model.config.num_prefix_tokens
    # timm adds positions to the patches alone
    nn.init.zeros_(model.pos_embed[:, :prefix])
    state = model.state_dict()
    state["pos_embed"] = state["pos_embed"][:, prefix:]
    load(theirs, state)
    images = random_images()
    # float64, sums in another order: measured below 1e-13
    assert_close(model(images), theirs(images), rtol=0, atol=1e-11)


def test_equals_timm_where_registers_have_positions():
    model = random_model()
    theirs = timms(global_pool="token", no_embed_class=False)
    load(theirs, model.state_dict())
    images = random_images()
    assert_close(model(images), theirs(images), rtol=0, atol=1e-11)


def test_they_come_after_the_class_token_and_before_the_patches():
    model = random_model(position=NoPosition())
    tokens = model.embed(random_images())
    assert tokens.shape == (2, 11, 32) and model.config.num_tokens == 11
    assert torch.equal(tokens[:1, :1], model.cls_token)
    assert torch.equal(tokens[:1, 1:5], model.reg_token)


@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_every_position_has_room_for_them(position):
    model = random_model(position=position)
    with record_attention(model) as maps:
        assert model(random_images()).shape == (2, 5)
    assert maps[0].shape == (2, 4, 11, 11)


@pytest.mark.parametrize("position", POSITIONS[:-1], ids=str)
def test_another_image_size_keeps_their_rows(position):
    model = random_model(position=position)
    model.set_input_size(16)
    assert model(random_images((16, 16))).shape == (2, 5)


def test_the_mean_leaves_them_out():
    model = random_model(pool="mean")
    tokens = torch.randn(2, 11, 32).double()
    assert_close(model.pool(tokens), tokens[:, 5:].mean(1))


def test_axial_blocks_take_them_along_every_line():
    assert random_model(block=Axial())(random_images()).shape == (2, 5)


def test_intermediate_layers_return_them_as_prefix_tokens():
    ((patches, prefix),) = random_model().get_intermediate_layers(
        random_images(), return_prefix_tokens=True
    )
    assert patches.shape == (2, 6, 32) and prefix.shape == (2, 5, 32)


def test_without_registers_there_is_no_parameter_and_no_word_of_them():
    config = ViTConfig(**TINY | {"registers": 0})
    assert "reg_token" not in ViT(config).state_dict()
    assert "registers" not in config.to_json()


def test_weight_decay_leaves_them_out():
    assert "reg_token" in random_model().no_weight_decay()
