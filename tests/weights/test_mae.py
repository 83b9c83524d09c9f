"""Files of Facebook's MAE with their decoder, which complete pictures."""

import pytest
import torch

import vitedu
from tests.model.test_mae import DECODER, SIZES, as_theirs, images
from tests.tiny import random_tensors
from vitedu.compat import import_torchvision
from vitedu.errors import UserError
from vitedu.model import ViT
from vitedu.model.mae import MAE, MAEConfig

# heads of the decoder are 32 wide, as in the paper's
OURS = MAEConfig(
    **SIZES | {"image_size": (16, 16)},
    **DECODER | {"decoder_dim": 64},
    normalised=False,
)


@pytest.fixture
def state():
    return random_tensors(MAE(OURS).double())


@pytest.fixture
def path(tmp_path, state):
    file = tmp_path / "mae_visualize_vit_tiny.pth"
    torch.save({"model": state}, file)
    return file


@pytest.mark.slow
@pytest.mark.clients
def test_it_draws_transformers_pixels(path, state):
    pytest.importorskip("transformers")
    import_torchvision()
    from transformers import ViTMAEConfig, ViTMAEForPreTraining

    model = vitedu.load(path, dtype=torch.float64, num_heads=4)
    assert type(model) is MAE and model.config == OURS
    sizes = {"hidden_size": 32, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "intermediate_size": 48}
    sizes |= {"image_size": 16, "patch_size": 4, "layer_norm_eps": 1e-6}
    decoder = {"hidden_size": 64, "num_hidden_layers": 2}
    decoder |= {"num_attention_heads": 2, "intermediate_size": 256}
    decoder = {f"decoder_{name}": value for name, value in decoder.items()}
    theirs = ViTMAEForPreTraining(ViTMAEConfig(**sizes, **decoder)).double()
    theirs.load_state_dict(as_theirs(state))
    x = images(OURS)
    with torch.no_grad():
        found = theirs.eval()(x, noise=torch.rand(3, 16))
        mask = found.mask.bool()
        pixels = model.decode(model.encode(x, mask), mask)
    torch.testing.assert_close(pixels, found.logits, rtol=1e-10, atol=1e-10)


def test_with_classes_it_is_the_vit_inside(path, state):
    model = vitedu.load(path, num_classes=0, num_heads=4)
    assert type(model) is ViT
    assert torch.equal(model.norm.weight, state["norm.weight"].float())
    assert "decoder_pred.weight" in model.load_report.dropped


def test_what_its_decoder_learned_can_be_said(path):
    model = vitedu.load(path, num_heads=4, normalised=True)
    assert model.config.normalised
    assert any("normalised=True" in note for note in model.load_report.notes)


def test_a_decoder_that_lacks_weights_is_named(tmp_path, state):
    del state["decoder_blocks.1.mlp.fc1.weight"]
    torch.save({"model": state}, tmp_path / "mae.pth")
    with pytest.raises(UserError, match=r"decoder_blocks.1.mlp.fc1.weight"):
        vitedu.load(tmp_path / "mae.pth", num_heads=4)


def test_it_is_written_and_read_again(path, tmp_path):
    model = vitedu.load(path, num_heads=4)
    vitedu.save(model, tmp_path / "mine.safetensors")
    again = vitedu.load(tmp_path / "mine.safetensors")
    assert type(again) is MAE and again.config == model.config
    x = images(OURS).float()
    assert torch.equal(again(x), model(x))
