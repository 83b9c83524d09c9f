"""Convolutions with standardised filters, and the borders that go with them.

BiT's have symmetric padding, the ViT authors' SAME padding.

`StdConv2d(3, 64, 7, stride=2)(x)` maps (b, 3, h, w) to (b, 64, h/2, w/2).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

# a call that torch.fx keeps: its padding depends on the size
fx.wrap("pad_same")


def same_padding(size: int, kernel_size: int, stride: int) -> tuple[int, int]:
    """Pixels before and after an axis, so that ceil(size / stride) come out.

    The smaller half comes first. At stride 2 it depends on the size: a kernel
    of 7 gets (2, 3) on an even axis and (3, 3) on an odd one.
    Source: "SAME" of TensorFlow and JAX, which the authors' code asks for.
    """
    windows = math.ceil(size / stride)
    total = max((windows - 1) * stride + kernel_size - size, 0)
    return total // 2, total - total // 2


def pad_same(
    x: Tensor, kernel_size: int, stride: int, value: float = 0.0
) -> Tensor:
    """(b, c, h, w), with a border of `value` as `same_padding` says."""
    h, w = x.shape[-2:]
    rows = same_padding(h, kernel_size, stride)
    columns = same_padding(w, kernel_size, stride)
    return F.pad(x, (*columns, *rows), value=value)


def standardise(weight: Tensor) -> Tensor:
    """(out, in, p, q) -> the same: every filter has mean 0 and deviation 1.

    The population's deviation, plus a small number for constant filters.
    Source: Qiao et al. 2019, "Weight Standardization"; 1e-5 is vit_jax's.
    """
    std, mean = torch.std_mean(weight, (1, 2, 3), correction=0, keepdim=True)
    return (weight - mean) / (std + 1e-5)


def standardise_bit(weight: Tensor) -> Tensor:
    """(out, in, p, q) -> the same: every filter has mean 0 and deviation 1.

    BiT puts its small number under the root. Computed in float32 or wider: a
    variance of 1e-8 is zero in float16.
    Source: big_vision's bit_paper.py.
    """
    w = weight.to(torch.promote_types(weight.dtype, torch.float32))
    var, mean = torch.var_mean(w, (1, 2, 3), correction=0, keepdim=True)
    return ((w - mean) / torch.sqrt(var + 1e-10)).to(weight.dtype)


class BiTConv2d(nn.Conv2d):
    """Convolution with standardised filters, no bias, symmetric padding.

    (b, in, h, w) -> (b, out, ceil(h / stride), ceil(w / stride)). `kernel_size`
    is odd. At stride 2 and on even axes its windows begin one pixel earlier
    than SAME's.
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
        weight = standardise_bit(self.weight)
        return F.conv2d(x, weight, stride=self.stride, padding=self.padding)


class StdConv2d(BiTConv2d):
    """Convolution with standardised filters, no bias, and SAME padding.

    Its shapes are BiTConv2d's; at stride 1 SAME is symmetric too.
    Source: vit_jax's models_resnet.py.
    """

    def forward(self, x: Tensor) -> Tensor:
        weight, padding = standardise(self.weight), self.padding
        if self.kernel_size[0] > 1 and self.stride[0] > 1:
            x = pad_same(x, self.kernel_size[0], self.stride[0])
            padding = (0, 0)
        return F.conv2d(x, weight, stride=self.stride, padding=padding)


class SamePool(nn.Module):
    """The largest of 3x3 pixels: (b, c, h, w) -> (b, c, ceil(h/2), ceil(w/2)).

    The border is -inf, so it never wins. Source: flax's `max_pool`, SAME.
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(pad_same(x, 3, 2, -math.inf), 3, stride=2)


class Border(nn.Module):
    """One pixel of `value` on all sides: (b, c, h, w) -> (b, c, h + 2, w + 2).

    Concatenated, not padded: onnxruntime (1.31) would fuse a padding with zeros
    into the pool behind it, whose border is -inf.
    """

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        row = torch.full_like(x[:, :, :1], self.value)
        x = torch.cat([row, x, row], dim=2)
        column = torch.full_like(x[..., :1], self.value)
        return torch.cat([column, x, column], dim=3)
