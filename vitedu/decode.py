"""Any form of a picture (file, bytes, pixels) as a grey or RGB pillow image.

`as_image("cat.jpg", 3)` is an image in mode RGB, whatever is in the file.
"""

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    TypeAlias,
    TypeGuard,
    Union,
)

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError, reason
from vitedu.files import check_regular, user_path
from vitedu.limits import check_memory

if TYPE_CHECKING:
    from PIL.Image import Image

# what is taken for one picture
Picture: TypeAlias = Union[
    str, PathLike[str], bytes, BinaryIO, "Image", np.ndarray[Any, Any], Tensor
]

# Formats that a camera or a phone writes, and that not every pillow reads.
FOREIGN = (".avif", ".heic", ".heif", ".jxl")
# From here on a picture is held against the free memory.
LARGE_PIXELS = 1 << 24
# Decoded and converted, each with a byte for alpha.
BYTES_PER_PIXEL = 8
# What the system says of a file that stays broken: a link that leads nowhere,
# damage that sends pillow to a place before the file. All else may be mended in
# a moment.
LASTING = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL}


class UnreadablePicture(UserError):
    """A file is not a picture that can be used, whatever the machine does."""


def as_image(picture: Picture, channels: int) -> "Image":
    """What `read_image` takes, as a pillow image in its full size, L or RGB."""
    from PIL import Image

    check_channels(channels)
    if isinstance(picture, Image.Image):
        whole = picture
    elif isinstance(picture, Tensor):
        whole = _from_tensor(picture, channels)
    elif is_encoded(picture):
        return open_image(picture, channels)
    else:
        whole = _from_array(picture)
    with reading("the picture"):
        image = converted(whole, channels)
    # what the caller does with it leaves the picture alone
    return image.copy() if image is picture else image


def open_image(
    file: str | PathLike[str] | bytes | BinaryIO, channels: int
) -> "Image":
    """The picture in a file as a pillow image, decoded, of 1 or 3 channels.

    `file` is its path, its bytes, or the file itself, opened in binary mode; an
    open file is read from its beginning and left open.
    UserError: a file that is missing, damaged, too large or not a picture.
    """
    check_channels(channels)
    with opened(file) as image:
        return converted(image, channels)


@contextmanager
def opened(file: str | PathLike[str] | bytes | BinaryIO) -> Iterator["Image"]:
    """A picture with only its header read; pillow decodes it when it's used.

    UnreadablePicture: it is damaged or no picture, as it turns out then or now.
    UserError: the system couldn't read it this time.
    """
    with header(file) as image, reading(name_of(file)):
        yield image


def header(file: str | PathLike[str] | bytes | BinaryIO) -> "Image":
    """The same for a caller who closes it, and names it where it's used."""
    from PIL import Image

    source: Path | BinaryIO
    if isinstance(file, str | PathLike):
        source = path_of(file)
        _check_file(source)
    elif isinstance(file, bytes):
        source = io.BytesIO(file)
    else:
        source = file
        if isinstance(file, io.TextIOBase):
            raise UserError(
                f'{name_of(file)} is opened as text; open it with "rb"'
            )
    with reading(name_of(file)):
        return Image.open(source)


def is_encoded(
    picture: Picture,
) -> TypeGuard[str | PathLike[str] | bytes | BinaryIO]:
    """Whether it is a path, the bytes of a file, or an open file."""
    return isinstance(picture, str | bytes | PathLike) or hasattr(
        picture, "read"
    )


def path_of(file: str | PathLike[str]) -> Path:
    """Where the file is; a leading `~` is home, unless a file is named so."""
    if isinstance(file, Path):
        return file
    if not isinstance(file, str) or os.path.lexists(file):
        return Path(file)
    return user_path(file)


def name_of(picture: Picture) -> str:
    """What a sentence calls a picture."""
    if isinstance(picture, str | PathLike):
        return str(path_of(picture))
    if isinstance(picture, bytes):
        return f"the picture of {len(picture)} bytes"
    if hasattr(picture, "read"):
        return str(getattr(picture, "name", "the open file"))
    return "the picture"


def _check_file(path: Path) -> None:
    """UnreadablePicture: there's no file. UserError: it can't be read now."""
    try:
        check_regular(path)
    except UserError as error:
        try:
            is_file = stat.S_ISREG(os.stat(path).st_mode)
        except (OSError, ValueError) as why:
            is_file = getattr(why, "errno", None) not in LASTING
        if is_file:
            raise
        raise UnreadablePicture(str(error)) from None


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Puts `name` into a sentence about what the user can mend."""
    try:
        yield
    except UserError as error:
        raise type(error)(f"cannot read {name}: {error}") from error
    except MemoryError as error:
        raise UserError(f"cannot read {name}: not enough memory") from error


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turns whatever pillow raises inside into one sentence about `name`."""
    try:
        with naming(name):
            yield
    # a warning, where the caller has made errors of them, says nothing of the
    # picture
    except (UserError, Warning):
        raise
    # What a decoder raises depends on where the damage leads it.
    except Exception as error:
        # pillow's own have no number
        number = getattr(error, "errno", None)
        if number is not None and number not in LASTING:
            raise UserError(f"cannot read {name}: {reason(error)}") from error
        why = _damage(error, Path(name).suffix.lower())
        raise UnreadablePicture(f"cannot read {name}: {why}") from error


