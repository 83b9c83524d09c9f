"""The parts of a data set as a run uses them."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from vitedu.data import Dataset, FolderDataset, Source, folder_of
from vitedu.data.arrays import classes_of_set
from vitedu.data.augment import Augment
from vitedu.data.folders import folder_classes
from vitedu.data.kinds import open_data
from vitedu.data.opened import Opened
from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec
from vitedu.train.config import TrainConfig
from vitedu.train.parts import (
    Parts,
    PassedDataset,
    parts_of,
    path_as_dataset,
)

if TYPE_CHECKING:
    from vitedu.data.image_source import PictureChange


class Sources(NamedTuple):
    """The parts of a data set, ready to be fed to a model."""

    dataset: Dataset | FolderDataset | PassedDataset
    train: Source
    validation: Source | None
    test: Source
    notes: tuple[str, ...] = ()  # what was decided for the user, in sentences
    skipped: tuple[str, ...] = ()  # a sentence for each unreadable picture

    def record(self) -> dict[str, Any]:
        """What a result says of the data."""
        skipped = {"skipped": list(self.skipped)} if self.skipped else {}
        return {
            "name": self.dataset.name,
            "digest": self.dataset.digest,
            "num_train": len(self.train),
            "num_test": len(self.test),
            **skipped,
        }


def open_sources(
    config: TrainConfig,
    device: torch.device,
    *,
    train: Any = None,
    validation: Any = None,
    test: Any = None,
    augment: "Augment | PictureChange | None" = None,
    class_names: tuple[str, ...] = (),
) -> Sources:
    """The data of a run: what the configuration names, or what is passed.

    `train`, `validation` and `test` are anything that `vitedu.data.as_source`
    takes; a path as `train` means what it would as `dataset`: if there is val/
    in the folder, it is the test part. Without data to test on, TEST_SHARE of
    each class of the training data is held out, and `notes` says so; if a
    Dataset changes its pictures itself, it changes those too. `augment`, a
    function from picture to picture, replaces `config.augment`. `class_names`
    are those of a model that was passed: data without names take them.

    UserError: the data don't fit the model, or don't say what they must; a
    `Source` should be augmented, or prepares its images differently from the
    model.
    """
    if validation is not None and config.validation:
        raise UserError(
            f"validation data were given, and validation={config.validation} "
            "would hold out some of the training data as well; leave one of "
            "them out"
        )
    parts = parts_of(
        config,
        train=train,
        validation=validation,
        test=test,
        class_names=class_names,
    )
    _check_classes(parts, config)
    if augment is None and not config.augment.is_off:
        augment = config.augment
    if augment is not None and isinstance(parts.train.content, Source):
        raise UserError(
            f"{parts.train.name} is a Source, whose images go to the model as "
            "they are, so they cannot be augmented here; augment them in the "
            "Source, and leave it out here (augment=Augment())"
        )
    trained, held_out, tested = parts.train, parts.validation, parts.test
    for part in (trained, held_out, tested):
        if part is not None:
            _check_preprocess(part, config)
    if config.max_images is not None and not isinstance(parts.dataset, Dataset):
        trained = trained.spread(config.max_images)
        tested = tested.spread(config.max_images)
        held_out = held_out and held_out.spread(config.max_images)
    if config.validation:
        # the same images for every seed, so that runs can be compared
        trained, held_out = trained.split(config.validation, seed=0)

    def source(part: Opened, **options: Any) -> Source:
        return part.source(
            preprocess=config.preprocess,
            num_workers=config.num_workers,
            device=device,
            **options,
        )

    return Sources(
        parts.dataset,
        source(trained, augment=augment, shuffle=True),
        None if held_out is None else source(held_out),
        source(tested),
        parts.notes,
        parts.skipped,
    )


def class_names_of(config: TrainConfig, train: Any = None) -> tuple[str, ...]:
    """The classes of the data that a run would use, in order of their labels.

    Cheap: nothing is downloaded, drawn or decoded. `train` as in
    `open_sources`.
    UserError: the data are unknown, or do not tell their classes.
    """
    config, train = path_as_dataset(config, train)
    if train is not None:
        return open_data(train).classes()
    folder = folder_of(config.dataset, config.data)
    if folder is not None:
        return folder_classes(folder)
    return classes_of_set(
        config.dataset, data=config.data, num_classes=config.model.num_classes
    )


def digest_of(
    config: TrainConfig,
    *,
    train: Any = None,
    validation: Any = None,
    test: Any = None,
) -> str:
    """The `digest` of the data set that `open_sources` would give."""
    parts = parts_of(config, train=train, validation=validation, test=test)
    return parts.dataset.digest


def _check_classes(parts: Parts, config: TrainConfig) -> None:
    """UserError: more or fewer classes than the model has, or only one."""
    wanted = len(parts.dataset.class_names)
    if wanted == 1 and config.loss == "softmax":
        raise UserError(
            f"{parts.dataset.name} has only one class, "
            f"{parts.dataset.class_names[0]}, so every answer would be "
            "correct; add the pictures of at least one other class"
        )
    num_classes = config.model.num_classes
    remedy = f"set model.num_classes={wanted}"
    if "model" in config.given_names:
        remedy = f"call model.reset_classifier({wanted}) before"
    if wanted != num_classes:
        raise UserError(
            f"{parts.dataset.name} has {wanted} classes, the model "
            f"{num_classes}; {remedy}"
        )


def _check_preprocess(part: Opened, config: TrainConfig) -> None:
    """UserError: a Source prepares images differently from the run's model."""
    if not isinstance(part.content, Source):
        return
    own = getattr(part.content, "preprocess", None)
    if not isinstance(own, PreprocessSpec) or own == config.preprocess:
        return
    differ = [
        f"{each.name}={getattr(own, each.name)} (the model: "
        f"{getattr(config.preprocess, each.name)})"
        for each in fields(own)
        if getattr(own, each.name) != getattr(config.preprocess, each.name)
    ]
    raise UserError(
        f"{part.name} prepares its images with {', '.join(differ)}; make it "
        "with preprocess=model.preprocess, or say the same in the configuration"
    )
