"""`vitedu evaluate`: how often trained weights are right."""

import argparse
import math
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from vitedu.cli.answer import Answer
from vitedu.cli.command import Command
from vitedu.cli.talk import say, wrapped
from vitedu.cli.words import (
    FIELDS_HELP,
    OF_WEIGHTS,
    WEIGHTS,
    load_model,
    split_words,
)
from vitedu.data import Dataset, load_dataset
from vitedu.data.folders import (
    evaluation_part,
    folder_of,
    load_folder,
    training_part,
)
from vitedu.data.image_source import ImageSource
from vitedu.data.images import Pictures, find_images, match_classes
from vitedu.errors import UserError
from vitedu.evaluate import accuracy
from vitedu.evaluate.classify import check_has_classes, is_trained_by_sigmoid
from vitedu.evaluate.logits import all_logits, top_k_correct
from vitedu.evaluate.losses import LOSSES
from vitedu.files import user_path
from vitedu.model.network import Network
from vitedu.train import TrainConfig, find_device
from vitedu.train.folder import RunFolder

FIELDS = ("data", "labels", *OF_WEIGHTS)
# with fewer classes, five guesses are nearly always right
LEAST_FOR_TOP_5 = 6
LOSS_NAMES = {"softmax": "cross-entropy", "sigmoid": "sigmoid cross-entropy"}


def evaluate(options: argparse.Namespace) -> Answer:
    """Accuracy on the test part of a data set, or on a folder of pictures."""
    words, fields = split_words(options.words, FIELDS)
    if not 1 <= len(words) <= 2:
        raise UserError(
            "evaluate needs WEIGHTS and at most one DATASET or FOLDER"
        )
    weights = words[0]
    device = find_device(options.device)
    model = load_model(weights, fields, device)
    check_has_classes(model, weights)
    fallback = None
    if len(words) == 2:
        name, data = words[1], fields.get("data")
    else:
        config = trained_on(model, weights)
        if "data" not in fields:
            check_not_given(config, weights)
        name, data = config.dataset, fields.get("data", config.data)
        fallback = config.fallback
    if folder := folder_of(name, data):
        labels = fields.get("labels")
        if labels is None and is_split_by_run(weights, folder):
            split = load_folder(folder)
            say_notes(split.notes)
            test = replace(split.test, skipped=split.skipped)
            return evaluate_pictures(model, weights, str(folder), test)
        part = str(evaluation_part(folder))
        pictures = find_images(part, labels=labels)
        say_notes(pictures.notes)
        return evaluate_pictures(model, weights, part, pictures)
    if "labels" in fields:
        raise UserError(
            f"labels= is for a folder of pictures, and {name} isn't one"
        )
    dataset = load_dataset(
        name,
        data=data,
        fallback=fallback,
        image_size=model.config.image_size,
        num_classes=model.config.num_classes,
    )
    return evaluate_dataset(model, weights, dataset)


def is_split_by_run(weights: str, folder: Path) -> bool:
    """Whether the run of `weights` split this folder into training and test pictures.

    Then only the test pictures say how good it is; it was trained on the
    others. A run that was given its test data in Python split nothing.
    """
    run = run_of(weights)
    if run is None:
        return False
    config = run.read_config()
    if {"train", "test"} & config.given_names.keys():
        return False
    trained = folder_of(config.dataset, config.data)
    if trained is None or trained.resolve() != folder.resolve():
        return False
    has_parts = training_part(folder) != folder
    has_test = any((folder / x).is_dir() for x in ("val", "test"))
    return not (has_parts and has_test)


def say_notes(notes: Iterable[str]) -> None:
    """What is to be known about the pictures, a line each."""
    for note in notes:
        say(wrapped("note: ", note))


def evaluate_pictures(
    model: Network, weights: str, name: str, pictures: Pictures
) -> Answer:
    """Top-1 and top-5 accuracy on some pictures; top-5 is null below 6 classes."""
    num_classes = model.config.num_classes
    pictures = match_classes(pictures, model.class_names, num_classes)
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
        dynamic_ncols=True,
    )
    answers = all_logits(model, batches)
    num_images = len(source)
    correct = top_k_correct(answers, 1)
    top_5 = None
    if num_classes >= LEAST_FOR_TOP_5:
        top_5 = top_k_correct(answers, 5)
    kind = loss_of(model, weights)
    loss_sum = LOSSES[kind](answers.logits.double(), answers.labels)
    loss = finite(loss_sum.item() / num_images, weights)
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
    return Answer(values, ", ".join(parts))


