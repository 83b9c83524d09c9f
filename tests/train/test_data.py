"""The parts of a data set as a run uses them."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from tests.train.runs import equal, sentence
from vitedu.data import (
    ArraySource,
    Augment,
    ImageSource,
    PreprocessSpec,
    Split,
    as_source,
    from_torch,
    load_dataset,
)
from vitedu.data.dataset import FileReader
from vitedu.data.readers.arrays import open_pair
from vitedu.errors import UserError
from vitedu.model import ViTConfig
from vitedu.results import read_file
from vitedu.train import fit
from vitedu.train.config import TrainConfig
from vitedu.train.data import data_classes, open_sources, workers_of
from vitedu.train.run_folder import RunFolder
from vitedu.train.start import Given, into_settings

pytestmark = pytest.mark.slow  # each test trains

CPU = torch.device("cpu")
# the model sees pixels in 0..255
UNCHANGED = PreprocessSpec(mean=0.0, std=1 / 255)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with 30 + 12 images of three classes, numbered in pixel 0, 0."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VITEDU_DATA", raising=False)
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    arrays = {}
    for part, count, first in (("train", 30, 0), ("test", 12, 100)):
        images = np.zeros((count, 8, 8), np.uint8)
        images[:, 0, 0] = first + np.arange(count)
        arrays |= {f"x_{part}": images, f"y_{part}": np.arange(count) % 3}
    np.savez("set.npz", **arrays)
    later = {x: arrays[x] + 1 for x in ("y_train", "y_test")}
    np.savez("from1.npz", **arrays | later)
    return tmp_path


def configured(model=None, **changes):
    fields = {
        "image_size": 8,
        "patch_size": 4,
        "in_channels": 1,
        "num_classes": 3,
    }
    sizes = {"embed_dim": 8, "depth": 1, "num_heads": 2, "mlp_dim": 16}
    return TrainConfig(
        **{"recipe": "test", "tier": "cpu", "dataset": "set.npz", "steps": 1}
        | {"model": ViTConfig(**(fields | sizes | (model or {})))}
        | {"preprocess": UNCHANGED}
        | changes
    )


def sources(model=None, **changes):
    """The parts of a run; with `given_train=...` of data that are given."""
    given = {
        name: changes.pop(f"given_{name}")
        for name in Given._fields
        if f"given_{name}" in changes
    }
    config, left = into_settings(configured(model, **changes), Given(**given))
    return open_sources(config, CPU, left)


def numbers(source, **options):
    """The images' numbers, in the order in which the source yields them."""
    batches = source.batches(batch_size=4, **options)
    return [
        round(float(image[0, 0, 0]))
        for images, _ in batches
        for image in images
    ]


def test_training_images_come_shuffled_and_test_images_in_order(here):
    seen = numbers(sources().train)
    assert seen != sorted(seen)
    assert sorted(seen) == list(range(30))
    assert numbers(sources().test) == list(range(100, 112))


def test_validation_is_held_out_of_the_training_images(here):
    parts = sources(validation=0.3)
    held_out, trained = numbers(parts.validation), numbers(parts.train)
    assert len(held_out) == 9
    assert sorted(held_out + trained) == list(range(30))
    other_seed = sources(validation=0.3, seed=1)
    assert numbers(other_seed.validation) == held_out


def test_only_training_images_are_augmented(here):
    parts = sources(validation=0.3, augment=Augment(shift=1))
    assert numbers(parts.test) == list(range(100, 112))
    assert len(set(numbers(parts.validation))) == 9
    # a shift moves the number away from its corner in 8 of 9 draws
    assert numbers(parts.train).count(0) > 10


@pytest.mark.parametrize(
    ("most", "train", "test"), [(10, 10, 10), (99, 30, 12)]
)
def test_max_images_cuts_both_parts(here, most, train, test):
    parts = sources(max_images=most, validation=0.3)
    seen = numbers(parts.train) + numbers(parts.validation)
    assert sorted(seen) == list(range(train))
    assert numbers(parts.test) == list(range(100, 100 + test))


def test_digits_stand_in_only_where_asked_for(here):
    model = {"image_size": 28, "num_classes": 10}
    parts = sources(model=model, dataset="mnist", fallback="digits")
    assert (parts.dataset.name, parts.dataset.requested) == ("digits", "mnist")


def test_shapes_are_made_for_the_model(here):
    model = {"image_size": (16, 20), "in_channels": 3, "num_classes": 5}
    parts = sources(model=model, dataset="shapes-1k", max_images=20)
    assert parts.train.images.shape == (20, 3, 16, 20)
    assert parts.train.num_classes == 5


