"""torchao: weights in 8 bits."""

import pytest
import torch

import vitedu
from tests.clients.marks import client

pytestmark = [
    *client("torchao"),
    pytest.mark.filterwarnings("ignore:::torchao"),
]


def test_weights_in_8_bits_name_the_photographs_as_before(model):
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    names = ("hopper", "cat", "coffee")
    photos = [vitedu.data.photo(name) for name in names]
    images = vitedu.preprocess(model, photos)
    with torch.no_grad():
        want = model(images)
        quantize_(model, Int8WeightOnlyConfig())
        found = model(images)
    assert type(model.blocks[0].mlp.fc1.weight.data) is not torch.Tensor
    assert torch.equal(found.argmax(1), want.argmax(1))
    # a weight is rounded by up to 1/254 of its row's largest: measured, the
    # logits move by 2.4% of their spread
    assert not torch.equal(found, want)
    assert (found - want).std() < 0.1 * want.std()
    best = vitedu.classify(model, photos[0])[0]
    assert best.name == "military uniform"
