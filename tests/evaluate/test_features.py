"""Features are what the head gets of each image, in order; labels beside."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import vitedu
from tests.evaluate.small import cut, prepared, small
from vitedu.data import photo
from vitedu.evaluate import Features, features


def batches(size=4):
    return cut(*prepared(), size)


@torch.no_grad()
def without_head(model, images):
    """What the model returns once it has no head."""
    parts = model.pre_logits
    model.head = nn.Identity()
    model.pre_logits = parts
    return model(images)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"num_classes": 0},
        {"pool": "mean"},
        {"pool": "map", "class_token": False},
        {"pre_logits": 8},
    ],
    ids=["token", "headless", "mean", "map", "pre-logits"],
)
def test_they_are_what_the_head_gets(fields):
    model = small(**fields)
    found = features(model, batches(size=6))
    assert isinstance(found, Features)
    with torch.no_grad():
        assert torch.equal(model.head(found.features), model(prepared()[0]))
    assert torch.equal(found.features, without_head(model, prepared()[0]))
    assert torch.equal(found.labels, prepared()[1])


def test_a_resnet_has_features_too():
    torch.manual_seed(0)
    model = vitedu.resnet("BiT-R50x1", layers=(1, 1), num_classes=3).eval()
    images = torch.randn(2, 3, 32, 32)
    found = features(model, [(images, torch.tensor([0, 1]))]).features
    model.reset_classifier(0)
    with torch.no_grad():
        assert torch.equal(found, model(images))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_they_are_in_the_models_dtype_without_gradients(dtype):
    model = small().to(dtype)
    found = features(model, batches(size=6)).features
    assert found.dtype == dtype
    assert not found.requires_grad and not found.is_inference()
    assert torch.equal(found, without_head(model, prepared()[0].to(dtype)))


@pytest.mark.parametrize("wrap", [AveragedModel, nn.DataParallel])
def test_a_wrapped_model_is_taken_out(wrap):
    want = features(small(), batches()).features
    assert torch.equal(features(wrap(small()), batches()).features, want)


def test_of_a_folder_labels_are_the_sorted_classes(tmp_path):
    # written in the order of another alphabet
    for name, number in (("zebra", 0), ("ant", 1), ("zebra", 2), ("ant", 3)):
        (tmp_path / name).mkdir(exist_ok=True)
        picture = photo("cat").crop((number * 20, 0, number * 20 + 60, 50))
        picture.save(tmp_path / name / f"{number}.png")
    model = small()
    model.class_names = ("cat", "dog", "egg")  # may be others
    found = features(model, tmp_path, batch_size=3)
    assert found.labels.tolist() == [0, 0, 1, 1]
    paths = sorted(tmp_path.glob("*/*.png"))
    want = without_head(model, vitedu.preprocess(model, paths))
    torch.testing.assert_close(found.features, want)


def test_labels_of_arrays_and_batches_are_the_callers_own():
    pixels = np.stack([np.array(photo("cat").resize((8, 8)))] * 2)
    assert features(small(), (pixels, [1, 0])).labels.tolist() == [1, 0]
    # pictures without a class may have any number, such as -1
    found = features(small(), [(prepared(2)[0], [-1, 99])])
    assert found.labels.tolist() == [-1, 99]


IMAGES = torch.rand(6, 3, 8, 8)  # ToTensor alone