def write_pictures(folder, first, count):
    """So many pictures of one class, one value each."""
    folder.mkdir(parents=True)
    for i in range(count):
        Image.new("L", (9, 9), first + i).save(folder / f"{i}.png")


@pytest.fixture
def pets(here):
    """The folder pets/: 12 + 4 pictures of two classes."""
    for part, count in (("train", 6), ("val", 2)):
        for first, name in ((0, "ant"), (100, "bee")):
            write_pictures(here / "pets" / part / name, first, count)
    return here / "pets"


def of_pets(**changes):
    return sources(
        **({"model": {"num_classes": 2}, "dataset": "pets"} | changes)
    )


def test_a_folder_of_pictures_is_a_data_set(pets):
    parts = of_pets()
    ants, bees = list(range(6)), list(range(100, 106))
    seen = numbers(parts.train, epoch=1, seed=3)
    assert seen != sorted(seen) and sorted(seen) == ants + bees
    assert numbers(parts.test) == [0, 1, 100, 101]
    assert parts.validation is None
    assert parts.train.class_names == parts.test.class_names == ("ant", "bee")
    assert (parts.dataset.name, parts.train.num_classes) == ("pets", 2)
    assert len(parts.dataset.digest) == 16


def test_a_folder_with_val_and_test_validates_on_val(pets):
    write_pictures(pets / "test/bee", 200, 1)
    parts = of_pets()
    assert numbers(parts.test) == [200]
    assert numbers(parts.validation) == [0, 1, 100, 101]
    assert len(numbers(of_pets(validation=0.5).validation)) == 6


@pytest.fixture
def damaged(pets):
    """Pictures cut by an interrupted copy: one in train/, one in val/."""
    pictures = [pets / "train/ant/5.png", pets / "val/bee/1.png"]
    for picture in pictures:
        picture.write_bytes(picture.read_bytes()[:40])
    return pictures


def test_broken_pictures_are_left_out_noted_and_listed_in_the_result(damaged):
    run = fit(configured(model={"num_classes": 2}, dataset="pets"), "run")
    result = read_file(RunFolder("run").result)
    assert run.result["status"] == result["status"] == "finished"
    dataset = result["dataset"]
    assert (dataset["num_train"], dataset["num_test"]) == (11, 3)
    names = [sentence.split(":")[0] for sentence in dataset["skipped"]]
    assert sorted(names) == [
        "cannot read train/ant/5.png",
        "cannot read val/bee/1.png",
    ]
    notes = [line["note"] for line in run.history if "note" in line]
    assert any("2 of 16 pictures are left out" in note for note in notes)
    assert "2 of 16 pictures are left out" in result["notes"]


def test_a_run_goes_on_after_its_broken_pictures_were_deleted(damaged):
    config = configured(
        model={"num_classes": 2}, dataset="pets", steps=6, batch_size=4
    )
    fit(config, "whole")
    steps = iter(range(1, 9))
    fit(config, "parted", should_stop=lambda: next(steps) == 3)
    for picture in damaged:
        picture.unlink()
    parted = fit(config, "parted").result
    assert parted["status"] == "finished"
    assert "skipped" not in parted["dataset"]
    whole, parted = (RunFolder(name).weights for name in ("whole", "parted"))
    assert whole.read_bytes() == parted.read_bytes()


def test_broken_pictures_of_folders_that_are_passed_are_listed_too(damaged):
    parts = sources(
        model={"num_classes": 2},
        given_train="pets/train",
        given_test="pets/val",
    )
    assert len(parts.dataset.skipped) == 2
    assert sum("left out" in note for note in parts.dataset.notes) == 2


def test_workers_are_for_folders(pets):
    assert of_pets(num_workers=2).train.num_workers == 2


# A folder that has no parts


@pytest.fixture
def zoo(here):
    """Class folders alone: 10 ants and 5 bees."""
    write_pictures(here / "zoo" / "ant", 0, 10)
    write_pictures(here / "zoo" / "bee", 100, 5)
    return here / "zoo"


@pytest.mark.parametrize(
    "place",
    [
        {"dataset": "mnist", "data": "zoo"},
        {"dataset": "shapes-1k", "data": "zoo"},
        {"dataset": "zoo"},
        {"given_train": "zoo"},
    ],
)
def test_class_folders_are_trained_on_whatever_the_recipe(zoo, place):
    """They were passed over for MNIST, and nothing was said."""
    parts = sources(model={"num_classes": 2}, **place)
    seen = numbers(parts.train) + numbers(parts.test)
    assert sorted(seen) == [*range(10), *range(100, 105)]
    assert len(parts.test) == 3
    assert parts.dataset.notes == (
        "zoo doesn't have train/ and val/, so 3 of its 15 pictures (20% of "
        "each class, drawn with seed 0) are held out for testing",
    )


