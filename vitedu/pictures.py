"""From a picture to the numbers that a model wants: size, channels, range.

A `PreprocessSpec` travels with the weights; `read_image` applies its geometry
to one picture, `normalise` its numbers to a batch. Paper: section 4.1 and
appendix B.

`logits = model(vitedu.preprocess(model, "cat.jpg"))`
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import torch
from torch import Tensor

from vitedu.decode import Picture, as_image, as_pixels, name_of, naming
from vitedu.errors import UserError
from vitedu.fields import (
    Count,
    OneForAll,
    Range,
    Size,
    check_fields,
    from_json,
    to_json,
)

if TYPE_CHECKING:
    from PIL.Image import Image

Interpolation = Literal["bicubic", "bilinear"]
INTERPOLATIONS = get_args(Interpolation)
PerChannel = Annotated[tuple[float, ...], OneForAll()]
Crop = Annotated[float, Range(above=0, at_most=1)]
# That a resize makes, of 4 bytes each. A bound on its own, not the free memory:
# a picture that is too long is so on every machine.
MOST_PIXELS = 150_000_000


@dataclass(frozen=True)
class PreprocessSpec:
    """What must be done to a picture before this model sees it.

    The defaults are the ViT authors' evaluation: 224 pixels, mean and std 0.5
    (so the range is -1..1), a direct bilinear resize that does not keep the
    picture's aspect (`crop=None`). timm evaluates the same weights with bicubic
    and crop 0.9 at 224, 1.0 at 384; the choice moves the accuracy by tenths of
    a point, so it is kept here.

    Called, it is a transform: a picture becomes float32 (c, h, w), so that
    `ImageFolder("photos", transform=model.preprocess)` is a data set for the
    model.

    Attributes:
        image_size: height and width in pixels; one number means a square
        in_channels: 3 for RGB, 1 for grey
        mean: subtracted from pixels in 0..1; one number for each channel, or
            for all
        std: divided by after that; one number for each channel, or for all
        interpolation: "bilinear" or "bicubic"
        crop: share of the resized short side that the crop in the centre keeps;
            None means a resize without a crop
    """

    image_size: Size = (224, 224)
    in_channels: Count = 3
    mean: PerChannel = (0.5,)
    std: PerChannel = (0.5,)
    interpolation: Interpolation = "bilinear"
    crop: Crop | None = None

    if TYPE_CHECKING:  # a call may give one number for several

        def __init__(
            self,
            image_size: int | Sequence[int] = ...,
            in_channels: int = ...,
            mean: float | Sequence[float] = ...,
            std: float | Sequence[float] = ...,
            interpolation: Interpolation = ...,
            crop: float | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Bring the fields into their kept form, or say which is wrong."""
        check_fields(self)
        for name in ("mean", "std"):
            numbers = getattr(self, name)
            if len(numbers) == 1:
                numbers *= self.in_channels
            if len(numbers) != self.in_channels:
                raise UserError(
                    f"{name} has {len(numbers)} numbers, in_channels is "
                    f"{self.in_channels}; give one number per channel"
                )
            object.__setattr__(self, name, numbers)
        if min(self.std) <= 0:
            raise UserError(f"std={self.std} must be above 0 in every channel")

    def sized(
        self, image_size: tuple[int, int], in_channels: int
    ) -> "PreprocessSpec":
        """The same for a model of this input size and of as many channels.

        A mean and std that are equal in every channel are so in the new ones
        too.
        """
        changes: dict[str, Any] = {"image_size": image_size}
        if in_channels != self.in_channels:
            changes["in_channels"] = in_channels
            for name in ("mean", "std"):
                numbers = getattr(self, name)
                changes[name] = (
                    numbers[:1] if len(set(numbers)) == 1 else numbers
                )
        return replace(self, **changes)

    def __call__(self, picture: Picture) -> Tensor:
        """One picture, as `read_image` takes it, to float32 (c, h, w)."""
        return normalise(read_image(picture, self)[None], self)[0]

    def to_json(self) -> dict[str, Any]:
        """A dict of lists, strings and numbers; `from_json` is its inverse."""
        return to_json(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "PreprocessSpec":
        """The spec that `to_json` wrote; UserError: a field is unknown."""
        return from_json(cls, values)


def normalise(images: Tensor, spec: PreprocessSpec) -> Tensor:
    """(x / 255 - mean) / std of (b, c, h, w) uint8 or 0..255 float: float32."""
    if images.ndim != 4 or images.shape[1] != spec.in_channels:
        raise ValueError(
            f"normalise wants (b, {spec.in_channels}, h, w), got "
            f"{tuple(images.shape)}"
        )
    scale, offset = _scale_and_offset(spec, images.device)
    # a copy that may be written to: each new one costs as much as a sum
    return images.to(torch.float32, copy=True).mul_(scale).add_(offset)


def _scale_and_offset(
    spec: PreprocessSpec, device: torch.device
) -> tuple[float | Tensor, float | Tensor]:
    scale = [1 / (255 * std) for std in spec.std]
    offset = [
        -mean / std for mean, std in zip(spec.mean, spec.std, strict=True)
    ]
    if len(set(scale)) == len(set(offset)) == 1:
        return scale[0], offset[0]  # plain numbers need no copy to the device
    return (
        torch.tensor(scale, device=device)[:, None, None],
        torch.tensor(offset, device=device)[:, None, None],
    )


def read_image(picture: Picture, spec: PreprocessSpec) -> Tensor:
    """One picture to uint8 (c, h, w) of the size and channels of `spec`.

    `picture` is a path, an encoded picture as bytes or as a file opened in
    binary mode, a pillow image, a uint8 array, (h, w) or (h, w, 1 or 3), or a
    tensor (c, h, w), uint8 or floats in 0..1, of as many channels as `spec`
    names. With a crop, the short side is resized to floor(size / crop) and the
    centre cut out, pixel for pixel as timm does; without, it is resized as it
    is. Grey is pillow's luma, transparency is dropped, 16 bits become 8, of an
    animation the first frame is taken, and an EXIF rotation is not applied (nor
    is it in timm).

    UserError: a file or bytes that are missing, damaged or no picture; a
    picture so long that resizing it would take gigabytes; a tensor of another
    shape, dtype or range; another kind of object. ValueError: an array of
    another shape or dtype.
    """
    image = as_image(picture, spec.in_channels)
    with naming(name_of(picture)):
        return as_pixels(resized(image, spec))


def resized(image: "Image", spec: PreprocessSpec) -> "Image":
    """A pillow image of any size, brought to `spec`'s as `read_image` does."""
    if spec.crop is not None:
        return _resize_and_crop(image, spec)
    height, width = spec.image_size
    return resize(image, (width, height), spec)


def resize(
    image: "Image", size: tuple[int, int], spec: PreprocessSpec
) -> "Image":
    """A picture at this width and height.

    UserError: it would have more than MOST_PIXELS.
    """
    from PIL import Image

    check_resized(image, size)
    how = getattr(Image.Resampling, spec.interpolation.upper())
    return image.resize(size, how)


def check_resized(image: "Image", size: tuple[int, int]) -> None:
    """UserError: at this width and height it has more than MOST_PIXELS."""
    width, height = size
    if width * height > MOST_PIXELS:
        raise UserError(
            f"resized from {image.width:,} by {image.height:,} to {width:,} by "
            f"{height:,} it would have {width * height:,} pixels, and the "
            f"limit is {MOST_PIXELS:,}; cut out the part that matters"
        )


def preprocess(
    model: torch.nn.Module, pictures: Picture | Sequence[Picture]
) -> Tensor:
    """Pictures as `model` wants them: float (b, c, h, w).

    One picture, as `read_image` takes it, is a batch of one; a list or a tuple
    of them, of any sizes, is a batch of as many. On the model's device and in
    its dtype.

    UserError: a picture cannot be read. ValueError: the list is empty, or the
    model has no PreprocessSpec.
    """
    spec = getattr(model, "preprocess", None)
    if not isinstance(spec, PreprocessSpec):
        raise ValueError(
            "the model has no preprocess; load it with vitedu.load, "
            "or set model.preprocess = PreprocessSpec(...)"
        )
    if not isinstance(pictures, list | tuple):
        pictures = [pictures]
    if not pictures:
        raise ValueError("the list of pictures is empty; give at least one")
    pixels = [read_image(picture, spec) for picture in pictures]
    images = normalise(torch.stack(pixels), spec)
    like = next(model.parameters(), images)
    return images.to(like.device, like.dtype)


def _resize_and_crop(image: "Image", spec: PreprocessSpec) -> "Image":
    """Short side to floor(size / crop), then the centre; rounding is timm's."""
    height, width = spec.image_size
    # beyond MOST_PIXELS it is refused, and may be too large for a whole number
    target = [
        math.floor(min(side / spec.crop, MOST_PIXELS + 1))
        for side in spec.image_size
    ]
    if target[0] == target[1]:
        short, long = sorted(image.size)
        short, long = target[0], int(target[0] * long / short)
        size = (short, long) if image.width <= image.height else (long, short)
    else:
        ratio = min(image.height / target[0], image.width / target[1])
        size = (round(image.width / ratio), round(image.height / ratio))
    image = resize(image, size, spec)
    left = round((image.width - width) / 2)
    top = round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))
