"""ViTs, ResNets and hybrids of four sizes, for drawings of 64 x 64 pixels.

`BUILD["vit-6"]()` has about 6 million multiply-adds, as do `resnet-6` and
`hybrid-6`. `vitedu.model`'s ResNets begin at 17 million.
"""

from collections.abc import Callable
from functools import cache, partial

import torch
import torch.nn.functional as F
from resnets_on_shapes import plain
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vitedu.model import ViT

SIDE = 64
FAMILIES, SIZES = ("vit", "resnet", "hybrid"), (6, 11, 20, 36)


class Block(nn.Module):
    """Two convolutions of 3 x 3 beside a shortcut."""

    def __init__(self, c: int, d: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c, d, 3, stride, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(d // 4, d)
        self.conv2 = nn.Conv2d(d, d, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(d // 4, d)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1:
            self.shortcut = nn.Conv2d(c, d, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.shortcut(x) + self.norm2(self.conv2(y)))


def stages(width: int, count: int) -> nn.Sequential:
    """(b, 3, 64, 64) -> (b, width * 2^count, 32 / 2^count, the same)."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 5, 2, padding=2, bias=False),
        nn.GroupNorm(width // 2, width),
        nn.ReLU(),
    ]
    for channels in (width * 2**i for i in range(count)):
        layers.append(Block(channels, 2 * channels, 2))
        layers.append(Block(2 * channels, 2 * channels))
    return nn.Sequential(*layers)


class ResNet(nn.Module):
    """Three stages of two blocks, the mean of the 16 places, a head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = stages(width, 3)
        self.head = nn.Linear(8 * width, 10)

    def forward_features(self, images: Tensor) -> Tensor:
        return self.body(images)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        x = x.mean(dim=(2, 3))
        return x if pre_logits else self.head(x)

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))


class Stem(nn.Module):
    """Two stages of the ResNet for patches: (b, 3, 64, 64) -> (b, 64, d)."""

    def __init__(self, width: int, d: int) -> None:
        super().__init__()
        self.body = stages(width, 2)
        self.proj = nn.Linear(4 * width, d)

    def forward(self, images: Tensor) -> Tensor:
        return self.proj(self.body(images).flatten(2).mT)


def vit(d: int, depth: int, width: int = 0) -> ViT:
    """A ViT on 64 patches or, with a width, on 64 places of a ResNet's map."""
    model = ViT(plain(patch_size=8, embed_dim=d, depth=depth, mlp_dim=2 * d))
    if width:
        model.patch_embed = Stem(width, d)
    return model


BUILD: dict[str, Callable[[], nn.Module]] = {
    "vit-6": partial(vit, 64, 2),
    "vit-11": partial(vit, 64, 4),
    "vit-20": partial(vit, 88, 4),
    "vit-36": partial(vit, 96, 6),
    "resnet-6": partial(ResNet, 8),
    "resnet-11": partial(ResNet, 10),
    "resnet-20": partial(ResNet, 14),
    "resnet-36": partial(ResNet, 18),
    "hybrid-6": partial(vit, 48, 2, 6),
    "hybrid-11": partial(vit, 64, 2, 8),
    "hybrid-20": partial(vit, 72, 4, 10),
    "hybrid-36": partial(vit, 96, 4, 14),
}


@cache
def macs(network: str) -> int:
    """Multiply-adds of convolutions and matrix products for an image."""
    with (
        FlopCounterMode(display=False) as counter,
        sdpa_kernel(SDPBackend.MATH),  # all of whose products are counted
        torch.no_grad(),
    ):
        BUILD[network]()(torch.zeros(1, 3, SIDE, SIDE))
    return counter.get_total_flops() // 2
