"""How often a model is right."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitedu.evaluate.batches import Data, batches_of, evaluating
from vitedu.evaluate.classify import is_trained_by_sigmoid

# logits (b, classes) and labels (b,) -> the sum over the images
Loss = Callable[[Tensor, Tensor], Tensor]


class Evaluation(NamedTuple):
    """Sums over all images, as plain numbers."""

    num_correct: int
    loss_sum: float  # in nats
    num_images: int
    loss_name: str = "softmax_cross_entropy"

    @property
    def accuracy(self) -> float:
        """Top-1 accuracy in percent."""
        return 100.0 * self.num_correct / self.num_images

    @property
    def loss(self) -> float:
        """Mean loss of an image, in nats; `loss_name` says which loss."""
        return self.loss_sum / self.num_images


@torch.no_grad()
def accuracy(
    model: nn.Module,
    data: Data,
    *,
    loss: Loss | None = None,
    batch_size: int = 64,
    num_workers: int = 0,
) -> Evaluation:
    """Top-1 accuracy and loss of a model over data; every image counts once.

    `data` are (images, labels) batches, as a DataLoader yields them, or anything that
    `vitedu.data.as_source` takes: a folder of class folders (of one with train/, its
    test/ or val/), a torch Dataset, arrays. These are prepared by `model.preprocess`,
    `batch_size` at a time, and their classes are matched with `model.class_names`.
    Labels of batches are taken for the model's own numbers.

    `loss` maps logits (b, classes) and labels (b,) to the sum over the images; by
    default it is the softmax cross-entropy, or the sigmoid's where the head's biases
    say that the model was trained by it (see `is_trained_by_sigmoid`).

    Sums are divided once, at the end: a mean of batch means would give the images of
    a short last batch more weight. The model's mode is put back as it was.

    UserError: the data do not fit the model. ValueError: there is no image.
    """
    if loss is None:
        is_sigmoid = is_trained_by_sigmoid(model)
        loss = sigmoid_cross_entropy if is_sigmoid else softmax_cross_entropy
    batches = batches_of(
        model,
        data,
        batch_size=batch_size,
        num_workers=num_workers,
        by_class_of_model=True,
    )
    num_correct, loss_sum, num_images = torch.tensor(0), 0.0, 0
    with evaluating(model):
        for images, labels in batches:
            logits = model(images).float()  # (b, classes)
            loss_sum += loss(logits, labels).double()
            num_correct = num_correct + (logits.argmax(dim=-1) == labels).sum()
            num_images += len(labels)
    if num_images == 0:
        raise ValueError("accuracy was given no image")
    return Evaluation(
        int(num_correct), float(loss_sum), num_images, name_of(loss)
    )


def softmax_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """One class an image: minus the log of its probability, summed over images."""
    return F.cross_entropy(logits, labels, reduction="sum")


def sigmoid_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Every class a yes or no of its own, summed over classes and images."""
    target = torch.zeros_like(logits).scatter(1, labels[:, None], 1.0)
    return F.binary_cross_entropy_with_logits(logits, target, reduction="sum")


def name_of(loss: Loss) -> str:
    """What a loss is called: its own `name`, else that of the function or class."""
    own = getattr(loss, "name", None) or getattr(loss, "__name__", None)
    return str(own or type(loss).__name__)
