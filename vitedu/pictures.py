"""From a picture to the numbers that a model wants: size, channels, range.

A `PreprocessSpec` travels with the weights; `read_image` applies its geometry to one
picture, `normalise` its numbers to a batch. Paper: section 4.1 and appendix B.

`logits = model(vitedu.preprocess(model, "cat.jpg"))`
"""

import math
from dataclasses import asdict, dataclass, fields
from os import PathLike, fspath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError, did_you_mean

INTERPOLATIONS = ("bicubic", "bilinear")


@dataclass(frozen=True)
class PreprocessSpec:
    """What must be done to a picture before this model sees it.

    The defaults are the ViT authors' evaluation: 224 pixels, mean and std 0.5 (so the
    range is -1..1), a direct bilinear resize that does not keep the picture's aspect
    (`crop=None`). timm evaluates the same weights with bicubic and crop 0.9 at 224, 1.0
    at 384; the choice moves the accuracy by tenths of a point, so it is kept here.

    An int as image_size means a square; one number as mean or std means every channel.
    """

    image_size: tuple[int, int] = (224, 224)  # rows, columns
    in_channels: int = 3  # 1 is grey, 3 is RGB
    mean: tuple[float, ...] = (0.5,)  # one a channel, on pixels in 0..1
    std: tuple[float, ...] = (0.5,)
    interpolation: str = "bilinear"
    crop: float | None = (
        None  # share of the resized short side that the crop keeps
    )

    def __post_init__(self) -> None:
        """Bring the fields into their kept form, or say which of them is wrong."""
        size = self.image_size
        size = tuple(size) if isinstance(size, list | tuple) else (size, size)
        if len(size) != 2 or not all(_is_count(side) for side in size):
            raise UserError(
                f"image_size={self.image_size} must be 1 or 2 whole numbers from 1 up"
            )
        object.__setattr__(self, "image_size", size)
        if not _is_count(self.in_channels):
            raise UserError(
                f"in_channels={self.in_channels!r} must be a whole number from 1 up"
            )
        for name in ("mean", "std"):
            object.__setattr__(self, name, self._per_channel(name))
        if min(self.std) <= 0:
            raise UserError(f"std={self.std} must be above 0 in every channel")
        if self.interpolation not in INTERPOLATIONS:
            raise UserError(
                f"interpolation={self.interpolation!r} is unknown; "
                + did_you_mean(str(self.interpolation), INTERPOLATIONS)
            )
        if self.crop is not None and not (
            _is_number(self.crop) and 0 < self.crop <= 1
        ):
            raise UserError(
                f"crop={self.crop!r} must be above 0 and at most 1, "
                "or None to resize without a crop"
            )

    def _per_channel(self, name: str) -> tuple[float, ...]:
        given = getattr(self, name)
        numbers = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not all(_is_number(number) for number in numbers):
            raise UserError(
                f"{name}={given!r} must be finite numbers, one a channel"
            )
        if len(numbers) == 1:
            numbers *= self.in_channels
        if len(numbers) != self.in_channels:
            raise UserError(
                f"{name} has {len(numbers)} numbers, "
                f"in_channels={self.in_channels}; give one a channel"
            )
        return tuple(float(number) for number in numbers)

    def to_json(self) -> dict[str, Any]:
        """A dict of plain lists, strings and numbers; `from_json` is its inverse."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "PreprocessSpec":
        """The spec that `to_json` wrote; UserError: a field it does not know."""
        known = {field.name for field in fields(cls)}
        for name in values:
            if name not in known:
                raise UserError(
                    f"PreprocessSpec has no field {name!r}; {did_you_mean(name, known)}"
                )
        return cls(
            **{
                name: tuple(value) if isinstance(value, list) else value
                for name, value in values.items()
            }
        )


def normalise(images: Tensor, spec: PreprocessSpec) -> Tensor:
    """(b, c, h, w) uint8, or float in 0..255, to float32: (x / 255 - mean) / std."""
    if images.ndim != 4 or images.shape[1] != spec.in_channels:
        raise ValueError(
            f"normalise wants (b, {spec.in_channels}, h, w), got {tuple(images.shape)}"
        )
    scale, offset = _scale_and_offset(spec, images.device)
    return images.float().mul(scale).add_(offset)


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


def read_image(picture: Any, spec: PreprocessSpec) -> Tensor:
    """One picture to uint8 (c, h, w) of the size and channels that `spec` names.

    `picture` is a path, a pillow image or a uint8 array, (h, w) or (h, w, 1 or 3).
    With a crop, the short side is resized to floor(size / crop) and the centre cut out,
    pixel for pixel as timm does; without, it is resized as it is.
    Grey is pillow's luma, transparency is dropped, 16 bits become 8, of an animation
    the first frame is taken, and an EXIF rotation is not applied (nor is it in timm).
    UserError: a file that is missing, damaged or no picture.
    """
    from PIL import Image

    if isinstance(picture, str | PathLike):
        image = open_image(picture, spec.in_channels)
    elif isinstance(picture, Image.Image):
        image = _converted(picture, spec.in_channels)
    else:
        image = _converted(_from_array(picture), spec.in_channels)
    return as_pixels(resized(image, spec))


def as_pixels(image) -> Tensor:
    """A pillow image in mode L or RGB as uint8 (c, h, w)."""
    pixels = torch.from_numpy(np.array(image))
    return (
        pixels[None]
        if pixels.ndim == 2
        else pixels.permute(2, 0, 1).contiguous()
    )


def resized(image, spec: PreprocessSpec):
    """A pillow image of any size brought to that of `spec`, as `read_image` does it."""
    if spec.crop is not None:
        return _resize_and_crop(image, spec)
    height, width = spec.image_size
    return image.resize((width, height), resampling(spec))


def resampling(spec: PreprocessSpec) -> int:
    """What pillow calls the interpolation of `spec`."""
    from PIL import Image

    return getattr(Image.Resampling, spec.interpolation.upper())


def preprocess(model: torch.nn.Module, picture: Any) -> Tensor:
    """One picture as `model` wants it, a batch of one: float (1, c, h, w).

    On the model's device and in its dtype. `picture` as in `read_image`.
    """
    spec = getattr(model, "preprocess", None)
    if not isinstance(spec, PreprocessSpec):
        raise ValueError(
            "the model has no preprocess; load it with vitedu.load, "
            "or set model.preprocess = PreprocessSpec(...)"
        )
    images = normalise(read_image(picture, spec)[None], spec)
    like = next(model.parameters(), images)
    return images.to(like.device, like.dtype)


def open_image(path: str | PathLike[str], channels: int):
    """The picture in a file as a pillow image, decoded, of 1 or 3 channels.

    UserError: a file that is missing, damaged or no picture.
    """
    from PIL import Image, UnidentifiedImageError

    path = fspath(path)
    try:
        with Image.open(path) as image:
            return _converted(image, channels)
    except UnidentifiedImageError as error:
        raise UserError(f"{path} is no picture that pillow can read") from error
    # pillow's decoders raise SyntaxError and ValueError for some kinds of damage
    except (
        OSError,
        SyntaxError,
        ValueError,
        Image.DecompressionBombError,
    ) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read: {reason}") from error


def _from_array(array: Any):
    from PIL import Image

    pixels = np.asarray(array)
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    is_picture = pixels.ndim == 2 or (
        pixels.ndim == 3 and pixels.shape[-1] == 3
    )
    if pixels.dtype != np.uint8 or not is_picture or not pixels.size:
        raise ValueError(
            "a picture as an array is uint8 of shape (h, w), (h, w, 1) or (h, w, 3), "
            f"got {pixels.dtype} {pixels.shape}"
        )
    return Image.fromarray(pixels)


def _converted(image, channels: int):
    """The image in mode L or RGB."""
    from PIL import Image

    if channels not in (1, 3):
        raise UserError(
            f"a picture is grey or RGB, but the model wants {channels} channels"
        )
    if image.mode == "F":
        raise UserError("pictures of floating-point pixels have no known range")
    if image.mode.startswith("I"):  # pillow would cut 16 bits off at 255
        pixels = np.asarray(image).astype(np.int64)
        image = Image.fromarray((pixels.clip(0, 65535) // 256).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # a straight conversion warns
    return image.convert("L" if channels == 1 else "RGB")


def _resize_and_crop(image, spec: PreprocessSpec):
    """Short side to floor(size / crop), then the centre; rounding is timm's."""
    height, width = spec.image_size
    target = [math.floor(side / spec.crop) for side in spec.image_size]
    if target[0] == target[1]:
        short, long = sorted(image.size)
        short, long = target[0], int(target[0] * long / short)
        size = (short, long) if image.width <= image.height else (long, short)
    else:
        ratio = min(image.height / target[0], image.width / target[1])
        size = (round(image.width / ratio), round(image.height / ratio))
    image = image.resize(size, resampling(spec))
    left = round((image.width - width) / 2)
    top = round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
