"""Random crops of pictures: the part of augmentation that a worker does.

`pixels, rows = cropped_pixels(paths, spec, augment, seeds)`

pillow decodes, a JPEG only as finely as its crop needs, and torch resizes,
antialiased. The rest is done to whole batches on the device
(`vitedu.data.augment.apply`).
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.data.augment.augment import BOX, Augment, draws, table_from
from vitedu.pictures import (
    Picture,
    PreprocessSpec,
    as_image,
    as_pixels,
    channels_last,
    converted,
    header,
    is_encoded,
    name_of,
    reading,
    resized,
    turned,
)

if TYPE_CHECKING:
    from PIL.Image import Image


def cropped_pixels(
    pictures: Sequence[Picture],
    spec: PreprocessSpec,
    augment: Augment,
    seeds: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Pictures cropped to uint8 (n, c, h, w), and their table rows.

    A picture's seed decides its row, with which `apply(..., is_cropped=True)`
    goes on. Without a crop, pictures are resized as for evaluation. All files
    are open at the same time.
    UserError: a file that is missing, damaged or no picture.
    """
    generator = torch.Generator()
    uniform = [draws(augment, 1, generator.manual_seed(seed)) for seed in seeds]
    height, width = spec.image_size
    pixels = []
    with undecoded(pictures, spec) as images:
        # relative to the result's
        sizes = [turned(x.size, x, spec.orientation) for x in images]
        aspects = [w * height / (h * width) for w, h in sizes]
        rows = table_from(
            augment,
            torch.cat(uniform),
            torch.tensor(aspects, dtype=torch.float64),
        )
        for picture, box in zip(pictures, rows[:, BOX].tolist(), strict=True):
            # closed and forgotten one by one, to free their memory
            with images.popleft() as image:
                with reading(name_of(picture)):
                    if augment.crop:
                        make_coarse(image, spec, box)
                    image = converted(image, spec.in_channels, spec.orientation)
                pixels.append(
                    cut(image, spec, box)
                    if augment.crop
                    else as_pixels(resized(image, spec))
                )
    return torch.stack(pixels), rows


@contextmanager
def undecoded(
    pictures: Sequence[Picture], spec: PreprocessSpec
) -> Iterator[deque["Image"]]:
    """Open all pictures, of files only the header; close those you remove."""
    images: deque[Image] = deque()
    try:
        for picture in pictures:
            images.append(
                header(picture)
                if is_encoded(picture)
                else as_image(picture, spec.in_channels, spec.orientation)
            )
        yield images
    finally:
        for image in images:
            with image:
                pass


def make_coarse(
    image: "Image", spec: PreprocessSpec, box: Sequence[float]
) -> None:
    """Have a JPEG decoded at 1/2, 1/4 or 1/8, its box not below the result."""
    height, width = spec.image_size
    _, _, box_height, box_width = box
    size = math.ceil(width / box_width), math.ceil(height / box_height)
    image.draft(None, turned(size, image, spec.orientation))


def cut(image: "Image", spec: PreprocessSpec, box: Sequence[float]) -> Tensor:
    """Cut out a box (centre, size) and resize it: (c, h, w) uint8."""
    centre_y, centre_x, box_height, box_width = box
    top, bottom = edges(centre_y, box_height, image.height)
    left, right = edges(centre_x, box_width, image.width)
    pixels = channels_last(image.crop((left, top, right, bottom)))
    if pixels.shape[1:] == spec.image_size:
        return pixels
    [pixels] = F.interpolate(
        pixels[None], spec.image_size, mode=spec.interpolation, antialias=True
    )
    return pixels


def edges(centre: float, size: float, length: int) -> tuple[int, int]:
    """A box's first pixel along one side, and the one after its last."""
    first = min(round((1 + centre - size) / 2 * length), length - 1)
    last = round((1 + centre + size) / 2 * length)
    return max(first, 0), min(max(last, first + 1), length)
