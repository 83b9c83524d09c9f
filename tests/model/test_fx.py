"""torch.fx: a graph of the network, and what tools take from its nodes."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from vitedu.compat import import_timm
from vitedu.model import (
    Axial,
    Hybrid,
    Learned1D,
    Learned2D,
    NoPosition,
    Relative,
    ResNet,
    ResNetConfig,
    RoPE,
    SinCos2D,
    ViT,
    ViTConfig,
    record_attention,
)

pytestmark = pytest.mark.slow  # traces every kind of network

TINY = ViTConfig(
    image_size=(16, 24),
    patch_size=8,
    num_classes=5,
    embed_dim=16,
    depth=2,
    num_heads=2,
    mlp_dim=24,
)
BIT = ResNetConfig(
    layers=(1, 2),
    width=0.5,
    num_classes=5,
    image_size=32,
    pool_padding="-inf",
)
KINDS = {
    "token": TINY,
    "no head": replace(TINY, num_classes=0),
    "pre-logits": replace(TINY, pre_logits=7),
    "mean": replace(TINY, class_token=False, pool="mean"),
    "map": replace(TINY, pool="map"),
    "every token": replace(TINY, pool="none"),
    "no positions": replace(TINY, position=NoPosition()),
    "sin-cos": replace(TINY, position=SinCos2D()),
    "sin-cos in blocks": replace(TINY, position=SinCos2D(at="layers")),
    "1-D shared": replace(TINY, position=Learned1D(at="shared")),
    "2-D": replace(TINY, position=Learned2D()),
    "2-D in blocks": replace(TINY, position=Learned2D(at="layers")),
    "relative": replace(TINY, position=Relative()),
    "relative shared": replace(TINY, position=Relative(at="shared")),
    "rope": replace(TINY, position=RoPE()),
    "registers": replace(TINY, registers=2),
    "axial": replace(TINY, block=Axial()),
    "root": replace(TINY, stem=Hybrid(()), patch_size=2),
    "hybrid": replace(TINY, stem=Hybrid((1, 1), width=0.5), patch_size=1),
    "bit-v2": BIT,
    "bit-v1": replace(BIT, family="bit-v1"),
}


def random_model(config):
    torch.manual_seed(0)
    model = (ResNet if isinstance(config, ResNetConfig) else ViT)(config)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model.eval()


def images(b=2):
    torch.manual_seed(1)
    return torch.randn(b, 3, 16, 24)


@pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
def test_a_traced_model_is_the_same_function_at_any_batch_size(config):
    model = random_model(config)
    traced = torch.fx.symbolic_trace(model)
    for b in (1, 3):
        assert torch.equal(traced(images(b)), model(images(b)))


def test_a_traced_model_drops_paths_in_training():
    model = random_model(replace(TINY, drop_path=0.5)).train()
    traced = torch.fx.symbolic_trace(model)
    torch.manual_seed(2)
    want = model(images(4))
    torch.manual_seed(2)
    assert torch.equal(traced(images(4)), want)


def test_a_traced_model_refuses_other_images_as_the_model_does():
    traced = torch.fx.symbolic_trace(random_model(TINY))
    with pytest.raises(ValueError, match="one image is images"):
        traced(images()[0])


def test_features_of_named_nodes_are_what_the_modules_give():
    import_timm()
    from torchvision.models.feature_extraction import create_feature_extractor

    model, seen = random_model(TINY), {}
    nodes = {"blocks.0.mlp.fc2": "first", "blocks.1.add_1": "last"}
    extractor = create_feature_extractor(model, nodes)
    model.blocks[0].mlp.fc2.register_forward_hook(
        lambda *args: seen.update(first=args[2])
    )
    model.blocks[1].register_forward_hook(
        lambda *args: seen.update(last=args[2])
    )
    model(images())
    features = extractor(images())
    assert features.keys() == {"first", "last"}
    for name, value in features.items():
        assert torch.equal(value, seen[name])


def test_timms_attention_extract_finds_the_maps_of_the_readable_attention():
    # traced inside of record_attention, where the softmax is a node of its own
    import_timm()
    from timm.utils import AttentionExtract

    model = random_model(TINY)
    with record_attention(model) as maps:
        extract = AttentionExtract(model, method="fx")
        maps.clear()
        model(images())
    extracted = extract(images())
    assert [*extracted] == ["blocks.0.attn.softmax", "blocks.1.attn.softmax"]
    for one, other in zip(extracted.values(), maps, strict=True):
        assert torch.equal(one, other)
