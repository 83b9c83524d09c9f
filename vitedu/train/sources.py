"""The parts of a data set as a run uses them."""

import hashlib
from dataclasses import dataclass, fields, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from vitedu.data import (
    Dataset,
    FolderDataset,
    Source,
    folder_of,
    load_dataset,
    load_folder,
    subset,
)
from vitedu.data.array_source import check_size
from vitedu.data.arrays import classes_of_set
from vitedu.data.augment import Augment
from vitedu.data.folders import (
    TEST_SEED,
    TEST_SHARE,
    folder_classes,
    has_test_part,
    held_out_words,
    training_part,
)
from vitedu.data.items import numbers
from vitedu.data.kinds import open_data
from vitedu.data.opened import Opened
from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec
from vitedu.train.config import TrainConfig

if TYPE_CHECKING:
    from vitedu.data.image_source import PictureChange


@dataclass(frozen=True, eq=False)
class GivenDataset:
    """What a result says of data that were given to `fit`; the like of `Dataset`."""

    name: str
    class_names: tuple[str, ...]
    digest: str  # of all parts, as far as that is cheap
    origin: str = "given"
    requested: str = "given"


class Sources(NamedTuple):
    """The parts of a data set as a run uses them."""

    dataset: Dataset | FolderDataset | GivenDataset
    train: Source
    validation: Source | None
    test: Source
    notes: tuple[str, ...] = ()  # what was decided for the user, in sentences


class Parts(NamedTuple):
    """The same before it is cut, shared out and put on a device."""

    dataset: Dataset | FolderDataset | GivenDataset
    train: Opened
    validation: Opened | None
    test: Opened
    notes: tuple[str, ...] = ()


def open_sources(
    config: TrainConfig,
    device: torch.device,
    *,
    train: Any = None,
    validation: Any = None,
    test: Any = None,
    augment: "PictureChange | None" = None,
    class_names: tuple[str, ...] = (),
) -> Sources:
    """The data of a run: those that the configuration names, or that were given.

    `train`, `validation` and `test` are anything that `vitedu.data.as_source` takes; a
    path as `train` means what it would as `dataset`: a folder with val/ in it has its
    test part with it. Where data to train on come without any to test on, TEST_SHARE
    of each class is held out, and `notes` says so; what a Dataset does to its pictures
    itself, it does to those as well. `augment`, a function from picture to picture,
    takes the place of `config.augment`. `class_names` are those of a model that was
    given: data without names take them.

    UserError: the data do not fit the model, or do not tell what they must; a `Source`
    should be augmented, or prepares its images in another way than the model's.
    """
    if validation is not None and config.validation:
        raise UserError(
            f"validation data were given, and validation={config.validation} would "
            "hold out some of the training data as well; leave one of them out"
        )
    parts = _parts(config, train, validation, test, class_names)
    _check_classes(parts, config)
    changes = augment
    if changes is None and not config.augment.is_off:
        changes = config.augment
    if changes is not None and isinstance(parts.train.content, Source):
        raise UserError(
            f"{parts.train.name} is a Source, which yields its images as they are to "
            "be fed, so they cannot be augmented here; let it augment them, and leave "
            "it out here (augment=Augment())"
        )
    for part in (parts.train, parts.validation, parts.test):
        if part is not None:
            _check_preprocess(part, config)
    trained, held_out, tested = parts.train, parts.validation, parts.test
    if config.max_images is not None and not isinstance(parts.dataset, Dataset):
        trained = trained.spread(config.max_images)
        tested = tested.spread(config.max_images)
        held_out = held_out and held_out.spread(config.max_images)
    if config.validation:
        # the same images for every seed, so that runs can be compared
        trained, held_out = trained.split(config.validation, seed=0)
    feed = Feed(config, device)
    return Sources(
        parts.dataset,
        feed(trained, augment=changes, shuffle=True),
        None if held_out is None else feed(held_out),
        feed(tested),
        parts.notes,
    )


def class_names_of(config: TrainConfig, train: Any = None) -> tuple[str, ...]:
    """The classes of the data that a run would use, in the order of their labels.

    Cheap: nothing is downloaded, drawn or decoded. `train` as in `open_sources`.
    UserError: the data are unknown, or do not tell their classes.
    """
    config, train = _named(config, train)
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
    return _parts(config, train, validation, test).dataset.digest


