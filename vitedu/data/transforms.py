"""Pictures cut to random crops: the part of augmentation that a worker does.

pillow decodes, a JPEG only as finely as its crop needs, and torch resizes,
antialiased. What else an `Augment` asks for is done to whole batches on the
device, by the code that serves arrays (`vitedu.data.augment.apply`).

`pixels, rows = cropped_pixels(paths, spec, augment, seeds)`
"""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.data.augment import COLUMNS, Augment, draws, table_from
from vitedu.decode import (
    Picture,
    as_image,
    as_pixels,
    as_view,
    check_size,
    converted,
    header,
    is_encoded,
    name_of,
    reading,
)
from vitedu.pictures import PreprocessSpec, resized

if TYPE_CHECKING:
    from PIL.Image import Image

BOX = [
    COLUMNS.index(name)
    for name in ("box_y", "box_x", "box_height", "box_width")
]


def cropped_pixels(
    pictures: Sequence[Picture],
    spec: PreprocessSpec,
    augment: Augment,
    seeds: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Pictures as uint8 (n, c, h, w), each cut to its crop, and their rows.

    Each seed decides all that will happen to its picture: the row of the
    augmentation table that `apply(..., is_cropped=True)` goes on with. Without
    a crop a picture is brought to size as for evaluation. All files are open at
    the same time.
    UserError: a file that is missing, damaged or no picture.
    """
    generator = torch.Generator()
    uniform = [draws(augment, 1, generator.manual_seed(seed)) for seed in seeds]
    with ExitStack() as files:
        images = [
            undecoded(picture, spec.in_channels, files) for picture in pictures
        ]
        rows = table_from(augment, torch.cat(uniform), aspects(images, spec))
        pixels = []
        for picture, image, box in zip(
            pictures, images, rows[:, BOX].tolist(), strict=True
        ):
            with reading(name_of(picture)):
                pixels.append(
                    cut(image, spec, box)
                    if augment.crop
                    else whole(image, spec)
                )
    return torch.stack(pixels), rows


def undecoded(picture: Picture, channels: int, files: ExitStack) -> "Image":
    """A picture in its full size; of a file, open in `files`, the header."""
    if not is_encoded(picture):
        return as_image(picture, channels)
    image = files.enter_context(header(picture))
    with reading(name_of(picture)):
        check_size(image)
    return image


def aspects(images: Sequence["Image"], spec: PreprocessSpec) -> Tensor:
    """How much wider each is, for its height, than what `spec` wants: (n,)."""
    height, width = spec.image_size
    return torch.tensor(
        [image.width * height / (image.height * width) for image in images],
        dtype=torch.float64,
    )


def whole(image: "Image", spec: PreprocessSpec) -> Tensor:
    """All of it, or its middle, as for evaluation: uint8 (c, h, w)."""
    return as_pixels(resized(converted(image, spec.in_channels), spec))


def cut(image: "Image", spec: PreprocessSpec, box: Sequence[float]) -> Tensor:
    """The box, to whole pixels, resized to what `spec` wants: (c, h, w).

    `box` is its centre and its size, as a row of the table has them. A JPEG is
    decoded at a half, a quarter or an eighth where the box stays at least as
    large as the result.
    """
    height, width = spec.image_size
    centre_y, centre_x, box_height, box_width = box
    image.draft(
        None, (math.ceil(width / box_width), math.ceil(height / box_height))
    )
    image = converted(image, spec.in_channels)
    top, bottom = edges(centre_y, box_height, image.height)
    left, right = edges(centre_x, box_width, image.width)
    pixels = as_view(image.crop((left, top, right, bottom)))
    if pixels.shape[1:] == spec.image_size:
        return pixels
    [pixels] = F.interpolate(
        pixels[None], spec.image_size, mode=spec.interpolation, antialias=True
    )
    return pixels


def edges(centre: float, size: float, length: int) -> tuple[int, int]:
    """The first pixel of a box along one side, and the one behind its last."""
    first = min(round((1 + centre - size) / 2 * length), length - 1)
    last = round((1 + centre + size) / 2 * length)
    return max(first, 0), min(max(last, first + 1), length)
