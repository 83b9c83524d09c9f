"""The data of a run: opened, checked against the model, ready to train on."""

import hashlib
import os
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from vitedu.data import Dataset, Source, Split, load_dataset, load_folder
from vitedu.data.dataset import Reader
from vitedu.data.feed.arrays import check_size
from vitedu.data.labels import numbered_names
from vitedu.data.open import (
    TEST_SEED,
    TEST_SHARE,
    as_source,
    folder_of,
    held_out_words,
    known_classes,
    name_at,
    open_split,
    parts_of,
    reader_of,
)
from vitedu.data.readers import folder as folders
from vitedu.errors import UserError, counted
from vitedu.files import user_path
from vitedu.pictures import PreprocessSpec
from vitedu.train.config import TrainConfig
from vitedu.train.processes import from_environment
from vitedu.train.start import NOTHING, Given, differing, run_classes

MOST_WORKERS = 8
WORTH_A_WORKER = 64  # pictures


class Sources(NamedTuple):
    dataset: Dataset
    train: Source
    validation: Source | None
    test: Source

    def record(self) -> dict[str, Any]:
        skipped = list(self.dataset.skipped)  # a sentence for each picture
        return {
            **self.dataset.record(),
            "num_train": len(self.train),
            "num_test": len(self.test),
            **({"skipped": skipped} if skipped else {}),
        }


def open_sources(
    config: TrainConfig, device: torch.device, given: Given = NOTHING
) -> Sources:
    """The data of a run: what the configuration names, or what is given.

    `given` is what `into_settings` left over. Without test data, TEST_SHARE of
    each class is held out, and a note says so (a Dataset's own transforms apply
    to it too). UserError: the data don't fit the model.
    """
    if given.validation is not None and config.validation:
        raise UserError(
            f"validation data were given, and validation={config.validation} "
            "would hold out some of the training data as well; leave one of "
            "them out"
        )
    dataset = open_data(config, given)
    if config.needs_labels:
        _check_classes(dataset, config)
    augment = config.augment if given.augment is None else given.augment
    learned, held_out, tested = dataset.train, dataset.validation, dataset.test
    for split in (learned, held_out, tested):
        if split is not None:
            _check_preprocess(split, config)
    if config.max_images is not None:
        learned = learned.spread(config.max_images)
        tested = tested.spread(config.max_images)
        held_out = held_out and held_out.spread(config.max_images)
    if config.validation:
        # the same images for every seed, so that runs can be compared
        learned, held_out = learned.hold_out(config.validation, seed=0)

        if config.keep == "best":
            note = (
                f"{len(held_out):,} of the {len(held_out) + len(learned):,} "
                f"images to train on ({100 * config.validation:g}% of each "
                "class) are held out to choose the best weights by; "
                "validation=0 learns from all"
            )
            dataset = replace(dataset, notes=(*dataset.notes, note))

    def source(split: Split, **options: Any) -> Source:
        return as_source(
            split,
            preprocess=config.preprocess,
            num_workers=workers_of(split, config, device),
            device=device,
            **options,
        )

    return Sources(
        dataset,
        source(learned, augment=augment, shuffle=True),
        None if held_out is None else source(held_out),
        source(tested),
    )


