"""torch.fx: a model as a graph, and torchvision's extractor of its values."""

import pytest
import torch
from torch.testing import assert_close

pytestmark = pytest.mark.clients


def test_the_traced_model_gives_the_same_logits(tiny, batches):
    images, _ = batches[0]
    tiny.eval()
    traced = torch.fx.symbolic_trace(tiny)
    assert_close(traced(images), tiny(images), rtol=0, atol=0)
    assert_close(traced(images[:1]), tiny(images[:1]), rtol=0, atol=0)


def test_extracted_features_are_those_that_a_hook_sees(tiny, batches):
    from torchvision.models.feature_extraction import create_feature_extractor

    images, _ = batches[0]
    tiny.eval()
    extract = create_feature_extractor(
        tiny, {"blocks.0": "first", "norm": "last", "head": "logits"}
    )
    seen = {}
    tiny.blocks[0].register_forward_hook(
        lambda module, inputs, output: seen.update(first=output)
    )
    logits = tiny(images)
    found = extract(images)
    assert set(found) == {"first", "last", "logits"}
    assert_close(found["first"], seen["first"], rtol=0, atol=0)
    assert_close(found["last"], tiny.forward_features(images), rtol=0, atol=0)
    assert_close(found["logits"], logits, rtol=0, atol=0)
