"""Augmentation in batches, on the device, from a table of drawn numbers.

The table has a row for every sample of an epoch and is drawn in one go, so what happens
to a sample depends on (seed, epoch, sample) alone: not on the batch it lands in, nor on
where a run was resumed.

`augmented = apply(augment, images, table[indices])`
"""

import math
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.errors import UserError

# Columns of the table. The matrix m takes an output pixel (y, x from the centre) to the
# input pixel that it is read from. The box is the crop's centre (0 is the picture's,
# its edges are at -1 and 1) and its size (1 is the whole side).
COLUMNS = (
    *("shift_down", "shift_right", "flip"),
    *("m_yy", "m_yx", "m_xy", "m_xx"),
    *("box_y", "box_x", "box_height", "box_width"),
)
ASPECT = (3 / 4, 4 / 3)  # of an inception-style crop, width to height


@dataclass(frozen=True)
class Augment:
    """How far each sample may be moved, at random; all off by default.

    `shift` and `flip` alone move whole pixels and invent no values. As soon as another
    field is on, all of it is one bilinear resampling, and the shift may be fractional.
    What comes from outside the picture is 0.
    """

    shift: int = 0  # pixels, up to this many along each axis
    rotate: float = 0.0  # degrees about the centre, up to this many either way
    scale: float = 0.0  # 0.1 draws a magnification from 0.9 to 1.1
    shear: float = (
        0.0  # degrees that upright lines lean, up to this many either way
    )
    crop: float = (
        0.0  # smallest share of the area that a random crop keeps; 0 is off
    )
    flip: bool = False  # left and right swapped in every other sample

    def __post_init__(self) -> None:
        """Bring the fields into their kept types, or say which of them is wrong."""
        for field in fields(self):
            object.__setattr__(self, field.name, _checked(self, field.name))
        for name, limit in (("scale", 1), ("shear", 90)):
            if getattr(self, name) >= limit:
                raise UserError(
                    f"augment.{name}={getattr(self, name)} must be below {limit}"
                )
        if self.crop > 1:
            raise UserError(
                f"augment.crop={self.crop} must be a share of the area, 0 (off) to 1"
            )

    @property
    def is_off(self) -> bool:
        """Whether nothing at all is done."""
        return not (self.shift or self.flip or self.resamples)

    @property
    def resamples(self) -> bool:
        """Whether pixels are interpolated rather than moved whole."""
        return bool(self.rotate or self.scale or self.shear or self.crop)


def _checked(augment: Augment, name: str) -> int | float | bool:
    value, wanted = getattr(augment, name), type(Augment.__dict__[name])
    if wanted is bool:
        if isinstance(value, bool):
            return value
        raise UserError(f"augment.{name}={value!r} must be true or false")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise UserError(f"augment.{name}={value!r} must be a number from 0 up")
    if wanted is int and value != int(value):
        raise UserError(
            f"augment.{name}={value} must be a whole number of pixels"
        )
    return wanted(value)


def augmentation_table(
    augment: Augment, n: int, generator: torch.Generator
) -> Tensor:
    """Draw what happens to each of n samples: float32 (n, 11), columns as in COLUMNS.

    Every field has its own draws, used or not: switching one on leaves the others as
    they were. `generator` lives on the CPU, and so does the table. A positive angle
    turns counter-clockwise.
    """
    uniform = torch.rand(n, 10, generator=generator)
    signed = 2 * uniform - 1
    shift = augment.shift * signed[:, :2]
    if not augment.resamples:
        count = 2 * augment.shift + 1
        # rand may round up to 1 after the product, so the last value is held down
        shift = (uniform[:, :2] * count).floor().clamp_(
            max=count - 1
        ) - augment.shift
    flip = (uniform[:, 2] < 0.5) & augment.flip
    zoom = 1 + augment.scale * signed[:, 3]
    angle = math.radians(augment.rotate) * signed[:, 4]
    shear = torch.tan(math.radians(augment.shear) * signed[:, 5])
    cos, sin = torch.cos(angle) / zoom, torch.sin(angle) / zoom
    table = torch.stack(
        (
            *(shift[:, 0], shift[:, 1], flip.float()),
            *(cos + sin * shear, sin, cos * shear - sin, cos),
            *_crop_box(augment, uniform[:, 6:]),
        ),
        dim=1,
    )
    return table


