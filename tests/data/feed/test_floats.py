"""Floats that the model's own preprocessing cannot have made are refused."""

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate
from torch.utils.data import DataLoader, TensorDataset

from vitedu.data import PreprocessSpec, as_source, photo
from vitedu.data.readers.photos import PHOTOS
from vitedu.errors import UserError

HALF = PreprocessSpec(image_size=48)
UNIT = PreprocessSpec(image_size=48, mean=0.0, std=1.0)
IMAGENET = PreprocessSpec(
    image_size=48, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
)
LABELS = torch.tensor([0, 1, 0, 1, 0])


def pixels(mode):
    """Photographs (n, 3, 48, 48); bicubic goes beyond black and white."""
    photos = [np.array(photo(name).resize((90, 90))) for name in PHOTOS]
    images = torch.from_numpy(np.stack(photos)).permute(0, 3, 1, 2) / 255
    return interpolate(images, (48, 48), mode=mode, antialias=True)


def made_by(spec, mode="bilinear"):
    mean, std = torch.tensor([spec.mean, spec.std])[:, :, None, None]
    return (pixels(mode) - mean) / std


def standardised(images):
    """Mean 0 and standard deviation 1, as sounds and spectra are given."""
    return (images - images.mean()) / images.std()


WRONG = {
    "imagenet": (made_by(IMAGENET), HALF, "as ImageNet's mean and std make"),
    "half": (made_by(HALF), UNIT, "as mean and std 0.5 make them"),
    "bytes": (255 * made_by(UNIT), HALF, "as pixels of 0..255 are, but"),
    "raw": (made_by(UNIT), IMAGENET, "as pixels of 0..1 are, but"),
    "z-scores": (standardised(pixels("bilinear")), HALF, r"\.\.[0-9.]+, but"),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_numbers_than_the_models_are_refused_and_named(name):
    floats, spec, said = WRONG[name]
    for data in (
        (floats, LABELS),
        TensorDataset(floats, LABELS),
        DataLoader(TensorDataset(floats, LABELS), batch_size=1),
    ):
        with pytest.raises(UserError, match=rf"{said}.*check_range=False"):
            read(as_source(data, preprocess=spec, num_classes=2))
        same = as_source(
            data, preprocess=spec, num_classes=2, check_range=False
        )
        assert torch.equal(read(same), floats)


def read(source):
    batches = source.batches(epoch=0, seed=0, batch_size=2)
    return torch.cat([images for images, _ in batches])


@pytest.mark.parametrize("spec", [HALF, UNIT, IMAGENET])
def test_what_resizing_and_erasing_add_is_right(spec):
    floats = made_by(spec, "bicubic")
    beyond = pixels("bicubic")
    assert beyond.min() < 0 and beyond.max() > 1
    noise = torch.randn(3, 16, 24, generator=torch.Generator().manual_seed(0))
    floats[2, :, 8:24, 8:32] = noise  # timm's RandomErasing
    assert torch.equal(
        read(as_source((floats, LABELS), preprocess=spec)), floats
    )


def test_a_new_model_may_name_the_numbers_of_its_data():
    images = pixels("bilinear")
    mean, std = (f(images, (0, 2, 3)) for f in (torch.mean, torch.std))
    floats = (images - mean[:, None, None]) / std[:, None, None]
    spec = PreprocessSpec(48, mean=mean.tolist(), std=std.tolist())
    assert torch.equal(
        read(as_source((floats, LABELS), preprocess=spec)), floats
    )
