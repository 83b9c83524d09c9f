"""Everything about one picture: equal to its parts, for every kind of ViT."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

import vitedu
from tests.tiny import random_model
from vitedu.interpret import (
    attention_distance,
    attention_map,
    components,
    deletion_curve,
    explain,
    outlier_tokens,
)
from vitedu.model import RoPE


def photo():
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3))
    return Image.fromarray(pixels.astype(np.uint8))


def test_an_explanation_is_made_of_its_parts():
    model = random_model()
    model.class_names = tuple("abcde")
    found, images = explain(model, photo()), vitedu.preprocess(model, photo())
    assert torch.equal(found.image, images[0])
    assert found.answers == tuple(vitedu.classify(model, photo()))
    rollout = attention_map(model, images)
    assert_close(found.rollout, rollout[0])
    assert_close(found.components, components(model, images)[0])
    assert torch.equal(found.outliers, outlier_tokens(model, images).view(2, 3))
    with vitedu.record_attention(model) as maps:
        model(images)
    assert_close(found.distance, attention_distance(maps, (2, 3), 4))
    last = maps[-1][0, :, 0, 1:].mean(dim=0).view(2, 3)
    assert_close(found.class_maps[-1], last)
    order = rollout.flatten(1).argsort(descending=True)
    curve = deletion_curve(model, images, order)[:, 0]
    assert_close(found.curves["rollout"], curve)
    assert_close(found.curves["random"][0], curve[0])
    assert found.missing == ()


@pytest.mark.parametrize(
    ("fields", "gone", "said"),
    [
        ({"num_classes": 0}, {"curves"}, "no head"),
        ({"position": RoPE(), "registers": 2}, set(), None),
        (
            {"class_token": False, "pool": "mean"},
            {"class_maps"},
            "no class token",
        ),
        (
            {"class_token": False, "pool": "map"},
            {"class_maps", "rollout", "curves"},
            "pool=map",
        ),
    ],
    ids=str,
)
def test_what_a_model_does_not_have_is_missing(fields, gone, said):
    found = explain(random_model(**fields), photo())
    none = {
        name
        for name, value in found._asdict().items()
        if value is None or value == {}
    }
    assert none == gone
    assert said is None or any(said in each for each in found.missing)
    assert found.answers or fields.get("num_classes") == 0


def test_answers_that_are_not_finite_are_missing_and_the_mode_is_kept():
    model = random_model().train()
    model.head.bias.data.fill_(torch.nan)
    found = explain(model, photo())
    assert found.answers == () and "NaN or infinity" in found.missing[0]
    assert model.training


def test_without_the_curve_nothing_is_removed():
    assert explain(random_model(), photo(), curve=False).curves == {}
