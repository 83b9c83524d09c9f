"""What both ResNets are built of: standardised convolutions and bottleneck units.

First the ViT authors' (post-activation, SAME padding), then BiT's (pre-activation);
`vitedu.model.resnet` holds the table of their differences. Attribute names are those
of timm's ResNetV2.

`Bottleneck(64, 16)(x)` maps (b, 64, h, w) to (b, 64, h, w).
"""

import math
from collections import OrderedDict
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from vitedu.errors import UserError

# a call that torch.fx keeps: its padding depends on the size
fx.wrap("pad_same")


def same_padding(size: int, kernel_size: int, stride: int) -> tuple[int, int]:
    """Pixels to put before and after an axis so that ceil(size / stride) come out.

    The smaller half stands first. With a stride of 2 it depends on the size: a kernel
    of 7 gets (2, 3) on an even axis and (3, 3) on an odd one.
    Source: "SAME" of TensorFlow and JAX, which the authors' code asks for.
    """
    windows = math.ceil(size / stride)
    total = max((windows - 1) * stride + kernel_size - size, 0)
    return total // 2, total - total // 2


def pad_same(
    x: Tensor, kernel_size: int, stride: int, value: float = 0.0
) -> Tensor:
    """(b, c, h, w) -> the same with its border of `same_padding`, set to `value`."""
    h, w = x.shape[-2:]
    rows = same_padding(h, kernel_size, stride)
    columns = same_padding(w, kernel_size, stride)
    return F.pad(x, (*columns, *rows), value=value)


def standardise(weight: Tensor) -> Tensor:
    """(out, in, p, q) -> the same: every filter has mean 0 and deviation 1.

    The deviation is the population's. The small number keeps a constant filter finite.
    Source: Qiao et al. 2019, "Weight Standardization"; 1e-5 is vit_jax's.
    """
    std, mean = torch.std_mean(weight, (1, 2, 3), correction=0, keepdim=True)
    return (weight - mean) / (std + 1e-5)


class StdConv2d(nn.Conv2d):
    """Convolution with standardised filters, no bias, and SAME padding.

    (b, in, h, w) -> (b, out, ceil(h / stride), ceil(w / stride)). `kernel_size` is
    odd. At stride 1 the padding is the same on all sides, and the convolution's own.
    Source: vit_jax's models_resnet.py.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
    ) -> None:
        padding = kernel_size // 2 if stride == 1 else 0
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, bias=False
        )

    def forward(self, x: Tensor) -> Tensor:
        """(b, in, h, w) -> (b, out, ceil(h / stride), ceil(w / stride))."""
        kernel_size, stride = self.kernel_size[0], self.stride[0]
        if kernel_size > 1 and stride > 1:
            x = pad_same(x, kernel_size, stride)
        weight = standardise(self.weight)
        return F.conv2d(x, weight, stride=stride, padding=self.padding)


class SamePool(nn.Module):
    """The largest of 3x3 pixels, at stride 2: (b, c, h, w) -> (b, c, ceil(h/2), ...).

    The border is -inf, so that it never wins; after the root's ReLU a zero would not
    win either. Source: flax's `max_pool` with SAME padding.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, c, ceil(h / 2), ceil(w / 2))."""
        return F.max_pool2d(pad_same(x, 3, 2, -math.inf), 3, stride=2)


