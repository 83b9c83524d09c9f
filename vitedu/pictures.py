"""From any form of picture to the numbers a model wants.

A `PreprocessSpec` travels with the weights; `read_image` applies its geometry,
`normalise` its numbers. Paper: section 4.1 and appendix B.

`logits = model(vitedu.preprocess(model, "cat.jpg"))`
"""

import errno
import io
import math
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    BinaryIO,
    Literal,
    TypeAlias,
    TypeGuard,
    Union,
    get_args,
)

import numpy as np
import torch
from torch import Tensor

from vitedu import fields
from vitedu.errors import UserError, reason
from vitedu.files import check_regular, user_path

if TYPE_CHECKING:
    from PIL.Image import Image

# a picture in its encoded form: a path, the bytes, or an open file
File: TypeAlias = str | PathLike[str] | bytes | BinaryIO
Picture: TypeAlias = Union[File, "Image", np.ndarray[Any, Any], Tensor]

# Formats that a camera or a phone writes, and that not every pillow reads.
FOREIGN = (".avif", ".heic", ".heif", ".jxl")
# Of pictures from here on, threads decode one at a time.
LARGE_PIXELS = 1 << 24
# Errors that trying again won't mend. Anything else the system says (too many
# open files, a network drive that is away) is about this moment.
LASTING = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL}

Interpolation = Literal["bicubic", "bilinear"]
INTERPOLATIONS = get_args(Interpolation)
Orientation = Literal["upright", "ignore"]
ORIENTATION = 0x0112  # EXIF's tag
# what turns a picture upright, by the tag's value; from 5 on it lies
TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
# the mean and std of ImageNet's pictures
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
Means = Annotated[tuple[float, ...], fields.OneForAll()]
Deviations = Annotated[tuple[fields.Positive, ...], fields.OneForAll()]
Crop = Annotated[float, fields.Range(above=0, at_most=1)]


