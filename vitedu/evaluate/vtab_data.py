"""The tasks of VTAB that torchvision reads, from folders on this computer.

`train, test = open_task(task)`, or `open_task(task, "data")` where torchvision
was told root="data".

Where a set has no test part of its own, a fifth of each class is held out. The
authors' code reads TensorFlow's copies, with splits of their own.
"""

import json
import os
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from torch.utils.data import ConcatDataset

from vitedu.compat import import_torchvision
from vitedu.data import sources
from vitedu.data.folders import TEST_SEED, TEST_SHARE
from vitedu.data.images import find_images
from vitedu.data.kinds import open_data
from vitedu.data.labels import numbered_names
from vitedu.data.opened import Opened
from vitedu.data.rows import Rows
from vitedu.data.torchvision_sets import (
    torchvision_parts,
    torchvision_pictures,
    torchvision_place,
)
from vitedu.errors import UserError, reason
from vitedu.evaluate.vtab import VtabTask
from vitedu.files import user_path

# what torchvision and h5py raise where files are missing or damaged
DAMAGE = (RuntimeError, OSError, LookupError, ValueError, TypeError)
# of a scene of CLEVR: its classes are the distances between these
NEAREST = (8.0, 8.5, 9.0, 9.5, 10.0)
FEWEST_OBJECTS = 3


class MissingTaskError(UserError):
    """A task isn't on this computer, or can't be read here."""


class TaskData(NamedTuple):
    """All that there is to learn from, and the whole test part."""

    train: Opened
    test: Opened


def open_task(
    task: VtabTask, data: str | PathLike[str] | None = None
) -> TaskData:
    """A task as torchvision keeps it in the folder `data`, its `root`.

    Without `data`, in the folder of that name in $VITEDU_DATA or the cache.
    Nothing is downloaded. MissingTaskError: it isn't there, is damaged, needs
    another package, or torchvision can't read it.
    """
    if task.dataset is None:
        raise MissingTaskError(
            f"torchvision can't read {task.title}; get it from {task.where} "
            f'and give it as data={{"{task.name}": (train, test)}}, with '
            f"{task.num_classes} classes: {task.question}"
        )
    folders = sources.folders_of(task.dataset)
    if data is not None:
        folders = (user_path(data),)
    root = next(filter(os.path.isdir, folders), None)
    if root is None:
        raise missing(task, f"{' or '.join(map(str, folders))} doesn't exist")
    try:
        train, test = parts_of(task, root)
    except ImportError as error:
        raise MissingTaskError(
            f"{task.title} can't be read without the package {error.name}; "
            f"pip install {error.name}"
        ) from error
    except DAMAGE as error:  # a UserError is a ValueError
        raise missing(task, reason(error)) from error
    if test is None:
        return TaskData(*train.split(TEST_SHARE, TEST_SEED))
    return TaskData(train, test)


def missing(task: VtabTask, why: str) -> MissingTaskError:
    """The sentence about a task that isn't here."""
    return MissingTaskError(
        f"{task.title} isn't here ({why}); get it from {task.where}, or by "
        f"torchvision.datasets.{task.torchvision}"
    )


def parts_of(task: VtabTask, root: Path) -> tuple[Opened, Opened | None]:
    """Training and test part of a task; None: there is no test part."""
    if task.name == "caltech101":
        # torchvision's own class leaves the background out
        folder = root / "caltech101" / "101_ObjectCategories"
        return open_data(find_images(folder)), None
    if task.name == "camelyon":
        kind = import_torchvision().datasets.PCAM
        train, test = (
            open_data(kind(root, split=part), num_classes=task.num_classes)
            for part in ("train", "test")
        )
        return train, test
    place = torchvision_place(str(task.dataset), root)
    places = torchvision_parts(place) or {"train": place}
    found = {part: torchvision_pictures(at) for part, at in places.items()}
    if task.dataset == "clevr-count":
        for part, rows in found.items():
            found[part] = relabelled(rows, root, part, task)
    learned: list[Any] = [found[x] for x in ("train", "val") if x in found]
    train = learned[0] if len(learned) == 1 else ConcatDataset(learned)
    names = found["train"].class_names
    test = open_data(found["test"]) if "test" in found else None
    return open_data(train, class_names=names), test


def relabelled(rows: Rows, root: Path, part: str, task: VtabTask) -> Rows:
    """CLEVR's pictures with the answers to another question about them."""
    # what torchvision calls val has labels, and its test part has none
    labels = scene_labels(root, "val" if part == "test" else part, task.name)
    return replace(
        rows,
        labels=tuple(labels[row] for row in rows.rows),
        class_names=numbered_names(task.num_classes),
    )


def scene_labels(root: Path, part: str, task: str) -> list[int]:
    """Labels of CLEVR's scenes, in the order of their pictures."""
    scenes = root / "clevr" / "CLEVR_v1.0" / "scenes"
    path = scenes / f"CLEVR_{part}_scenes.json"
    content = json.loads(path.read_bytes())
    by_name = {
        scene["image_filename"]: scene["objects"] for scene in content["scenes"]
    }
    found = [by_name[name] for name in sorted(by_name)]
    if task == "clevr-count":
        return [len(objects) - FEWEST_OBJECTS for objects in found]
    nearest = [
        min(each["pixel_coords"][2] for each in objects) for objects in found
    ]
    return [sum(distance > edge for edge in NEAREST) for distance in nearest]
