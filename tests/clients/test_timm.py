"""timm's utilities: preprocessing, layer decay, averages, attention."""

import pytest
import torch
from torch.testing import assert_close

import vitedu
from vitedu.compat import import_timm

pytestmark = [pytest.mark.clients, pytest.mark.slow]
NAME = "vit_tiny_patch16_224"


@pytest.fixture
def timm():
    """timm, beside a CPU build of torch."""
    return import_timm()


def test_its_transform_is_ours(timm, model):
    from timm.data import create_transform, resolve_model_data_config

    transform = create_transform(**resolve_model_data_config(model))
    photo = vitedu.data.photo("hopper")
    (want,) = vitedu.preprocess(model, photo)
    # both resample with pillow; what is left is one division in float32
    assert_close(transform(photo), want, rtol=0, atol=1e-6)


def test_layer_decay_makes_the_groups_of_its_own_model(timm, model):
    from timm.optim import param_groups_layer_decay

    def groups(model):
        names = {id(weight): name for name, weight in model.named_parameters()}
        return {
            (group["lr_scale"], group["weight_decay"]): sorted(
                names[id(weight)] for weight in group["params"]
            )
            for group in param_groups_layer_decay(model, layer_decay=0.75)
        }

    assert groups(model) == groups(timm.create_model(NAME))


def test_its_optimizer_leaves_biases_and_positions_undecayed(timm, model):
    from timm.optim import create_optimizer_v2

    optimizer = create_optimizer_v2(
        model, opt="adamw", lr=1e-3, weight_decay=0.05
    )
    decayed = {
        id(weight)
        for group in optimizer.param_groups
        if group["weight_decay"]
        for weight in group["params"]
    }
    names = {n for n, w in model.named_parameters() if id(w) in decayed}
    assert names == {
        name
        for name, weight in model.named_parameters()
        if weight.ndim > 1 and name not in ("cls_token", "pos_embed")
    }


@pytest.mark.parametrize("average", ["ModelEmaV2", "ModelEmaV3"])
def test_its_average_follows_the_weights(timm, tiny, average):
    from timm import utils

    averaged = getattr(utils, average)(tiny, decay=0.75)
    before = tiny.head.weight.detach().clone()
    with torch.no_grad():
        tiny.head.weight += 1
    averaged.update(tiny)
    assert_close(averaged.module.head.weight, before + 0.25)


def test_its_attention_maps_are_the_recorded_ones(timm, model):
    from timm.utils import AttentionExtract

    images = vitedu.preprocess(model, vitedu.data.photo("hopper"))
    with vitedu.record_attention(model) as maps, torch.no_grad():
        model(images)
    # it looks for a softmax, which fused attention has not: recording, the
    # model computes one, as timm's own does after `set_fused_attn(False)`
    with vitedu.record_attention(model):
        extract = AttentionExtract(model)
    with torch.no_grad():
        found = list(extract(images).values())
    assert len(found) == len(maps) == 12
    for one, other in zip(found, maps, strict=True):
        # float32, a softmax of 197 numbers
        assert_close(one, other, rtol=0, atol=1e-5)


def test_its_model_takes_our_weights(timm, model):
    theirs = timm.create_model(NAME).eval()
    theirs.load_state_dict(model.state_dict())
    images = vitedu.preprocess(model, vitedu.data.photo("cat"))
    with torch.no_grad():
        assert_close(theirs(images), model(images), rtol=1e-4, atol=1e-4)


def test_intermediate_layers_are_those_of_its_model(timm, model):
    theirs = timm.create_model(NAME).eval()
    theirs.load_state_dict(model.state_dict())
    images = vitedu.preprocess(model, vitedu.data.photo("cat"))
    options = {"n": 4, "reshape": True, "norm": True}
    with torch.no_grad():
        found = model.get_intermediate_layers(images, **options)
        want = theirs.get_intermediate_layers(images, **options)
    assert [x.shape for x in found] == [(1, 192, 14, 14)] * 4
    for one, other in zip(found, want, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_intermediates_and_other_sizes_are_those_of_its_model(timm, model):
    theirs = timm.create_model(NAME, dynamic_img_size=True).eval()
    theirs.load_state_dict(model.state_dict())
    arrays = model.state_dict()
    model = vitedu.vit(NAME, dynamic=True).eval()
    model.load_state_dict(arrays)
    images = torch.randn(1, 3, 192, 256)
    options = {"indices": [5, 11], "norm": True}
    with torch.no_grad():
        final, found = model.forward_intermediates(images, **options)
        want, others = theirs.forward_intermediates(images, **options)
        # positions resized in float64 and in float32, then twelve blocks
        assert_close(model(images), theirs(images), rtol=1e-3, atol=1e-3)
    assert [x.shape for x in found] == [(1, 192, 12, 16)] * 2
    for one, other in zip([final, *found], [want, *others], strict=True):
        assert_close(one, other, rtol=1e-3, atol=1e-3)
