"""Images to tokens: the first half of equation (1).

`PatchEmbedding((224, 224), (16, 16), 3, 768)(images)` turns (b, 3, 224, 224)
into (b, 196, 768).
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from einops import rearrange
from torch import Tensor, fx, nn

from vitedu.errors import UserError
from vitedu.fields import LATER, Variant, shown

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig

# calls that torch.fx keeps, as in vitedu.model.attention
fx.wrap("rearrange")
fx.wrap("check_images")


def patchify(images: Tensor, patch_size: int | tuple[int, int]) -> Tensor:
    """(b, c, h, w) -> (b, n, p*q*c): flat patches, row by row.

    In a patch the order is row, column, channel, as in the authors' code.
    `patch_size` is p = q, or (p, q) for rows and columns, in pixels.

    ValueError: no batch axis, or the image does not divide into whole patches.
    Source: paper, section 3.1.
    """
    if isinstance(patch_size, int):
        patch_size = (patch_size, patch_size)
    p, q = patch_size
    if images.ndim != 4:
        raise ValueError(
            f"patchify needs (b, c, h, w), got {tuple(images.shape)}; "
            "one image is images[None]"
        )
    h, w = images.shape[-2:]
    if h % p or w % q:
        raise ValueError(
            f"patchify: {h}x{w} does not divide into patches of {p}x{q} "
            f"({h % p} rows and {w % q} columns left over)"
        )
    return rearrange(images, "b c (gh p) (gw q) -> b (gh gw) (p q c)", p=p, q=q)


def unpatchify(
    patches: Tensor, patch_size: int | tuple[int, int], grid: tuple[int, int]
) -> Tensor:
    """(b, n, p*q*c) -> (b, c, h, w): the inverse of `patchify`.

    `grid` is (rows, columns) of patches, since n alone does not say the shape.
    """
    if isinstance(patch_size, int):
        patch_size = (patch_size, patch_size)
    (p, q), (gh, gw) = patch_size, grid
    pattern = "b (gh gw) (p q c) -> b c (gh p) (gw q)"
    return rearrange(patches, pattern, gh=gh, gw=gw, p=p, q=q)


def patch_grid(
    image_size: tuple[int, int], patch_size: tuple[int, int]
) -> tuple[int, int]:
    """Rows and columns. UserError: the image doesn't divide evenly."""
    for size, patch in zip(image_size, patch_size, strict=True):
        if size % patch:
            raise UserError(
                f"image size {size} is not a multiple of the patch size "
                f"{patch} ({size % patch} pixels left over)"
            )
    return image_size[0] // patch_size[0], image_size[1] // patch_size[1]


def check_images(images: Tensor, input_shape: tuple[int, int, int]) -> None:
    """ValueError unless `images` are (b, *input_shape)."""
    if images.ndim != 4:
        raise ValueError(
            f"the model needs images (b, {', '.join(map(str, input_shape))}), "
            f"got {tuple(images.shape)}; one image is images[None]"
        )
    if images.shape[1:] != input_shape:
        c, h, w = input_shape
        channels, height, width = images.shape[1:]
        raise ValueError(
            f"the model needs images of {c} channels, {h}x{w} pixels, "
            f"got {channels} channels, {height}x{width}"
        )


class PatchEmbedding(nn.Module):
    """Each patch times E of equation (1): (b, c, h, w) -> (b, n, d).

    Rows n are in the order of `patchify`. E is stored as the kernel of the
    equal convolution: `proj.weight` (d, c, p, q).

    ValueError: the size does not divide into patches, or the images have
    another number of axes, channels or pixels.
    Source: paper, section 3.1; the bias is the authors' code's.
    """

    def __init__(
        self,
        image_size: tuple[int, int],
        patch_size: tuple[int, int],
        in_channels: int,
        embed_dim: int,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.input_shape = (in_channels, *image_size)
        self.grid = patch_grid(image_size, patch_size)
        self.num_patches = self.grid[0] * self.grid[1]
        self.proj = nn.Conv2d(
            in_channels, embed_dim, patch_size, stride=patch_size, bias=bias
        )

    def forward(self, images: Tensor) -> Tensor:
        check_images(images, self.input_shape)
        return rearrange(self.proj(images), "b d gh gw -> b (gh gw) d")


@dataclass(frozen=True)
class Patches(Variant):
    """The paper's stem: patches that don't overlap, each mapped linearly.

    CLIP's is Patches(bias=False, norm=True): the map has no bias, and all
    tokens, positions added, go through a LayerNorm before the first block.
    """

    bias: bool = field(default=True, metadata=LATER)
    norm: bool = field(default=False, metadata=LATER)
    __repr__ = shown

    def grid(self, config: "ViTConfig") -> tuple[int, int]:
        """Rows and columns. UserError: the image doesn't divide evenly."""
        return patch_grid(config.image_size, config.patch_size)

    def build(self, config: "ViTConfig") -> PatchEmbedding:
        """The module that maps images to a grid of tokens."""
        return PatchEmbedding(
            config.image_size,
            config.patch_size,
            config.in_channels,
            config.embed_dim,
            self.bias,
        )
