"""Every variant of the network, and what all of them can do.

A new variant is a line of VARIANTS; each test below then holds for it.
"""

import copy
import json
import pickle
from dataclasses import asdict, replace

import pytest
import torch
import torch.nn.functional as F
from huggingface_hub import PyTorchModelHubMixin
from torch import nn
from torch.testing import assert_close

from tests.tiny import (
    TIMM_TINY,
    random_images,
    random_model,
    random_tensors,
    tiny,
)
from vitedu.compat import import_timm
from vitedu.errors import UserError
from vitedu.model import (
    Axial,
    Hybrid,
    Learned1D,
    Learned2D,
    NoPosition,
    Patches,
    Relative,
    ResNet,
    ResNetConfig,
    RoPE,
    SinCos2D,
    Standard,
    ViT,
    network_config,
    new_network,
    record_attention,
    resize_positions,
)
from vitedu.model.config import SEAMS
from vitedu.model.vit import take_any_size

RESNET = ResNetConfig(
    layers=(2, 1), width=0.5, num_classes=5, image_size=(34, 48)
)
POSITIONS = {
    "without positions": NoPosition(),
    **{
        f"{kind.__name__} at {at}": kind(at)
        for kind in (Learned1D, Learned2D, SinCos2D)
        for at in ("stem", "layers", "shared")
    },
    "Relative in layers": Relative("layers"),
    "Relative shared": Relative("shared"),
    "RoPE": RoPE(),
    "RoPE, rows first": RoPE(rows_first=True, across=5),
    "RoPE, unit": RoPE(unit=True),
}
VITS = {
    **{name: tiny(position=each) for name, each in POSITIONS.items()},
    "pool mean": tiny(pool="mean"),
    "pool mean of patches alone": tiny(pool="mean", class_token=False),
    "pool map": tiny(pool="map"),
    "pool map of patches alone": tiny(pool="map", class_token=False),
    "pool none": tiny(pool="none"),
    "pool none, patches alone": tiny(pool="none", class_token=False),
    "pre-logits": tiny(pre_logits=24),
    "pre-logits behind map": tiny(pool="map", pre_logits=24),
    "pre-logits behind none": tiny(pool="none", pre_logits=24),
    "registers": tiny(registers=4),
    "registers, mean": tiny(registers=4, pool="mean", class_token=False),
    "registers, Learned2D": tiny(registers=4, position=Learned2D("layers")),
    "registers, SinCos2D": tiny(registers=4, position=SinCos2D()),
    "registers, Relative": tiny(registers=4, position=Relative()),
    "registers, RoPE": tiny(registers=4, position=RoPE()),
    "tanh": tiny(gelu="tanh"),
    "quick": tiny(gelu="quick"),
    "LayerScale": tiny(block=Standard(layer_scale=1e-5)),
    "no bias of q, k and v": tiny(block=Standard(qkv_bias=False)),
    "q and k normed": tiny(block=Standard(qk_norm=True)),
    "SwiGLU": tiny(block=Standard(swiglu=True)),
    "norm of the mean": tiny(pool="mean_norm"),
    "norm before the blocks": tiny(stem=Patches(bias=False, norm=True)),
    "prefix tokens without positions": tiny(
        position=Learned1D(prefix=False), registers=2
    ),
    "grey": tiny(in_channels=1),
    "rectangles": tiny(image_size=(12, 8), patch_size=(3, 4)),
    "Axial": tiny(block=Axial()),
    "Axial, registers, map": tiny(block=Axial(), registers=2, pool="map"),
    "Axial, patches alone": tiny(
        block=Axial(), class_token=False, pool="mean", position=Learned2D()
    ),
    "root": tiny(image_size=(40, 64), patch_size=(5, 2), stem=Hybrid((), 0.5)),
    "hybrid": tiny(
        image_size=(40, 64), patch_size=1, stem=Hybrid((1, 1), width=0.5)
    ),
}
VARIANTS = {
    **VITS,
    "bit-v2": RESNET,
    "bit-v2, -inf": replace(RESNET, pool_padding="-inf"),
    "bit-v1": replace(RESNET, family="bit-v1", pool_padding=None),
}
every_variant = pytest.mark.parametrize(
    "config", VARIANTS.values(), ids=VARIANTS
)
every_vit = pytest.mark.parametrize("config", VITS.values(), ids=VITS)
# float64, some hundred terms per sum in another order: measured below 1e-13
EXACT = {"rtol": 0, "atol": 1e-11}


