"""Networks that learn without labels, against transformers and by hand."""

import re
from dataclasses import replace

import pytest
import torch

from tests.tiny import random_tensors
from vitedu.compat import import_torchvision
from vitedu.model import SinCos2D, new_network
from vitedu.model.mae import MAE, MAEConfig, masked_error, random_mask
from vitedu.model.mpp import MPP, MPPConfig, colour_classes, spoil
from vitedu.model.network import network_config

SIZES = dict(
    image_size=(8, 12),
    patch_size=(4, 4),
    embed_dim=32,
    depth=2,
    num_heads=4,
    mlp_dim=48,
)
DECODER = dict(decoder_dim=16, decoder_depth=2, decoder_heads=2)
MAES = MAEConfig(**SIZES, **DECODER, mask_ratio=0.5)
MPPS = MPPConfig(**SIZES)


def images(config, count=3):
    torch.manual_seed(1)
    shape = count, config.in_channels, *config.image_size
    return torch.randn(shape, dtype=torch.float64)


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize("normalised", [True, False])
def test_it_equals_transformers(normalised):
    pytest.importorskip("transformers")
    import_torchvision()
    from transformers import ViTMAEConfig, ViTMAEForPreTraining

    ours = MAE(
        MAEConfig(
            **SIZES | {"image_size": (16, 16)},
            **DECODER,
            normalised=normalised,
            norm_eps=1e-12,
        )
    ).double()
    state = random_tensors(ours)
    ours.load_state_dict(state)
    theirs = ViTMAEForPreTraining(
        ViTMAEConfig(
            image_size=16,
            patch_size=4,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            decoder_hidden_size=16,
            decoder_num_hidden_layers=2,
            decoder_num_attention_heads=2,
            decoder_intermediate_size=64,
            norm_pix_loss=normalised,
        )
    ).double()
    theirs.load_state_dict(as_theirs(state))
    x, noise = images(ours.config), torch.rand(3, 16)
    found = theirs.eval()(x, noise=noise)
    mask = found.mask.bool()
    tokens = ours.encode(x, mask)
    pixels = ours.decode(tokens, mask)
    torch.testing.assert_close(pixels, found.logits, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(
        ours(x, mask).mean(), found.loss, rtol=1e-10, atol=1e-10
    )


# a pattern in our names, and what transformers has there
NAMES = {
    "blocks": "layers",
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "attn.proj": "attention.o_proj",
    "^patch_embed.proj": "embeddings.patch_embeddings.projection",
    "^cls_token": "embeddings.cls_token",
    "^pos_embed": "embeddings.position_embeddings",
    "^norm": "layernorm",
}


def as_theirs(state):
    """Our tensors under transformers' names."""
    theirs = {}
    for name, tensor in state.items():
        is_decoder = name.startswith(("decoder_", "mask_token"))
        for ours, other in NAMES.items():
            name = re.sub(ours, other, name)
        name = f"{'decoder' if is_decoder else 'vit'}.{name}"
        parts = tensor.chunk(3) if "attn.qkv" in name else [tensor]
        for letter, part in zip("qkv", parts, strict=False):
            theirs[name.replace("attn.qkv", f"attention.{letter}_proj")] = part
    return theirs


def test_each_picture_hides_as_many_patches_and_others_than_its_neighbour():
    mask = random_mask(200, 49, 0.75, torch.Generator().manual_seed(0))
    assert mask.dtype == torch.bool and mask.shape == (200, 49)
    assert (mask.sum(dim=1) == 37).all()
    assert len(mask.unique(dim=0)) == 200
    assert (mask.double().mean(dim=0) - 37 / 49).abs().max() < 0.12


@pytest.mark.parametrize("config", [MAES, MPPS], ids=["mae", "mpp"])
@pytest.mark.parametrize("position", ["learned", "fixed"])
def test_a_loss_for_each_picture_that_the_others_do_not_touch(config, position):
    fields = {"class_token": True}
    if position == "fixed":
        fields = {"class_token": False, "pool": "mean", "position": SinCos2D()}
    torch.manual_seed(0)
    model = new_network(replace(config, **fields)).double().eval()
    model.set_input_size(16)
    x = images(model.config)
    losses = model(x)
    assert losses.shape == (3,) and losses.isfinite().all()
    assert torch.equal(losses, model(x))  # the same masks in eval mode
    changed = x.clone()
    changed[1] += 1
    alike = model(changed).isclose(losses, rtol=1e-9)
    assert alike.tolist() == [True, False, True]
    assert not torch.equal(model.train()(x), losses)
    model(x).sum().backward()
    unused = [n for n, p in model.named_parameters() if p.grad is None]
    assert not unused


def test_hidden_pixels_are_not_seen_and_visible_ones_stay():
    torch.manual_seed(0)
    model = MAE(replace(MAES, normalised=False)).double().eval()
    x = images(MAES, 1)
    mask = torch.tensor([[True, False, True, False, False, True]])
    done = model.complete(x, mask)
    hidden = torch.zeros(2, 3, dtype=torch.bool)
    hidden.view(-1)[:] = mask[0]
    hidden = hidden.repeat_interleave(4, 0).repeat_interleave(4, 1)
    assert torch.equal(done[..., ~hidden], x[..., ~hidden])
    noise = torch.where(hidden, torch.randn_like(x), x)
    assert torch.allclose(model.complete(noise, mask), done, atol=1e-12)


def test_a_normalised_answer_gets_the_true_mean_and_contrast_back():
    torch.manual_seed(0)
    model = MAE(MAES).double().eval()
    x, mask = images(MAES, 1), torch.tensor([[True] * 5 + [False]])
    model.decode = lambda tokens, mask: model.target(x)
    assert torch.allclose(model.complete(x, mask), x, atol=1e-6)


def test_only_hidden_patches_count():
    found, pixels = torch.zeros(1, 4, 2), torch.ones(1, 4, 2)
    pixels[0, 1] = 3
    mask = torch.tensor([[True, True, False, False]])
    assert masked_error(found, pixels, mask).tolist() == [5.0]


def test_colours_have_three_bits_a_channel():
    colours = torch.tensor(
        [[0.0, 0, 0], [1, 1, 1], [0.5, 0, 0], [0, 0.126, 0.124]]
    )
    assert colour_classes(colours).tolist() == [0, 511, 256, 8]
    assert colour_classes(torch.tensor([[0.99], [0.1]])).tolist() == [7, 0]


def test_of_the_chosen_80_percent_are_masked_10_moved_10_kept():
    x = torch.arange(20_000.0).view(1, -1, 1)
    mask = random_mask(1, 20_000, 0.5)
    generator = torch.Generator().manual_seed(0)
    after = spoil(x, mask, torch.full((1, 1, 1), -1.0), generator)
    assert torch.equal(after[~mask], x[~mask])
    masked, same = (after == -1)[mask], (after == x)[mask]
    shares = [y.double().mean().item() for y in (masked, same)]
    assert shares == pytest.approx([0.8, 0.1], abs=0.01)


@pytest.mark.parametrize(
    ("target", "shape"),
    [("mean", (3, 6)), ("small", (3, 6, 16)), ("pixels", (3, 6, 48))],
)
def test_the_papers_three_targets(target, shape):
    torch.manual_seed(0)
    model = MPP(replace(MPPS, target=target)).double()
    x = images(MPPS).clamp(-1, 1)
    targets = model.targets(x)
    assert targets.shape == shape
    assert model(x).shape == (3,)
    if target == "mean":  # of colours in [0, 1], as they were in the file
        first = (x[0, :, :4, :4].mean(dim=(1, 2)) + 1) / 2
        assert targets[0, 0] == colour_classes(first)


@pytest.mark.parametrize("config", [MAES, MPPS], ids=["mae", "mpp"])
def test_its_configuration_comes_back_from_json(config):
    assert network_config(config.to_json()) == config
