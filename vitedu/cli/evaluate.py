"""`vitedu evaluate`: how often trained weights are right."""

import argparse
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vitedu.cli.output import Answer, Command, rows_in, say_notes, table
from vitedu.cli.overrides import OF_WEIGHTS, load_fields, split_words
from vitedu.cli.progress import with_progress
from vitedu.data import (
    Dataset,
    find_images,
    folder_of,
    load_dataset,
    load_folder,
)
from vitedu.data.open import evaluation_part, holds_pictures, parts_of
from vitedu.errors import UserError, counted
from vitedu.evaluate import imagenet
from vitedu.evaluate.accuracy import Answers, accuracy, all_logits
from vitedu.evaluate.batches import (
    batches_of,
    check_imagenet_classes,
    match_folders,
)
from vitedu.evaluate.classify import (
    check_finite,
    check_has_classes,
    class_names,
    is_trained_by_sigmoid,
)
from vitedu.evaluate.losses import LOSSES
from vitedu.files import user_path
from vitedu.model.network import Network
from vitedu.train import TrainConfig, find_device
from vitedu.train.run_folder import RunFolder, is_foreign
from vitedu.weights import load

FIELDS = ("data", "labels", "fallback", "orientation", *OF_WEIGHTS)
LOSS_NAMES = {"softmax": "cross-entropy", "sigmoid": "sigmoid cross-entropy"}
BATCH = 32  # pictures

Found = tuple[dict[str, Any], str]  # for `--json`, and for a person


class Test(NamedTuple):
    values: dict[str, Any]  # for `--json`
    batches: Iterable[tuple[Tensor, Tensor]]
    what: str = ""  # the pictures in a sentence, if their labels are counted
    class_names: Sequence[str] = ()
    real_names: Sequence[str] = ()  # of the pictures in ImageNet-ReaL
    objects: imagenet.ObjectNet | None = None


def evaluate(options: argparse.Namespace) -> Answer:
    words, fields = split_words(options.words, FIELDS)
    if not 1 <= len(words) <= 2:
        raise UserError(
            "evaluate needs WEIGHTS and at most one DATASET or FOLDER"
        )
    weights, name, data = words[0], words[-1], fields.get("data")
    device = find_device(options.device)
    model = load(weights, device=device, **load_fields(fields))
    check_has_classes(model, weights)
    if "orientation" in fields:
        spec = {"orientation": fields["orientation"]}
        model.preprocess = replace(model.preprocess, **spec)
    run, fallback = run_config(weights), fields.get("fallback")
    if len(words) == 1:
        run = with_data(run, data, weights)
        name, data = run.dataset, data or run.data
        fallback = fallback or run.fallback
    real = None
    if folder := folder_of(name, data):
        if options.real is not None:
            check_imagenet_classes(model, "ImageNet-ReaL")
            real = imagenet.read_real(options.real)
        test = folder_test(model, folder, fields.get("labels"), run, options)
    else:
        if "labels" in fields or options.real is not None:
            raise UserError(
                "labels= and --real are for a folder of pictures, and "
                f"{name} isn't one"
            )
        dataset = load_dataset(
            name,
            data=data,
            fallback=fallback,
            image_size=model.config.image_size,
            num_classes=model.config.num_classes,
        )
        test = array_test(model, weights, dataset)
    answers = all_logits(model, test.batches)
    found: list[Found] = []
    if test.objects:
        found.append(on_objectnet(answers, test.objects))
    if test.what:
        kind = "sigmoid" if is_trained_by_sigmoid(model) else "softmax"
        kind = run.loss if run else kind
        top_5 = folder is not None
        found.append(top_accuracy(answers, kind, weights, test.what, top_5))
    if real:
        found.append(on_real(answers, test.real_names, real))
    if options.per_class and test.class_names:
        found.append(by_class(answers, test.class_names))
    values = {"weights": weights, **test.values}
    for each, _ in found:
        values |= each
    return Answer(values, ", ".join(text for _, text in found))


