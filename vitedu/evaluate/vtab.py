"""VTAB-1k: 19 tasks of 1,000 training images each (Zhai et al. 2019).

All tasks use one setting, and the score is their mean accuracy (paper, section
4.1 and table 9). `vitedu.train.run_vtab` trains them.

`train, test = open_task(VTAB[0], "data")`
"""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from math import nan
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import torch
from torch.utils.data import ConcatDataset

from vitedu.compat import import_torchvision
from vitedu.data.array_sets import load_dataset
from vitedu.data.catalogue import folders_of
from vitedu.data.dataset import Split
from vitedu.data.labels import numbered_names
from vitedu.data.open import TEST_SEED, TEST_SHARE, find_images, open_split
from vitedu.data.readers import torchvision
from vitedu.errors import UserError, reason
from vitedu.files import user_path

# what torchvision raises where files or packages are missing, or damaged
DAMAGE = (ImportError, LookupError, OSError, RuntimeError, ValueError)
# class limits of a CLEVR scene: the distance of its nearest object
NEAREST = (8.0, 8.5, 9.0, 9.5, 10.0)
FEWEST_OBJECTS = 3


class VtabTask(NamedTuple):
    """One of the 19 tasks."""

    name: str
    title: str  # in the paper's table 9
    group: Literal["natural", "specialized", "structured"]
    num_classes: int
    question: str  # what the classes are
    where: str  # it can be had
    # the class of torchvision.datasets that reads it, and the folder for that
    # in $VITEDU_DATA; None: there is none
    torchvision: str | None = None
    dataset: str | None = None


class VtabResult(NamedTuple):
    """Test accuracy per task in percent, and why a task is missing."""

    accuracies: Mapping[str, float]
    missing: Mapping[str, str]

    @property
    def mean(self) -> float:
        """Unweighted mean of the tasks that ran; NaN if none did."""
        return fmean(self.accuracies.values()) if self.accuracies else nan

    @property
    def group_means(self) -> dict[str, float]:
        """The mean of each group with at least one task that ran."""
        group_of = {task.name: task.group for task in VTAB}
        members: dict[str, list[float]] = {}
        for name, accuracy in self.accuracies.items():
            members.setdefault(group_of[name], []).append(accuracy)
        return {group: fmean(each) for group, each in members.items()}


_TABLE = (resources.files("vitedu.evaluate") / "vtab.json").read_bytes()
VTAB = tuple(VtabTask(**row) for row in json.loads(_TABLE))


class MissingTaskError(UserError):
    """A task isn't on this computer, or can't be read here."""


class TaskData(NamedTuple):
    train: Split
    test: Split


def open_task(
    task: VtabTask, data: str | PathLike[str] | None = None
) -> TaskData:
    """A task as torchvision stores it in `data` (its `root`); no downloads.

    Without `data`, in its folder in $VITEDU_DATA or the cache. Without a test
    part a fifth of each class is held out; the authors use TensorFlow's splits.
    """
    if task.dataset is None:
        raise MissingTaskError(
            f"torchvision can't read {task.title}; get it from {task.where} "
            f'and give it as data={{"{task.name}": (train, test)}}, with '
            f"{task.num_classes} classes: {task.question}"
        )
    folders = folders_of(task.dataset)
    if data is not None:
        folders = (user_path(data),)
    try:
        root = next(filter(os.path.isdir, folders), None)
        if root is None:
            places = " or ".join(map(str, folders))
            raise UserError(f"{places} doesn't exist")
        train, test = _parts(task, root)
    except DAMAGE as error:  # a UserError is a ValueError
        raise MissingTaskError(
            f"{task.title} isn't here ({reason(error)}); get it from "
            f"{task.where}, or by torchvision.datasets.{task.torchvision}"
        ) from error
    if test is None:
        return TaskData(*train.hold_out(TEST_SHARE, TEST_SEED))
    return TaskData(train, test)


def _parts(task: VtabTask, root: Path) -> tuple[Split, Split | None]:
    if task.name == "caltech101":
        # torchvision's own class leaves the background out
        folder = root / "caltech101" / "101_ObjectCategories"
        return find_images(folder), None
    if task.name == "cifar100":
        dataset = load_dataset("cifar100", data=root)
        return dataset.train, dataset.test
    if task.name == "camelyon":
        kind = import_torchvision().datasets.PCAM
        train, test = (
            open_split(kind(root, split=part), num_classes=task.num_classes)
            for part in ("train", "test")
        )
        return train, test
    place = torchvision.place_of(str(task.dataset), root)
    places = torchvision.parts(place) or {"train": place}
    found = {part: torchvision.open_part(at) for part, at in places.items()}
    if task.dataset == "clevr-count":
        for part, split in found.items():
            found[part] = _relabelled(split, root, part, task)
    train, test = found["train"], found.get("test")
    if "val" in found:
        both: Any = ConcatDataset([found["train"], found["val"]])
        train = open_split(both, class_names=train.class_names)
    return train, test


def _relabelled(split: Split, root: Path, part: str, task: VtabTask) -> Split:
    """CLEVR's pictures, labelled with the answers to the task's question."""
    # what torchvision calls val has labels, and its test part has none
    scene_part = "val" if part == "test" else part
    path = root / f"clevr/CLEVR_v1.0/scenes/CLEVR_{scene_part}_scenes.json"
    scenes = json.loads(path.read_bytes())["scenes"]
    labels = []
    # torchvision takes the pictures in the order of their names
    for scene in sorted(scenes, key=lambda each: each["image_filename"]):
        objects = scene["objects"]
        nearest = min(each["pixel_coords"][2] for each in objects)
        distance = sum(nearest > edge for edge in NEAREST)
        is_count = task.name == "clevr-count"
        labels.append(len(objects) - FEWEST_OBJECTS if is_count else distance)
    of_all = torch.tensor(labels)
    return replace(
        split,
        labels=of_all if split.rows is None else of_all[split.rows],
        class_names=numbered_names(task.num_classes),
    )
