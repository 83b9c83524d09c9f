"""How often a model is right, and all of its logits at once.

`accuracy(model, "photos/val").accuracy`  # percent
"""

from collections.abc import Iterable
from os import PathLike
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vitedu.data.feed.source import explain_killed_workers
from vitedu.data.labels import check_labels
from vitedu.evaluate.batches import (
    Data,
    batches_of,
    evaluating,
    loaded,
    num_classes_of,
)
from vitedu.evaluate.classify import check_finite, is_trained_by_sigmoid
from vitedu.evaluate.losses import LOSSES, Loss, checked, name_of

# with fewer classes, top-5 is nearly always right
LEAST_FOR_TOP_5 = 6


class Evaluation(NamedTuple):
    """Sums over all images, as plain numbers."""

    num_correct: int
    loss_sum: float  # in nats
    num_images: int
    loss_name: str = "softmax_cross_entropy"
    # images whose logits are NaN or infinite; they count as wrong
    num_unanswered: int = 0
    # label among the five largest logits; None: too few classes or not counted
    num_top5_correct: int | None = None

    @property
    def accuracy(self) -> float:
        """Top-1 accuracy in percent."""
        return 100.0 * self.num_correct / self.num_images

    @property
    def top5_accuracy(self) -> float | None:
        """Top-5 accuracy in percent; None if it wasn't counted."""
        if self.num_top5_correct is None:
            return None
        return 100.0 * self.num_top5_correct / self.num_images

    @property
    def loss(self) -> float:
        """Mean loss per image, in nats; `loss_name` says which loss."""
        return self.loss_sum / self.num_images


class Answers(NamedTuple):
    """Logits (n, classes) float32 and labels (n,) of all images, on the CPU."""

    logits: Tensor
    labels: Tensor


@explain_killed_workers()
@torch.no_grad()
def accuracy(
    model: nn.Module | str | PathLike[str],
    data: Data,
    *,
    loss: Loss | None = None,
    batch_size: int = 64,
    num_workers: int = 0,
) -> Evaluation:
    """Top-1, top-5 and loss of a model over data; every image counts once.

    `model` is a model, or what `vitedu.load` takes; its mode is restored.

    `data` are (images, labels) batches with the model's own class numbers, or
    anything that `vitedu.data.as_source` takes: a folder of class folders (or
    its test/ or val/, if it has a train/), a torch Dataset, arrays. The latter
    are prepared by `model.preprocess`, `batch_size` at a time, and their
    classes are matched with `model.class_names`. Unreadable pictures are left
    out with a warning.

    `loss` maps logits (b, classes) and labels (b,) to the sum over the images.
    The default is softmax cross-entropy, or sigmoid if `is_trained_by_sigmoid`.
    An image with NaN or infinite logits counts as wrong and in
    `num_unanswered`; the loss is then NaN. Top-5 needs at least 6 classes.

    UserError: the data don't fit the model, a label isn't one of its classes,
    or the loss isn't a sum. ValueError: there are no images.
    """
    model = loaded(model)
    if loss is None:
        is_sigmoid = is_trained_by_sigmoid(model)
        loss = LOSSES["sigmoid" if is_sigmoid else "softmax"]
    loss = checked(loss)
    batches = batches_of(model, data, batch_size, num_workers)
    knows_classes = num_classes_of(model) > 0
    # sums, divided once at the end: a mean of batch means would give the images
    # of a short last batch more weight
    num_correct, num_answered = torch.tensor(0), torch.tensor(0)
    num_top_5, has_top_5 = torch.tensor(0), False
    loss_sum, num_images = torch.tensor(0.0).double(), 0
    with evaluating(model):
        for images, labels in batches:
            logits = model(images).float()  # (b, classes)
            if not knows_classes:  # else the batches have been checked
                check_labels("a batch", labels, logits.shape[-1])
            loss_sum = loss_sum + loss(logits, labels).double()
            is_answered = logits.amax(dim=-1).isfinite()
            is_correct = (logits.argmax(dim=-1) == labels) & is_answered
            num_correct = num_correct + is_correct.sum()
            if has_top_5 := logits.shape[-1] >= LEAST_FOR_TOP_5:
                best = logits.topk(5).indices == labels[:, None]  # (b, 5)
                num_top_5 = num_top_5 + (best.any(1) & is_answered).sum()
            num_answered = num_answered + is_answered.sum()
            num_images += len(labels)
    if num_images == 0:
        raise ValueError("accuracy needs at least one image, got none")
    return Evaluation(
        int(num_correct),
        float(loss_sum),
        num_images,
        name_of(loss),
        num_images - int(num_answered),
        int(num_top_5) if has_top_5 else None,
    )


@explain_killed_workers()
@torch.no_grad()
def all_logits(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]
) -> Answers:
    """Run `model`, which must be in eval mode, over (images, labels) batches.

    ValueError: the model is in training mode, or there are no images.
    """
    if model.training:
        raise ValueError(
            "all_logits needs the model in eval mode; call model.eval()"
        )
    rows, labels = [], []
    for images, truth in batches:
        rows.append(model(images).float().cpu())
        labels.append(truth.cpu())
    if not rows:
        raise ValueError("all_logits needs at least one image, got none")
    return Answers(torch.cat(rows), torch.cat(labels))


def picture_logits(
    model: nn.Module, pictures: Data, *, batch_size: int, num_workers: int
) -> Answers:
    batches = batches_of(
        model, pictures, batch_size, num_workers, by_class_of_model=False
    )
    with evaluating(model):
        answers = all_logits(model, batches)
    check_finite(answers.logits)
    return answers


def top_k_correct(answers: Answers, k: int) -> int:
    """How many images have their label among the `k` largest logits."""
    logits, labels = answers
    best = logits.topk(min(k, logits.shape[1])).indices  # (n, k)
    return int((best == labels[:, None]).any(dim=1).sum())


def top_k_among(logits: Tensor, right: Tensor, k: int) -> int:
    """Images with a `right` class among the `k` largest; both (n, classes)."""
    best = logits.topk(min(k, logits.shape[1])).indices  # (n, k)
    return int(right.gather(1, best).any(dim=1).sum())