def test_every_kind_of_every_seam_is_tried():
    for seam, kinds in SEAMS.items():
        tried = {type(getattr(config, seam)) for config in VITS.values()}
        assert tried == set(kinds)


# --- the function


@every_variant
def test_a_batch_of_images_is_logits_and_images_are_kept_apart(config):
    model, images = random_model(config), random_images(config, b=4)
    logits = model(images)
    of_tokens = getattr(config, "pool", None) == "none"
    rows = (config.num_tokens,) if of_tokens else ()
    assert logits.shape == (4, *rows, 5) and logits.isfinite().all()
    order = [2, 0, 3, 1]
    assert_close(model(images[order]), logits[order], **EXACT)
    assert_close(model(images[:1]), logits[:1], **EXACT)
    features = model.forward_features(images)
    assert torch.equal(model.forward_head(features), logits)


@every_variant
def test_the_gradient_reaches_every_parameter(config):
    model = random_model(config)
    model(random_images(config)).square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad.abs().max() > 0, name


@pytest.mark.slow
@every_variant
def test_dropout_acts_in_training_only(config):
    if isinstance(config, ResNetConfig):
        pytest.skip("a ResNet has no dropout")
    model = random_model(replace(config, dropout=0.5, drop_path=0.5))
    images = random_images(config)
    plain = random_model(config)(images)
    assert torch.equal(model(images), plain)
    assert not torch.equal(model.train()(images), plain)


@pytest.mark.slow
@every_variant
def test_images_of_another_shape_are_refused(config):
    model, images = random_model(config), random_images(config)
    with pytest.raises(ValueError, match=r"one image is images\[None\]"):
        model(images[0])
    with pytest.raises(ValueError, match=r"needs images .*, got"):
        model(torch.cat([images, images], dim=1))
    if not model.takes_any_size:
        with pytest.raises(ValueError, match=r"needs images .* pixels, got"):
            model(images[..., 1:])


@every_variant
def test_a_new_model_says_nothing_about_the_classes_yet(config):
    torch.manual_seed(0)
    model = new_network(config)
    logits = model(random_images(config).float())
    assert not logits.any()  # the head's zeros: the loss is ln(classes)


@pytest.mark.slow
@every_variant
def test_half_precision_is_near_the_exact_logits(config):
    model, images = random_model(config), random_images(config)
    exact = model(images)
    half = model.bfloat16()(images.bfloat16())
    assert half.dtype == torch.bfloat16
    # some ten operations, each rounded to 8 bits; logits of size 1 to 3
    assert_close(half.double(), exact, rtol=0, atol=0.2)


# --- another head, another size


@pytest.mark.slow
@every_variant
def test_another_head_starts_at_zero_and_leaves_the_rest(config):
    model, images = random_model(config), random_images(config)
    model.class_names = tuple("abcde")
    features = model.forward_features(images)
    model.reset_classifier(3)
    assert torch.equal(model.forward_features(images), features)
    logits = model(images)
    assert logits.shape[-1] == 3 and not logits.any()
    assert logits.dtype == torch.float64
    assert (model.num_classes, model.class_names) == (3, ())
    changes = {} if isinstance(model, ResNet) else {"pre_logits": None}
    assert model.config == replace(config, num_classes=3, **changes)
    new_network(model.config).load_state_dict(model.state_dict(), strict=True)
    F.cross_entropy(
        logits.flatten(0, -2), torch.zeros(len(logits.flatten(0, -2))).long()
    ).backward()
    assert model.get_classifier().weight.grad.abs().max() > 0