class Bottleneck(nn.Module):
    """Post-activation unit: (b, c, h, w) -> (b, 4 * channels, h/stride, w/stride).

    1x1 to narrow, 3x3, 1x1 to widen, a GroupNorm after each; ReLU after the first two
    and after the sum. Where width or stride change, a 1x1 convolution and its norm
    make the shortcut fit. The last scale starts at zero: a new unit is its shortcut.
    Source: vit_jax's models_resnet.py; He et al. 2016, with the stride on the 3x3.
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
        """(b, c, h, w) -> (b, 4 * channels, h / stride, w / stride), rounded up."""
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        return F.relu(self.downsample(x) + y)


def build_root(in_channels: int, width: float) -> nn.Sequential:
    """Post-activation root: (b, c, h, w) -> (b, 64 * width, h/4, w/4), rounded up.

    Convolution and pool both halve the image, so the root alone divides it by 4.
    """
    channels = int(64 * width)
    return nn.Sequential(
        OrderedDict(
            conv=StdConv2d(in_channels, channels, 7, stride=2),
            norm=nn.GroupNorm(32, channels, eps=1e-6),
            act=nn.ReLU(),
            pool=SamePool(),
        )
    )


def standardise_bit(weight: Tensor) -> Tensor:
    """(out, in, p, q) -> the same: every filter has mean 0 and deviation 1.

    BiT puts its small number under the root. Computed in float32 or wider: a variance
    of 1e-8 is zero in float16.
    Source: big_vision's bit_paper.py.
    """
    w = weight.to(torch.promote_types(weight.dtype, torch.float32))
    var, mean = torch.var_mean(w, (1, 2, 3), correction=0, keepdim=True)
    return ((w - mean) / torch.sqrt(var + 1e-10)).to(weight.dtype)


class BiTConv2d(nn.Conv2d):
    """Convolution with standardised filters, no bias, the same padding on all sides.

    (b, in, h, w) -> (b, out, ceil(h / stride), ceil(w / stride)). `kernel_size` is odd.
    At stride 2 its windows lie one pixel before those of SAME on even axes.
    Source: big_vision's bit_paper.py.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
    ) -> None:
        padding = kernel_size // 2
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, bias=False
        )

    def forward(self, x: Tensor) -> Tensor:
        """(b, in, h, w) -> (b, out, ceil(h / stride), ceil(w / stride))."""
        weight = standardise_bit(self.weight)
        return F.conv2d(x, weight, stride=self.stride, padding=self.padding)


class PreActBottleneck(nn.Module):
    """Pre-activation unit: (b, c, h, w) -> (b, 4 * channels, h/stride, w/stride).

    1x1 to narrow, 3x3, 1x1 to widen, GroupNorm and ReLU before each, nothing after the
    sum: the shortcut is left untouched. Where width or stride change, the shortcut is a
    1x1 convolution of the normed input.
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
        """(b, c, h, w) -> (b, 4 * channels, h / stride, w / stride), rounded up."""
        y = F.relu(self.norm1(x))
        shortcut = x if self.downsample is None else self.downsample(y)
        y = self.conv1(y)
        y = self.conv2(F.relu(self.norm2(y)))
        y = self.conv3(F.relu(self.norm3(y)))
        return shortcut + y


class Border(nn.Module):
    """One pixel of `value` on all sides: (b, c, h, w) -> (b, c, h + 2, w + 2).

    Joined and not padded, for a model that leaves Python: onnxruntime (1.31) makes one
    of a padding with zeros and the pool behind it, and that pool's border is -inf.
    """

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, c, h + 2, w + 2)."""
        row = torch.full_like(x[:, :, :1], self.value)
        x = torch.cat([row, x, row], dim=2)
        column = torch.full_like(x[..., :1], self.value)
        return torch.cat([column, x, column], dim=3)


def build_bit_root(
    in_channels: int, width: float, border: float
) -> nn.Sequential:
    """BiT's root: (b, c, h, w) -> (b, 64 * width, h/4, w/4), rounded up.

    No norm and no ReLU, so what the pool finds at its border counts: `border` is 0 or
    -inf.
    """
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
    """The root's (b, 64 * width, h, w) -> features; stage i has `layers[i]` units.

    From a stage to the next the channels double, and the first unit halves the image,
    but for the first stage.
    """
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
    """Channels of the features that root and stages make."""
    root = int(64 * width)
    return root * 2 ** (len(layers) + 1) if layers else root


def check_layers(
    layers: Sequence[int], width: float
) -> tuple[tuple[int, ...], float]:
    """Units of each stage as a tuple, and the width as a float.

    UserError: a stage of no unit, or channels that are no multiple of 32.
    """
    is_list = isinstance(layers, list | tuple)
    if not is_list or any(
        not isinstance(depth, int) or isinstance(depth, bool) or depth < 1
        for depth in layers
    ):
        raise UserError(
            "layers must be the number of units of each stage, such as (3, 4, 6, 3), "
            f"got {layers!r}"
        )
    is_number = isinstance(width, int | float) and not isinstance(width, bool)
    if not is_number or not 0 < width < math.inf or 64 * width % 32:
        raise UserError(
            f"width is {width!r}, it must be a multiple of 0.5: GroupNorm cuts the "
            "64 * width channels into 32 groups"
        )
    return tuple(layers), float(width)