@dataclass(frozen=True)
class PreprocessSpec(fields.Checked):
    """What must be done to a picture before this model sees it.

    The defaults are the ViT authors' evaluation: 224 pixels, values in -1..1, a
    bilinear resize that does not keep the aspect ratio (`crop=None`). timm
    evaluates the same weights with bicubic and crop 0.9 at 224, 1.0 at 384;
    that moves the accuracy by tenths of a point.

    Called, it turns a picture into float32 (c, h, w), so it can be a transform:
    `ImageFolder("photos", transform=model.preprocess)`.

    Attributes:
        image_size: height and width in pixels; one number means a square
        in_channels: 3 for RGB, 1 for grey
        mean: subtracted from pixels in 0..1; one number for each channel, or
            for all
        std: divided by after that; one number for each channel, or for all
        interpolation: "bilinear" or "bicubic"
        crop: share of the resized short side that the crop in the centre keeps;
            None means a resize without a crop
        orientation: "upright" turns a photograph as its EXIF tag says, "ignore"
            leaves it as it is stored, as timm does
    """

    image_size: fields.Size = (224, 224)
    in_channels: fields.Count = 3
    mean: Means = (0.5,)
    std: Deviations = (0.5,)
    interpolation: Interpolation = "bilinear"
    crop: Crop | None = None
    orientation: Orientation = field(default="upright", metadata=fields.LATER)

    if TYPE_CHECKING:  # a call may give one number for several

        def __init__(
            self,
            image_size: int | Sequence[int] = ...,
            in_channels: int = ...,
            mean: float | Sequence[float] = ...,
            std: float | Sequence[float] = ...,
            interpolation: Interpolation = ...,
            crop: float | None = ...,
            orientation: Orientation = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def sized(
        self, image_size: tuple[int, int], in_channels: int
    ) -> "PreprocessSpec":
        """This spec for another size; equal means and stds fit any channels."""
        mean, std = (
            numbers[:1] if len(set(numbers)) == 1 else numbers
            for numbers in (self.mean, self.std)
        )
        return replace(
            self,
            image_size=image_size,
            in_channels=in_channels,
            mean=mean,
            std=std,
        )

    def __call__(self, picture: Picture) -> Tensor:
        """One picture, as `read_image` takes it, to float32 (c, h, w)."""
        return normalise(read_image(picture, self)[None], self)[0]


def normalise(images: Tensor, spec: PreprocessSpec) -> Tensor:
    """(b, c, h, w), uint8 or float 0..255 -> float32 (x / 255 - mean) / std."""
    if images.ndim != 4 or images.shape[1] != spec.in_channels:
        raise ValueError(
            f"normalise wants (b, {spec.in_channels}, h, w), got "
            f"{tuple(images.shape)}"
        )
    scales = [1 / (255 * std) for std in spec.std]
    pairs = zip(spec.mean, spec.std, strict=True)
    offsets = [-mean / std for mean, std in pairs]
    # a copy that may be written to: each new one costs as much as a sum
    x = images.to(torch.float32, copy=True)
    if len(set(scales)) == len(set(offsets)) == 1:
        return x.mul_(scales[0]).add_(offsets[0])  # no copies to the device
    scale, offset = torch.tensor([scales, offsets], device=x.device)
    return x.mul_(scale[:, None, None]).add_(offset[:, None, None])


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """`tensor` on `device`; this process doesn't wait for it to arrive.

    CUDA copies at once only from pinned memory; from any other it may first
    wait for all work that is queued.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def read_image(picture: Picture, spec: PreprocessSpec) -> Tensor:
    """One picture to uint8 (c, h, w) of the size and channels of `spec`.

    `picture` is a path, encoded bytes, a file opened in binary mode, a pillow
    image, a uint8 array (h, w) or (h, w, 1 or 3), or a tensor (c, h, w) of
    `spec`'s channels, uint8 or floats in 0..1. With a crop, the short side is
    resized to floor(size / crop) and the centre cut out, pixel for pixel as in
    timm. Grey is pillow's luma, transparency is dropped, 16 bits become 8, an
    animation gives its first frame, and a photograph is turned upright (unless
    `spec.orientation` is "ignore").

    UserError: a file or bytes that are missing, damaged or no picture; a tensor
    of another shape, dtype or range; another kind of object. ValueError: an
    array of another shape or dtype.
    """
    image = as_image(picture, spec.in_channels, spec.orientation)
    return as_pixels(resized(image, spec))


def resized(image: "Image", spec: PreprocessSpec) -> "Image":
    from PIL import Image

    how = Image.Resampling[spec.interpolation.upper()]
    height, width = spec.image_size
    if spec.crop is None:
        return image.resize((width, height), how)
    image = image.resize(_size_before_crop(image, spec, spec.crop), how)
    left = round((image.width - width) / 2)
    top = round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))


def preprocess(
    model: torch.nn.Module, pictures: Picture | Sequence[Picture]
) -> Tensor:
    """Pictures as `model` wants them: float (b, c, h, w).

    One picture is a batch of one; a list or tuple may mix sizes. See
    `read_image` for what a picture can be. On the model's device and in its
    dtype.

    UserError: a picture cannot be read. ValueError: the model has no
    PreprocessSpec.
    """
    spec = spec_of(model)
    if not isinstance(pictures, list | tuple):
        pictures = [pictures]
    pixels = [read_image(picture, spec) for picture in pictures]
    images = normalise(torch.stack(pixels), spec)
    like = next(model.parameters(), images)
    return images.to(like.device, like.dtype)


def spec_of(model: torch.nn.Module) -> PreprocessSpec:
    spec = getattr(model, "preprocess", None)
    if not isinstance(spec, PreprocessSpec):
        raise ValueError(
            "the model has no preprocess; load it with vitedu.load, "
            "or set model.preprocess = PreprocessSpec(...)"
        )
    return spec


def _size_before_crop(
    image: "Image", spec: PreprocessSpec, crop: float
) -> tuple[int, int]:
    """Width and height: short side floor(size / crop), rounded as in timm."""
    rows, columns = (math.floor(side / crop) for side in spec.image_size)
    if rows == columns:
        short, long = sorted(image.size)
        short, long = rows, int(rows * long / short)
        return (short, long) if image.width <= image.height else (long, short)
    ratio = min(image.height / rows, image.width / columns)
    return round(image.width / ratio), round(image.height / ratio)


class UnreadablePicture(UserError):
    """The file itself cannot be used: trying again won't help."""


def as_image(
    picture: Picture, channels: int, orientation: Orientation = "upright"
) -> "Image":
    """Any `Picture` as a pillow image in its full size, mode L or RGB."""
    from PIL import Image

    if channels not in (1, 3):
        raise UserError(
            f"a picture is grey or RGB, but the model wants {channels} channels"
        )
    if is_encoded(picture):
        with open_picture(picture) as image:
            return converted(image, channels, orientation)
    if isinstance(picture, Image.Image):
        whole = picture
    elif isinstance(picture, Tensor):
        whole = _from_tensor(picture, channels)
    else:
        whole = _from_array(picture)
    with reading("the picture"):
        image = converted(whole, channels, orientation)
    # what the caller does with it leaves the picture alone
    return image.copy() if image is picture else image


@contextmanager
def open_picture(file: File) -> Iterator["Image"]:
    """A picture with only its header read; pillow decodes it on use."""
    with header(file) as image, reading(name_of(file)):
        yield image


def header(file: File) -> "Image":
    from PIL import Image

    source: Path | BinaryIO
    if isinstance(file, str | PathLike):
        source = file if isinstance(file, Path) else user_path(file)
        if not (os.path.isfile(source) and os.access(source, os.R_OK)):
            _check_file(source)  # raises what is wrong with it
    elif isinstance(file, bytes):
        source = io.BytesIO(file)
    elif isinstance(file, io.TextIOBase):
        raise UserError(f'{name_of(file)} is opened as text; open it with "rb"')
    else:
        source = file
    with reading(name_of(file)):
        return Image.open(source)


def is_encoded(picture: object) -> TypeGuard[File]:
    return isinstance(picture, str | bytes | PathLike) or hasattr(
        picture, "read"
    )


def is_prepared(picture: object) -> bool:
    """Whether it is floats, which should be (x - mean) / std already."""
    if isinstance(picture, Tensor):
        return picture.is_floating_point()
    return isinstance(picture, np.ndarray) and picture.dtype.kind == "f"


def name_of(picture: Picture) -> str:
    if isinstance(picture, str | PathLike):
        return str(picture)
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
def reading(name: str) -> Iterator[None]:
    """Errors raised inside become one sentence that begins with the name."""
    start = f"cannot read {name}"
    try:
        yield
    except UserError as error:
        raise type(error)(f"{start}: {error}") from error
    except MemoryError as error:
        raise UserError(f"{start}: not enough memory") from error
    # a decoder may raise anything on damaged data
    except Exception as error:
        # pillow's own errors have no errno
        number = getattr(error, "errno", None)
        if number is not None and number not in LASTING:
            raise UserError(f"{start}: {reason(error)}") from error
        why = _damage(error, Path(name).suffix.lower())
        raise UnreadablePicture(f"{start}: {why}") from error


def _damage(error: Exception, suffix: str) -> str:
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

    is_float = pixels.is_floating_point()
    is_shaped = pixels.ndim == 3 and len(pixels) == channels and pixels.numel()
    if not is_shaped or not (is_float or pixels.dtype == torch.uint8):
        raise UserError(
            f"a picture as a tensor is ({channels}, h, w), uint8 or floats in "
            f"0..1, got {pixels.dtype} {tuple(pixels.shape)}"
        )
    if is_float:
        low, high = (each.item() for each in pixels.aminmax())
        if not 0 <= low <= high <= 1:
            raise UserError(
                "a picture as a tensor of floats is in 0..1, got "
                f"{low:.3g}..{high:.3g}; give it as it is before it is "
                "normalised, and pixels of 0..255 as uint8"
            )
        pixels = (pixels.detach().float() * 255).round().byte()
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
    channels = pixels.shape[2:]
    if (
        pixels.dtype != np.uint8
        or pixels.ndim < 2
        or channels not in ((), (1,), (3,))
        or not pixels.size
    ):
        raise ValueError(
            "a picture as an array is uint8 of shape (h, w), (h, w, 1) or (h, "
            f"w, 3), got {pixels.dtype} {pixels.shape}"
        )
    return Image.fromarray(pixels[..., 0] if channels == (1,) else pixels)


def converted(
    image: "Image", channels: int, orientation: Orientation = "upright"
) -> "Image":
    from PIL import Image

    image.load()
    tag = _tag_of(image, orientation)
    if image.mode == "F":
        raise UnreadablePicture("its floating-point pixels have no known range")
    if image.mode.startswith("I"):  # pillow would cut 16 bits off at 255
        pixels = np.asarray(image).clip(0, 65535) >> 8
        image = Image.fromarray(pixels.astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # a straight conversion warns
    mode = "L" if channels == 1 else "RGB"
    image = image if image.mode == mode else image.convert(mode)
    if tag == 1:
        return image
    image = image.transpose(Image.Transpose[TURNS[tag]])
    image.info.pop("exif", None)  # so that nobody turns it again
    return image


def turned(
    size: tuple[int, int], image: "Image", orientation: Orientation
) -> tuple[int, int]:
    """(width, height) of `image` as stored, for it turned; or back again."""
    return size[::-1] if _tag_of(image, orientation) > 4 else size


def _tag_of(image: "Image", orientation: Orientation) -> int:
    tag = 1
    if orientation == "upright" and "exif" in image.info:
        with suppress(Exception):  # whatever a damaged EXIF raises
            tag = image.getexif().get(ORIENTATION, 1)
    return tag if tag in TURNS else 1


def as_pixels(image: "Image") -> Tensor:
    """A pillow image, L or RGB, as uint8 (c, h, w)."""
    return channels_last(image).contiguous()


def channels_last(image: "Image") -> Tensor:
    """`as_pixels`, but each pixel's channels are adjacent in memory."""
    pixels = torch.from_numpy(np.array(image))
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)