def test_no_test_picture_is_validated_or_trained_on(zoo):
    parts = sources(
        model={"num_classes": 2}, dataset="zoo", validation=0.25, seed=3
    )
    trained, validated, tested = (
        set(numbers(part))
        for part in (parts.train, parts.validation, parts.test)
    )
    assert (len(trained), len(validated), len(tested)) == (9, 3, 3)
    assert len(trained | validated | tested) == 15


def test_nothing_is_held_out_where_test_data_are_given(zoo, pets):
    data = {"dataset": "zoo", "given_test": "pets/val"}
    parts = sources(model={"num_classes": 2}, **data)
    assert (len(parts.train), numbers(parts.test)) == (15, [0, 1, 100, 101])
    assert parts.dataset.notes == ()
    (zoo / "cat").mkdir()
    assert "no pictures in zoo/cat, so" in sentence(sources, **data)


# Data that are given


def pixels(values):
    """One image of 8x8 for each value, full of it."""
    values = torch.as_tensor(values, dtype=torch.uint8)
    return values[:, None, None, None].expand(-1, 1, 8, 8).contiguous()


PAIR = (pixels(range(30)), torch.arange(30) % 3)
OTHER = (pixels(range(100, 106)), torch.arange(6) % 3)


class Photos(Dataset):
    """Pictures that know their labels and the names of their classes."""

    classes = ("ant", "bee", "cat")

    def __init__(self, first=0, count=30, targets=True):
        self.first, self.count = first, count
        if targets:
            self.targets = [i % 3 for i in range(count)]

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        value = self.first + index
        return Image.new("L", (9, 9), value), index % 3


@pytest.mark.parametrize(
    "data",
    [
        PAIR,
        open_pair(*PAIR),
        Photos(),
        TensorDataset(*PAIR),
        Subset(Photos(), range(30)),
    ],
)
def test_a_share_of_each_class_is_held_out_of_what_is_given(here, data):
    parts = sources(given_train=data)
    tested = numbers(parts.test)
    assert [value % 3 for value in tested].count(0) == 2 and len(tested) == 6
    trained = numbers(parts.train)
    assert trained != sorted(trained)
    assert sorted(trained + tested) == list(range(30))
    [note] = parts.dataset.notes
    assert (
        "so 6 of its 30 pictures (20% of each class, drawn with seed 0)" in note
    )
    assert numbers(sources(given_train=data, seed=5).test) == tested


def test_all_parts_can_be_given(here):
    parts = sources(
        given_train=PAIR, given_validation=Photos(200, 9), given_test=OTHER
    )
    assert sorted(numbers(parts.train)) == list(range(30))
    assert numbers(parts.validation) == list(range(200, 209))
    assert numbers(parts.test) == list(range(100, 106))
    assert parts.dataset.notes == ()
    # or some, in the place of those of the configuration
    parts = sources(given_validation=OTHER)
    assert numbers(parts.validation) == list(range(100, 106))
    assert (len(parts.train), len(parts.test)) == (30, 12)


def test_max_images_takes_images_of_every_class_of_what_is_given(here):
    ordered = (PAIR[0], PAIR[1].sort().values)
    parts = sources(given_train=ordered, given_test=OTHER, max_images=3)
    assert sorted(numbers(parts.train)) == [0, 10, 20]
    assert len(parts.test) == 3


def test_a_source_of_ones_own_is_taken_as_it_is(here):
    train = as_source(PAIR, preprocess=UNCHANGED_8, shuffle=True)
    test = as_source(OTHER, preprocess=UNCHANGED_8)
    parts = sources(given_train=train, given_test=test)
    assert parts.train is train and parts.test is test
    assert parts.dataset.class_names == ("0", "1", "2")


UNCHANGED_8 = PreprocessSpec(image_size=8, in_channels=1, mean=0.0, std=1 / 255)


def a_loader(images=PAIR):
    return DataLoader(TensorDataset(*images), batch_size=5, shuffle=True)


