"""`vitedu evaluate`: how often trained weights are right."""

import argparse
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from vitedu.cli.answer import Answer
from vitedu.cli.command import Command
from vitedu.cli.measures import (
    measure_dataset,
    measure_objectnet,
    measure_pictures,
    measure_real,
)
from vitedu.cli.talk import say, wrapped
from vitedu.cli.words import (
    FIELDS_HELP,
    OF_WEIGHTS,
    WEIGHTS,
    load_model,
    split_words,
)
from vitedu.data import load_dataset
from vitedu.data.folders import (
    evaluation_part,
    folder_of,
    holds_pictures,
    load_folder,
    training_part,
)
from vitedu.data.images import find_images
from vitedu.errors import UserError
from vitedu.evaluate.batches import check_imagenet_classes
from vitedu.evaluate.classify import check_has_classes, is_trained_by_sigmoid
from vitedu.evaluate.objectnet import find_objectnet, read_objectnet
from vitedu.evaluate.real import read_real, validation_pictures
from vitedu.files import user_path
from vitedu.model.network import Network
from vitedu.train import TrainConfig, find_device
from vitedu.train.run_folder import RunFolder

FIELDS = ("data", "labels", *OF_WEIGHTS)


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
        return evaluate_folder(model, weights, folder, fields, options)
    if "labels" in fields:
        raise UserError(
            f"labels= is for a folder of pictures, and {name} isn't one"
        )
    if options.real is not None:
        raise UserError(
            f"--real is for a folder of ImageNet's validation pictures, and "
            f"{name} isn't one"
        )
    dataset = load_dataset(
        name,
        data=data,
        fallback=fallback,
        image_size=model.config.image_size,
        num_classes=model.config.num_classes,
    )
    return measure_dataset(
        model,
        weights,
        dataset,
        kind=loss_of(model, weights),
        per_class=options.per_class,
    )


def evaluate_folder(
    model: Network,
    weights: str,
    folder: Path,
    fields: dict[str, str],
    options: argparse.Namespace,
) -> Answer:
    """Accuracy on a folder of pictures, in any of the layouts."""
    labels = fields.get("labels")
    real = None
    if options.real is not None:
        check_imagenet_classes(model, "ImageNet-ReaL")
        real = read_real(options.real)
    if labels is None and (root := find_objectnet(folder)):
        for option, name in (
            (options.real, "--real"),
            (options.per_class, "--per-class"),
        ):
            if option:
                raise UserError(
                    f"{name} doesn't go with ObjectNet, whose classes aren't "
                    f"the model's; leave {name} out"
                )
        check_imagenet_classes(model, "ObjectNet")
        objectnet = read_objectnet(root)
        say_notes(objectnet.pictures.notes)
        return measure_objectnet(model, weights, str(root), objectnet)
    if real and labels is None and not holds_pictures(folder):
        pictures = validation_pictures(folder)
        say_notes(pictures.notes)
        return measure_real(model, weights, str(folder), pictures, real)
    if labels is None and is_split_by_run(weights, folder):
        split = load_folder(folder)
        say_notes(split.notes)
        part = str(folder)
        pictures = replace(split.test, skipped=split.skipped)
    else:
        part = str(evaluation_part(folder))
        pictures = find_images(part, labels=labels)
        say_notes(pictures.notes)
    return measure_pictures(
        model,
        weights,
        part,
        pictures,
        kind=loss_of(model, weights),
        real=real,
        per_class=options.per_class,
    )


def is_split_by_run(weights: str, folder: Path) -> bool:
    """Whether the run of `weights` split this folder into training and test.

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


def loss_of(model: Network, weights: str) -> str:
    """The loss that the model was trained with, "softmax" or "sigmoid".

    A run folder says it; for other weights, the biases of the head show it.
    """
    if run := run_of(weights):
        return run.read_config().loss
    return "sigmoid" if is_trained_by_sigmoid(model) else "softmax"


def run_of(weights: str) -> RunFolder | None:
    """The run folder that a file or folder of weights belongs to, if any."""
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `vitedu evaluate`."""
    parser.add_argument(
        "--per-class",
        action="store_true",
        help="also the accuracy of every class, and their mean",
    )
    parser.add_argument(
        "--real",
        metavar="FILE",
        help="also ImageNet-ReaL: the authors' real.json, for a FOLDER of "
        "ImageNet's validation pictures by their own names",
    )


EVALUATE = Command(
    evaluate,
    usage="WEIGHTS [DATASET|FOLDER] [name=value ...]",
    summary="accuracy on a data set or on your photographs",
    about="Measure how often a model is right: on the test part of a data set, "
    "on a folder of pictures or, for a run, on the test part of its own "
    "data. Top-5 is left out (in --json null) below 6 classes.",
    words=[
        *WEIGHTS,
        ("DATASET", "a named set (`vitedu info data`) or FILE.npz"),
        (
            "FOLDER",
            "pictures in a folder for each class (of a FOLDER with val/ or "
            "test/, those), or all in one folder with labels=FILE.csv; also "
            "ImageNet-V2, with folders 0 to 999, and objectnet-1.0",
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
        (
            "vitedu evaluate ViT-B/16 imagenet/val --real real.json",
            "on ImageNet, with all the labels that are right",
        ),
    ],
    add_options=add_options,
)
