"""The parts of a data set as a run uses them."""

from typing import NamedTuple

import torch

from vitedu.data import ArraySource, Dataset, load_dataset, split, subset
from vitedu.errors import UserError
from vitedu.train.config import TrainConfig


class Sources(NamedTuple):
    """The parts of a data set as a run uses them."""

    dataset: Dataset
    train: ArraySource
    validation: ArraySource | None
    test: ArraySource


def open_sources(config: TrainConfig, device: torch.device) -> Sources:
    """The data of a run. UserError: it does not fit the model."""
    if config.num_workers:
        raise UserError(
            f"num_workers={config.num_workers}: the data sets of this version live "
            "on the device and are fed without workers; leave it at 0"
        )
    dataset = load_dataset(
        config.dataset,
        data=config.data,
        fallback=config.fallback,
        image_size=config.model.image_size,
        num_classes=config.model.num_classes,
        max_images=config.max_images,
    )
    if len(dataset.class_names) != config.model.num_classes:
        raise UserError(
            f"{dataset.name} has {len(dataset.class_names)} classes, the model "
            f"{config.model.num_classes}; set model.num_classes="
            f"{len(dataset.class_names)}"
        )
    train, test, held_out = dataset.train, dataset.test, None
    if config.max_images is not None:
        train, test = (
            subset(train, config.max_images),
            subset(test, config.max_images),
        )
    if config.validation:
        # the same images for every seed, so that runs can be compared
        train, held_out = split(train, config.validation, seed=0)
    shared = {"preprocess": config.preprocess, "device": device}
    return Sources(
        dataset,
        ArraySource(
            train,
            dataset.class_names,
            augment=config.augment,
            shuffle=True,
            **shared,
        ),
        held_out and ArraySource(held_out, dataset.class_names, **shared),
        ArraySource(test, dataset.class_names, **shared),
    )
