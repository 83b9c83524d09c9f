"""Images that come as floats: taken as prepared, and checked as far as that goes.

`images = as_prepared(picture, model.preprocess)`
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec

# images of a batch from which its range tells whether it was normalised
ENOUGH_IMAGES = 4


def is_prepared(picture: Any) -> bool:
    """Whether it holds floats: (x - mean) / std was done, or should have been."""
    if isinstance(picture, Tensor):
        return picture.is_floating_point()
    return isinstance(picture, np.ndarray) and picture.dtype.kind == "f"


def as_prepared(picture: Any, spec: PreprocessSpec) -> Tensor:
    """Floats (..., c, h, w) as float32. UserError: of another size than the model's."""
    images = torch.as_tensor(picture).float()
    wanted = (spec.in_channels, *spec.image_size)
    if images.shape[-3:] != wanted or images.ndim not in (3, 4):
        raise UserError(
            f"images of floats are fed to the model as they are, but these are "
            f"{_shape(images.shape[-3:])} and it wants {_shape(wanted)} (channels, "
            "rows, columns); give pixels of 0..255 as uint8 to have them resized"
        )
    return images


def check_not_prepared(picture: Any) -> None:
    """UserError: it holds floats, which cannot be augmented."""
    if is_prepared(picture):
        raise UserError(
            "the pictures come as floats, which are fed to the model as they are and "
            "cannot be augmented; give pictures or pixels of 0..255 (a data set "
            "without its transform), or train without augmentation (augment=Augment())"
        )


def check_range(images: Tensor, spec: PreprocessSpec, name: str) -> None:
    """UserError: floats (b, c, h, w) are not normalised as `spec` says, by their range.

    Said of several images at once: no value below the mean in all of them, or values
    far beyond what white can become.
    """
    if len(images) < ENOUGH_IMAGES:
        return
    lowest, highest = (x.item() for x in images.aminmax())
    pairs = list(zip(spec.mean, spec.std, strict=True))
    black = min(-mean / std for mean, std in pairs)
    white = max((1 - mean) / std for mean, std in pairs)
    is_raw = black < 0 <= lowest < highest
    if is_raw or highest > 10 * max(white, -black):
        raise UserError(
            f"{name} hold floats in {lowest:.3g}..{highest:.3g}, but the model is fed "
            f"{black:.3g}..{white:.3g}: normalise them as its preprocess says (mean "
            f"{_short(spec.mean)}, std {_short(spec.std)}), or give pixels of 0..255 "
            "as uint8"
        )


def _shape(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def _short(values: tuple[float, ...]) -> str:
    if len(set(values)) == 1:
        values = values[:1]
    return ", ".join(f"{value:g}" for value in values)
