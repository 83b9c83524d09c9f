"""A masked autoencoder (He et al. 2022): pictures completed from a quarter.

`MAE(MAEConfig(image_size=32, patch_size=4))(images)` is a loss for each image;
no label is needed. The encoder is a ViT that sees only the patches that are not
hidden, and is what is kept; a small decoder sees all places.
"""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from vitedu.errors import UserError
from vitedu.fields import Count, Depth, Range
from vitedu.model.config import ViTConfig
from vitedu.model.encoder import Encoder
from vitedu.model.initialise import initialise
from vitedu.model.patches import patchify, unpatchify
from vitedu.model.vit import ViT

Hidden = Annotated[float, Range(above=0, below=1)]


@dataclass(frozen=True)
class UnlabelledConfig(ViTConfig):
    """A ViT without a head, and the share of its patches that is hidden."""

    num_classes: Annotated[int, Range(0, 0)] = 0
    mask_ratio: Hidden = 0.75

    def __post_init__(self) -> None:
        super().__post_init__()
        num_hidden(self.num_patches, self.mask_ratio)  # says what is wrong

    @property
    def encoder(self) -> ViTConfig:
        """The ViT that is kept."""
        names = [x.name for x in fields(ViTConfig)]
        return ViTConfig(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class MAEConfig(UnlabelledConfig):
    """The fields of a ViT, and those of the decoder that completes pictures.

    The decoder's defaults are the paper's. It has the encoder's kind of
    positions and heads as wide as 32, and an MLP four times its width.

    Attributes:
        mask_ratio: share of the patches that are hidden
        decoder_dim: width of the decoder's tokens
        decoder_depth: number of the decoder's blocks
        decoder_heads: attention heads in such a block
        normalised: whether a patch's pixels are compared after its own mean
            and standard deviation are taken out
    """

    decoder_dim: Count = 512
    decoder_depth: Depth = 8
    decoder_heads: Count = 16
    normalised: bool = True

    @property
    def decoder(self) -> ViTConfig:
        """What the decoder would be as a ViT."""
        return replace(
            self.encoder,
            embed_dim=self.decoder_dim,
            depth=self.decoder_depth,
            num_heads=self.decoder_heads,
            mlp_dim=4 * self.decoder_dim,
        )


def num_hidden(num_patches: int, share: float) -> int:
    """How many of the patches are hidden.

    UserError: nothing would be hidden, or everything.
    """
    count = num_patches - int(num_patches * (1 - share))
    if not 0 < count < num_patches:
        raise UserError(
            f"mask_ratio={share:g} hides {count} of {num_patches} patches; "
            "some have to be hidden, and some left to see"
        )
    return count


def random_mask(
    num_images: int,
    num_patches: int,
    share: float,
    generator: torch.Generator | None = None,
) -> Tensor:
    """(b, n) booleans, True where a patch is hidden: as many in each image."""
    noise = torch.rand(num_images, num_patches, generator=generator)
    ranks = noise.argsort(dim=1).argsort(dim=1)
    return ranks < num_hidden(num_patches, share)


def masked_error(found: Tensor, pixels: Tensor, mask: Tensor) -> Tensor:
    """Mean squared error of the hidden patches: (b, n, d) twice -> (b,)."""
    errors = (found - pixels).square().mean(dim=-1)  # (b, n)
    return (errors * mask).sum(dim=1) / mask.sum(dim=1)


class Unlabelled(ViT):
    """A ViT that learns from pictures alone: images -> losses (b,).

    In eval mode it hides the same patches each time.
    """

    config: Any

    def draw_mask(self, images: Tensor) -> Tensor:
        """Which patches are hidden: (b, c, h, w) -> (b, n) booleans."""
        generator = None if self.training else torch.Generator().manual_seed(0)
        shape = len(images), self.config.num_patches
        mask = random_mask(*shape, self.config.mask_ratio, generator)
        return mask.to(images.device)


class MAE(Unlabelled):
    """A ViT and the decoder that completes its pictures; keys are Facebook's.

    In the pixels of a patch the order is `patchify`'s.
    Source: He et al. 2022, "Masked Autoencoders Are Scalable Vision Learners".
    """

    def __init__(self, config: MAEConfig) -> None:
        super().__init__(config)
        decoder, d = config.decoder, config.decoder_dim
        p, q = config.patch_size
        self.decoder_embed = nn.Linear(config.embed_dim, d)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, d))
        self.decoder_pos_embed = config.position.build(decoder)
        self.decoder_blocks = Encoder(decoder)
        self.decoder_norm = nn.LayerNorm(d, eps=config.norm_eps)
        self.decoder_pred = nn.Linear(d, p * q * config.in_channels)
        initialise(self)
        for table in (self.mask_token, self.decoder_pos_embed):
            if isinstance(table, nn.Parameter) and not table.is_meta:
                nn.init.normal_(table, std=0.02)

    def encode(self, images: Tensor, mask: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, t, d): the visible tokens alone, after the norm.

        Positions are added before patches are hidden. Each image must have as
        many hidden patches.
        """
        tokens = self.embed(images)
        visible = self.with_prefix(~mask)
        tokens = tokens[visible].unflatten(0, (len(images), -1))
        return self.norm(self.blocks(tokens))

    def decode(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """What `encode` gives -> pixels (b, n, p*q*c) of every patch."""
        visible = self.with_prefix(~mask)  # (b, t)
        tokens = self.decoder_embed(tokens)
        x = self.mask_token.to(tokens).repeat(*visible.shape, 1)
        x[visible] = tokens.flatten(0, 1)
        x = self.config.position.add(x, self.decoder_pos_embed)
        x = self.decoder_pred(self.decoder_norm(self.decoder_blocks(x)))
        return x[:, self.config.num_prefix_tokens :]

    def with_prefix(self, visible: Tensor) -> Tensor:
        """(b, n) -> (b, t): the tokens before the patches are never hidden."""
        before = self.config.num_prefix_tokens
        return nn.functional.pad(visible, (before, 0), value=True)

    def target(self, images: Tensor) -> Tensor:
        """The pixels to be found, (b, n, p*q*c), normalised or as they are."""
        pixels = patchify(images, self.config.patch_size)
        if not self.config.normalised:
            return pixels
        variance, mean = torch.var_mean(pixels, dim=-1, keepdim=True)
        return (pixels - mean) / (variance + 1e-6).sqrt()

    def forward(self, images: Tensor, mask: Tensor | None = None) -> Tensor:
        """(b, c, h, w) -> (b,): mean squared error of the hidden pixels.

        `mask` (b, n) is True where a patch is hidden; by default it is drawn.
        """
        mask = self.draw_mask(images) if mask is None else mask
        found = self.decode(self.encode(images, mask), mask)
        return masked_error(found, self.target(images), mask)

    def covered(self, images: Tensor, mask: Tensor) -> Tensor:
        """Pictures (b, c, h, w) with 0, the middle grey, in hidden patches."""
        size = self.config.patch_size
        pixels = patchify(images, size).masked_fill(mask[..., None], 0.0)
        return unpatchify(pixels, size, self.config.grid)

    def complete(self, images: Tensor, mask: Tensor | None = None) -> Tensor:
        """(b, c, h, w) -> (b, c, h, w), hidden patches as the decoder has them.

        A network that learned normalised pixels doesn't know a hidden patch's
        mean and contrast, so they are taken from `images`: that is cheating,
        as MAE's own pictures do.
        """
        mask = self.draw_mask(images) if mask is None else mask
        found = self.decode(self.encode(images, mask), mask)
        pixels = patchify(images, self.config.patch_size)
        if self.config.normalised:
            variance, mean = torch.var_mean(pixels, dim=-1, keepdim=True)
            found = found * (variance + 1e-6).sqrt() + mean
        pixels = torch.where(mask[..., None], found, pixels)
        return unpatchify(pixels, self.config.patch_size, self.config.grid)
