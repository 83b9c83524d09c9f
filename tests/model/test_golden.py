"""The authors' own numbers inside their networks, where VITEDU_GOLDEN is set.

Tokens, features and logits of every case are compared in
tests/weights/test_npz.py; here what lies on the way, and initial values.
"""

import json
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vitedu.model import Hybrid, ResNetConfig, ViTConfig, new_network
from vitedu.pictures import PreprocessSpec
from vitedu.weights import DIALECTS, Checkpoint, load

# Their float64 run; measured below 2e-13, of numbers up to 30.
CLOSE = {"rtol": 0, "atol": 1e-10}
# What they stored in float32 alone.
STORED = {"rtol": 0, "atol": 5e-5}


@pytest.fixture
def case(golden):
    """A function from a case's name to model, images and their outputs."""

    def read(name, **fields):
        path = golden / f"{name}.weights.npz"
        model = load(path, dtype=torch.float64, **fields)
        with np.load(golden / f"{name}.io.npz") as io:
            outputs = {key: torch.from_numpy(io[key]) for key in io}
        images = outputs["images"].double().permute(0, 3, 1, 2)
        return model.requires_grad_(False), images, outputs

    return read


def seen(features):
    """What they keep of feature maps: image 0, channels [::8], last."""
    return features[:1, ::8].permute(0, 2, 3, 1)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("f1_hybrid_r212_p1", {}),
        ("f3_hybrid_stem_p2", {"image_size": (70, 64)}),
    ],
)
def test_root_stages_and_embedding_of_a_hybrid(case, name, fields):
    model, images, outputs = case(name, **fields)
    backbone = model.patch_embed.backbone
    has_stages = bool(model.config.stem.layers)
    root = backbone.stem if has_stages else backbone
    normed = seen(root.norm(root.conv(images)))[:, ::2, ::2]
    assert_close(normed.float(), outputs["root_gn"], **STORED)
    x = root(images)
    for i, stage in enumerate(backbone.stages if has_stages else [], start=1):
        x = stage(x)
        assert_close(seen(x), outputs[f"after_block{i}_f64"], **CLOSE)
    tokens = model.patch_embed(images).float()
    want = outputs["embedding"].flatten(1, 2)  # row by row
    assert_close(tokens, want, rtol=0, atol=2e-4)  # of numbers up to 50


@pytest.mark.parametrize("name", ["g1_bit_v2_paper", "g2_bit_v1"])
def test_root_stages_and_features_of_a_resnet(case, name):
    padding = "-inf" if name == "g1_bit_v2_paper" else None
    model, images, outputs = case(name, pool_padding=padding)
    x = model.stem(images)
    assert_close(seen(x), outputs["stem_f64"], **CLOSE)
    for i, stage in enumerate(model.stages, start=1):
        x = stage(x)
        assert_close(seen(x), outputs[f"stage{i}_f64"], **CLOSE)
    features = model.forward_features(images)
    assert_close(features.mean((2, 3)), outputs["features_f64"], **CLOSE)
    logits = model.head(features).permute(0, 2, 3, 1)
    assert_close(logits.float(), outputs["logits_2d"], **STORED)
    model.reset_classifier(0)
    assert_close(model(images), outputs["features_f64"], **CLOSE)


@pytest.mark.parametrize(
    ("name", "size"),
    [("h3_bv_map_learn", (24, 32)), ("h5_bv_map_sincos_rep_scan", (32, 32))],
)
def test_what_attention_pooling_makes_of_the_tokens(case, name, size):
    model, _, outputs = case(name, image_size=size)
    pooled = model.pool(outputs["encoded_f64"])
    # stored in float32, the case's own tolerance
    assert_close(pooled.float(), outputs["head_input"], rtol=0, atol=1e-5)
    # their MLP of attention pooling stays float32 also in their float64 run
    features = model.pre_logits(pooled)
    assert_close(features, outputs["features_f64"], rtol=0, atol=2e-6)


# --- initial values

SIZES = {"num_classes": 100, "embed_dim": 192, "num_heads": 3, "mlp_dim": 768}
DRAWN = {
    "vit": ViTConfig(image_size=64, depth=1, pre_logits=128, **SIZES),
    "bv": ViTConfig(
        image_size=64,
        patch_size=8,
        depth=1,
        class_token=False,
        pool="map",
        pre_logits=64,
        **SIZES,
    ),
    "hybrid": ViTConfig(
        image_size=64,
        patch_size=1,
        num_classes=10,
        embed_dim=32,
        depth=2,
        num_heads=2,
        mlp_dim=64,
        stem=Hybrid((2, 1, 2), width=0.5),
    ),
    "bit": ResNetConfig(layers=(2, 2), width=0.5, num_classes=6),
}


# BiT's release is in TensorFlow's words, in the order of their replacement
WORDS = {
    "resnet/group_norm": "norm-pre-head",
    "resnet/": "",
    "root_block/standardized": "root_block/conv_root/standardized",
    "a/proj/": "conv_proj/",
    **{f"/{x}/st": f"/conv{i}/st" for i, x in enumerate("abc", start=1)},
    **{f"/{x}/group_norm": f"/gn{i}" for i, x in enumerate("abc", start=1)},
    "/standardized_conv2d": "",
    "/conv2d": "",
    "gamma": "scale",
    "beta": "bias",
    # and flax numbers the modules of a block as it likes
    "MultiHeadDotProductAttention_1": "MultiHeadDotProductAttention_0",
    "LayerNorm_2": "LayerNorm_1",
    "MlpBlock_3": "MlpBlock_0",
}


def plain_name(name):
    for theirs, ours in WORDS.items():
        name = name.replace(theirs, ours)
    return name


@pytest.mark.parametrize("kind", DRAWN)
def test_each_tensor_spreads_as_the_authors_own(golden, kind):
    measured = json.loads((golden / "init.json").read_text())["measured"][kind]
    measured = {plain_name(name): each for name, each in measured.items()}
    config = DRAWN[kind]
    torch.manual_seed(0)
    state = new_network(config).state_dict()
    checkpoint = Checkpoint(config, state, PreprocessSpec(config.image_size))
    arrays = DIALECTS["npz"].from_vitedu(checkpoint)
    ours = {plain_name(name): tensor for name, tensor in arrays.items()}
    assert ours.keys() == measured.keys()
    for name, theirs in measured.items():
        # big_vision's stem and positions start otherwise than the paper's
        if kind == "bv" and not name.startswith("MAPHead"):
            continue
        tensor = ours[name]
        assert tensor.numel() == math.prod(theirs["shape"]), name
        # 6 times the error of a deviation measured twice; exact for ones and
        # zeros
        close = 6 / math.sqrt(tensor.numel())
        std = tensor.std(correction=0).item()
        assert std == pytest.approx(theirs["std"], rel=close), name
        error = close * theirs["std"]
        mean = tensor.mean().item()
        assert mean == pytest.approx(theirs["mean"], abs=error), name
        # where kernels are cut: of n uniform draws the largest is below
        # 1 - 10 / n of the bound with probability e^-10
        if name.endswith("kernel"):
            cut = pytest.approx(
                theirs["absmax"], rel=0.02 + 10 / tensor.numel()
            )
            assert tensor.abs().max().item() == cut, name
