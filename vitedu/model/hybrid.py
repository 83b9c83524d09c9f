"""Hybrids: a ViT whose patches are cut from the feature map of a ResNet.

`vit("R50+ViT-B/16")(images)` maps (b, 3, 224, 224) to logits (b, 1000).
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from einops import rearrange
from torch import Tensor, fx, nn

from vitedu.errors import UserError
from vitedu.fields import Depth, Positive, Variant
from vitedu.model.bottleneck import (
    Bottleneck,
    build_root,
    build_stages,
    check_width,
    out_channels,
)
from vitedu.model.patches import check_images

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig

# calls that torch.fx keeps, as in vitedu.model.attention
fx.wrap("rearrange")
fx.wrap("check_images")


class HybridEmbedding(nn.Module):
    """Features of an image, then E of equation (1): (b, c, h, w) -> (b, n, d).

    ValueError: the images have another number of axes, channels or pixels.
    Source: paper, section 3.1, "Hybrid Architecture".
    """

    def __init__(
        self, backbone: nn.Module, channels: int, config: "ViTConfig"
    ) -> None:
        super().__init__()
        patch_size, d = config.patch_size, config.embed_dim
        self.input_shape = (config.in_channels, *config.image_size)
        self.grid = config.grid
        self.num_patches = config.num_patches
        self.backbone = backbone
        self.proj = nn.Conv2d(channels, d, patch_size, stride=patch_size)

    def forward(self, images: Tensor) -> Tensor:
        check_images(images, self.input_shape)
        features = self.backbone(images)  # (b, channels, h', w')
        return rearrange(self.proj(features), "b d gh gw -> b (gh gw) d")


@dataclass(frozen=True)
class Hybrid(Variant):
    """The paper's other stem: a ResNet (bit-v1) in front of the patches.

    `layers` are the units of each stage; none leaves the root alone. Root and
    first stage divide the image by 4, each further stage by 2, rounded up.
    `width` multiplies all channels. The patch size counts pixels of the feature
    map: 1 everywhere but in R+ViT-Ti/16, whose 8x8 patches are 32 pixels of the
    image, whatever its name says.

    UserError: a stage is empty, or GroupNorm cannot divide the channels.
    Source: paper, section 3.1; vit_jax's models_resnet.py and configs.
    """

    layers: tuple[Depth, ...] = (3, 4, 9)
    width: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_width(self.width)

    @property
    def stride(self) -> int:
        """Pixels of the image from one pixel of the feature map to the next."""
        return 4 * 2 ** max(len(self.layers) - 1, 0)

    def grid(self, config: "ViTConfig") -> tuple[int, int]:
        """Rows and columns. UserError: features do not divide into patches."""
        (height, width), (p, q) = config.image_size, config.patch_size
        rows, columns = -(-height // self.stride), -(-width // self.stride)
        for size, features, patch in ((height, rows, p), (width, columns, q)):
            if features % patch:
                raise UserError(
                    f"image size {size} makes {features} rows or columns of "
                    f"features, which is not a multiple of the patch size "
                    f"{patch}; take a multiple of {self.stride * patch} pixels"
                )
        return rows // p, columns // q

    def build(self, config: "ViTConfig") -> HybridEmbedding:
        """The module that maps images to a grid of tokens."""
        backbone = build_root(config.in_channels, self.width)
        if self.layers:
            stages = build_stages(Bottleneck, self.layers, self.width)
            backbone = nn.Sequential(OrderedDict(stem=backbone, stages=stages))
        channels = out_channels(self.layers, self.width)
        return HybridEmbedding(backbone, channels, config)
