"""The parts of a data set as a run uses them."""

from pathlib import Path
from typing import NamedTuple

import torch

from vitedu.data import (
    ArraySource,
    Dataset,
    FolderDataset,
    ImageSource,
    folder_of,
    load_dataset,
    load_folder,
    split,
    subset,
)
from vitedu.data.folders import split_pictures, spread
from vitedu.errors import UserError
from vitedu.train.config import TrainConfig


class Sources(NamedTuple):
    """The parts of a data set as a run uses them."""

    dataset: Dataset | FolderDataset
    train: ArraySource | ImageSource
    validation: ArraySource | ImageSource | None
    test: ArraySource | ImageSource


def open_sources(config: TrainConfig, device: torch.device) -> Sources:
    """The data of a run. UserError: it does not fit the model."""
    folder = folder_of(config.dataset, config.data)
    if folder is not None:
        return _open_folder(config, folder, device)
    return _open_arrays(config, device)


def _open_arrays(config: TrainConfig, device: torch.device) -> Sources:
    if config.num_workers:
        raise UserError(
            f"num_workers={config.num_workers}: this data set lives on the device and "
            "is fed without workers; leave it at 0"
        )
    dataset = load_dataset(
        config.dataset,
        data=config.data,
        fallback=config.fallback,
        image_size=config.model.image_size,
        num_classes=config.model.num_classes,
        max_images=config.max_images,
    )
    _check_classes(dataset, config)
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


def _open_folder(
    config: TrainConfig, folder: Path, device: torch.device
) -> Sources:
    """Pictures in class folders; val/ is for validation if there is test/ as well.

    A share of train/ for validation takes the place of val/.
    """
    dataset = load_folder(folder)
    _check_classes(dataset, config)
    train, held_out, test = dataset.train, dataset.validation, dataset.test
    if config.max_images is not None:
        train, held_out, test = (
            part and spread(part, config.max_images)
            for part in (train, held_out, test)
        )
    if config.validation:
        # the same pictures for every seed, so that runs can be compared
        train, held_out = split_pictures(train, config.validation, seed=0)
    shared = {
        "preprocess": config.preprocess,
        "num_workers": config.num_workers,
        "device": device,
    }
    return Sources(
        dataset,
        ImageSource(train, augment=config.augment, shuffle=True, **shared),
        held_out and ImageSource(held_out, **shared),
        ImageSource(test, **shared),
    )


def _check_classes(
    dataset: Dataset | FolderDataset, config: TrainConfig
) -> None:
    """UserError: the data has more or fewer classes than the model."""
    if len(dataset.class_names) != config.model.num_classes:
        raise UserError(
            f"{dataset.name} has {len(dataset.class_names)} classes, the model "
            f"{config.model.num_classes}; set model.num_classes="
            f"{len(dataset.class_names)}"
        )