@pytest.mark.slow
@every_variant
def test_without_classes_the_model_returns_what_its_head_gets(config):
    model, images = random_model(config), random_images(config)
    features = model.forward_features(images)
    want = model.forward_head(features, pre_logits=True)
    head = model.get_classifier()
    product = want @ head.weight.flatten(1).T + head.bias
    assert_close(model(images), product, **EXACT)
    headless = new_network(replace(config, num_classes=0)).double().eval()
    state = {
        name: tensor
        for name, tensor in model.state_dict().items()
        if not name.startswith("head.")
    }
    headless.load_state_dict(state, strict=True)
    assert torch.equal(headless(images), want)
    if not getattr(config, "pre_logits", None):
        model.reset_classifier(0)
        assert torch.equal(model(images), want)


def larger(config):
    """The size of a larger image, and not in the same ratio."""
    height, width = config.image_size
    return 2 * height, 3 * width


RESIZABLE = {
    name: config
    for name, config in VARIANTS.items()
    if not isinstance(getattr(config, "position", None), Relative)
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["paper", "timm"])
@pytest.mark.parametrize("config", RESIZABLE.values(), ids=RESIZABLE)
def test_another_image_size_is_the_model_built_for_it(config, mode):
    model, size = random_model(config), larger(config)
    other = new_network(replace(config, image_size=size)).double().eval()
    state = resize_positions(
        model.state_dict(), config, other.config, mode=mode
    )
    other.load_state_dict(state)
    before = dict(model.named_parameters())
    model.set_input_size(size, mode=mode)
    assert model.config == other.config
    assert model.preprocess.image_size == size
    images = random_images(model.config)
    assert torch.equal(model(images), other(images))
    for name, weight in model.named_parameters():
        if "pos_embed" not in name:
            assert weight is before[name]
        elif weight.shape != before[name].shape:
            assert weight is not before[name] and weight.requires_grad
    assert model.float()(images.float()).dtype == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("config", RESIZABLE.values(), ids=RESIZABLE)
def test_any_size_is_the_model_set_to_it(config):
    model = random_model(config)
    if not isinstance(model, ResNet):
        if getattr(config.position, "at", "stem") != "stem":
            with pytest.raises(UserError, match=r"call model\.set_input_size"):
                take_any_size(model)
            return
        take_any_size(model)
    before = model.state_dict()
    own = random_images(config)
    for size in (larger(config), config.image_size, larger(config)):
        other = random_model(config)
        if size != config.image_size:
            other.set_input_size(size)
        images = random_images(other.config)
        # Learned2D: one resized table, or each axis's own
        assert_close(model(images), other(images), **EXACT)
    assert model.config == config and model.state_dict().keys() == before.keys()
    assert_close(model(own), random_model(config)(own), rtol=0, atol=0)


# --- attention and tokens


@every_vit
def test_recorded_attention_changes_nothing(config):
    model, images = random_model(config), random_images(config)
    with record_attention(model) as maps:
        recorded = model(images)
    # the fused kernel sums in another order
    assert_close(recorded, model(images), **EXACT)
    if config.block == Axial():
        assert len(maps) == 2 * config.depth
    else:
        t = config.num_tokens
        assert [tuple(x.shape) for x in maps] == [(2, 4, t, t)] * config.depth
    for weights in maps:
        assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), **EXACT)


