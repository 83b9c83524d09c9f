"""Check that float images are normalised and have the model's size.

`images = as_prepared(picture, model.preprocess)`
"""

import math
from typing import Any

import torch
from torch import Tensor

from vitedu.errors import UserError
from vitedu.pictures import IMAGENET, PreprocessSpec

# images from which their range tells whether they were normalised, and how
# many of a large batch are looked at
ENOUGH_IMAGES, MOST_IMAGES = 4, 256
# Bicubic resizing goes beyond black and white by 3% of the range in a usual
# photograph and by 14% in one of 1,000; without antialiasing by 8 and 30%.
# Noise in erased rectangles (timm's) is 1% of the values. Of photographs
# normalised for ImageNet a quarter of the values lie outside -1.5..1.5.
SLACK, MOST_OUTSIDE = 0.25, 0.02
# how else floats are made of pictures: the mean and std
OTHERS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "as pixels of 0..255 are": ((0.0,), (1 / 255,)),
    "as pixels of 0..1 are": ((0.0,), (1.0,)),
    "as mean and std 0.5 make them": ((0.5,), (0.5,)),
    "as ImageNet's mean and std make them": IMAGENET,
}


def as_prepared(picture: Any, spec: PreprocessSpec) -> Tensor:
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


def not_augmented() -> UserError:
    return UserError(
        "the pictures come as floats, which are fed to the model as they are "
        "and cannot be augmented; give pictures or pixels of 0..255 (a data "
        "set without its transform), or train without augmentation "
        "(augment=Augment())"
    )


class RangeCheck:
    """Tells from the first images' range if floats are normalised by `spec`.

    They are not if no value in ENOUGH_IMAGES of them is below the mean, or if
    more than MOST_OUTSIDE of their values are darker than black or lighter than
    white, by more than SLACK of what is between. Fewer images prove nothing.
    """

    def __init__(self, spec: PreprocessSpec) -> None:
        self.spec = spec
        self.num_seen = 0
        self.num_values = 0
        self.num_outside = 0
        # by channel
        self.lowest = torch.full((spec.in_channels,), math.inf)
        self.highest = -self.lowest

    def see(self, images: Tensor) -> None:
        spec = self.spec
        is_seen = self.num_seen >= ENOUGH_IMAGES or not images.numel()
        if is_seen or images.shape[1] != spec.in_channels:
            return
        images = images[:: 1 + len(images) // MOST_IMAGES].float().cpu()
        black, white = _bounds(spec.mean, spec.std)
        slack = SLACK * (white - black)
        low, high = (x[:, None, None] for x in (black - slack, white + slack))
        self.num_seen += len(images)
        self.num_values += images.numel()
        self.num_outside += int(((images < low) | (images > high)).sum())
        self.lowest = images.amin((0, 2, 3)).minimum(self.lowest)
        self.highest = images.amax((0, 2, 3)).maximum(self.highest)
        if self.num_seen < ENOUGH_IMAGES:
            return
        lowest, highest = self.lowest.min(), self.highest.max()
        is_raw = black.min() < 0 <= lowest < highest
        if is_raw or self.num_outside > MOST_OUTSIDE * self.num_values:
            raise UserError(
                f"the images are floats in {lowest:.3g}..{highest:.3g}"
                f"{self._culprit()}, but the model expects {black.min():.3g}.."
                f"{white.max():.3g}: normalise them by its mean "
                f"{_short(spec.mean)} and std {_short(spec.std)}, or give "
                "pixels of 0..255 as uint8; the preprocess of a new model may "
                "name other numbers, and vitedu.data.as_source(data, "
                "preprocess=model.preprocess, check_range=False) takes floats "
                "as they are"
            )

    def _culprit(self) -> str:
        for name, numbers in OTHERS.items():
            if len(numbers[0]) not in (1, self.spec.in_channels):
                continue
            black, white = _bounds(*numbers)
            ends = torch.stack((self.lowest - black, self.highest - white))
            if (ends.abs() < 0.1 * (white - black)).all():
                return f", {name}"
        return ""


def _bounds(
    mean: tuple[float, ...], std: tuple[float, ...]
) -> tuple[Tensor, Tensor]:
    """What black and white become, by channel."""
    means, stds = torch.tensor([mean, std])
    return -means / stds, (1 - means) / stds


def _short(values: tuple[float, ...]) -> str:
    if len(set(values)) == 1:
        values = values[:1]
    return ", ".join(f"{value:g}" for value in values)
