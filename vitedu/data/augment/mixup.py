"""Mixup and CutMix: a batch mixed with itself, labels included.

`images, labels = mix(images, labels, 10, mixup=0.2, cutmix=1.0, seed=seed)`

Drawn once per batch on the CPU, so that nothing waits for the device.
"""

import numpy as np
import torch
from torch import Tensor


def mix(
    images: Tensor,
    labels: Tensor,
    num_classes: int,
    *,
    mixup: float = 0.0,
    cutmix: float = 0.0,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Mix images (b, c, h, w), and labels (b,) int64 to labels (b, classes).

    `mixup` and `cutmix` are the alpha of a Beta(alpha, alpha), from which the
    share that an image keeps is drawn, once per batch; 0 is off. With both on,
    a fair coin chooses; with both off nothing changes, and labels stay hard.
    Each image is mixed with the one before it, the first with the last.

    Mixup (Zhang et al. 2017) as in big_vision: an image keeps the larger share.
    In DeiT it may be the smaller, and the partner comes from the reversed
    batch. CutMix (Yun et al. 2019) pastes a rectangle of the partner, cut off
    at the border; labels weigh what is left.
    """
    if not mixup and not cutmix:
        return images, labels
    random = np.random.default_rng(seed)
    takes_mixup = random.random() < 0.5 if mixup and cutmix else bool(mixup)
    alpha = mixup if takes_mixup else cutmix
    kept = float(random.beta(alpha, alpha))
    if takes_mixup:
        kept = max(kept, 1 - kept)
        images = images.lerp(images.roll(1, 0), 1 - kept)
    else:
        height, width = images.shape[-2:]
        top, bottom, left, right = cut_box(height, width, kept, random)
        kept = 1 - (bottom - top) * (right - left) / (height * width)
        inside = (..., slice(top, bottom), slice(left, right))
        partner = images.roll(1, 0)[inside]
        images = images.clone()
        images[inside] = partner
    soft = labels
    if labels.ndim == 1:
        soft = torch.zeros(len(labels), num_classes, device=labels.device)
        soft.scatter_(1, labels[:, None], 1.0)
    return images, soft.lerp(soft.roll(1, 0), 1 - kept)


def cut_box(
    height: int, width: int, kept: float, random: np.random.Generator
) -> tuple[int, int, int, int]:
    """Top, bottom, left, right of a box with 1 - kept of the area."""
    side = (1 - kept) ** 0.5
    edges = []
    for length in (height, width):
        centre, half = random.integers(length), int(side * length) / 2
        edges.append(int(max(centre - half, 0)))
        edges.append(int(min(centre + half, length)))
    return tuple(edges)