@every_vit
def test_intermediate_layers_end_in_the_features(config):
    model, images = random_model(config), random_images(config)
    layers = model.get_intermediate_layers(
        images, [0, -1], return_prefix_tokens=True, norm=True
    )
    assert len(layers) == 2
    last = torch.cat(layers[-1][::-1], dim=1)
    assert torch.equal(last, model.forward_features(images))
    assert layers[0][1].shape == (2, config.num_prefix_tokens, 32)
    (as_image,) = model.get_intermediate_layers(images, reshape=True)
    assert as_image.shape == (2, 32, *config.grid)
    assert as_image.is_contiguous()


# --- tools


@every_variant
def test_json_and_asdict_bring_the_same_configuration_back(config):
    written = json.loads(json.dumps(config.to_json()))
    assert written == config.to_json()  # lists, not tuples
    assert network_config(written) == config
    assert type(config)(**json.loads(json.dumps(asdict(config)))) == config


@pytest.mark.slow
@every_variant
def test_a_traced_model_is_the_same_function_at_any_batch_size(config):
    model = random_model(config)
    traced = torch.fx.symbolic_trace(model)
    for b in (1, 3):
        images = random_images(config, b)
        assert torch.equal(traced(images), model(images))
    with pytest.raises(ValueError, match="one image is images"):
        traced(images[0])


EXPORTED = ("Learned2D at layers", "Relative in layers", "RoPE", "pool map")
EXPORTED += ("registers", "Axial, patches alone", "hybrid", "bit-v2")
EXPORTED += ("LayerScale", "q and k normed", "SwiGLU", "norm of the mean")
EXPORTED += ("prefix tokens without positions", "norm before the blocks")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_model_is_the_same_function(name):
    config = VARIANTS[name]
    model, images = random_model(config), random_images(config)
    program = torch.export.export(model, (images,))
    assert_close(program.module()(images), model(images), **EXACT)


@pytest.mark.slow
@every_variant
def test_recomputed_blocks_give_the_same_gradients(config):
    model, images = random_model(config), random_images(config)
    gradients, calls = [], []
    for block in model.blocks_in_order():
        first = next(block.children())
        first.register_forward_pre_hook(lambda *_: calls.append(1))
    for checkpointing in (False, True, True, False):
        model.set_grad_checkpointing(checkpointing)
        model.zero_grad()
        calls.clear()
        model(images).square().sum().backward()
        gradients.append([weight.grad for weight in model.parameters()])
        num_blocks = len(list(model.blocks_in_order()))
        assert len(calls) == num_blocks * (1 + checkpointing)
    for other in gradients[1:]:
        assert all(map(torch.equal, other, gradients[0]))


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [False, True])
@every_variant
def test_a_copy_is_a_model_of_its_own(config, checkpointing):
    model, images = random_model(config), random_images(config)
    model.set_grad_checkpointing(checkpointing)
    copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    logits = model(images)
    for weight in model.parameters():
        nn.init.zeros_(weight)  # of the first alone
    for other in copies:
        assert other.config == model.config
        assert torch.equal(other(images), logits)


@pytest.mark.slow
@every_variant
def test_a_model_without_numbers_has_shapes_and_takes_weights(config):
    model, images = random_model(config), random_images(config)
    with torch.device("meta"):
        other = new_network(config).eval()
        shape = other(images.to("meta", torch.float32)).shape
    assert all(weight.is_meta for weight in other.parameters())
    assert shape == model(images).shape
    other.load_state_dict(model.state_dict(), assign=True)
    assert torch.equal(other(images), model(images))


class HubViT(ViT, PyTorchModelHubMixin):
    """A ViT with save_pretrained and from_pretrained."""


@pytest.mark.slow
@every_vit
def test_the_hub_mixin_brings_the_same_model_back(tmp_path, config):
    first = HubViT(config)
    first.load_state_dict(random_tensors(first, torch.float32))
    first.save_pretrained(tmp_path)
    second = HubViT.from_pretrained(tmp_path)
    assert second.config == config
    images = random_images(config).float()
    assert torch.equal(second(images), first.eval()(images))


# --- the same function as timm's


