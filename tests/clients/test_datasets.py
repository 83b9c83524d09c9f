"""Data that other packages read: torchvision's folders, Hugging Face's sets."""

import pytest
import torch
from torch.testing import assert_close
from torch.utils.data import DataLoader

import vitedu

pytestmark = [pytest.mark.clients, pytest.mark.slow]


def test_the_preprocessing_is_a_transform_of_torchvision(model, photos):
    from torchvision.datasets import ImageFolder

    data = ImageFolder(photos, transform=model.preprocess)
    loader = DataLoader(data, batch_size=8, num_workers=1)
    ((images, _),) = loader
    assert images.shape == (8, 3, 224, 224)
    paths = [path for path, _ in data.samples]
    assert_close(images, vitedu.preprocess(model, paths), rtol=0, atol=0)
    ours = vitedu.evaluate.features(model, photos)
    theirs = vitedu.evaluate.features(model, loader)
    assert torch.equal(ours.labels, theirs.labels)
    assert_close(ours.features, theirs.features, rtol=1e-5, atol=1e-5)


def test_a_hugging_face_dataset_is_data(model, photos):
    datasets = pytest.importorskip("datasets")
    data = datasets.load_dataset(
        "imagefolder", data_dir=str(photos), split="train"
    )
    ours = vitedu.evaluate.features(model, photos)
    theirs = vitedu.evaluate.features(model, data)
    assert torch.equal(ours.labels, theirs.labels)
    assert_close(ours.features, theirs.features, rtol=1e-5, atol=1e-5)


def test_a_model_is_fine_tuned_on_a_dataset_of_torchvision(tiny, photos):
    from torchvision.datasets import ImageFolder

    run = vitedu.finetune(
        tiny, ImageFolder(photos), test=ImageFolder(photos), epochs=1
    )
    assert run.model.class_names == ("ants", "bees")
    assert 0 <= run.result["metrics"]["test_accuracy"]["value"] <= 100
