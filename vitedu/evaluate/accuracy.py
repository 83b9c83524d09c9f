"""How often a model is right."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Evaluation(NamedTuple):
    """Sums over all images, as plain numbers."""

    num_correct: int
    loss_sum: float  # cross-entropy in nats
    num_images: int

    @property
    def accuracy(self) -> float:
        """Top-1 accuracy in percent."""
        return 100.0 * self.num_correct / self.num_images

    @property
    def loss(self) -> float:
        """Mean cross-entropy of an image, in nats."""
        return self.loss_sum / self.num_images


@torch.no_grad()
def accuracy(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]
) -> Evaluation:
    """Top-1 accuracy over (images, labels) batches; every image counts once.

    Sums are divided once, at the end: a mean of batch means would give the images of
    a short last batch more weight. The model's mode is put back as it was.

    ValueError: there is no image.
    """
    in_training = [module for module in model.modules() if module.training]
    model.eval()
    num_correct, loss_sum, num_images = 0, 0.0, 0
    try:
        for images, labels in batches:
            logits = model(images).float()  # (b, classes)
            loss = F.cross_entropy(logits, labels, reduction="sum")
            num_correct += (logits.argmax(dim=-1) == labels).sum()
            loss_sum += loss.double()
            num_images += len(labels)
    finally:
        for module in in_training:
            module.training = True
    if num_images == 0:
        raise ValueError("accuracy was given no image")
    return Evaluation(int(num_correct), float(loss_sum), num_images)