def timms(**fields):
    import_timm()
    from timm.layers import SwiGLUPacked
    from timm.models.vision_transformer import VisionTransformer

    sizes = {
        "img_size": (8, 12),
        "patch_size": 4,
        "num_classes": 5,
        "embed_dim": 32,
        "depth": 2,
        "num_heads": 4,
        "mlp_ratio": 1.5,
    }
    if fields.get("act_layer") == "silu":
        # its number of hidden units counts both halves
        sizes |= {"mlp_layer": SwiGLUPacked, "mlp_ratio": 3}
    return VisionTransformer(**sizes | fields).double().eval()


MEAN = {"global_pool": "avg", "fc_norm": False}
ALONE = {"class_token": False}
REGISTERS = {"reg_tokens": 4, "no_embed_class": False}
TIMM = {
    "Learned1D at stem": {},
    "pool mean": MEAN,
    "pool mean of patches alone": MEAN | ALONE,
    "pool map": {"global_pool": "map"},
    "pool map of patches alone": {"global_pool": "map"} | ALONE,
    "registers": REGISTERS,
    "registers, mean": MEAN | ALONE | REGISTERS,
    "tanh": {"act_layer": "gelu_tanh"},
    "quick": {"act_layer": "quick_gelu"},
    "LayerScale": {"init_values": 1e-5},
    "no bias of q, k and v": {"qkv_bias": False},
    "q and k normed": {"qk_norm": True},
    "SwiGLU": {"act_layer": "silu"},
    "norm of the mean": {"global_pool": "avg"},
    "norm before the blocks": {"pre_norm": True},
    "prefix tokens without positions": {
        "no_embed_class": True,
        "reg_tokens": 2,
    },
    "grey": {"in_chans": 1},
    "rectangles": {"img_size": (12, 8), "patch_size": (3, 4)},
}


@pytest.mark.parametrize("name", TIMM)
def test_equals_timm(name):
    config, theirs = VITS[name], timms(**TIMM[name])
    ours, images = random_model(config), random_images(config)
    state = {
        key.replace("pool.", "attn_pool."): tensor
        for key, tensor in ours.state_dict().items()
    }
    theirs.load_state_dict(state, strict=True)
    assert_close(ours(images), theirs(images), **EXACT)
    features = theirs.forward_features(images)
    assert_close(ours.forward_features(images), features, **EXACT)


def test_mean_pooling_is_another_function_than_timms_fc_norm():
    # timm's default, our mean_norm, in place of averaging the normed tokens
    ours, theirs = random_model(pool="mean"), timms(global_pool="avg")
    renamed = {
        f"fc_{key}" if key.startswith("norm.") else key: value
        for key, value in ours.state_dict().items()
    }
    theirs.load_state_dict(renamed, strict=True)
    difference = ours(random_images()) - theirs(random_images())
    assert difference.abs().max() > 1e-2


@pytest.mark.parametrize("registers", [0, 4])
def test_rope_equals_timm(registers):
    create = import_timm().create_model
    # three columns: timm's grid is (rows, columns), as ours
    config = VITS["registers, RoPE" if registers else "RoPE"]
    theirs = create(
        "vit_small_patch16_rope_224",
        **TIMM_TINY,
        depth=2,
        init_values=1.0,  # a scale behind each branch, which is 1 here
        num_reg_tokens=registers,
    )
    theirs = theirs.double().eval()
    # timm rounds its frequencies to float32; here they are its formula in
    # float64
    bands = theirs.rope.bands.numel()
    theirs.rope.bands = 100.0 ** -(torch.arange(bands).double() / bands)
    theirs.rope._update_cached_embed([2, 3], theirs.rope.bands)
    ours, images = random_model(config), random_images(config)
    scales = {n: w for n, w in theirs.state_dict().items() if "gamma" in n}
    theirs.load_state_dict(ours.state_dict() | scales)
    assert_close(ours(images), theirs(images), **EXACT)


# --- what is refused