def _crop_box(augment: Augment, uniform: Tensor) -> tuple[Tensor, ...]:
    """Centre and size of an inception-style crop, from uniform (n, 4).

    The area is uniform between `crop` and 1. The aspect, relative to the picture's own,
    is log-uniform over that part of ASPECT which fits into the picture, so that no draw
    need be thrown away.
    """
    if not augment.crop:
        zeros, ones = torch.zeros(len(uniform)), torch.ones(len(uniform))
        return zeros, zeros, ones, ones
    area = augment.crop + (1 - augment.crop) * uniform[:, 0]
    low = area.log().clamp(min=math.log(ASPECT[0]))
    high = (-area.log()).clamp(max=math.log(ASPECT[1]))
    aspect = torch.exp(low + (high - low) * uniform[:, 1])
    height = (area / aspect).sqrt().clamp(max=1)
    width = (area * aspect).sqrt().clamp(max=1)
    box_y = (1 - height) * (2 * uniform[:, 2] - 1)
    box_x = (1 - width) * (2 * uniform[:, 3] - 1)
    return box_y, box_x, height, width


def apply(augment: Augment, images: Tensor, rows: Tensor) -> Tensor:
    """Augment (b, c, h, w), uint8 or float in 0..255, to float of the same range.

    `rows` (b, 11) are the samples' rows of `augmentation_table`, on the images' device.
    In the order crop, then zoom, shear and rotation about the centre, shift, flip.
    """
    if images.ndim != 4:
        raise ValueError(f"apply wants (b, c, h, w), got {tuple(images.shape)}")
    if rows.shape != (len(images), len(COLUMNS)):
        raise ValueError(
            f"apply wants one row of {len(COLUMNS)} numbers an image, "
            f"({len(images)}, {len(COLUMNS)}), got {tuple(rows.shape)}"
        )
    if not augment.resamples:
        return _move(augment, images, rows).float()
    grid = _sampling_grid(rows, *images.shape[-2:])
    return F.grid_sample(
        images.float(), grid, padding_mode="zeros", align_corners=False
    )


def _move(augment: Augment, images: Tensor, rows: Tensor) -> Tensor:
    """Whole-pixel shift and flip, by index: no value changes."""
    if not augment.shift and not augment.flip:
        return images
    b, c, h, w = images.shape
    pad = augment.shift
    columns = torch.arange(w, device=rows.device)
    # padded row r holds picture row r - pad; output row y shows picture row y - shift
    top = pad - rows[:, 0].long()
    left = pad - rows[:, 1].long()
    columns = torch.where(rows[:, 2:3] > 0, w - 1 - columns, columns)  # (b, w)
    columns = columns + left[:, None]
    lines = torch.arange(h, device=rows.device) + top[:, None]  # (b, h)
    padded = F.pad(images, (pad, pad, pad, pad))
    index = lines[:, :, None] * (w + 2 * pad) + columns[:, None, :]  # (b, h, w)
    index = index.reshape(b, 1, h * w).expand(b, c, h * w)
    return padded.flatten(2).gather(2, index).view(b, c, h, w)


def _sampling_grid(rows: Tensor, h: int, w: int) -> Tensor:
    """(b, h, w, 2): where each output pixel is read, (x, y), edges at -1 and 1."""
    down, right, flip, m_yy, m_yx, m_xy, m_xx, box_y, box_x, box_h, box_w = (
        column[:, None] for column in rows.unbind(1)
    )
    # centres of pixels; sums only, so that each sample's values ignore its batch
    y = (2 * torch.arange(h, device=rows.device) + 1) / h - 1
    x = (2 * torch.arange(w, device=rows.device) + 1) / w - 1
    y = y - down * (2 / h)  # (b, h)
    x = torch.where(flip > 0, -x, x) - right * (2 / w)  # (b, w)
    grid = rows.new_empty(len(rows), h, w, 2)
    grid_x = (box_w * m_xx * x + box_x)[:, None, :]
    grid[..., 0] = grid_x + (box_w * m_xy * (h / w) * y)[:, :, None]
    grid_y = (box_h * m_yx * (w / h) * x)[:, None, :]
    grid[..., 1] = grid_y + (box_h * m_yy * y + box_y)[:, :, None]
    return grid
