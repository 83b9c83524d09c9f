"""Augmentation in batches, on the device, from a table of random numbers.

`augmented = apply(augment, images, table[indices])`
`images, labels = mix(images, labels, 10, mixup=0.2, cutmix=1.0, seed=seed)`

The table has a row per sample of an epoch and is drawn at once, so a sample's
changes depend only on (seed, epoch, sample), not on its batch or on a resume.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.data.augment import randaugment
from vitedu.fields import Checked, Range, Share
from vitedu.pictures import sent

# Columns of the table. The matrix m takes an output pixel (y, x from the
# centre) to the input pixel that it is read from. The box is the crop's centre
# (0 is the picture's, its edges are at -1 and 1) and its size (1 is the whole
# side).
GEOMETRY = (
    "shift_down",
    "shift_right",
    "flip",
    "m_yy",
    "m_yx",
    "m_xy",
    "m_xx",
    "box_y",
    "box_x",
    "box_height",
    "box_width",
)
BOX = slice(GEOMETRY.index("box_y"), len(GEOMETRY))  # its columns
BOX_PLACE = slice(BOX.start, BOX.start + 2)
BOX_SIZE = slice(BOX.start + 2, BOX.stop)
# The upper left corner and the size of what is erased, as shares of the
# picture's.
ERASED = ("erase_y", "erase_x", "erase_height", "erase_width")
JITTER = ("brightness", "contrast", "colour")  # factors; 1 changes nothing
# Two more follow for each layer of RandAugment: the operation's number and its
# sign.
COLUMNS = (*GEOMETRY, *ERASED, *JITTER)
ASPECT = (3 / 4, 4 / 3)  # of an inception-style crop, width to height
ERASED_AREA = (0.02, 1 / 3)  # share of the picture, if it is erased at all
ERASED_ASPECT = (0.3, 1 / 0.3)  # both as torchvision and timm have them


@dataclass(frozen=True)
class Augment(Checked):
    """How far each sample may be changed, at random; all off by default.

    `shift` and `flip` alone move whole pixels and invent no values. With
    rotate, scale, shear or crop, all of the geometry is one bilinear
    resampling, and the shift may be fractional; of a picture, not of an array,
    the crop is cut first, by the model's own interpolation. What comes from
    outside is 0. Then RandAugment, then `jitter`, in whole pixel values;
    `erase` comes after the normalisation.

    Attributes:
        shift: pixels, up to this many along each axis
        rotate: degrees about the centre, up to this many either way
        scale: magnification; 0.1 draws it from 0.9 to 1.1
        shear: degrees that upright lines lean, up to this many either way
        crop: smallest share of the area that a random crop keeps; 0 is off
        flip: whether left and right are swapped in every other sample
        rand_layers: operations of RandAugment that a sample goes through
        rand_magnitude: strength of these operations; 10 is the whole range
        jitter: brightness, contrast and colour; 0.3 draws each from 0.7 to 1.3
        erase: share of the samples that lose a rectangle to the mean
    """

    shift: Annotated[int, Range(0)] = 0
    rotate: Annotated[float, Range(0)] = 0.0
    scale: Annotated[float, Range(0, below=1)] = 0.0
    shear: Annotated[float, Range(0, below=90)] = 0.0
    crop: Share = 0.0
    flip: bool = False
    rand_layers: Annotated[int, Range(0, at_most=100)] = 0
    rand_magnitude: Annotated[float, Range(0, at_most=30)] = 10.0
    jitter: Share = 0.0
    erase: Share = 0.0

    @property
    def is_off(self) -> bool:
        """Whether nothing is changed."""
        moves = self.shift or self.flip or self.resamples
        return not (moves or self.recolours or self.erase)

    @property
    def resamples(self) -> bool:
        """Whether pixels are interpolated rather than moved whole."""
        return bool(self.rotate or self.scale or self.shear or self.crop)

    @property
    def resamples_crops(self) -> bool:
        """Whether pixels are still interpolated after the crop was cut out."""
        moves = self.rotate or self.scale or self.shear
        return bool(moves or (self.crop and self.shift))

    @property
    def num_columns(self) -> int:
        """The number of draws per sample."""
        return len(COLUMNS) + 2 * self.rand_layers

    @property
    def recolours(self) -> bool:
        """Whether operations on whole pixel values follow the geometry."""
        return bool(self.rand_layers or self.jitter)


def augmentation_table(
    augment: Augment, n: int, generator: torch.Generator
) -> Tensor:
    """What happens to each of n samples, drawn: float32 (n, num_columns).

    Every field has its own draws, used or not, so switching one on leaves the
    others unchanged. `generator` and table are on the CPU.
    """
    return table_from(augment, draws(augment, n, generator))


def draws(augment: Augment, n: int, generator: torch.Generator) -> Tensor:
    sizes = _sizes(augment)
    return torch.cat([torch.rand(n, k, generator=generator) for k in sizes], 1)


def _sizes(augment: Augment) -> list[int]:
    # a new kind is drawn last, so that the others keep their numbers
    return [10, 8] + [2] * augment.rand_layers


def table_from(
    augment: Augment, uniform: Tensor, aspects: Tensor | None = None
) -> Tensor:
    """The table from `draws`, with their shape.

    `aspects` (n,) float64: each picture's width to height, relative to that of
    its resized crop; None for arrays, which keep theirs. A positive angle turns
    counter-clockwise.
    """
    if aspects is None:
        aspects = torch.ones(len(uniform), dtype=torch.float64)
    geometry, others, *layers = uniform.split(_sizes(augment), dim=1)
    signed = 2 * geometry - 1
    shift = augment.shift * signed[:, :2]
    if not augment.resamples:
        count = 2 * augment.shift + 1
        # at most the last, though the product may be rounded up to count
        shift = (geometry[:, :2] * count).floor().clamp_(max=count - 1)
        shift -= augment.shift
    flip = (geometry[:, 2] < 0.5) & augment.flip
    zoom = 1 + augment.scale * signed[:, 3]
    angle = math.radians(augment.rotate) * signed[:, 4]
    shear = torch.tan(math.radians(augment.shear) * signed[:, 5])
    cos, sin = torch.cos(angle) / zoom, torch.sin(angle) / zoom
    columns = [
        shift[:, 0],
        shift[:, 1],
        flip.float(),
        cos + sin * shear,
        sin,
        cos * shear - sin,
        cos,
        *_crop_box(augment, geometry[:, 6:], aspects),
        *_erased_box(augment, others[:, :5]),
        *(1 + augment.jitter * (2 * others[:, 5:] - 1)).unbind(1),
    ]
    for layer in layers:
        columns += randaugment.draw(layer)
    return torch.stack(columns, dim=1)


def _crop_box(
    augment: Augment, uniform: Tensor, aspects: Tensor
) -> tuple[Tensor, ...]:
    """Centre and size of an inception-style crop, from uniform (n, 4).

    The area is uniform from `crop` to what the picture has room for, the
    aspect log-uniform over the part of ASPECT that fits: no draw is rejected.
    """
    if not augment.crop:
        zeros, ones = torch.zeros(len(uniform)), torch.ones(len(uniform))
        return zeros, zeros, ones, ones
    wide = aspects.log()
    largest = (math.log(ASPECT[1]) - wide.abs()).clamp(max=0).exp()
    smallest = largest.clamp(max=augment.crop)
    area = smallest.float() + (largest - smallest).float() * uniform[:, 0]
    # from here on the aspect is relative to the picture's own
    low = area.log().clamp(min=(math.log(ASPECT[0]) - wide).float())
    high = (-area.log()).clamp(max=(math.log(ASPECT[1]) - wide).float())
    relative = torch.exp(low + (high - low) * uniform[:, 1])
    height = (area / relative).sqrt().clamp(max=1)
    width = (area * relative).sqrt().clamp(max=1)
    box_y = (1 - height) * (2 * uniform[:, 2] - 1)
    box_x = (1 - width) * (2 * uniform[:, 3] - 1)
    return box_y, box_x, height, width


def _erased_box(augment: Augment, uniform: Tensor) -> tuple[Tensor, ...]:
    """Corner and size of the erased box, from uniform (n, 5); height 0: none.

    As Zhong et al. 2017, but drawn so that it fits, where they draw again.
    """
    if not augment.erase:
        return torch.zeros(4, len(uniform)).unbind()
    area = ERASED_AREA[0] + (ERASED_AREA[1] - ERASED_AREA[0]) * uniform[:, 1]
    low = area.log().clamp(min=math.log(ERASED_ASPECT[0]))
    high = (-area.log()).clamp(max=math.log(ERASED_ASPECT[1]))
    aspect = torch.exp(low + (high - low) * uniform[:, 2])
    chosen = uniform[:, 0] < augment.erase
    height = (area / aspect).sqrt().clamp(max=1) * chosen
    width = (area * aspect).sqrt().clamp(max=1)
    top, left = (1 - height) * uniform[:, 3], (1 - width) * uniform[:, 4]
    return top, left, height, width


def apply(
    augment: Augment, images: Tensor, rows: Tensor, *, is_cropped: bool = False
) -> Tensor:
    """Augment (b, c, h, w), uint8 or float in 0..255, to values in 0..255.

    The dtype stays, but it is float32 after interpolation, and uint8 after
    RandAugment or jitter. `rows` of `augmentation_table` are on the CPU:
    RandAugment would wait for another device. Order: crop; zoom, shear and
    rotation about the centre; shift, flip, RandAugment, jitter. `erase` is
    separate. With `is_cropped`, the images are cropped and resized already.
    """
    here = sent(rows, images.device)
    resamples = augment.resamples_crops if is_cropped else augment.resamples
    if resamples:
        geometry = here[:, : len(GEOMETRY)].clone()
        if is_cropped:  # then the box is the whole picture
            geometry[:, BOX_PLACE] = 0.0
            geometry[:, BOX_SIZE] = 1.0
        grid = _sampling_grid(geometry, *images.shape[-2:])
        images = F.grid_sample(
            images.float(), grid, padding_mode="zeros", align_corners=False
        )
    elif augment.shift:
        images = _move(augment, images, here)
    elif augment.flip:
        images = _flip(images, rows)
    if not augment.recolours:
        return images
    images = images.round().clamp(0, 255).to(torch.uint8)
    if augment.rand_layers:
        images = randaugment.apply_layers(
            images, rows[:, len(COLUMNS) :], augment.rand_magnitude
        )
    if augment.jitter:
        first = len(GEOMETRY) + len(ERASED)
        brightness, contrast, colour = here[:, first : len(COLUMNS)].unbind(1)
        images = randaugment.brightness(images, brightness)
        images = randaugment.contrast(images, contrast)
        images = randaugment.colour(images, colour)
    return images


def erase(augment: Augment, images: Tensor, rows: Tensor) -> Tensor:
    """Set each sample's rectangle of normalised (b, c, h, w) to 0, the mean."""
    if not augment.erase:
        return images
    first = len(GEOMETRY)
    rows = rows[:, first : first + len(ERASED)]
    here = sent(rows, images.device)[:, :, None]
    top, left, height, width = here.unbind(1)
    h, w = images.shape[-2:]
    y = (torch.arange(h, device=images.device) + 0.5) / h
    x = (torch.arange(w, device=images.device) + 0.5) / w
    lines = (y >= top) & (y < top + height)  # (b, h)
    columns = (x >= left) & (x < left + width)  # (b, w)
    return images.masked_fill(
        (lines[:, :, None] & columns[:, None, :])[:, None], 0
    )


