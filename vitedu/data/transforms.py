"""Augmentation of one picture on the CPU, by pillow: what a worker does with it.

The fields of `Augment` and the drawn numbers mean what they mean for a batch of arrays
(`vitedu.data.augment`), and the operations give the same pixels; only the crop is taken
from the picture in its full size, by an antialiased resize.

`pixels, row = training_pixels(path, spec, augment, generator)`
"""

import math
from collections.abc import Callable

import torch
from PIL import Image, ImageOps
from PIL.ImageEnhance import Brightness, Color, Contrast, Sharpness
from torch import Tensor

from vitedu.data import randaugment
from vitedu.data.augment import COLUMNS, JITTER, Augment, augmentation_table
from vitedu.decode import Picture, as_image, as_pixels
from vitedu.pictures import PreprocessSpec, resampling, resized


def training_pixels(
    picture: Picture,
    spec: PreprocessSpec,
    augment: Augment,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """A picture as uint8 (c, h, w), augmented but not erased, and its drawn row.

    `generator` decides all of it: seed it by (seed, epoch, sample).
    UserError: a file that is missing, damaged or no picture.
    """
    image = as_image(picture, spec.in_channels)
    height, width = spec.image_size
    aspect = image.width * height / (image.height * width)
    [row] = augmentation_table(augment, 1, generator, aspect)
    drawn = dict(zip(COLUMNS, row.tolist(), strict=False))
    image = (
        _cropped(image, spec, drawn) if augment.crop else resized(image, spec)
    )
    image = _moved(image, augment, drawn)
    for number, sign in row[len(COLUMNS) :].view(-1, 2).tolist():
        level = sign * augment.rand_magnitude / 10
        image = _apply_layer(image, int(number), level)
    if augment.jitter:
        for name in JITTER:
            image = OPERATIONS[name](image, drawn[name])
    return as_pixels(image), row


def _cropped(
    image: Image.Image, spec: PreprocessSpec, drawn: dict[str, float]
) -> Image.Image:
    """The drawn box, resized to the size that `spec` names."""
    top, bottom = _edges(drawn["box_y"], drawn["box_height"], image.height)
    left, right = _edges(drawn["box_x"], drawn["box_width"], image.width)
    height, width = spec.image_size
    box = left, top, right, bottom
    return image.resize((width, height), resampling(spec), box=box)


def _edges(centre: float, size: float, length: int) -> tuple[float, float]:
    """First and last place of a box along one side, in pixels."""
    low = (1 + centre - size) / 2 * length
    # float32 may stick out by a rounding, which pillow refuses
    return max(low, 0.0), min(low + size * length, length)


def _moved(
    image: Image.Image, augment: Augment, drawn: dict[str, float]
) -> Image.Image:
    """Zoom, shear and rotation about the centre, shift, flip: one resampling."""
    if not (augment.shift or augment.rotate or augment.scale or augment.shear):
        return ImageOps.mirror(image) if drawn["flip"] else image
    side = -1 if drawn["flip"] else 1
    down, right = drawn["shift_down"], drawn["shift_right"]
    m_yy, m_yx, m_xy, m_xx = (
        drawn[f"m_{entry}"] for entry in ("yy", "yx", "xy", "xx")
    )
    matrix = _from_centre(
        image,
        *(side * m_xx, m_xy, -m_xx * right - m_xy * down),
        *(side * m_yx, m_yy, -m_yx * right - m_yy * down),
    )
    return image.transform(
        image.size,
        Image.Transform.AFFINE,
        matrix,
        Image.Resampling.BILINEAR,
        fillcolor=_filled(image, 0),
    )


def _from_centre(
    image: Image.Image,
    *matrix: float,
) -> tuple[float, ...]:
    """A matrix between places counted from the centre, for pillow: from the corner."""
    a, b, c, d, e, f = matrix
    x, y = image.width / 2, image.height / 2
    return a, b, c + x - a * x - b * y, d, e, f + y - d * x - e * y


def _filled(image: Image.Image, value: int) -> int | tuple[int, ...]:
    bands = len(image.getbands())
    return value if bands == 1 else (value,) * bands


def _warped(image: Image.Image, *matrix: float) -> Image.Image:
    """Read (x, y) at (a x + b y + c, d x + e y + f), to the nearest pixel."""
    return image.transform(
        image.size,
        Image.Transform.AFFINE,
        matrix,
        Image.Resampling.NEAREST,
        fillcolor=_filled(image, randaugment.GREY),
    )


def _rotated(image: Image.Image, degrees: float) -> Image.Image:
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    matrix = _from_centre(image, cos, -sin, 0, sin, cos, 0)
    return _warped(image, *matrix)


# By the names of `randaugment.OPERATIONS`, which has the ranges of the values.
OPERATIONS: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "identity": lambda image, _: image,
    "autocontrast": lambda image, _: ImageOps.autocontrast(image),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "posterize": lambda image, bits: ImageOps.posterize(image, int(bits)),
    "solarize": lambda image, first: ImageOps.solarize(image, int(first)),
    "brightness": lambda image, factor: Brightness(image).enhance(factor),
    "contrast": lambda image, factor: Contrast(image).enhance(factor),
    "colour": lambda image, factor: Color(image).enhance(factor),
    "sharpness": lambda image, factor: Sharpness(image).enhance(factor),
    "rotate": lambda image, degrees: _rotated(image, degrees),
    "shear_x": lambda image, by: _warped(image, 1, by, 0, 0, 1, 0),
    "shear_y": lambda image, by: _warped(image, 1, 0, 0, by, 1, 0),
    "translate_x": lambda image, by: _warped(
        image, 1, 0, by * image.width, 0, 1, 0
    ),
    "translate_y": lambda image, by: _warped(
        image, 1, 0, 0, 0, 1, by * image.height
    ),
}


def _apply_layer(image: Image.Image, number: int, level: float) -> Image.Image:
    """One layer of RandAugment."""
    name = list(OPERATIONS)[number]
    value = randaugment.OPERATIONS[name].value(torch.tensor(level))
    return OPERATIONS[name](image, value.item())
