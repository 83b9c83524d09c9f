"""The whole network against timm and against equations (1) to (4)."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from vitedu.compat import import_timm
from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig, vit, vit_config

TINY = ViTConfig(
    image_size=(8, 12),
    patch_size=4,
    num_classes=5,
    embed_dim=32,
    depth=2,
    num_heads=4,
    mlp_dim=96,
)
# float64; a few hundred terms per sum in another order: measured below 1e-13
EXACT = {"rtol": 0, "atol": 1e-11}

TIMM_NAMES = {
    "ViT-Ti/16": "vit_tiny_patch16_224",
    "ViT-S/16": "vit_small_patch16_224",
    "ViT-B/16": "vit_base_patch16_224",
    "ViT-L/16": "vit_large_patch16_224",
    "ViT-H/14": "vit_huge_patch14_224",
}


def random_tensors(model, dtype=torch.float64):
    """Values for every tensor of a state_dict; no zeros or ones as initially.

    Matrices keep the size of what they multiply, so that attention does not
    saturate.
    """
    torch.manual_seed(0)
    tensors = {}
    for name, like in model.state_dict().items():
        drawn = torch.randn(like.shape, dtype=dtype)
        if like.ndim > 1 and name not in ("cls_token", "pos_embed"):
            drawn /= like[0].numel() ** 0.5
        tensors[name] = 1 + 0.1 * drawn if "norm" in name else drawn
    return tensors


def random_model(config=TINY, **fields):
    model = ViT(replace(config, **fields)).double().eval()
    model.load_state_dict(random_tensors(model))
    return model


def random_images(config=TINY, b=2):
    torch.manual_seed(1)
    return torch.randn(
        b, config.in_channels, *config.image_size, dtype=torch.float64
    )


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


def test_timms_weights_load_strictly():
    fields = {"depth": 2, "num_classes": 10}
    theirs = timm_model("vit_tiny_patch16_224", img_size=48, **fields)
    theirs.load_state_dict(random_tensors(theirs))
    ours = vit("ViT-Ti/16", image_size=48, **fields).double().eval()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    images = random_images(ours.config)
    assert_equal_to_timm(ours(images), theirs(images))


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
        "mlp_ratio": 3,
    }
    return VisionTransformer(**sizes | fields).double().eval()


@pytest.mark.parametrize("class_token", [True, False])
def test_mean_pooling_equals_timm(class_token):
    ours = random_model(pool="mean", class_token=class_token)
    # the mean is taken after the norm, as in the authors' code: fc_norm=False
    theirs = timms_tiny(
        global_pool="avg", class_token=class_token, fc_norm=False
    )
    theirs.load_state_dict(ours.state_dict(), strict=True)
    assert_equal_to_timm(ours(random_images()), theirs(random_images()))


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


@pytest.mark.parametrize(
    ("image_size", "patch_size"),
    [
        ((8, 12), (4, 4)),
        ((8, 12), (2, 6)),
        ((12, 8), (3, 8)),
        ((20, 4), (4, 2)),
    ],
)
def test_rectangles_equal_timm(image_size, patch_size):
    ours = random_model(image_size=image_size, patch_size=patch_size)
    theirs = timms_tiny(img_size=image_size, patch_size=patch_size)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    images = random_images(ours.config)
    assert_equal_to_timm(ours(images), theirs(images))


def test_tanh_gelu_equals_timm():
    ours = random_model(gelu="tanh")
    theirs = timms_tiny(act_layer="gelu_tanh")
    theirs.load_state_dict(ours.state_dict(), strict=True)
    assert_equal_to_timm(ours(random_images()), theirs(random_images()))


def test_features_without_head_equal_timm():
    ours = random_model(num_classes=0)
    theirs = timms_tiny(num_classes=0)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    images = random_images()
    assert_equal_to_timm(ours(images), theirs(images))
    assert_equal_to_timm(
        ours.forward_features(images), theirs.forward_features(images)
    )


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


def test_pre_logits_are_a_dense_layer_and_tanh_before_the_head():
    model = random_model(pre_logits=24)
    images = random_images()
    y = model.forward_features(images)[:, 0]
    state = model.state_dict()
    hidden = torch.tanh(
        y @ state["pre_logits.fc.weight"].T + state["pre_logits.fc.bias"]
    )
    want = hidden @ state["head.weight"].T + state["head.bias"]
    assert_close(model(images), want, **EXACT)


@pytest.mark.parametrize("class_token", [True, False])
def test_mean_pooling_leaves_the_class_token_out(class_token):
    model = random_model(pool="mean", class_token=class_token)
    tokens = model.forward_features(random_images())
    want = model.head(tokens[:, -6:].mean(1))
    assert_close(model(random_images()), want, **EXACT)


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


def test_logits_are_the_head_of_the_features():
    model = random_model(pre_logits=24)
    images = random_images()
    want = model.forward_head(model.forward_features(images))
    assert torch.equal(model(images), want)


def test_without_classes_the_model_returns_features():
    model = random_model(num_classes=0)
    images = random_images()
    assert torch.equal(model(images), model.forward_features(images)[:, 0])
    assert not any(key.startswith("head") for key in model.state_dict())


def test_without_classes_pre_logits_are_still_applied():
    model = random_model(num_classes=0, pre_logits=24)
    assert model(random_images()).shape == (2, 24)


def test_images_of_a_batch_do_not_see_each_other():
    model = random_model()
    images = random_images(b=4)
    order = [2, 0, 3, 1]
    assert_close(model(images)[order], model(images[order]), **EXACT)
    assert_close(model(images)[:1], model(images[:1]), **EXACT)


def test_the_class_token_is_one_parameter_for_the_whole_batch():
    model = random_model()
    assert model.cls_token.shape == (1, 1, 32)
    model(random_images(b=4)).sum().backward()
    whole = model.cls_token.grad.clone()
    model.cls_token.grad = None
    for image in random_images(b=4):
        model(image[None]).sum().backward()
    assert_close(whole, model.cls_token.grad, **EXACT)


def test_without_class_token_there_is_no_such_parameter():
    model = random_model(pool="mean", class_token=False)
    assert model.cls_token is None
    assert "cls_token" not in model.state_dict()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"pre_logits": 24},
        {"pool": "mean"},
        {"pool": "mean", "class_token": False},
        {"gelu": "tanh"},
        {"num_classes": 0},
    ],
    ids=str,
)
def test_the_gradient_reaches_every_parameter(fields):
    model = random_model(**fields)
    model(random_images()).square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.abs().max() > 0, name


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


def test_dropout_acts_in_training_only():
    model = random_model(dropout=0.3)
    images = random_images()
    assert torch.equal(model(images), model(images))
    model.train()
    assert not torch.equal(model(images), model(images))


def test_dropout_follows_the_positions():
    model = random_model(dropout=0.3).train()
    for block in model.blocks:
        block.eval()
    images = random_images()
    assert not torch.equal(model(images), model(images))


def test_without_dropout_training_and_evaluation_agree():
    model = random_model()
    images = random_images()
    assert torch.equal(model.train()(images), model.eval()(images))


@pytest.mark.parametrize("num_classes", [3, 5])
def test_reset_classifier_puts_a_head_of_zeros(num_classes):
    model = random_model(pre_logits=24)
    features = model.forward_features(random_images())
    model.reset_classifier(num_classes)
    assert torch.equal(
        model(random_images()), torch.zeros(2, num_classes).double()
    )
    assert torch.equal(model.forward_features(random_images()), features)


def test_reset_classifier_drops_the_pre_logits():
    model = random_model(pre_logits=24)
    model.reset_classifier(3)
    assert not any(key.startswith("pre_logits") for key in model.state_dict())
    assert model.head.weight.shape == (3, 32)


def test_reset_classifier_to_no_classes_returns_features():
    model = random_model(pre_logits=24)
    model.reset_classifier(0)
    images = random_images()
    assert torch.equal(model(images), model.forward_features(images)[:, 0])


def test_reset_classifier_writes_the_configuration():
    model = random_model(pre_logits=24)
    model.reset_classifier(3)
    assert model.config == replace(TINY, num_classes=3)
    ViT(model.config).double().load_state_dict(model.state_dict(), strict=True)


def test_reset_classifier_keeps_the_number_format_and_trains():
    model = random_model()
    model.reset_classifier(3)
    assert model.head.weight.dtype == torch.float64
    F.cross_entropy(model(random_images()), torch.tensor([0, 2])).backward()
    assert model.head.weight.grad.abs().max() > 0


def test_a_copy_and_a_pickle_give_the_same_logits():
    model = random_model(pre_logits=24)
    images = random_images()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(images), model(images))
        assert other.config == model.config


def test_an_image_without_batch_axis_is_an_error():
    with pytest.raises(
        ValueError, match=r"got \(3, 8, 12\); one image is images\[None\]"
    ):
        random_model()(random_images()[0])


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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_gives_logits_near_the_exact_ones(dtype):
    model, images = random_model(), random_images()
    exact = model(images)
    # 2 blocks of 7 operations, each rounded to 8 or 11 bits; logits of size 1
    assert_close(
        model.to(dtype)(images.to(dtype)).double(), exact, rtol=0, atol=0.1
    )


def test_the_model_builds_on_the_meta_device():
    with torch.device("meta"):
        model = ViT(TINY)
        logits = model(torch.empty(2, 3, 8, 12))
    assert logits.shape == (2, 5)
    assert all(weight.is_meta for weight in model.parameters())
