"""Every function on every kind of ViT: any batch, any grid, and timm's own."""

from functools import partial

import pytest
import torch
from torch.testing import assert_close

import vitedu
from tests.tiny import random_images, random_model
from vitedu import interpret
from vitedu.compat import import_timm
from vitedu.interpret.learned import grid_of
from vitedu.model import Axial, Hybrid, Relative, RoPE, SinCos2D
from vitedu.model.vit import take_any_size

HYBRID = {"stem": Hybrid(layers=(1, 1, 1)), "image_size": (32, 48)}
HYBRID |= {"patch_size": 1, "num_heads": 2}
KINDS = [
    {},
    {"registers": 2, "in_channels": 1},
    {"position": RoPE(), "registers": 2},
    {"position": Relative(), "pool": "mean_norm"},
    {"class_token": False, "pool": "mean"},
    HYBRID,
]


def maps_of(model, images):
    with torch.no_grad(), vitedu.record_attention(model) as maps:
        model(images)
    return maps


def class_maps(model, images):
    vit = interpret.as_vit(model)
    return interpret.class_token_maps(maps_of(vit, images), grid_of(vit))[-1]


def curves(model, images):
    order = interpret.attention_map(model, images).flatten(1).argsort()
    return interpret.deletion_curve(model, images, order).T


LOOKS = {
    "rollout": interpret.attention_map,
    "rollout of a head": partial(interpret.attention_map, head=1, identity=0.0),
    "class maps": class_maps,
    "components": partial(interpret.components, block=0),
    "similar": partial(interpret.similar_to, patch=(1, 0)),
    "tokens": partial(interpret.tokens.patch_tokens, block=1),
    "outliers": partial(interpret.outlier_tokens, times=1.05),
    "curves": curves,
}


@pytest.mark.parametrize("fields", KINDS, ids=str)
def test_a_picture_looks_the_same_in_any_batch(fields):
    model = random_model(**fields)
    images = random_images(model.config, b=3)
    for name, look in LOOKS.items():
        if name == "class maps" and not model.config.class_token:
            continue
        found = look(model, images)
        # float64; maps and colours end in float32
        alone = look(model, images[1:2])
        assert_close(found[1:2], alone, rtol=0, atol=1e-6, msg=name)
        if name in ("rollout", "components", "similar"):
            assert found.shape[:3] == (3, 2, 3)

    def far(images):
        maps = maps_of(model, images)
        return interpret.attention_distance(maps, (2, 3), 4)

    mean = torch.stack([far(each[None]) for each in images]).mean(dim=0)
    assert_close(far(images), mean)
    # and the model is left as it was
    assert all(block.attn.maps is None for block in model.blocks)


def test_a_model_of_any_size_sees_what_one_of_that_size_does():
    model, resized = random_model(), random_model()
    take_any_size(model)
    resized.set_input_size((16, 20))
    images = random_images(resized.config)
    for name, look in LOOKS.items():
        want = look(resized, images)
        assert_close(look(model, images), want, msg=name)


@pytest.mark.parametrize("fields", [*KINDS, {"block": Axial()}], ids=str)
def test_tokens_are_those_of_the_patches(fields):
    model = random_model(**fields)
    images = random_images(model.config)
    tokens = model.blocks(model.embed(images))
    assert_close(interpret.tokens.patch_tokens(model, images), tokens[:, -6:])


@pytest.mark.parametrize(
    "fields",
    [KINDS[1], KINDS[4], HYBRID, {"position": SinCos2D(), "pool": "none"}],
    ids=str,
)
def test_giants_leave_every_kind_that_adds_positions(fields):
    model = random_model(**fields)
    take_any_size(model)
    images = random_images(model.config, b=4).repeat(1, 1, 2, 1)
    at, embed = model.config.num_prefix_tokens, model.embed

    def with_a_giant(images):  # the first patch, whatever is in it
        tokens = embed(images)
        tokens[:, at, 0] += 90
        return tokens

    model.embed = with_a_giant
    assert interpret.outlier_tokens(model, images)[:, 0].all()
    moved = interpret.test_time_registers(model, images)
    assert not interpret.outlier_tokens(moved, images).any()
    tokens = moved.embed(images)
    assert tokens.shape[1] == embed(images).shape[1] + 1
    assert (tokens[:, at, 0] > 80).all()
    assert moved.config.registers == model.config.registers + 1


SIZES = {"embed_dim": 24, "depth": 3, "num_heads": 2, "num_classes": 5}
TIMMS = {
    "plain": {},
    "wide": {"img_size": (16, 32)},
    "registers": {"reg_tokens": 2, "no_embed_class": True},
    "mean": {"class_token": False, "global_pool": "avg"},
    "RoPE": {"use_rot_pos_emb": True, "use_abs_pos_emb": False},
    "hybrid": {"img_size": 128, "depth": 2},  # 4x4 patches
}


@pytest.mark.parametrize("kind", TIMMS)
def test_timms_own_models_are_looked_into_too(kind):
    models = import_timm().models
    torch.manual_seed(0)
    build = models.vision_transformer.VisionTransformer
    if kind == "hybrid":
        theirs = models.create_model("vit_tiny_r_s16_p8_224", **TIMMS[kind])
    else:
        build = models.eva.Eva if kind == "RoPE" else build
        fields = {"img_size": 32, "patch_size": 8} | SIZES | TIMMS[kind]
        theirs = build(**fields)
    for weight in theirs.parameters():
        if weight.ndim > 1:  # so that the maps aren't even
            torch.nn.init.normal_(weight, std=weight[0].numel() ** -0.5)
    theirs, ours = (
        theirs.double().eval(),
        interpret.as_vit(theirs.double().eval()),
    )
    x = torch.randn(2, 3, *theirs.patch_embed.img_size, dtype=torch.float64)
    # timm's hybrids have another epsilon in their norms
    atol = 1e-4 if kind == "hybrid" else 1e-6
    for name, look in LOOKS.items():
        if name == "class maps" and kind == "mean":
            continue
        found = look(theirs, x), look(ours, x)
        assert_close(*found, rtol=0, atol=atol, msg=name)
    # timm's own maps aren't recorded in silence; here they are by hand
    silence = pytest.raises(ValueError, match="as a ViT of")
    with silence, vitedu.record_attention(theirs):
        pass
    seen = []
    for block in theirs.blocks:
        block.attn.fused_attn = False
        block.attn.attn_drop.register_forward_hook(
            lambda module, taken, made: seen.append(made)
        )
    with torch.no_grad():
        theirs(x)
    grid = ours.config.grid
    far = interpret.attention_distance(seen, grid, 8)
    found = interpret.attention_distance(maps_of(ours, x), grid, 8)
    assert_close(found, far, rtol=0, atol=atol)
    learned = [interpret.filters] if kind != "hybrid" else []
    learned += [interpret.position_similarity] if kind != "RoPE" else []
    for read in learned:
        assert_close(read(theirs), read(ours))
