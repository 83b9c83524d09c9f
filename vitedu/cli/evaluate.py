"""`vitedu evaluate` and `vitedu predict`: what trained weights are worth, and say."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from vitedu.cli.answer import Answer, table
from vitedu.cli.words import load_model, named_fields
from vitedu.data import ArraySource, load_dataset
from vitedu.data.folders import evaluation_part, folder_of
from vitedu.data.images import ImageSource, find_images, match_classes
from vitedu.errors import UserError
from vitedu.evaluate import accuracy
from vitedu.evaluate.classify import (
    check_has_classes,
    class_names,
    probabilities,
)
from vitedu.evaluate.logits import all_logits, cross_entropy, top_k_correct
from vitedu.pictures import preprocess
from vitedu.train import find_device
from vitedu.train.folder import RunFolder
from vitedu.weights.load import HINTS


def evaluate(options: argparse.Namespace) -> Answer:
    """Accuracy on the test part of a data set, or on a folder of pictures."""
    words, fields = named_fields(options.words, ("data", "labels", *HINTS))
    if not 1 <= len(words) <= 2:
        raise UserError(
            "evaluate wants WEIGHTS and at most one DATASET or FOLDER"
        )
    device = find_device(options.device)
    model = load_model(words[0], fields, device)
    check_has_classes(model, words[0])
    if len(words) == 2:
        name, data = words[1], fields.get("data")
    else:
        name, data = trained_on(model, words[0], fields.get("data"))
    if folder := folder_of(name, data):
        part = str(evaluation_part(folder))
        return evaluate_folder(model, words[0], part, fields.get("labels"))
    if "labels" in fields:
        raise UserError(
            f"labels= belongs to a folder of pictures, {name} is none"
        )
    return evaluate_dataset(model, words[0], name, data)


def evaluate_folder(
    model: nn.Module, weights: str, folder: str, labels: str | None
) -> Answer:
    """Top-1 and top-5 accuracy on the pictures of a folder."""
    config = model.config
    pictures = match_classes(
        find_images(folder, labels=labels),
        model.class_names,
        config.num_classes,
    )
    device = next(model.parameters()).device
    workers = min(os.cpu_count() or 1, 8, len(pictures.paths) // 64)
    source = ImageSource(
        pictures, model.preprocess, num_workers=workers, device=device
    )
    batches = tqdm(
        source.batches(batch_size=32),
        total=-(-len(source) // 32),
        unit="batch",
        disable=not sys.stderr.isatty(),
    )
    answers = all_logits(model, batches)
    num_images = len(source)
    top = {k: top_k_correct(answers, k) for k in (1, 5)}
    loss = cross_entropy(answers)
    values = {
        "weights": weights,
        "dataset": {"name": folder},
        "accuracy": 100 * top[1] / num_images,
        "top5_accuracy": 100 * top[5] / num_images,
        "loss": loss,
        "num_correct": top[1],
        "num_top5_correct": top[5],
        "num_images": num_images,
    }
    text = (
        f"top-1 {values['accuracy']:.2f} % ({top[1]:,} of {num_images:,} pictures "
        f"of {folder}), top-5 {values['top5_accuracy']:.2f} %, cross-entropy "
        f"{loss:.4f} nats"
    )
    return Answer(values, text)


def evaluate_dataset(
    model: nn.Module, weights: str, name: str, data: str | None
) -> Answer:
    """Accuracy on the test part of a named set or a FILE.npz."""
    dataset = load_dataset(
        name,
        data=data,
        image_size=model.config.image_size,
        num_classes=model.config.num_classes,
    )
    if len(dataset.class_names) != model.config.num_classes:
        raise UserError(
            f"{dataset.name} has {len(dataset.class_names)} classes, "
            f"{weights} was made for {model.config.num_classes}"
        )
    source = ArraySource(
        dataset.test,
        dataset.class_names,
        preprocess=model.preprocess,
        device=next(model.parameters()).device,
    )
    measured = accuracy(model, source.batches(batch_size=256))
    values = {
        "weights": weights,
        "dataset": {"name": dataset.name, "digest": dataset.digest},
        "accuracy": measured.accuracy,
        "loss": measured.loss,
        "num_correct": measured.num_correct,
        "num_images": measured.num_images,
    }
    text = (
        f"accuracy {measured.accuracy:.2f} % ({measured.num_correct:,} of "
        f"{measured.num_images:,} test images of {dataset.name}), "
        f"cross-entropy {measured.loss:.4f} nats"
    )
    return Answer(values, text)


def run_of(weights: str) -> RunFolder | None:
    """The run folder that a file or folder of weights belongs to, if it does."""
    path = Path(weights)
    if (
        not path.exists()
    ):  # a name: the folder that we happen to be in is not its own
        return None
    folder = RunFolder(path if path.is_dir() else path.parent)
    return folder if folder.config.is_file() else None


def trained_on(
    model: nn.Module, weights: str, data: str | None
) -> tuple[str, str | None]:
    """Name and place of the data set in the run folder that `weights` belong to."""
    folder = run_of(weights)
    if folder is None:
        example = "mnist" if model.config.num_classes == 10 else "photos/val"
        raise UserError(
            f"{weights} does not say what it was trained on; name a data set or a "
            f"folder of pictures, as in `vitedu evaluate {weights} {example}`"
        )
    config = folder.read_config()
    return config.dataset, data or config.data


def predict(options: argparse.Namespace) -> Answer:
    """The likeliest classes of each picture, with their probabilities."""
    words, fields = named_fields(options.words, HINTS)
    if len(words) < 2:
        raise UserError("predict wants WEIGHTS and at least one IMAGE")
    if options.top < 1:
        raise UserError(f"--top is {options.top}, it must be at least 1")
    weights, *images = words
    device = find_device(options.device)
    model = load_model(weights, fields, device)
    check_has_classes(model, weights)
    names = class_names(model, model.config.num_classes)
    pixels = torch.cat([preprocess(model, image) for image in images])
    top = probabilities(model, pixels).topk(min(options.top, len(names)))
    values: dict[str, Any] = {"weights": weights, "predictions": []}
    rows = []
    for image, shares, indices in zip(images, *top, strict=True):
        classes = [
            {"class": names[index], "index": index, "probability": share}
            for share, index in zip(
                shares.tolist(), indices.tolist(), strict=True
            )
        ]
        values["predictions"].append({"image": image, "top": classes})
        found = ", ".join(
            f"{x['class']} {100 * x['probability']:.1f} %" for x in classes
        )
        rows.append((image, found))
    return Answer(values, table(rows))
