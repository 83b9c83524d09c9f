"""RandAugment on batches: every sample gets its own operations.

`images = apply_layers(images, rows, magnitude=10)`

The 14 operations of Cubuk et al. 2019 (arXiv 1909.13719), with pillow's pixels
and torchvision's ranges. Magnitudes are the authors': 10 is the whole range,
where torchvision writes 30. A higher one always changes more; beyond 10 the
ranges continue, but no factor falls below 0.1 and at least one bit is kept.
Moved pixels come from the nearest place, and grey from outside of the picture.

Differences: big_vision and timm have more operations (Invert, SolarizeAdd),
big_vision's factors change nothing at magnitude 5, timm applies each to half of
the samples. Torchvision's transform draws once for a whole batch.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.pictures import sent

GREY = 128  # what a move brings in from outside the picture
TRANSLATE = 150 / 331  # share of the side; AutoAugment's 150 pixels of its 331
LUMA = (19595, 38470, 7471)  # of 65536: how much red, green and blue weigh


def draw(uniform: Tensor) -> tuple[Tensor, Tensor]:
    """The operation's number and the sign (1 or -1) of a layer, from (n, 2)."""
    number = (uniform[:, 0] * len(OPERATIONS)).floor()
    sign = 1 - 2 * (uniform[:, 1] < 0.5).float()
    # at most the last, though the product may be rounded up
    return number.clamp_(max=len(OPERATIONS) - 1), sign


def apply_layers(images: Tensor, rows: Tensor, magnitude: float) -> Tensor:
    """Put (b, c, h, w) uint8 through layers; `rows` (b, 2 layers) on CPU."""
    for layer in rows.split(2, dim=1):
        images = _apply_layer(images, *layer.unbind(1), magnitude)
    return images


def _apply_layer(
    images: Tensor, number: Tensor, sign: Tensor, magnitude: float
) -> Tensor:
    """One layer; samples with the same operation go through it in one call."""
    if not len(images):
        return images
    place = number.argsort(stable=True)
    counts = number.long().bincount(minlength=len(OPERATIONS)).tolist()
    levels = sign[place] * (magnitude / 10)
    # sorted on the CPU, so that no device is asked for the groups' sizes
    place, levels = (sent(x, images.device) for x in (place, levels))
    groups = zip(
        OPERATIONS.values(),
        images.index_select(0, place).split(counts),
        levels.split(counts),
        strict=True,
    )
    changed = [
        operation.change(group, operation.value(level))
        for operation, group, level in groups
        if len(group)
    ]
    return torch.empty_like(images).index_copy_(0, place, torch.cat(changed))


def autocontrast(images: Tensor) -> Tensor:
    """Stretch each channel so that its values go from 0 to 255."""
    low = images.amin((2, 3), keepdim=True).int()
    high = images.amax((2, 3), keepdim=True).int()
    stretched = (images - low) * 255 // (high - low).clamp(min=1)
    return torch.where(high > low, stretched, images).to(torch.uint8)


