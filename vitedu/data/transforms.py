"""Augmentation of one picture on the CPU: what a worker does with it.

The fields of `Augment` and the drawn numbers mean what they mean for a batch of
arrays (`vitedu.data.augment`), and colours and RandAugment are the same code;
only the crop is taken from the picture in its full size, by an antialiased
resize.

`pixels, row = training_pixels(path, spec, augment, generator)`
"""

import torch
from PIL import Image, ImageOps
from torch import Tensor

from vitedu.data.augment import COLUMNS, Augment, augmentation_table, recolour
from vitedu.decode import Picture, as_image, as_pixels, name_of, naming
from vitedu.pictures import PreprocessSpec, resize, resized


def training_pixels(
    picture: Picture,
    spec: PreprocessSpec,
    augment: Augment,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """A picture as uint8 (c, h, w), augmented but not erased, and its row.

    `generator` decides all of it: seed it by (seed, epoch, sample).
    UserError: a file that is missing, damaged or no picture.
    """
    image = as_image(picture, spec.in_channels)
    height, width = spec.image_size
    aspect = image.width * height / (image.height * width)
    [row] = augmentation_table(augment, 1, generator, aspect)
    drawn = dict(zip(COLUMNS, row.tolist(), strict=False))
    with naming(name_of(picture)):
        image = (
            _cropped(image, spec, drawn)
            if augment.crop
            else resized(image, spec)
        )
    pixels = as_pixels(_moved(image, augment, drawn))
    return recolour(augment, pixels[None], row[None])[0], row


def _cropped(
    image: Image.Image, spec: PreprocessSpec, drawn: dict[str, float]
) -> Image.Image:
    """The drawn box, resized to the size that `spec` names."""
    top, bottom = _edges(drawn["box_y"], drawn["box_height"], image.height)
    left, right = _edges(drawn["box_x"], drawn["box_width"], image.width)
    height, width = spec.image_size
    box = left, top, right, bottom
    return resize(image, (width, height), spec, box)


def _edges(centre: float, size: float, length: int) -> tuple[float, float]:
    """First and last place of a box along one side, in pixels."""
    low = (1 + centre - size) / 2 * length
    # float32 may stick out by a rounding, which pillow refuses
    return max(low, 0.0), min(low + size * length, length)


def _moved(
    image: Image.Image, augment: Augment, drawn: dict[str, float]
) -> Image.Image:
    """Zoom, shear and rotate about the centre, shift, flip: one resampling."""
    if not (augment.shift or augment.rotate or augment.scale or augment.shear):
        return ImageOps.mirror(image) if drawn["flip"] else image
    side = -1 if drawn["flip"] else 1
    down, right = drawn["shift_down"], drawn["shift_right"]
    m_xx, m_xy = drawn["m_xx"], drawn["m_xy"]
    m_yx, m_yy = drawn["m_yx"], drawn["m_yy"]
    a, b, c = side * m_xx, m_xy, -m_xx * right - m_xy * down
    d, e, f = side * m_yx, m_yy, -m_yx * right - m_yy * down
    # this matrix counts from the centre of the picture, and pillow from its
    # corner
    x, y = image.width / 2, image.height / 2
    matrix = (a, b, c + x - a * x - b * y, d, e, f + y - d * x - e * y)
    # what comes from outside is black
    return image.transform(
        image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR
    )
