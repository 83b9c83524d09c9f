"""How often a model is right, and all of its logits at once.

`accuracy(model, "photos/val").accuracy`  # percent
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vitedu.data.feed.loader import yields_batches
from vitedu.data.feed.source import explain_killed_workers
from vitedu.data.labels import check_labels
from vitedu.evaluate.batches import (
    Data,
    Model,
    all_rows,
    batches_of,
    evaluating,
    loaded,
    num_classes_of,
)
from vitedu.evaluate.classify import is_trained_by_sigmoid
from vitedu.evaluate.losses import LOSSES, GivenLoss, Loss, loss_name_of

# with fewer classes, top-5 is nearly always right
LEAST_FOR_TOP_5 = 6


class Evaluation(NamedTuple):
    """Sums over all images, as plain numbers."""

    num_correct: int
    loss_sum: float  # in nats
    num_images: int
    loss_name: str = "softmax"  # "sigmoid", or the caller's own
    num_unanswered: int = 0  # logits are NaN or infinite; they count as wrong
    num_top5_correct: int | None = None  # None: too few classes

    @property
    def accuracy(self) -> float:
        """Top-1 accuracy in percent."""
        return 100.0 * self.num_correct / self.num_images

    @property
    def top5_accuracy(self) -> float | None:
        """Top-5 accuracy in percent; None with too few classes."""
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
    model: Model,
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
    classes are matched with `model.class_names`, or keep their numbers if the
    model tells nothing of its own. Unreadable pictures are left out with a
    warning.

    `loss` maps logits (b, classes) and labels (b,) to the sum over the images;
    by default softmax cross-entropy, or sigmoid if `is_trained_by_sigmoid`. An
    image with NaN or infinite logits is wrong and in `num_unanswered`; the loss
    is then NaN. Top-5 needs at least 6 classes.

    UserError: the data don't fit the model, a label isn't one of its classes,
    or the loss isn't a sum. ValueError: there are no images.
    """
    model = loaded(model)
    if loss is None:
        kind = "sigmoid" if is_trained_by_sigmoid(model) else "softmax"
        loss = LOSSES[kind]
    name = loss_name_of(loss)
    if not isinstance(loss, GivenLoss) and loss not in LOSSES.values():
        loss = GivenLoss(loss, name)
    batches = batches_of(model, data, batch_size, num_workers)
    # on the model's device, where they need not be waited for
    num_correct, num_answered, num_top_5 = torch.zeros(3, dtype=torch.int64)
    losses, num_images, has_top_5 = [], 0, False
    with evaluating(model):
        for images, labels in batches:
            logits = model(images).float()  # (b, classes)
            if not num_classes_of(model):  # else they have been checked
                check_labels("a batch", labels, logits.shape[-1])
            losses.append(loss(logits, labels))
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
        float(sum(torch.stack(losses).tolist())),  # in float64
        num_images,
        name,
        num_images - int(num_answered),
        int(num_top_5) if has_top_5 else None,
    )


@torch.no_grad()
def mean_loss(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]
) -> Evaluation:
    """The loss of a network that learns without labels; none is correct."""
    loss_sum, num_images = 0.0, 0
    with evaluating(model):
        for images, _ in batches:
            loss_sum += float(model(images).cpu().double().sum())
            num_images += len(images)
    return Evaluation(0, loss_sum, num_images, "own")


def all_logits(
    model: Model, data: Data, *, batch_size: int = 64, num_workers: int = 0
) -> Answers:
    """The logits of all images, and their labels; arguments as for `accuracy`.

    Labels of (images, labels) batches stay as they are.

    UserError: the data don't fit the model. ValueError: there are no images.
    """
    network = loaded(model)
    batches = batches_of(
        network,
        data,
        batch_size,
        num_workers,
        by_class_of_model=not yields_batches(data),
    )
    with evaluating(network):
        found = all_rows(lambda x: network(x).float(), batches, "all_logits")
    return Answers(*found)


def top_k_correct(answers: Answers, k: int) -> int:
    """How many images have their label among the `k` largest logits.

    Labels are (n,), or bool (n, classes) where several are right.
    """
    logits, labels = answers
    best = logits.topk(min(k, logits.shape[1])).indices  # (n, k)
    if labels.ndim == 1:
        return int((best == labels[:, None]).any(dim=1).sum())
    return int(labels.gather(1, best).any(dim=1).sum())
