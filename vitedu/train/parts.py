"""Which images of a data set are for training, validation and testing.

`parts = parts_of(config, train=dataset, test="photos/val")`
"""

import hashlib
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from vitedu.data import (
    Dataset,
    FolderDataset,
    folder_of,
    load_dataset,
    load_folder,
    subset,
)
from vitedu.data.array_source import check_size
from vitedu.data.folders import (
    TEST_SEED,
    TEST_SHARE,
    folder_classes,
    has_test_part,
    held_out_words,
    training_part,
)
from vitedu.data.kinds import open_data
from vitedu.data.labels import numbered_names
from vitedu.data.opened import Opened
from vitedu.errors import UserError
from vitedu.train.config import TrainConfig


@dataclass(frozen=True, eq=False)
class PassedDataset:
    """What a result says of data passed to `fit`, as `Dataset` has it."""

    name: str
    class_names: tuple[str, ...]
    digest: str  # of all parts, as far as that is cheap
    origin: str = "given"
    requested: str = "given"


class Parts(NamedTuple):
    """The parts of a data set before images are held out, resized, shuffled."""

    dataset: Dataset | FolderDataset | PassedDataset
    train: Opened
    validation: Opened | None
    test: Opened
    notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def path_as_dataset(config: TrainConfig, train: Any) -> tuple[TrainConfig, Any]:
    """A path as training data means what it would as `config.dataset`."""
    if not isinstance(train, str | PathLike):
        return config, train
    return replace(config, dataset=fspath(train), data=None), None


def parts_of(
    config: TrainConfig,
    *,
    train: Any = None,
    validation: Any = None,
    test: Any = None,
    class_names: tuple[str, ...] = (),
) -> Parts:
    """The parts that the configuration names, or that are passed.

    What is passed, and `class_names`, are as in `open_sources`.
    """
    config, train = path_as_dataset(config, train)
    folder = None
    if train is None:
        folder = folder_of(config.dataset, config.data)
        if (
            folder is not None
            and test is not None
            and not has_test_part(folder)
        ):
            # all of it is to train on, and nothing has to be held out
            folder_classes(folder)  # says what doesn't fit
            train = training_part(folder)
    if train is not None:
        parts = passed_parts(config, train, test)
    elif folder is not None:
        parts = folder_parts(folder)
    else:
        parts = array_parts(config)
    names = parts.dataset.class_names
    if len(class_names) == len(names) and names == numbered_names(len(names)):
        names = class_names
    others = {
        part: open_data(data).called(names)
        for part, data in (("validation", validation), ("test", test))
        if data is not None
    }
    if not others:
        return parts
    digests = [
        parts.dataset.digest,
        *(part.digest() for part in others.values()),
    ]
    digest = hashlib.sha256(" ".join(digests).encode()).hexdigest()[:16]
    return parts._replace(
        dataset=PassedDataset(
            parts.dataset.name, parts.dataset.class_names, digest
        ),
        notes=sum((part.notes for part in others.values()), parts.notes),
        skipped=sum((part.skipped for part in others.values()), parts.skipped),
        **others,
    )


def array_parts(config: TrainConfig) -> Parts:
    """A named set, drawn shapes or FILE.npz; `max_images` takes the first ones.

    From trained weights on, images of another size are resized; a network that
    starts from nothing should be made for them.
    """
    dataset = load_dataset(
        config.dataset,
        data=config.data,
        fallback=config.fallback,
        image_size=config.preprocess.image_size,
        num_classes=config.model.num_classes,
        max_images=config.max_images,
    )
    parts = [dataset.train, dataset.test]
    if config.max_images is not None:
        parts = [subset(part, config.max_images) for part in parts]
    if not config.starts_trained and len(dataset.class_names) == (
        config.model.num_classes
    ):
        check_size(parts[0].images, config.preprocess)
    train, test = (
        open_data(part, class_names=dataset.class_names) for part in parts
    )
    return Parts(dataset, train, None, test)


def folder_parts(folder: Path) -> Parts:
    """Pictures in class folders; val/ is for validation if there is also test/.

    A share of train/ for validation takes the place of val/.
    """
    dataset = load_folder(folder)
    held_out = dataset.validation
    return Parts(
        dataset,
        open_data(dataset.train),
        None if held_out is None else open_data(held_out),
        open_data(dataset.test),
        dataset.notes,
        dataset.skipped,
    )


def passed_parts(config: TrainConfig, train: Any, test: Any) -> Parts:
    """Training data passed to `fit`; without `test`, a share is for testing."""
    data = open_data(train)
    names = (
        data.classes()
        if data.knows_classes
        else numbered_names(config.model.num_classes)
    )
    data = data.called(names)
    dataset = PassedDataset(data.name, names, data.digest())
    if test is not None:
        # the test part follows
        return Parts(dataset, data, None, data, data.notes, data.skipped)
    if data.labels is None:
        raise UserError(
            f"no test part can be held out of {data.name}, since its labels "
            "are only known by reading it; pass test= as well"
        )
    kept, tested = data.split(TEST_SHARE, TEST_SEED)
    words = held_out_words(len(tested), len(data))
    note = f"no test data were given with {data.name}, so {words}"
    return Parts(dataset, kept, None, tested, (note, *data.notes), data.skipped)
