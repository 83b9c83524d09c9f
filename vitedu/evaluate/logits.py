"""All answers of a model at once, and what can be counted from them."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vitedu.data.image_source import ImageSource
from vitedu.data.images import Pictures
from vitedu.data.items import Items
from vitedu.data.workers import explain_killed_workers
from vitedu.evaluate.batches import evaluating, needed_spec
from vitedu.evaluate.classify import check_finite


class Answers(NamedTuple):
    """Logits (n, classes) float32 and labels (n,) of all images, on the CPU."""

    logits: Tensor
    labels: Tensor


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
    model: nn.Module,
    pictures: Pictures | Items,
    *,
    batch_size: int,
    num_workers: int,
) -> Answers:
    """`all_logits` of pictures, prepared by `model.preprocess`, in eval mode.

    UserError: the model answers NaN or infinity.
    """
    like = next(model.parameters())
    source = ImageSource(
        pictures,
        needed_spec(model),
        num_workers=num_workers,
        device=like.device,
    )
    batches = (
        (images.to(like.dtype), labels)
        for images, labels in source.batches(batch_size=batch_size)
    )
    with evaluating(model):
        answers = all_logits(model, batches)
    check_finite(answers.logits)
    return answers


def top_k_correct(answers: Answers, k: int) -> int:
    """How many images have their label among the `k` largest logits."""
    k = min(k, answers.logits.shape[1])
    best = answers.logits.topk(k, dim=1).indices  # (n, k)
    return int((best == answers.labels[:, None]).any(dim=1).sum())


def top_k_among(logits: Tensor, right: Tensor, k: int) -> int:
    """How many images have a right class among the `k` largest logits.

    Logits (n, classes), and bool of the same shape: which classes are right.
    """
    best = logits.topk(min(k, logits.shape[1]), dim=1).indices  # (n, k)
    return int(right.gather(1, best).any(dim=1).sum())
