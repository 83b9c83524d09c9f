"""peft: LoRA adapters on the attention of a frozen model."""

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

import vitedu
from tests.clients.marks import client

pytestmark = client("peft")


@pytest.fixture
def adapted(tiny):
    """The tiny model with adapters on qkv, and a head that is trained whole."""
    import peft

    torch.manual_seed(0)
    config = peft.LoraConfig(
        r=4, target_modules=["qkv"], modules_to_save=["head"]
    )
    return peft.get_peft_model(tiny, config)


def train(model, batches, *, epochs=4):
    """The mean loss of the first and of the last epoch."""
    weights = [w for w in model.parameters() if w.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=0.01)
    losses = []
    for _ in range(epochs):
        losses.append(0.0)
        for images, labels in batches:
            loss = cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[-1] += loss.item() / len(batches)
    return losses[0], losses[-1]


def test_lora_trains_and_changes_no_weight_below(adapted, batches):
    before = {name: w.clone() for name, w in adapted.named_parameters()}
    first, last = train(adapted, batches)
    assert last < first / 2
    changed = {
        name
        for name, weight in adapted.named_parameters()
        if not torch.equal(weight, before[name])
    }
    expected = {n for n in before if "lora_" in n or "modules_to_save" in n}
    assert changed == expected
    assert len(expected) == 2 * 2 + 2  # two matrices a block, and the head


def test_merged_adapters_give_the_same_logits_and_are_saved(
    adapted, batches, tmp_path
):
    train(adapted, batches)
    images, _ = batches[0]
    adapted.eval()
    with torch.no_grad():
        want = adapted(images)
        merged = adapted.merge_and_unload()
        # float32: one sum of two products becomes one product of a sum
        assert_close(merged(images), want, rtol=1e-4, atol=1e-5)
    assert {n for n, _ in merged.named_parameters() if "lora" in n} == set()
    path = vitedu.save(merged, tmp_path / "merged.safetensors")
    with torch.no_grad():
        assert_close(vitedu.load(path)(images), merged(images))


def test_adapters_are_saved_and_loaded(
    adapted, another_tiny, batches, tmp_path
):
    import peft

    train(adapted, batches)
    adapted.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(another_tiny, tmp_path)
    images, _ = batches[0]
    with torch.no_grad():
        assert_close(again.eval()(images), adapted.eval()(images))
