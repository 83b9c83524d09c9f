"""Parts of both ResNets: a root, and stages of bottleneck units.

First the ViT authors' (post-activation), then BiT's (pre-activation);
`vitedu.model.resnet` lists their differences. Names are timm's (ResNetV2).
"""

from collections import OrderedDict
from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from vitedu.errors import UserError
from vitedu.model.convolution import BiTConv2d, Border, SamePool, StdConv2d


class Bottleneck(nn.Module):
    """Post-activation: (b, c, h, w) -> (b, 4 * channels, h/stride, w/stride).

    Where width or stride change, a 1x1 convolution and its norm fit the
    shortcut. The last scale starts at zero, so a new unit is its shortcut.
    Source: vit_jax's models_resnet.py; He et al. 2016, but with the stride on
    the 3x3.
    """

    def __init__(
        self, in_channels: int, channels: int, stride: int = 1
    ) -> None:
        super().__init__()
        out_channels = 4 * channels
        self.conv1 = StdConv2d(in_channels, channels, 1)
        self.norm1 = nn.GroupNorm(32, channels, eps=1e-6)
        self.conv2 = StdConv2d(channels, channels, 3, stride)
        self.norm2 = nn.GroupNorm(32, channels, eps=1e-6)
        self.conv3 = StdConv2d(channels, out_channels, 1)
        self.norm3 = nn.GroupNorm(32, out_channels, eps=1e-6)
        nn.init.zeros_(self.norm3.weight)
        self.downsample = nn.Identity()
        if in_channels != out_channels or stride != 1:
            conv = StdConv2d(in_channels, out_channels, 1, stride)
            norm = nn.GroupNorm(32, out_channels, eps=1e-6)
            self.downsample = nn.Sequential(OrderedDict(conv=conv, norm=norm))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        return F.relu(self.downsample(x) + y)


def build_root(in_channels: int, width: float) -> nn.Sequential:
    """Post-activation root: (b, c, h, w) -> (b, 64 * width, h/4, w/4)."""
    channels = int(64 * width)
    return nn.Sequential(
        OrderedDict(
            conv=StdConv2d(in_channels, channels, 7, stride=2),
            norm=nn.GroupNorm(32, channels, eps=1e-6),
            act=nn.ReLU(),
            pool=SamePool(),
        )
    )


class PreActBottleneck(nn.Module):
    """Pre-activation: (b, c, h, w) -> (b, 4 * channels, h/stride, w/stride).

    Where width or stride change, the shortcut is a 1x1 convolution of the
    normed input.
    Source: big_vision's bit_paper.py; He et al. 2016, "Identity Mappings".
    """

    def __init__(
        self, in_channels: int, channels: int, stride: int = 1
    ) -> None:
        super().__init__()
        out_channels = 4 * channels
        self.norm1 = nn.GroupNorm(32, in_channels, eps=1e-5)
        self.conv1 = BiTConv2d(in_channels, channels, 1)
        self.norm2 = nn.GroupNorm(32, channels, eps=1e-5)
        self.conv2 = BiTConv2d(channels, channels, 3, stride)
        self.norm3 = nn.GroupNorm(32, channels, eps=1e-5)
        self.conv3 = BiTConv2d(channels, out_channels, 1)
        self.downsample = None
        if in_channels != out_channels or stride != 1:
            conv = BiTConv2d(in_channels, out_channels, 1, stride)
            self.downsample = nn.Sequential(OrderedDict(conv=conv))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(x))
        shortcut = x if self.downsample is None else self.downsample(y)
        y = self.conv1(y)
        y = self.conv2(F.relu(self.norm2(y)))
        y = self.conv3(F.relu(self.norm3(y)))
        return shortcut + y


def build_bit_root(
    in_channels: int, width: float, border: float
) -> nn.Sequential:
    """BiT's root, without a norm: (b, c, h, w) -> (b, 64 * width, h/4, w/4)."""
    return nn.Sequential(
        OrderedDict(
            conv=BiTConv2d(in_channels, int(64 * width), 7, stride=2),
            pad=Border(border),
            pool=nn.MaxPool2d(3, stride=2),
        )
    )


def build_stages(
    unit: type[nn.Module], layers: Sequence[int], width: float
) -> nn.Sequential:
    """(b, 64 * width, h, w) -> features; stage i has `layers[i]` units."""
    in_channels, stages = int(64 * width), []
    for i, depth in enumerate(layers):
        channels, units = int(64 * width) * 2**i, []
        for j in range(depth):
            stride = 2 if i > 0 and j == 0 else 1
            units.append(unit(in_channels, channels, stride))
            in_channels = 4 * channels
        blocks = nn.Sequential(*units)
        stages.append(nn.Sequential(OrderedDict(blocks=blocks)))
    return nn.Sequential(*stages)


def out_channels(layers: Sequence[int], width: float) -> int:
    root = int(64 * width)
    return root * 2 ** (len(layers) + 1) if layers else root


def check_width(width: float) -> None:
    """UserError: channels that GroupNorm cannot divide."""
    if 64 * width % 32:
        raise UserError(
            f"width must be a multiple of 0.5, got {width}: GroupNorm cuts the "
            "64 * width channels into 32 groups"
        )