def mix(
    images: Tensor,
    labels: Tensor,
    num_classes: int,
    *,
    mixup: float = 0.0,
    cutmix: float = 0.0,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Mix images (b, c, h, w), and labels (b,) int64 to labels (b, classes).

    `mixup` and `cutmix` are the alpha of a Beta(alpha, alpha), from which the
    share that an image keeps is drawn, once per batch, on the CPU; 0 is off.
    With both on, a fair coin chooses; with both off nothing changes, and labels
    stay hard.
    Each image is mixed with the one before it, the first with the last.

    Mixup (Zhang et al. 2017) as in big_vision: an image keeps the larger share.
    In DeiT it may be the smaller, and the partner comes from the reversed
    batch. CutMix (Yun et al. 2019) pastes a rectangle of the partner, cut off
    at the border; labels weigh what is left.
    """
    if not mixup and not cutmix:
        return images, labels
    random = np.random.default_rng(seed)
    takes_mixup = random.random() < 0.5 if mixup and cutmix else bool(mixup)
    alpha = mixup if takes_mixup else cutmix
    kept = float(random.beta(alpha, alpha))
    if takes_mixup:
        kept = max(kept, 1 - kept)
        images = images.lerp(images.roll(1, 0), 1 - kept)
    else:
        height, width = images.shape[-2:]
        top, bottom, left, right = cut_box(height, width, kept, random)
        kept = 1 - (bottom - top) * (right - left) / (height * width)
        inside = (..., slice(top, bottom), slice(left, right))
        partner = images.roll(1, 0)[inside]
        images = images.clone()
        images[inside] = partner
    soft = labels
    if labels.ndim == 1:
        soft = torch.zeros(len(labels), num_classes, device=labels.device)
        soft.scatter_(1, labels[:, None], 1.0)
    return images, soft.lerp(soft.roll(1, 0), 1 - kept)


def cut_box(
    height: int, width: int, kept: float, random: np.random.Generator
) -> tuple[int, int, int, int]:
    """Top, bottom, left, right of a box with 1 - kept of the area."""
    side = (1 - kept) ** 0.5
    edges = []
    for length in (height, width):
        centre, half = random.integers(length), int(side * length) / 2
        edges.append(int(max(centre - half, 0)))
        edges.append(int(min(centre + half, length)))
    return tuple(edges)


def _flip(images: Tensor, rows: Tensor) -> Tensor:
    is_mirrored = rows[:, GEOMETRY.index("flip")] > 0
    of_both = torch.arange(len(rows)) + len(rows) * is_mirrored
    both = torch.cat([images, images.flip(-1)])
    return both.index_select(0, sent(of_both, images.device))


def _move(augment: Augment, images: Tensor, rows: Tensor) -> Tensor:
    """Whole-pixel shift and flip, by index: no value changes."""
    b, c, h, w = images.shape
    # a picture that is moved by its whole side is gone, however far it goes on
    pad = min(augment.shift, max(h, w))
    columns = torch.arange(w, device=rows.device)
    # padded row r is row r - pad of the picture, output row y is y - shift
    top, left = pad - rows[:, :2].clamp(-pad, pad).long().T
    columns = torch.where(rows[:, 2:3] > 0, w - 1 - columns, columns)  # (b, w)
    columns = columns + left[:, None]
    lines = torch.arange(h, device=rows.device) + top[:, None]  # (b, h)
    padded = F.pad(images, (pad, pad, pad, pad))
    index = lines[:, :, None] * (w + 2 * pad) + columns[:, None, :]  # (b, h, w)
    index = index.reshape(b, 1, h * w).expand(b, c, h * w)
    return padded.flatten(2).gather(2, index).view(b, c, h, w)


def _sampling_grid(rows: Tensor, h: int, w: int) -> Tensor:
    """Where each output pixel is read: (b, h, w, 2) of (x, y), edges at ±1."""
    down, right, flip, m_yy, m_yx, m_xy, m_xx, box_y, box_x, box_h, box_w = (
        column[:, None] for column in rows.unbind(1)
    )
    # centres of pixels; sums only, so that no sample depends on its batch
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
