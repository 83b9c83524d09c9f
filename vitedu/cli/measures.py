"""What `vitedu evaluate` measures, and how it says it: one function a kind."""

import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch
from tqdm import tqdm

from vitedu.cli.answer import Answer
from vitedu.data import Dataset
from vitedu.data.image_source import ImageSource
from vitedu.data.images import Pictures
from vitedu.data.items import Items
from vitedu.errors import UserError, escaped
from vitedu.evaluate.accuracy import (
    LEAST_FOR_TOP_5,
    Answers,
    all_logits,
    top_k_correct,
)
from vitedu.evaluate.batches import batches_of, match_folders
from vitedu.evaluate.classify import check_finite, class_names
from vitedu.evaluate.losses import LOSSES
from vitedu.evaluate.objectnet import ObjectNet
from vitedu.evaluate.real import (
    RealEvaluation,
    RealLabels,
    names_of,
    real_counts,
    real_rows,
)
from vitedu.model.network import Network

LOSS_NAMES = {"softmax": "cross-entropy", "sigmoid": "sigmoid cross-entropy"}


def measure_pictures(
    model: Network,
    weights: str,
    name: str,
    pictures: Pictures,
    *,
    kind: str,
    real: RealLabels | None = None,
    per_class: bool = False,
) -> Answer:
    """Top-1 and top-5 accuracy on pictures; top-5 is null below 6 classes.

    `kind` is the loss. With `real`, also the accuracy of ImageNet-ReaL.
    """
    num_classes = model.config.num_classes
    pictures = match_folders(pictures, model.class_names, num_classes)
    if real is not None:  # refused now, and not after the hour it may take
        real_rows(names_of(pictures))
    answers = answers_of(model, pictures)
    num_images = len(pictures)
    correct = top_k_correct(answers, 1)
    top_5 = None
    if num_classes >= LEAST_FOR_TOP_5:
        top_5 = top_k_correct(answers, 5)
    loss = loss_in(answers, kind, weights)
    values = {
        "weights": weights,
        "dataset": {"name": name},
        "accuracy": 100 * correct / num_images,
        "top5_accuracy": top_5 if top_5 is None else 100 * top_5 / num_images,
        "loss": loss,
        "loss_name": kind,
        "num_correct": correct,
        "num_top5_correct": top_5,
        "num_images": num_images,
        "skipped": list(pictures.skipped),
    }
    parts = [
        f"{'accuracy' if top_5 is None else 'top-1'} {values['accuracy']:.2f} "
        f"% ({correct:,} of {num_images:,} pictures of {name})"
    ]
    if top_5 is not None:
        parts.append(f"top-5 {values['top5_accuracy']:.2f} %")
    parts.append(f"{LOSS_NAMES[kind]} {loss:.4f} nats")
    if real is not None:
        counted = real_counts(answers.logits, names_of(pictures), real)
        values |= real_values(counted)
        parts.append(real_words(counted))
    answer = Answer(values, ", ".join(parts))
    names = pictures.class_names or class_names(model, num_classes)
    return with_classes(answer, answers, names) if per_class else answer


def measure_real(
    model: Network,
    weights: str,
    name: str,
    pictures: Pictures,
    real: RealLabels,
) -> Answer:
    """ImageNet-ReaL alone, of pictures that aren't in class folders."""
    answers = answers_of(model, pictures)
    check_finite(answers.logits)
    counted = real_counts(answers.logits, names_of(pictures), real)
    values = {
        "weights": weights,
        "dataset": {"name": name},
        **real_values(counted),
        "skipped": list(pictures.skipped),
    }
    return Answer(values, real_words(counted))


def measure_objectnet(
    model: Network, weights: str, name: str, objectnet: ObjectNet
) -> Answer:
    """Top-1 and top-5 accuracy on the classes that ImageNet has too."""
    answers = answers_of(model, objectnet.items)
    check_finite(answers.logits)
    counted = objectnet.counts(*answers)
    num_classes = len(objectnet.pictures.class_names)
    values = {
        "weights": weights,
        "dataset": {"name": name},
        "accuracy": counted.accuracy,
        "top5_accuracy": counted.top5_accuracy,
        "num_correct": counted.num_correct,
        "num_top5_correct": counted.num_top5_correct,
        "num_images": counted.num_images,
        "num_classes": num_classes,
        "skipped": list(objectnet.pictures.skipped),
    }
    text = (
        f"top-1 {counted.accuracy:.2f} % ({counted.num_correct:,} of "
        f"{counted.num_images:,} pictures of {num_classes} classes of "
        f"ObjectNet), top-5 {counted.top5_accuracy:.2f} %"
    )
    return Answer(values, text)


