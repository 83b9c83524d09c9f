"""Any form of a picture, a file, bytes, pixels, as a pillow image of grey or RGB.

`as_image("cat.jpg", 3)` is an image in mode RGB, whatever the file holds.
"""

import io
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, Union

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image

# what is taken for one picture
Picture: TypeAlias = Union[
    str, PathLike[str], bytes, BinaryIO, "Image", np.ndarray[Any, Any], Tensor
]


def as_image(picture: Picture, channels: int) -> "Image":
    """What `read_image` takes, as a pillow image in its full size, L or RGB."""
    from PIL import Image

    if isinstance(picture, Image.Image):
        return _converted(picture, channels)
    if isinstance(picture, Tensor):
        return _converted(_from_tensor(picture, channels), channels)
    if isinstance(picture, str | bytes | PathLike) or hasattr(picture, "read"):
        return open_image(picture, channels)
    return _converted(_from_array(picture), channels)


def open_image(
    file: str | PathLike[str] | bytes | BinaryIO, channels: int
) -> "Image":
    """The picture in a file as a pillow image, decoded, of 1 or 3 channels.

    `file` is its path, its bytes, or itself, opened in binary mode; an open file is
    read from its beginning and left open.
    UserError: a file that is missing, damaged or no picture.
    """
    from PIL import Image, UnidentifiedImageError

    if isinstance(file, str | PathLike):
        name, source = fspath(file), fspath(file)
    elif isinstance(file, bytes):
        name, source = f"the picture of {len(file)} bytes", io.BytesIO(file)
    else:
        name, source = str(getattr(file, "name", "the open file")), file
    try:
        if isinstance(file, io.TextIOBase):
            raise ValueError('it is opened as text; open it with "rb"')
        with Image.open(source) as image:
            return _converted(image, channels)
    except UnidentifiedImageError as error:
        raise UserError(f"{name} is no picture that pillow can read") from error
    # pillow's decoders raise SyntaxError and ValueError for some kinds of damage
    except (
        OSError,
        SyntaxError,
        ValueError,
        Image.DecompressionBombError,
    ) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{name} cannot be read: {reason}") from error


def _from_tensor(pixels: Tensor, channels: int) -> "Image":
    from PIL import Image

    if pixels.ndim != 3 or len(pixels) != channels or not pixels.numel():
        raise UserError(
            f"an image as a tensor is ({channels}, h, w), got {tuple(pixels.shape)}"
        )
    if pixels.is_floating_point():
        low, high = pixels.min().item(), pixels.max().item()
        if not 0 <= low <= high <= 1:
            raise UserError(
                "an image as a tensor of floats holds 0..1, got "
                f"{low:.3g}..{high:.3g}; give it as it is before it is normalised, "
                "and pixels of 0..255 as uint8"
            )
        pixels = (pixels.detach().float() * 255).round().byte()
    if pixels.dtype != torch.uint8:
        raise UserError(
            f"an image as a tensor is uint8 or floats in 0..1, got {pixels.dtype}"
        )
    _check_channels(channels)
    rows = pixels.cpu().permute(1, 2, 0).numpy()  # (h, w, c)
    return Image.fromarray(rows[..., 0] if channels == 1 else rows)


def _from_array(array: Any) -> "Image":
    from PIL import Image

    if not hasattr(array, "__array__"):
        raise UserError(
            "a picture is a path, bytes, a file opened in binary mode, a pillow image, "
            f"an array or a tensor, got {type(array).__name__}"
        )
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


def _check_channels(channels: int) -> None:
    if channels not in (1, 3):
        raise UserError(
            f"a picture is grey or RGB, but the model wants {channels} channels"
        )


def _converted(image: "Image", channels: int) -> "Image":
    """The image in mode L or RGB."""
    from PIL import Image

    _check_channels(channels)
    if image.mode == "F":
        raise UserError("pictures of floating-point pixels have no known range")
    if image.mode.startswith("I"):  # pillow would cut 16 bits off at 255
        pixels = np.asarray(image).astype(np.int64)
        image = Image.fromarray((pixels.clip(0, 65535) // 256).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # a straight conversion warns
    return image.convert("L" if channels == 1 else "RGB")


def as_pixels(image: "Image") -> Tensor:
    """A pillow image in mode L or RGB as uint8 (c, h, w)."""
    pixels = torch.from_numpy(np.array(image))
    return (
        pixels[None]
        if pixels.ndim == 2
        else pixels.permute(2, 0, 1).contiguous()
    )
