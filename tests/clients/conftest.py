"""The models and pictures that other packages are tried on."""

import numpy as np
import pytest
import torch
from PIL import Image

import vitedu
from tests.tiny import tiny as small
from vitedu.compat import import_torchvision
from vitedu.model import ViT


@pytest.fixture(scope="session", autouse=True)
def torchvision():
    """Importable beside a CPU build of torch; most clients import it."""
    return import_torchvision()


@pytest.fixture
def model():
    """ViT-Ti/16 with the weights of the package."""
    return vitedu.load("ViT-Ti/16")


def make_tiny():
    """Four patches, two blocks, two classes: always the same random weights."""
    torch.manual_seed(0)
    sizes = {"patch_size": (8, 8), "num_heads": 2, "mlp_dim": 64}
    model = ViT(small(image_size=(16, 16), num_classes=2, **sizes))
    torch.nn.init.normal_(model.head.weight, std=0.1)
    return model


@pytest.fixture
def tiny():
    """A tiny model with random weights."""
    return make_tiny()


@pytest.fixture
def another_tiny():
    """Another object with the weights of `tiny`."""
    return make_tiny()


@pytest.fixture
def batches():
    """Eight batches of four: bright on the left is class 0, on the right 1."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(32, 3, 16, 16, generator=generator) - 1
    labels = torch.arange(32) % 2
    images[labels == 0, :, :, :8] += 1
    images[labels == 1, :, :, 8:] += 1
    return list(zip(images.split(4), labels.split(4), strict=True))


@pytest.fixture
def photos(tmp_path):
    """A folder of drawn pictures: four red ants and four blue bees."""
    generator = np.random.default_rng(0)
    for name, channel in (("ants", 0), ("bees", 2)):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for index in range(4):
            pixels = generator.integers(0, 80, (40, 50, 3), np.uint8)
            pixels[10:30, 10:40, channel] = 250
            Image.fromarray(pixels).save(folder / f"{index}.png")
    return tmp_path / "photos"


@pytest.fixture
def cat_on_the_left(model):
    """The cat beside grey, as (1, 3, 224, 224), and the number of its class."""
    canvas = Image.new("RGB", (448, 448), (128, 128, 128))
    canvas.paste(vitedu.data.photo("cat").resize((224, 448)), (0, 0))
    images = vitedu.preprocess(model, canvas)
    return images, model.class_names.index("Egyptian cat")