def run_config(weights: str) -> TrainConfig | None:
    path = user_path(weights)
    # a model's name isn't in a folder, even if the working folder is a run's
    if not os.path.exists(path):
        return None
    folder = RunFolder(path if path.is_dir() else path.parent)
    # Hugging Face's folders have a config.json of their own
    if not folder.config.is_file() or is_foreign(folder.config):
        return None
    return folder.read_config()


def with_data(
    run: TrainConfig | None, data: str | None, weights: str
) -> TrainConfig:
    why = "doesn't say what it was trained on"
    if run is not None:
        given = {"train", "test"} & run.given_names.keys()
        if data is not None or not given:
            return run
        names = [f"{x}={run.given_names[x]}" for x in sorted(given)]
        why = f"was given its data in Python ({', '.join(names)})"
    raise UserError(
        f"{weights} {why}; name a data set or a folder of pictures, as in "
        f"`vitedu evaluate {weights} photos/val`"
    )


# --- what a model is measured on


def array_test(model: Network, weights: str, dataset: Dataset) -> Test:
    if len(dataset.class_names) != model.config.num_classes:
        raise UserError(
            f"{dataset.name} has {counted(len(dataset.class_names), 'class')}, "
            f"{weights} has {model.config.num_classes}"
        )
    # matched with the model's classes by number, not by name
    images = replace(dataset.test, class_names=())
    batches = batches_of(model, images, batch_size=256, num_workers=0)
    values = {"dataset": {"name": dataset.name, "digest": dataset.digest}}
    what = f"test images of {dataset.name}"
    return Test(values, batches, what, dataset.class_names)


