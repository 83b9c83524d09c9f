"""The model that these tests measure, and images for it."""

import torch
from torch import nn

from tests.tiny import tiny
from vitedu.model import ViT


def small(num_classes=3, **fields):
    """A ViT of 8 by 8 pixels, in eval mode, whose answers depend on them."""
    torch.manual_seed(0)
    fields = {"image_size": (8, 8), "depth": 1} | fields
    model = ViT(tiny(num_classes=num_classes, **fields)).eval()
    for name, weight in model.named_parameters():
        if name != "head.bias":
            nn.init.normal_(weight, std=0.3)
    return model


def prepared(num_images=6, channels=3):
    """Images (n, c, 8, 8) and labels (n,) of three classes."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(num_images, channels, 8, 8, generator=generator)
    return 2 * images - 1, torch.arange(num_images) % 3


def cut(images, labels, size):
    """Batches of at most `size`."""
    return list(zip(images.split(size), labels.split(size), strict=True))