def measure_dataset(
    model: Network,
    weights: str,
    dataset: Dataset,
    *,
    kind: str,
    per_class: bool = False,
) -> Answer:
    """Accuracy on the test part of a named set or a FILE.npz."""
    if len(dataset.class_names) != model.config.num_classes:
        raise UserError(
            f"{dataset.name} has {len(dataset.class_names)} classes, "
            f"{weights} has {model.config.num_classes}"
        )
    batches = batches_of(
        model,
        dataset.test,
        batch_size=256,
        num_workers=0,
        by_class_of_model=True,
    )
    answers = all_logits(model, batches)
    correct = int((answers.logits.argmax(dim=1) == answers.labels).sum())
    num_images = len(answers.labels)
    loss = loss_in(answers, kind, weights)
    values = {
        "weights": weights,
        "dataset": {"name": dataset.name, "digest": dataset.digest},
        "accuracy": 100 * correct / num_images,
        "loss": loss,
        "loss_name": kind,
        "num_correct": correct,
        "num_images": num_images,
    }
    text = (
        f"accuracy {values['accuracy']:.2f} % ({correct:,} of "
        f"{num_images:,} test images of {dataset.name}), "
        f"{LOSS_NAMES[kind]} {loss:.4f} nats"
    )
    answer, names = Answer(values, text), dataset.class_names
    return with_classes(answer, answers, names) if per_class else answer


def answers_of(model: Network, pictures: Pictures | Items) -> Answers:
    """What the model says of all pictures; a bar on a terminal."""
    workers = min(os.cpu_count() or 1, 8, len(pictures) // 64)
    source = ImageSource(
        pictures,
        model.preprocess,
        num_workers=workers,
        device=next(model.parameters()).device,
    )
    batches = tqdm(
        source.batches(batch_size=32),
        total=-(-len(source) // 32),
        unit="batch",
        disable=not sys.stderr.isatty(),
        dynamic_ncols=True,
    )
    return all_logits(model, batches)


def real_values(counted: RealEvaluation) -> dict[str, Any]:
    """ImageNet-ReaL for `--json`."""
    return {
        "real_accuracy": counted.accuracy,
        "num_real_correct": counted.num_correct,
        "num_real_images": counted.num_images,
    }


def real_words(counted: RealEvaluation) -> str:
    """The same for a person."""
    return (
        f"ReaL {counted.accuracy:.2f} % ({counted.num_correct:,} of "
        f"{counted.num_images:,} pictures with a label)"
    )


def with_classes(
    answer: Answer, answers: Answers, names: Sequence[str]
) -> Answer:
    """The answer and, below it, the accuracy of every class that has images."""
    labels = answers.labels
    is_correct = answers.logits.argmax(dim=1) == labels
    num_images, num_correct = (
        torch.bincount(each, minlength=len(names))
        for each in (labels, labels[is_correct])
    )
    present = num_images.nonzero()[:, 0]
    accuracies = 100 * num_correct[present].double() / num_images[present]
    rows = [
        {
            "index": index,
            "class": names[index],
            "accuracy": share,
            "num_correct": int(num_correct[index]),
            "num_images": int(num_images[index]),
        }
        for index, share in zip(
            present.tolist(), accuracies.tolist(), strict=True
        )
    ]
    mean = accuracies.mean().item()
    width = max(len(escaped(row["class"])) for row in rows)
    lines = [
        f"{escaped(row['class']):<{width}}  {row['accuracy']:6.2f} %  "
        f"{row['num_correct']:,} of {row['num_images']:,}"
        for row in rows
    ]
    return Answer(
        answer.values | {"mean_class_accuracy": mean, "per_class": rows},
        "\n".join([f"{answer.text}, mean of the classes {mean:.2f} %", *lines]),
    )


def loss_in(answers: Answers, kind: str, weights: str) -> float:
    """The mean loss of an image. UserError: it is NaN or infinity."""
    loss_sum = LOSSES[kind](answers.logits.double(), answers.labels)
    loss = loss_sum.item() / len(answers.labels)
    if not math.isfinite(loss):
        raise UserError(
            f"the loss of {weights} is {loss}: its arithmetic overflows, or "
            "its weights are damaged"
        )
    return loss
