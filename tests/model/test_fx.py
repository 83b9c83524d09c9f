"""torch.fx: a graph of the network, and what tools take from its nodes."""

import pytest
import torch

from tests.tiny import random_images, random_model
from vitedu.compat import import_timm
from vitedu.model import record_attention

pytestmark = pytest.mark.slow  # traces networks


def test_features_of_named_nodes_are_what_the_modules_give():
    import_timm()
    from torchvision.models.feature_extraction import create_feature_extractor

    model, seen = random_model(), {}
    nodes = {"blocks.0.mlp.fc2": "first", "blocks.1.add_1": "last"}
    extractor = create_feature_extractor(model, nodes)
    model.blocks[0].mlp.fc2.register_forward_hook(
        lambda *args: seen.update(first=args[2])
    )
    model.blocks[1].register_forward_hook(
        lambda *args: seen.update(last=args[2])
    )
    model(random_images())
    features = extractor(random_images())
    assert features.keys() == {"first", "last"}
    for name, value in features.items():
        assert torch.equal(value, seen[name])


def test_timms_attention_extract_finds_the_maps_of_the_readable_attention():
    # traced inside of record_attention, where the softmax is a node of its own
    import_timm()
    from timm.utils import AttentionExtract

    model = random_model()
    with record_attention(model) as maps:
        extract = AttentionExtract(model, method="fx")
        maps.clear()
        model(random_images())
    extracted = extract(random_images())
    assert [*extracted] == ["blocks.0.attn.softmax", "blocks.1.attn.softmax"]
    for one, other in zip(extracted.values(), maps, strict=True):
        assert torch.equal(one, other)
