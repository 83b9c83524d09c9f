"""The whole network against timm and against equations (1) to (4)."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from tests.tiny import TINY, random_images, random_model, random_tensors
from vitedu.compat import import_timm
from vitedu.errors import UserError
from vitedu.model import NoPosition, ViT, vit, vit_config

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


def timms_tiny(**fields):
    """timm's network of TINY's sizes."""
    import_timm()
    from timm.models.vision_transformer import VisionTransformer

    sizes = {
        "img_size": TINY.image_size,
        "patch_size": 4,
        "num_classes": 5,
        "embed_dim": 32,
        "depth": 2,
        "num_heads": 4,
        "mlp_ratio": 1.5,
    }
    return VisionTransformer(**sizes | fields).double().eval()


def test_mean_pooling_is_another_function_than_timms_fc_norm():
    # timm's default norms the mean in place of averaging the normed tokens
    ours = random_model(pool="mean")
    theirs = timms_tiny(global_pool="avg")
    renamed = {
        f"fc_{key}" if key.startswith("norm.") else key: value
        for key, value in ours.state_dict().items()
    }
    theirs.load_state_dict(renamed, strict=True)
    difference = ours(random_images()) - theirs(random_images())
    assert difference.abs().max() > 1e-2


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


def test_features_are_all_tokens_after_the_final_norm():
    model = random_model()
    tokens = model.forward_features(random_images())
    assert tokens.shape == (2, 7, 32)
    raw = (tokens - model.norm.bias) / model.norm.weight
    # mean 0 and variance 1, but for the norm's epsilon
    assert_close(raw.mean(-1), torch.zeros(2, 7).double(), rtol=0, atol=1e-12)
    assert_close(
        raw.var(-1, correction=0), torch.ones(2, 7).double(), rtol=0, atol=1e-5
    )


def test_the_class_token_is_one_parameter_for_the_whole_batch():
    model = random_model()
    assert model.cls_token.shape == (1, 1, 32)
    model(random_images(b=4)).sum().backward()
    whole = model.cls_token.grad.clone()
    model.cls_token.grad = None
    for image in random_images(b=4):
        model(image[None]).sum().backward()
    assert_close(whole, model.cls_token.grad, **EXACT)


def test_with_mean_pooling_the_class_token_is_still_seen_by_attention():
    model = random_model(pool="mean")
    before = model(random_images())
    nn.init.zeros_(model.cls_token)
    assert (model(random_images()) - before).abs().max() > 1e-3


def test_with_a_head_of_zeros_the_first_gradient_reaches_the_head_alone():
    torch.manual_seed(0)
    model = ViT(TINY).double()
    loss = F.cross_entropy(model(random_images()), torch.tensor([0, 1]))
    loss.backward()
    reached = {
        name.split(".")[0]
        for name, weight in model.named_parameters()
        if weight.grad.abs().max() > 0
    }
    assert reached == {"head"}


def test_an_image_of_another_size_or_channels_is_an_error():
    model = random_model()
    with pytest.raises(ValueError, match="8x12 pixels, got 3 channels, 12x8"):
        model(torch.zeros(1, 3, 12, 8).double())
    with pytest.raises(ValueError, match=r"of 3 channels, .* got 1 channels"):
        model(torch.zeros(1, 1, 8, 12).double())


def test_the_constructor_says_which_field_is_wrong():
    with pytest.raises(
        UserError, match=r"image size 225 is not a multiple .* size 16"
    ):
        vit("ViT-B/16", image_size=225)


def test_registers_come_after_the_class_token_and_before_the_patches():
    model = random_model(registers=4, position=NoPosition())
    tokens = model.embed(random_images())
    assert tokens.shape == (2, 11, 32) and model.config.num_tokens == 11
    assert torch.equal(tokens[:1, :1], model.cls_token)
    assert torch.equal(tokens[:1, 1:5], model.reg_token)
    assert "reg_token" not in ViT(TINY).state_dict()


def test_dropout_follows_the_positions():
    model = random_model(dropout=0.3).train()
    zeros = model.embed(random_images()) == 0
    # of 448 numbers a share of 0.3: outside of 0.18 to 0.42 with 1e-8
    assert 0.18 < zeros.double().mean() < 0.42