def workers_of(split: Split, config: TrainConfig, device: torch.device) -> int:
    """As configured; auto: on a GPU, a share of the processors for files.

    Not of a few files, which are read before processes have started, nor of a
    torch Dataset, which may not be made for several.
    """
    if config.num_workers != "auto":
        return config.num_workers
    reader = split.reader
    is_files = isinstance(reader, Reader) and reader.images is None
    if device.type != "cuda" or not is_files or reader.is_foreign:
        return 0
    processors = (os.cpu_count() or 1) // from_environment().local_size
    return min(processors, MOST_WORKERS, len(split) // WORTH_A_WORKER)


def open_data(config: TrainConfig, given: Given = NOTHING) -> Dataset:
    """As `open_sources`, but before images are held out to validate on."""
    train, folder = given.train, None
    if train is None and not config.needs_labels and config.data:
        train = folders.open_loose(user_path(config.data))
    if train is None:
        folder = folder_of(config.dataset, config.data)
        if folder and given.test is not None:
            parts = parts_of(folder)
            if not {"test", "val"} & parts.keys():
                # train on all of it: nothing has to be held out
                root = parts.get("train", folder)
                train = reader_of(root).open_part(root, root)
                train = replace(train, name=name_at(root))
    if train is not None:
        dataset = _passed(config, train, holds_out=given.test is None)
    elif folder is not None:
        dataset = load_folder(folder)
    else:
        dataset = _in_memory(config)
    names = run_classes(given.model, dataset.class_names)
    parts = {"validation": given.validation, "test": given.test}
    others = {
        part: open_split(data).with_classes(names)
        for part, data in parts.items()
        if data is not None
    }
    if not others:
        return dataset
    digests = [dataset.digest, *(part.digest() for part in others.values())]
    return replace(
        dataset,
        digest=hashlib.sha256(" ".join(digests).encode()).hexdigest()[:16],
        notes=sum((part.notes for part in others.values()), dataset.notes),
        skipped=sum((x.skipped for x in others.values()), dataset.skipped),
        **others,
    )


def data_classes(config: TrainConfig, train: Any = None) -> tuple[str, ...]:
    if train is not None:
        return open_split(train).classes()
    return known_classes(
        config.dataset, config.data, num_classes=config.model.num_classes
    )


def _in_memory(config: TrainConfig) -> Dataset:
    """A named set, drawn shapes or FILE.npz; of `max_images` the first ones."""
    # without labels, pictures of any classes will do
    num_classes, count = config.model.num_classes or 10, config.max_images
    dataset = load_dataset(
        config.dataset,
        data=config.data,
        fallback=config.fallback,
        image_size=config.preprocess.image_size,
        num_classes=num_classes,
        max_images=count,
    )
    # for trained weights, images are resized
    if not config.starts_trained and len(dataset.class_names) == num_classes:
        check_size(dataset.train.images, config.preprocess)
    wanted = len(dataset.class_names)
    if config.needs_labels and dataset.class_names == numbered_names(wanted):
        _check_used(dataset.train, wanted)
    if count is None:
        return dataset
    train, test = dataset.train.first(count), dataset.test.first(count)
    return replace(dataset, train=train, test=test)


def _passed(config: TrainConfig, train: Any, holds_out: bool) -> Dataset:
    """Data given to train on; if none is held out, a test part follows."""
    split = open_split(train)
    names = numbered_names(config.model.num_classes)
    if split.class_names or split.labels is not None:
        names = split.classes()
    if config.needs_labels and not split.class_names:
        _check_used(split, len(names))
    split = split.with_classes(names)
    train, test, notes = split, split, split.notes
    if holds_out:
        train, test = split.hold_out(TEST_SHARE, TEST_SEED)
        words = held_out_words(len(test), len(split))
        note = f"no test data were given with {split.name}, so {words}"
        notes = (note, *notes)
    return Dataset(
        split.name,
        train,
        None,
        test,
        split.class_names,
        split.digest(),
        requested=split.name,
        notes=notes,
        skipped=split.skipped,
    )


def _check_classes(dataset: Dataset, config: TrainConfig) -> None:
    """UserError: another number than the model's, or only one."""
    wanted = len(dataset.class_names)
    if wanted == 1 and config.loss == "softmax":
        raise UserError(
            f"{dataset.name} has only one class, {dataset.class_names[0]}, so "
            "every answer would be correct; add the pictures of at least one "
            "other class"
        )
    num_classes = config.model.num_classes
    remedy = f"set model.num_classes={wanted}"
    if "model" in config.given_names:
        remedy = f"call model.reset_classifier({wanted}) before"
    if wanted != num_classes:
        raise UserError(
            f"{dataset.name} has {counted(wanted, 'class')}, the model "
            f"{num_classes}; {remedy}"
        )


def _check_used(split: Split, num_classes: int) -> None:
    """UserError: no image has one of the labels, as where they begin at 1."""
    if split.labels is None:
        return
    counts = torch.bincount(split.labels, minlength=num_classes)
    if not counts.all():
        raise UserError(
            f"{split.name} has labels up to {num_classes - 1}, but no image to "
            f"train on has the label {int(counts.argmin())}; number the "
            "classes 0, 1, 2, ..., or say that it's meant: name all of them "
            "(class_names), or give num_classes to vitedu.data.from_torch or "
            "as_source"
        )


def _check_preprocess(split: Split, config: TrainConfig) -> None:
    own = getattr(split.reader, "preprocess", None)
    if not isinstance(split.reader, Source) or not isinstance(
        own, PreprocessSpec
    ):
        return
    if differ := differing(own, config.preprocess, "the model:"):
        raise UserError(
            f"{split.name} prepares its images with {differ}; make it with "
            "preprocess=model.preprocess, or say the same in the configuration"
        )
