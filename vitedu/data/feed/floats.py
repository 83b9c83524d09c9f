"""Check that float images are normalised and have the model's size.

`images = as_prepared(picture, model.preprocess)`
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec

# images from which their range tells whether they were normalised
ENOUGH_IMAGES = 4


def is_prepared(picture: Any) -> bool:
    """Whether it is floats, which should be (x - mean) / std already."""
    if isinstance(picture, Tensor):
        return picture.is_floating_point()
    return isinstance(picture, np.ndarray) and picture.dtype.kind == "f"


def as_prepared(picture: Any, spec: PreprocessSpec) -> Tensor:
    """Floats (..., c, h, w) as float32. UserError: not of the model's size."""
    images = torch.as_tensor(picture).float()
    wanted = (spec.in_channels, *spec.image_size)
    if images.shape[-3:] != wanted or images.ndim not in (3, 4):
        found, model_size = (
            "x".join(map(str, sizes)) for sizes in (images.shape[-3:], wanted)
        )
        raise UserError(
            "images of floats are fed to the model as they are, but these are "
            f"{found} and it wants {model_size} (channels, rows, columns); "
            "give pixels of 0..255 as uint8 to have them resized"
        )
    return images


def check_not_prepared(picture: Any) -> None:
    """UserError: it is floats, which cannot be augmented."""
    if is_prepared(picture):
        raise UserError(
            "the pictures come as floats, which are fed to the model as they "
            "are and cannot be augmented; give pictures or pixels of 0..255 (a "
            "data set without its transform), or train without augmentation "
            "(augment=Augment())"
        )


class RangeCheck:
    """Tells from the first images' range if floats are normalised by `spec`.

    They are not if no value in ENOUGH_IMAGES of them is below the mean, or if
    values are far beyond white. Fewer images prove nothing.
    """

    def __init__(self, spec: PreprocessSpec) -> None:
        self.spec = spec
        self.num_seen = 0
        self.lowest = math.inf
        self.highest = -math.inf

    def see(self, images: Tensor) -> None:
        """Add a batch (b, c, h, w). UserError: images are not normalised."""
        if self.num_seen >= ENOUGH_IMAGES or not images.numel():
            return
        lowest, highest = (x.item() for x in images.aminmax())
        self.lowest = min(self.lowest, lowest)
        self.highest = max(self.highest, highest)
        self.num_seen += len(images)
        if self.num_seen < ENOUGH_IMAGES:
            return
        mean, std = self.spec.mean, self.spec.std
        pairs = list(zip(mean, std, strict=True))
        black = min(-mean / std for mean, std in pairs)
        white = max((1 - mean) / std for mean, std in pairs)
        is_raw = black < 0 <= self.lowest < self.highest
        if is_raw or self.highest > 10 * max(white, -black):
            raise UserError(
                f"the images are floats in {self.lowest:.3g}.."
                f"{self.highest:.3g}, but the model expects {black:.3g}.."
                f"{white:.3g}: normalise them as its preprocess says (mean "
                f"{_short(mean)}, std {_short(std)}), or give pixels of 0..255 "
                "as uint8; if they are right as they are, give "
                "vitedu.data.as_source(data, preprocess=model.preprocess, "
                "check_range=False)"
            )


def _short(values: tuple[float, ...]) -> str:
    if len(set(values)) == 1:
        values = values[:1]
    return ", ".join(f"{value:g}" for value in values)