def evaluate_dataset(model: Network, weights: str, dataset: Dataset) -> Answer:
    """Accuracy on the test part of a named set or a FILE.npz."""
    if len(dataset.class_names) != model.config.num_classes:
        raise UserError(
            f"{dataset.name} has {len(dataset.class_names)} classes, "
            f"{weights} has {model.config.num_classes}"
        )
    kind = loss_of(model, weights)
    measured = accuracy(model, dataset.test, loss=LOSSES[kind], batch_size=256)
    values = {
        "weights": weights,
        "dataset": {"name": dataset.name, "digest": dataset.digest},
        "accuracy": measured.accuracy,
        "loss": finite(measured.loss, weights),
        "loss_name": kind,
        "num_correct": measured.num_correct,
        "num_images": measured.num_images,
    }
    text = (
        f"accuracy {measured.accuracy:.2f} % ({measured.num_correct:,} of "
        f"{measured.num_images:,} test images of {dataset.name}), "
        f"{LOSS_NAMES[kind]} {measured.loss:.4f} nats"
    )
    return Answer(values, text)


def finite(loss: float, weights: str) -> float:
    """`loss`. UserError: it is NaN or infinity."""
    if not math.isfinite(loss):
        raise UserError(
            f"the loss of {weights} is {loss}: its arithmetic overflows, or "
            "its weights are damaged"
        )
    return loss


def loss_of(model: Network, weights: str) -> str:
    """The loss that the model was trained with, "softmax" or "sigmoid".

    A run folder says it; for other weights, the biases of the head show it.
    """
    if run := run_of(weights):
        return run.read_config().loss
    return "sigmoid" if is_trained_by_sigmoid(model) else "softmax"


def run_of(weights: str) -> RunFolder | None:
    """The run folder that a file or folder of weights belongs to, if it does."""
    path = user_path(weights)
    # a model's name isn't in a folder, even if the working folder is a run's
    if not os.path.exists(path):
        return None
    folder = RunFolder(path if path.is_dir() else path.parent)
    return folder if folder.config.is_file() else None


def trained_on(model: Network, weights: str) -> TrainConfig:
    """The configuration in the run folder of `weights`, which names the data.

    UserError: they aren't in a run folder.
    """
    folder = run_of(weights)
    if folder is None:
        example = "mnist" if model.config.num_classes == 10 else "photos/val"
        raise UserError(
            f"{weights} doesn't say what it was trained on; name a data set or "
            f"a folder of pictures, as in `vitedu evaluate {weights} {example}`"
        )
    return folder.read_config()


def check_not_given(config: TrainConfig, weights: str) -> None:
    """UserError if the run was trained or tested on an object in Python."""
    given = config.given_names
    for part, verb in (("train", "trained"), ("test", "tested")):
        if part in given:
            raise UserError(
                f"{weights} was {verb} on data given in Python "
                f"({part}={given[part]}); name a data set or a folder of "
                f"pictures, as in `vitedu evaluate {weights} photos/val`"
            )


EVALUATE = Command(
    evaluate,
    usage="WEIGHTS [DATASET|FOLDER] [name=value ...]",
    summary="accuracy on a data set or on your photographs",
    about="Measure how often a model is right: on the test part of a data set, on a "
    "folder of pictures or, for a run, on the test part of its own data. Top-5 "
    "is left out (in --json null) below 6 classes.",
    words=[
        *WEIGHTS,
        ("DATASET", "a named set (`vitedu info data`) or FILE.npz"),
        (
            "FOLDER",
            "pictures in a folder for each class (of a FOLDER with val/ or "
            "test/, those), or all in one folder with labels=FILE.csv",
        ),
        ("data=PATH", "where the named set is"),
        ("labels=FILE.csv", "columns filename and class or class_index"),
        *FIELDS_HELP,
    ],
    fields=lambda: FIELDS,
    examples=[
        ("vitedu evaluate runs/digits-49b19050", "on what it was trained with"),
        ("vitedu evaluate ViT-Ti/16 photos/val", "on your own photographs"),
        ("vitedu evaluate runs/mine mnist data=mnist.npz", "on another set"),
    ],
)