def equalize(images: Tensor) -> Tensor:
    """Spread each channel's values until all are about equally frequent."""
    values = images.flatten(2).long()  # (b, c, h w)
    counts = values.new_zeros(*values.shape[:2], 256)
    counts.scatter_add_(2, values, torch.ones_like(values))
    brightest = counts.gather(2, values.amax(2, keepdim=True))
    step = (values.shape[2] - brightest) // 255
    below = counts.cumsum(2) - counts  # pixels that are darker than each value
    table = ((below + step // 2) // step.clamp(min=1)).clamp(max=255)
    spread = table.gather(2, values).view_as(images)
    return torch.where(step[..., None] > 0, spread, images).to(torch.uint8)


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Keep the `bits` (b,) highest bits of every value."""
    step = 2 ** (8 - bits)
    return images - images % step.to(torch.uint8)[:, None, None, None]


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Invert the values from `threshold` (b,) on."""
    return torch.where(
        images < threshold[:, None, None, None], images, 255 - images
    )


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Mix with black: factor (b,) 0 is black, 1 the picture, 2 twice that."""
    return _blend(torch.zeros_like(images), images, factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Mix with the mean grey of the picture."""
    grey = _luma(images)
    num_pixels = grey.shape[2] * grey.shape[3]
    total = grey.sum((2, 3), keepdim=True)
    mean = (2 * total + num_pixels) // (2 * num_pixels)
    return _blend(mean, images, factor)


def colour(images: Tensor, factor: Tensor) -> Tensor:
    """Mix with the picture in greys; a grey picture stays as it is."""
    if images.shape[1] == 1:
        return images
    return _blend(_luma(images), images, factor)


def sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Mix with a smoothed picture, whose border stays as it is."""
    if min(images.shape[-2:]) < 3:
        return images
    smooth = images.float()
    sums = F.avg_pool2d(smooth, 3, stride=1, divisor_override=1)
    centre = smooth[..., 1:-1, 1:-1]
    centre.copy_(((sums + 4 * centre) / 13 + 0.5).floor())
    return _blend(smooth, images, factor)


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Turn counter-clockwise about the centre."""
    angle = degrees.deg2rad()
    cos, sin = angle.cos(), angle.sin()
    return _warp(images, (cos, -sin, 0), (sin, cos, 0))


def shear_x(images: Tensor, amount: Tensor) -> Tensor:
    """Slide each row by `amount` (b,) times its distance from the top."""
    offset = amount * images.shape[2] / 2
    return _warp(images, (1, amount, offset), (0, 1, 0))


def shear_y(images: Tensor, amount: Tensor) -> Tensor:
    """Slide each column by `amount` (b,) times its distance from the left."""
    offset = amount * images.shape[3] / 2
    return _warp(images, (1, 0, 0), (amount, 1, offset))


def translate_x(images: Tensor, share: Tensor) -> Tensor:
    return _warp(images, (1, 0, share * images.shape[3]), (0, 1, 0))


def translate_y(images: Tensor, share: Tensor) -> Tensor:
    return _warp(images, (1, 0, 0), (0, 1, share * images.shape[2]))


class Operation(NamedTuple):
    # of (b, c, h, w) uint8 and values (b,)
    change: Callable[[Tensor, Tensor], Tensor]
    # of levels (b,), where -1 to 1 is the whole range
    value: Callable[[Tensor], Tensor] = lambda level: level


def factor(level: Tensor) -> Tensor:
    """1 - 0.9 to 1 + 0.9 over the whole range."""
    return (1 + 0.9 * level).clamp(min=0.1)


def bits(level: Tensor) -> Tensor:
    """8 to 4 over the whole range."""
    return (8 - (4 * level.abs()).round()).clamp(min=1)


def threshold(level: Tensor) -> Tensor:
    """256, inverting nothing, to 0, inverting all, over the whole range."""
    return (256 - (256 * level.abs()).floor()).clamp(min=0)


OPERATIONS = {
    "identity": Operation(lambda images, _: images),
    "autocontrast": Operation(lambda images, _: autocontrast(images)),
    "equalize": Operation(lambda images, _: equalize(images)),
    "posterize": Operation(posterize, bits),
    "solarize": Operation(solarize, threshold),
    "brightness": Operation(brightness, factor),
    "contrast": Operation(contrast, factor),
    "colour": Operation(colour, factor),
    "sharpness": Operation(sharpness, factor),
    "rotate": Operation(rotate, lambda level: 30 * level),
    "shear_x": Operation(shear_x, lambda level: 0.3 * level),
    "shear_y": Operation(shear_y, lambda level: 0.3 * level),
    "translate_x": Operation(translate_x, lambda level: TRANSLATE * level),
    "translate_y": Operation(translate_y, lambda level: TRANSLATE * level),
}


def _luma(images: Tensor) -> Tensor:
    """(b, 1, h, w) int32: brightness as the eye weighs it (ITU-R 601-2)."""
    if images.shape[1] == 1:
        return images.int()
    red, green, blue = images.int().split(1, dim=1)
    total = LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue
    return (total + 32768) >> 16


def _blend(first: Tensor, second: Tensor, factor: Tensor) -> Tensor:
    """first + factor (second - first), cut off at 0 and 255, rounded down."""
    mixed = second.float().sub_(first)
    mixed.mul_(factor[:, None, None, None]).add_(first)
    return mixed.clamp_(0, 255).to(torch.uint8)


def _warp(
    images: Tensor,
    to_x: tuple[Tensor | int, ...],
    to_y: tuple[Tensor | int, ...],
) -> Tensor:
    """Read each pixel from a x + b y + c, the nearest; the centre is (0, 0).

    `to_x` and `to_y` are a, b and c, each (b,) or one number for all, of the
    column and of the row.
    """
    b, c, h, w = images.shape
    y = torch.arange(h, device=images.device)[:, None] + 0.5 - h / 2
    x = torch.arange(w, device=images.device) + 0.5 - w / 2
    places = []
    for factors, side in ((to_x, w), (to_y, h)):
        of_x, of_y, offset = (
            each if isinstance(each, int) else each[:, None, None]
            for each in factors
        )
        places.append((of_x * x + of_y * y + offset + side / 2).floor())
    column, row = places
    inside = (column >= 0) & (column < w) & (row >= 0) & (row < h)  # (b, h, w)
    index = (row * w + column).where(inside, 0).long().view(b, 1, h * w)
    moved = images.flatten(2).gather(2, index.expand(b, c, h * w))
    return moved.view(b, c, h, w).where(inside[:, None], GREY)