@pytest.mark.parametrize(
    "data",
    [
        as_source(PAIR, preprocess=UNCHANGED_8),
        a_loader(),
        from_torch(Photos(targets=False)),
    ],
    ids=["source", "loader", "dataset"],
)
def test_where_only_reading_tells_the_labels_a_test_part_is_asked_for(
    here, data
):
    with pytest.raises(
        UserError, match=r"known only when it is read, .*test=.* targets"
    ):
        sources(given_train=data)
    with pytest.raises(
        UserError, match=r"known only when it is read.* validation="
    ):
        sources(given_train=data, given_test=OTHER, validation=0.1)
    assert len(sources(given_train=data, given_test=OTHER).train) == 30


class Untold(Photos):
    """A data set that tells neither classes nor labels before it is read."""

    classes = None


def test_the_models_classes_are_taken_where_the_data_tell_none(here):
    untold = Untold(targets=False)
    parts = sources(given_train=untold, given_test=OTHER)
    assert parts.train.class_names == ("0", "1", "2")
    with pytest.raises(
        UserError, match=r"doesn't keep its labels.*attribute targets"
    ):
        data_classes(configured(), untold)


def test_folders_given_as_parts_are_matched_by_name(pets):
    """A test part may lack a class, and then counts the others from 0."""
    write_pictures(pets / "test/bee", 200, 1)
    parts = sources(
        model={"num_classes": 2},
        given_train="pets/train",
        given_test="pets/test",
    )
    assert numbers(parts.test) == [200]
    [(_, labels)] = parts.test.batches(epoch=0, seed=0, batch_size=4)
    assert labels.tolist() == [1]
    (pets / "test/bee").rename(pets / "test/cow")
    with pytest.raises(UserError, match=r"for 1 folder .cow.; .* ant, bee"):
        sources(
            model={"num_classes": 2},
            given_train="pets/train",
            given_test="pets/test",
        )


def turned(picture):
    return picture.point(lambda value: 255 - value)


@pytest.mark.parametrize("place", [{}, {"given_train": Photos()}])
def test_a_function_takes_the_place_of_the_configured_augmentation(here, place):
    parts = sources(augment=Augment(jitter=0.9), given_augment=turned, **place)
    seen = numbers(parts.train) + [255 - value for value in numbers(parts.test)]
    assert min(seen) > 100
    assert isinstance(parts.train, ImageSource)
    assert parts.train.augment is turned and parts.test.augment is None


def test_from_trained_weights_on_named_sets_are_resized_too(here):
    model = {"image_size": 16, "in_channels": 3}
    parts = sources(model=model, weights="ViT-Ti/16")
    [(images, _)] = parts.test.batches(epoch=0, seed=0, batch_size=99)
    assert images.shape == (12, 3, 16, 16)
    assert isinstance(sources(weights="ViT-Ti/16").test, ArraySource)


def test_a_digest_follows_the_data(here):
    def digest(**given):
        return sources(**given).dataset.digest

    first = digest(given_train=PAIR)
    assert len(first) == 16
    assert digest(given_train=PAIR) == first
    changed = PAIR[0].clone()
    changed[3, 0, 0, 0] += 1
    others = [
        digest(given_train=(changed, PAIR[1])),
        digest(given_train=(PAIR[0], PAIR[1].flip(0))),
        digest(given_train=PAIR, given_test=OTHER),
        digest(given_train=Photos()),
        digest(given_train=Photos(count=33)),
        digest(),
        digest(given_test=OTHER),
    ]
    assert len({first, *others}) == 8


# Their classes


def test_the_classes_are_known_before_anything_is_read(pets, zoo):
    def classes(train=None, **fields):
        return data_classes(configured(**fields), train)

    digits = tuple("0123456789")
    assert classes() == ("0", "1", "2")
    assert classes(dataset="mnist") == classes(dataset="digits") == digits
    assert classes(dataset="cifar10")[0] == "airplane"
    assert classes(dataset="mnist", data="set.npz") == ("0", "1", "2")
    assert classes(dataset="pets") == ("ant", "bee")
    assert classes(dataset="mnist", data="zoo") == ("ant", "bee")
    assert classes(dataset="shapes-1k", model={"num_classes": 5}) == (
        sources(
            dataset="shapes-1k",
            model={"num_classes": 5, "in_channels": 3, "image_size": 16},
        ).train.class_names
    )
    assert classes(PAIR) == classes(a_loader()) == ("0", "1", "2")
    assert classes(Photos()) == ("ant", "bee", "cat")
    assert classes(load_dataset("digits").train) == digits


# What doesn't fit


class Alone(Photos):
    """Photographs of one class."""

    classes = ("ant",)

    def __init__(self):
        super().__init__()
        self.targets = [0] * len(self)


