"""Masked patch prediction: the paper's own way to learn without labels.

`MPP(MPPConfig(image_size=32, patch_size=4))(images)` is a loss for each image.
Half of the patches' embeddings are spoilt, and the network says what colour
each of them had on average, in 3 bits a channel: 512 classes.
Source: paper, appendix B.1.2.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vitedu.model.initialise import initialise
from vitedu.model.mae import Hidden, Unlabelled, UnlabelledConfig, masked_error
from vitedu.model.patches import patchify

LEVELS = 8  # 3 bits
Target = Literal["mean", "small", "pixels"]


@dataclass(frozen=True)
class MPPConfig(UnlabelledConfig):
    """The fields of a ViT, and what it says of spoilt patches.

    Attributes:
        mask_ratio: share of the patches whose embeddings are spoilt
        target: "mean" (the mean colour, one of 512), "small" (the colours of
            the patch shrunk to 4 by 4, one of 512 each) or "pixels" (all, by
            squared error)
    """

    mask_ratio: Hidden = 0.5
    target: Target = "mean"

    @property
    def num_outputs(self) -> int:
        """Numbers that the network gives for a patch."""
        (p, q), c = self.patch_size, self.in_channels
        classes = LEVELS**c
        return {"mean": classes, "small": 16 * classes, "pixels": p * q * c}[
            self.target
        ]


def colour_classes(pixels: Tensor) -> Tensor:
    """Colours in [0, 1], (..., c) -> their classes, c digits of 3 bits each."""
    bins = (pixels * LEVELS).long().clamp(0, LEVELS - 1)
    places = LEVELS ** torch.arange(bins.shape[-1] - 1, -1, -1)
    return (bins * places.to(bins.device)).sum(dim=-1)


def spoil(
    x: Tensor,
    mask: Tensor,
    mask_token: Tensor,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Embeddings (b, n, d), spoilt where `mask` (b, n) is True.

    80% become the mask token, 10% another patch of their image, 10% stay.
    """
    b, n = mask.shape
    chance = torch.rand(b, n, generator=generator).to(x.device)
    # another one: 1 to n - 1 places further on
    step = torch.randint(1, n, (b, n), generator=generator)
    other = ((torch.arange(n) + step) % n).to(x.device)
    others = x.gather(1, other[..., None].expand_as(x))
    chance, mask = chance[..., None], mask[..., None]
    x = torch.where(mask & (chance < 0.1), others, x)
    return torch.where(mask & (chance >= 0.2), mask_token.to(x), x)


class MPP(Unlabelled):
    """A ViT that says what colour spoilt patches had: images -> losses (b,)."""

    def __init__(self, config: MPPConfig) -> None:
        super().__init__(config)
        d = config.embed_dim
        self.mask_token = nn.Parameter(torch.zeros(1, 1, d))
        self.mpp_head = nn.Linear(d, config.num_outputs)
        initialise(self)
        if not self.mask_token.is_meta:
            nn.init.normal_(self.mask_token, std=0.02)

    def targets(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> what is asked of each patch.

        Classes (b, n) for "mean", (b, n, 16) for "small", pixels as they come,
        (b, n, p*q*c), for "pixels". Colours are those before preprocessing.
        """
        config, spec = self.config, self.preprocess
        if config.target == "pixels":
            return patchify(images, config.patch_size)
        shape = -1, 1, 1
        mean, std = (images.new_tensor(x) for x in (spec.mean, spec.std))
        colours = images * std.view(shape) + mean.view(shape)
        side = 1 if config.target == "mean" else 4
        rows, columns = config.grid
        small = F.adaptive_avg_pool2d(colours, (side * rows, side * columns))
        small = rearrange(
            small, "b c (r y) (s x) -> b (r s) (y x) c", y=side, x=side
        )
        classes = colour_classes(small)
        return classes[..., 0] if side == 1 else classes

    def predict_patches(self, images: Tensor, mask: Tensor) -> Tensor:
        """(b, c, h, w) -> what the head says of each patch, (b, n, outputs)."""
        generator = None if self.training else torch.Generator().manual_seed(1)
        x = spoil(self.patch_embed(images), mask, self.mask_token, generator)
        x = self.norm(self.blocks(self.place(x, self.pos_embed)))
        return self.mpp_head(x[:, self.config.num_prefix_tokens :])

    def forward(self, images: Tensor, mask: Tensor | None = None) -> Tensor:
        """(b, c, h, w) -> (b,): the mean loss of the spoilt patches.

        `mask` (b, n) is True where a patch is spoilt; by default it is drawn.
        """
        mask = self.draw_mask(images) if mask is None else mask
        found = self.predict_patches(images, mask)
        targets = self.targets(images)
        if self.config.target == "pixels":
            return masked_error(found, targets, mask)
        classes = LEVELS**self.config.in_channels
        losses = F.cross_entropy(
            found.reshape(-1, classes), targets.flatten(), reduction="none"
        )
        losses = losses.view(*mask.shape, -1).mean(dim=-1)
        return (losses * mask).sum(dim=1) / mask.sum(dim=1)