def _damage(error: Exception, suffix: str) -> str:
    """Why pillow could not read a picture, to be said after its name."""
    from PIL import Image, UnidentifiedImageError, __version__

    if isinstance(error, UnidentifiedImageError):
        if suffix in FOREIGN and suffix not in Image.registered_extensions():
            return (
                f"pillow {__version__} does not read {suffix}; save it as JPEG"
            )
        return "it is not a picture that pillow can read"
    if isinstance(error, Image.DecompressionBombError):
        return f"{reason(error).partition(', could')[0]}; scale it down"
    is_sentence = isinstance(
        error, OSError | SyntaxError | ValueError | RuntimeError
    )
    return reason(error) if is_sentence else "it is damaged"


def _from_tensor(pixels: Tensor, channels: int) -> "Image":
    from PIL import Image

    if pixels.ndim != 3 or len(pixels) != channels or not pixels.numel():
        raise UserError(
            f"a picture as a tensor is ({channels}, h, w), "
            f"got {tuple(pixels.shape)}"
        )
    if pixels.is_floating_point():
        low, high = pixels.min().item(), pixels.max().item()
        if not 0 <= low <= high <= 1:
            raise UserError(
                "a picture as a tensor of floats is in 0..1, got "
                f"{low:.3g}..{high:.3g}; give it as it is before it is "
                "normalised, and pixels of 0..255 as uint8"
            )
        pixels = (pixels.detach().float() * 255).round().byte()
    if pixels.dtype != torch.uint8:
        raise UserError(
            "a picture as a tensor is uint8 or floats in 0..1, got "
            f"{pixels.dtype}"
        )
    rows = pixels.cpu().permute(1, 2, 0).numpy()  # (h, w, c)
    return Image.fromarray(rows[..., 0] if channels == 1 else rows)


def _from_array(array: Any) -> "Image":
    from PIL import Image

    if not hasattr(array, "__array__"):
        raise UserError(
            "a picture is a path, bytes, a file opened in binary mode, a "
            f"pillow image, an array or a tensor, got {type(array).__name__}"
        )
    pixels = np.asarray(array)
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    is_picture = pixels.ndim == 2 or (
        pixels.ndim == 3 and pixels.shape[-1] == 3
    )
    if pixels.dtype != np.uint8 or not is_picture or not pixels.size:
        raise ValueError(
            "a picture as an array is uint8 of shape (h, w), (h, w, 1) or (h, "
            f"w, 3), got {pixels.dtype} {pixels.shape}"
        )
    return Image.fromarray(pixels)


def check_channels(channels: int) -> None:
    """UserError: pictures don't come with as many channels."""
    if channels not in (1, 3):
        raise UserError(
            f"a picture is grey or RGB, but the model wants {channels} channels"
        )


def converted(image: "Image", channels: int) -> "Image":
    """The image in mode L or RGB, decoded. UserError: it is too large."""
    from PIL import Image

    check_size(image)
    image.load()
    if image.mode == "F":
        raise UnreadablePicture("its floating-point pixels have no known range")
    if image.mode.startswith("I"):  # pillow would cut 16 bits off at 255
        pixels = np.asarray(image).clip(0, 65535) >> 8
        image = Image.fromarray(pixels.astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # a straight conversion warns
    mode = "L" if channels == 1 else "RGB"
    return image if image.mode == mode else image.convert(mode)


def check_size(image: "Image") -> None:
    """UserError: it has no pixels, or too many for the free memory."""
    width, height = image.size
    pixels = width * height
    if not pixels:
        raise UnreadablePicture("it has no pixels")
    if pixels >= LARGE_PIXELS:
        check_memory(
            BYTES_PER_PIXEL * pixels,
            f"a picture of {width:,} by {height:,} pixels",
            "scale it down, or read fewer at a time (num_workers)",
        )


def as_pixels(image: "Image") -> Tensor:
    """A pillow image in mode L or RGB as uint8 (c, h, w)."""
    return channels_last(image).contiguous()


def channels_last(image: "Image") -> Tensor:
    """The same with the channels of a pixel side by side in memory."""
    pixels = torch.from_numpy(np.array(image))
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)