class Others(Photos):
    """Photos with their classes in another order."""

    classes = ("ant", "cat", "bee")


FROM_1 = PAIR[0], [1 + label for label in PAIR[1]]
WRONG = {
    "too-few-classes": (
        {"model": {"num_classes": 4}},
        r"set.npz has 3 classes, the model 4; set model\.num_classes=3$",
    ),
    "too-few-classes-given": (
        {"model": {"num_classes": 4}, "given_train": Photos()},
        r"Photos has 3 classes, the model 4; .*num_classes=3",
    ),
    "one-class": (
        {"model": {"num_classes": 1}, "given_train": Alone()},
        "Alone has only one class, ant",
    ),
    "labels-from-1": (
        {"model": {"num_classes": 4}, "given_train": FROM_1},
        "labels up to 3, but no image to train on has the label 0; number",
    ),
    "few-labels-from-1": (
        {"dataset": "from1.npz", "max_images": 6, "model": {"num_classes": 4}},
        "labels up to 3, but no image to train on has the label 0; number",
    ),
    "size": (
        {"model": {"image_size": (12, 8)}},
        "are 8x8, the model wants 12x8",
    ),
    "channels": (
        {"model": {"in_channels": 3}},
        "in_channels=1, the model wants 3",
    ),
    "empty-part": ({"validation": 0.01}, "leaves one part empty"),
    "missing-file": ({"dataset": "nothing.npz"}, r"nothing\.npz"),
    "missing-folder": (
        {"dataset": "imagenet", "data": "gone"},
        "there is no folder 'gone'",
    ),
    "unknown": ({"dataset": "imagenet"}, r"'imagenet' .*data=FOLDER"),
    "two-validations": (
        {"given_train": PAIR, "given_validation": OTHER, "validation": 0.1},
        "leave one of them out",
    ),
    "part-of-a-loader": (
        {"given_train": a_loader(), "given_test": OTHER, "max_images": 3},
        r"no part of it can be taken; .* max_images",
    ),
    "other-classes": (
        {"given_train": Photos(), "given_test": Others()},
        "has the classes ant, cat, bee, but ant, bee, cat are",
    ),
    "other-labels": (
        {"given_train": PAIR, "given_test": (PAIR[0], [7] * 30)},
        "the label 7, but there are 3 classes",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_one_sentence(pets, name):
    changes, sentence = WRONG[name]
    with pytest.raises(UserError, match=sentence):
        sources(**changes)
    if name in ("missing-file", "missing-folder", "unknown"):
        with pytest.raises(UserError, match=sentence):
            data_classes(configured(**changes))


def test_a_class_without_images_may_be_meant(here):
    given = TensorDataset(PAIR[0], PAIR[1] + 1)
    given = from_torch(given, num_classes=4)
    parts = sources(given_train=given, model={"num_classes": 4})
    assert parts.train.num_classes == 4


# --- workers


def test_on_a_gpu_processes_read_files_of_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    Image.new("RGB", (9, 9)).save(tmp_path / "0.png")
    paths = [tmp_path / "0.png"] * 640
    files = Split("files", FileReader(paths), torch.arange(640) % 3)
    arrays = open_pair(np.zeros((640, 8, 8), np.uint8), np.arange(640) % 3)
    foreign = from_torch([(paths[0], 0), (paths[0], 1)] * 320)
    gpu, config = torch.device("cuda"), configured()
    assert workers_of(files, config, gpu) == 4
    assert workers_of(files.first(130), config, gpu) == 2
    assert workers_of(files, config, CPU) == 0
    assert workers_of(arrays, config, gpu) == 0
    assert workers_of(foreign, config, gpu) == 0
    asked = replace(config, num_workers=3)
    assert workers_of(files, asked, CPU) == 3


def test_what_the_machine_decides_is_stored(here):
    fit(configured(), "run")
    kept = RunFolder("run").read_config()
    assert (kept.num_workers, kept.precision) == (0, "fp32")


def test_a_run_goes_on_in_the_precision_that_it_began_with(here):
    config = configured(steps=4)
    bf16 = replace(config, precision="bf16")
    fit(bf16, "run", should_stop=iter([False, True]).__next__)
    run = fit(config, "run")
    assert run.result["config"]["precision"] == "bf16"
    assert equal(run.model, fit(bf16).model)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_what_a_gpu_decides_is_said(here):
    notes = fit(configured(num_workers=0)).result["notes"]
    assert "chosen for this machine: precision=bf16" in notes