def folder_test(
    model: Network,
    folder: Path,
    labels: str | None,
    run: TrainConfig | None,
    options: argparse.Namespace,
) -> Test:
    place, notes, what = str(folder), None, ""
    objects, classes, real_names = None, (), []
    num_classes = model.config.num_classes
    if labels is None and (root := imagenet.find_objectnet(folder)):
        if options.real or options.per_class:
            raise UserError(
                "ObjectNet's classes aren't the model's; leave --real and "
                "--per-class out"
            )
        check_imagenet_classes(model, "ObjectNet")
        place, objects = str(root), imagenet.read_objectnet(root)
        pictures = objects.pictures
    elif options.real and labels is None and not holds_pictures(folder):
        pictures = imagenet.validation_pictures(folder)
    else:
        if labels is None and is_split_by_run(run, folder):
            split = load_folder(folder)
            pictures, notes = split.test, split.notes
            pictures = replace(pictures, skipped=split.skipped)
        else:
            place = str(evaluation_part(folder))
            pictures = find_images(place, labels=labels)
        pictures = match_folders(pictures, model.class_names, num_classes)
        classes = pictures.class_names or class_names(model, num_classes)
        what = f"pictures of {place}"
    if options.real:
        real_names = imagenet.names_of(pictures)
        # refused now, and not after the hour it may take
        imagenet.real_rows(real_names)
    say_notes(pictures.notes if notes is None else notes)
    workers = min(os.cpu_count() or 1, 8, len(pictures) // 64)
    batches = batches_of(
        model, pictures, BATCH, workers, by_class_of_model=False
    )
    return Test(
        {"dataset": {"name": place}, "skipped": list(pictures.skipped)},
        with_progress(batches, BATCH, len(pictures)),
        what,
        classes,
        real_names,
        objects,
    )


def is_split_by_run(run: TrainConfig | None, folder: Path) -> bool:
    if run is None or {"train", "test"} & run.given_names.keys():
        return False
    trained = folder_of(run.dataset, run.data)
    if trained is None or trained.resolve() != folder.resolve():
        return False
    return not {"val", "test"} & parts_of(folder).keys()


# --- what is counted


def top_accuracy(
    answers: Answers, kind: str, weights: str, what: str, top_5: bool
) -> Found:
    batches = zip(*(each.split(BATCH) for each in answers), strict=True)
    found = accuracy(nn.Identity(), batches, loss=LOSSES[kind])
    if not math.isfinite(found.loss):
        raise UserError(
            f"the loss of {weights} is {found.loss}: its arithmetic overflows, "
            "or its weights are damaged"
        )
    names = ["accuracy", "loss", "loss_name", "num_correct", "num_images"]
    if top_5:
        names += ["top5_accuracy", "num_top5_correct"]
    values = {name: getattr(found, name) for name in names}
    name, more = "accuracy", ""
    if top_5 and found.top5_accuracy is not None:
        name, more = "top-1", f", top-5 {found.top5_accuracy:.2f}%"
    return values, (
        f"{name} {found.accuracy:.2f}% ({found.num_correct:,} of "
        f"{found.num_images:,} {what}){more}, {LOSS_NAMES[kind]} "
        f"{found.loss:.4f} nats"
    )


def on_real(
    answers: Answers, names: Sequence[str], labels: imagenet.RealLabels
) -> Found:
    check_finite(answers.logits)
    found = imagenet.real_counts(answers.logits, names, labels)
    values = {
        "real_accuracy": found.accuracy,
        "num_real_correct": found.num_correct,
        "num_real_images": found.num_images,
    }
    return values, (
        f"ReaL {found.accuracy:.2f}% ({found.num_correct:,} of "
        f"{found.num_images:,} pictures with a label)"
    )


def on_objectnet(answers: Answers, objects: imagenet.ObjectNet) -> Found:
    check_finite(answers.logits)
    found = objects.counts(*answers)
    num_classes = len(objects.pictures.class_names)
    values = found._asdict() | {
        "accuracy": found.accuracy,
        "top5_accuracy": found.top5_accuracy,
        "num_classes": num_classes,
    }
    return values, (
        f"top-1 {found.accuracy:.2f}% ({found.num_correct:,} of "
        f"{found.num_images:,} pictures of {num_classes} classes of "
        f"ObjectNet), top-5 {found.top5_accuracy:.2f}%"
    )


def by_class(answers: Answers, names: Sequence[str]) -> Found:
    labels = answers.labels
    right = labels[answers.logits.argmax(dim=1) == labels]
    counts = torch.bincount(labels)
    correct = torch.bincount(right, minlength=len(counts)).tolist()
    rows: list[dict[str, Any]] = [
        {
            "index": index,
            "class": names[index],
            "accuracy": 100 * correct[index] / count,
            "num_correct": correct[index],
            "num_images": count,
        }
        for index, count in enumerate(counts.tolist())
        if count
    ]
    mean = math.fsum(row["accuracy"] for row in rows) / len(rows)
    lines = [
        (
            row["class"],
            f"{row['accuracy']:6.2f}%  "
            f"{row['num_correct']:,} of {row['num_images']:,}",
        )
        for row in rows
    ]
    values = {"mean_class_accuracy": mean, "per_class": rows}
    return values, f"mean of the classes {mean:.2f}%\n{table(lines)}"


EVALUATE = Command(
    evaluate,
    usage="WEIGHTS [DATASET|FOLDER] [name=value ...]",
    summary="accuracy on a data set or on your photographs",
    about="Measure how often a model is right: on the test part of a data set, "
    "on a folder of pictures or, for a run, on the test part of its own "
    "data. Top-5 is left out (in --json null) below 6 classes.",
    reads_weights=True,
    words=rows_in("""
        DATASET  a named set (`vitedu info data`) or FILE.npz
        FOLDER  pictures in a folder for each class (of a FOLDER with val/
            or test/, those), or all in one folder with labels=FILE.csv;
            also ImageNet-V2, with folders 0 to 999, and objectnet-1.0
        data=PATH  where the named set is
        fallback=digits  the digits of the package, where the set isn't here
        labels=FILE.csv  columns filename and class or class_index
        orientation=ignore  photographs as they are stored, not turned upright:
            how others measure on ImageNet
    """),
    examples=rows_in("""
        vitedu evaluate runs/digits-49b19050  on what it was trained with
        vitedu evaluate ViT-Ti/16 photos/val  on your own photographs
        vitedu evaluate runs/mine mnist data=mnist.npz  on another set
        vitedu evaluate ViT-B/16 imagenet/val --real real.json
            on ImageNet, with all the labels that are right
    """),
    options=rows_in("""
        --per-class  also the accuracy of every class, and their mean
        --real FILE  also ImageNet-ReaL: the authors' real.json, for a FOLDER of
            ImageNet's validation pictures by their own names
    """),
)