class Feed(NamedTuple):
    """How the parts of a run become sources."""

    config: TrainConfig
    device: torch.device

    def __call__(
        self,
        part: Opened,
        augment: "Augment | PictureChange | None" = None,
        shuffle: bool = False,
    ) -> Source:
        """The source of one part."""
        return part.source(
            preprocess=self.config.preprocess,
            augment=augment,
            shuffle=shuffle,
            num_workers=self.config.num_workers,
            device=self.device,
        )


def _named(config: TrainConfig, train: Any) -> tuple[TrainConfig, Any]:
    """A path as training data says what `dataset` would say."""
    if not isinstance(train, str | PathLike):
        return config, train
    return replace(config, dataset=fspath(train), data=None), None


def _parts(
    config: TrainConfig,
    train: Any,
    validation: Any,
    test: Any,
    class_names: tuple[str, ...] = (),
) -> Parts:
    """Which images are for what, before anything is cut away."""
    config, train = _named(config, train)
    folder = None
    if train is None:
        folder = folder_of(config.dataset, config.data)
        if (
            folder is not None
            and test is not None
            and not has_test_part(folder)
        ):
            folder_classes(folder)  # says what does not fit
            train = training_part(folder)
    if train is not None:
        parts = _given_parts(config, train, test)
    elif folder is not None:
        parts = _folder_parts(folder)
    else:
        parts = _array_parts(config)
    names = parts.dataset.class_names
    if len(class_names) == len(names) and names == numbers(len(names)):
        names = class_names
    changes: dict[str, Any] = {}
    if validation is not None:
        changes["validation"] = open_data(validation).called(names)
    if test is not None:
        changes["test"] = open_data(test).called(names)
    if not changes:
        return parts
    digests = [parts.dataset.digest]
    digests += [part.digest() for part in changes.values()]
    digest = hashlib.sha256(" ".join(digests).encode()).hexdigest()[:16]
    dataset = GivenDataset(
        parts.dataset.name, parts.dataset.class_names, digest
    )
    return parts._replace(dataset=dataset, **changes)


def _array_parts(config: TrainConfig) -> Parts:
    """A named set, drawn shapes or FILE.npz; `max_images` takes the first ones.

    From trained weights on, images of another size are resized; a network that starts
    from nothing should be made for them.
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


def _folder_parts(folder: Path) -> Parts:
    """Pictures in class folders; val/ is for validation if there is test/ as well.

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
    )


def _given_parts(config: TrainConfig, train: Any, test: Any) -> Parts:
    """Training data that were given, and a share of them to test on, if need be."""
    data = open_data(train)
    names = (
        data.classes()
        if data.knows_classes
        else numbers(config.model.num_classes)
    )
    data = data.called(names)
    dataset = GivenDataset(data.name, names, data.digest())
    if test is not None:
        return Parts(dataset, data, None, data)  # the test part follows
    if data.labels is None:
        raise UserError(
            f"no test part can be held out of {data.name}, since only reading it tells "
            "the labels; give one, test="
        )
    kept, tested = data.split(TEST_SHARE, TEST_SEED)
    words = held_out_words(len(tested), len(data))
    notes = (f"no test data were given with {data.name}, so {words}",)
    return Parts(dataset, kept, None, tested, notes)


def _check_classes(parts: Parts, config: TrainConfig) -> None:
    """UserError: the data has more or fewer classes than the model, or one alone."""
    wanted = len(parts.dataset.class_names)
    if wanted == 1 and config.loss == "softmax":
        raise UserError(
            f"{parts.dataset.name} has one class alone, "
            f"{parts.dataset.class_names[0]}, and every answer would be correct; add "
            "the pictures of at least one other class"
        )
    num_classes = config.model.num_classes
    remedy = f"set model.num_classes={wanted}"
    if "model" in config.given_names:
        remedy = f"call model.reset_classifier({wanted}) before"
    if wanted != num_classes:
        raise UserError(
            f"{parts.dataset.name} has {wanted} classes, the model {num_classes}; "
            + remedy
        )


def _check_preprocess(part: Opened, config: TrainConfig) -> None:
    """UserError: a Source prepares its images in another way than the result will."""
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
        f"{part.name} prepares its images with {', '.join(differ)}; make it with "
        "preprocess=model.preprocess, or say the same in the configuration"
    )
