"""`vitedu evaluate`: how often trained weights are right."""

import argparse
import os
import sys
from pathlib import Path

from tqdm import tqdm

from vitedu.cli.answer import Answer, say
from vitedu.cli.command import Command
from vitedu.cli.words import (
    HINTS_HELP,
    OF_WEIGHTS,
    WEIGHTS,
    load_model,
    named_fields,
)
from vitedu.data import ArraySource, load_dataset
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
from vitedu.evaluate.logits import all_logits, cross_entropy, top_k_correct
from vitedu.model import ResNet, ViT
from vitedu.train import find_device
from vitedu.train.folder import RunFolder
from vitedu.train.losses import LOSSES

# with fewer classes, five guesses are nearly always right
LEAST_FOR_TOP_5 = 6
LOSS_NAMES = {"softmax": "cross-entropy", "sigmoid": "sigmoid cross-entropy"}


def evaluate(options: argparse.Namespace) -> Answer:
    """Accuracy on the test part of a data set, or on a folder of pictures."""
    words, fields = named_fields(options.words, ("data", "labels", *OF_WEIGHTS))
    if not 1 <= len(words) <= 2:
        raise UserError(
            "evaluate wants WEIGHTS and at most one DATASET or FOLDER"
        )
    weights = words[0]
    device = find_device(options.device)
    model = load_model(weights, fields, device)
    check_has_classes(model, weights)
    if len(words) == 2:
        name, data = words[1], fields.get("data")
    else:
        name, data = trained_on(model, weights, fields.get("data"))
    if folder := folder_of(name, data):
        labels = fields.get("labels")
        if labels is None and is_split_by_run(weights, folder):
            dataset = load_folder(folder)
            for note in dataset.notes:
                say(f"note: {note}")
            return evaluate_pictures(model, weights, str(folder), dataset.test)
        part = str(evaluation_part(folder))
        pictures = find_images(part, labels=labels)
        return evaluate_pictures(model, weights, part, pictures)
    if "labels" in fields:
        raise UserError(
            f"labels= belongs to a folder of pictures, {name} is none"
        )
    return evaluate_dataset(model, weights, name, data)


def is_split_by_run(weights: str, folder: Path) -> bool:
    """Whether the run of `weights` held out what to test on from this folder itself.

    Everything in it, measured, would be for the most part what the run has learned.
    """
    run = run_of(weights)
    if run is None:
        return False
    config = run.read_config()
    theirs = folder_of(config.dataset, config.data)
    if theirs is None or theirs.resolve() != folder.resolve():
        return False
    alone = training_part(folder) == folder
    return alone or not any((folder / x).is_dir() for x in ("val", "test"))


def evaluate_pictures(
    model: ViT | ResNet, weights: str, name: str, pictures: Pictures
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
    if kind == "softmax":
        loss = cross_entropy(answers)
    else:
        logits, labels = answers
        loss = LOSSES[kind](logits.double(), labels).item() / num_images
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
    }
    said = [
        f"{'accuracy' if top_5 is None else 'top-1'} {values['accuracy']:.2f} % "
        f"({correct:,} of {num_images:,} pictures of {name})"
    ]
    if top_5 is not None:
        said.append(f"top-5 {values['top5_accuracy']:.2f} %")
    said.append(f"{LOSS_NAMES[kind]} {loss:.4f} nats")
    return Answer(values, ", ".join(said))


def evaluate_dataset(
    model: ViT | ResNet, weights: str, name: str, data: str | None
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
    kind = loss_of(model, weights)
    measured = accuracy(
        model, source.batches(batch_size=256), loss=LOSSES[kind]
    )
    values = {
        "weights": weights,
        "dataset": {"name": dataset.name, "digest": dataset.digest},
        "accuracy": measured.accuracy,
        "loss": measured.loss,
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


def loss_of(model: ViT | ResNet, weights: str) -> str:
    """What the model was trained by, "softmax" or "sigmoid".

    The run knows; of others' weights the head's biases tell.
    """
    if run := run_of(weights):
        return run.read_config().loss
    return "sigmoid" if is_trained_by_sigmoid(model) else "softmax"


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
    model: ViT | ResNet, weights: str, data: str | None
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


EVALUATE = Command(
    evaluate,
    usage="WEIGHTS [DATASET|FOLDER] [name=value ...]",
    summary="accuracy on a data set or on your photographs",
    about="Measure how often a model is right: on the test part of a data set, on a "
    "folder of pictures, or, of a run, on the data that it was trained with. Top-5 is "
    "left out (in --json null) below 6 classes.",
    words=[
        *WEIGHTS,
        ("DATASET", "a named set (`vitedu info data`) or FILE.npz"),
        (
            "FOLDER",
            "pictures in a folder for each class (of a FOLDER with val/ or test/, "
            "those), or all in one folder with labels=FILE.csv",
        ),
        ("data=PATH", "where the named set is"),
        ("labels=FILE.csv", "columns filename and class or class_index"),
        *HINTS_HELP,
    ],
    examples=[
        ("vitedu evaluate runs/digits-49b19050", "on what it was trained with"),
        ("vitedu evaluate ViT-Ti/16 photos/val", "on your own photographs"),
        ("vitedu evaluate runs/mine mnist data=mnist.npz", "on another set"),
    ],
)
