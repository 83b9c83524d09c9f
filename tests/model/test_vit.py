"""The whole network against timm and against equations (1) to (4)."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.tiny import random_images, random_model, random_tensors
from vitedu import vit, vit_config
from vitedu.compat import import_timm

# float64; a few hundred terms per sum in another order: measured below 1e-13
EXACT = {"rtol": 0, "atol": 1e-11}

TIMM_NAMES = {
    "ViT-Ti/16": "vit_tiny_patch16_224",
    "ViT-S/16": "vit_small_patch16_224",
    "ViT-B/16": "vit_base_patch16_224",
    "ViT-L/16": "vit_large_patch16_224",
    "ViT-H/14": "vit_huge_patch14_224",
}


def timm_model(name, **fields):
    return import_timm().create_model(name, **fields).double().eval()


def assert_equal_to_timm(ours, theirs):
    # 1e-10 of the largest logit; measured below 1e-13, at full depth too
    assert_close(ours, theirs, rtol=0, atol=1e-10 * theirs.abs().max().item())


def assert_same_function_as_timm(name, image_size, **fields):
    # Built without numbers; then both hold the same tensors (ViT-H: 5 GB in
    # float64).
    fields = {"num_classes": 1000, **fields}
    with torch.device("meta"):
        ours = vit(name, image_size=image_size, **fields).eval()
        theirs = timm_model(TIMM_NAMES[name], img_size=image_size, **fields)
    ours.load_state_dict(random_tensors(ours), strict=True, assign=True)
    theirs.load_state_dict(ours.state_dict(), strict=True, assign=True)
    ours.load_state_dict(theirs.state_dict(), strict=True, assign=True)
    images = random_images(ours.config)
    with torch.inference_mode():
        assert_equal_to_timm(ours(images), theirs(images))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name < "ViT-H" else pytest.mark.slow)
        for name in TIMM_NAMES
    ],
)
def test_equals_timm_at_two_blocks(name):
    three_patches = 3 * vit_config(name).patch_size[0]
    assert_same_function_as_timm(name, three_patches, depth=2)


@pytest.mark.slow
# L and H differ from these in widths alone, which the test above has
@pytest.mark.parametrize("name", ["ViT-Ti/16", "ViT-S/16", "ViT-B/16"])
def test_equals_timm_at_full_depth(name):
    assert_same_function_as_timm(name, 224)


@pytest.mark.parametrize("name", TIMM_NAMES)
def test_keys_and_shapes_are_timms(name):
    with torch.device("meta"):
        ours, theirs = vit(name), timm_model(TIMM_NAMES[name], num_classes=1000)
    shapes = [
        {key: value.shape for key, value in model.state_dict().items()}
        for model in (ours, theirs)
    ]
    assert shapes[0] == shapes[1]


def test_the_forward_pass_is_equations_1_to_4():
    model = random_model()
    images = random_images()
    patches = F.conv2d(
        images,
        model.patch_embed.proj.weight,
        model.patch_embed.proj.bias,
        stride=4,
    )
    patches = patches.flatten(2).mT  # (b, n, d)
    tokens = torch.stack(
        [torch.cat([model.cls_token[0], one_image]) for one_image in patches]
    )
    tokens = tokens + model.pos_embed  # equation (1)
    for block in model.blocks:
        tokens = tokens + block.attn(block.norm1(tokens))  # equation (2)
        tokens = tokens + block.mlp(block.norm2(tokens))  # equation (3)
    y = F.layer_norm(
        tokens[:, 0], (32,), model.norm.weight, model.norm.bias, 1e-6
    )
    want = y @ model.head.weight.T + model.head.bias
    assert_close(model(images), want, **EXACT)


def test_dropout_follows_the_positions():
    model = random_model(dropout=0.3).train()
    zeros = model.embed(random_images()) == 0
    # of 448 numbers a share of 0.3: outside of 0.18 to 0.42 with 1e-8
    assert 0.18 < zeros.double().mean() < 0.42
