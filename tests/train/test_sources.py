"""The parts of a data set as a run uses them."""

import numpy as np
import pytest
import torch
from PIL import Image

from vitedu.data import Augment, PreprocessSpec
from vitedu.errors import UserError
from vitedu.model import ViTConfig
from vitedu.train.config import TrainConfig
from vitedu.train.sources import open_sources

CPU = torch.device("cpu")
UNCHANGED = PreprocessSpec(
    mean=0.0, std=1 / 255
)  # the model sees pixels in 0..255


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a set of 30 + 12 images of three classes, pixel 0, 0 its number."""
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
    return tmp_path


def sources(model=None, **changes):
    fields = {
        "image_size": 8,
        "patch_size": 4,
        "in_channels": 1,
        "num_classes": 3,
    }
    sizes = {"embed_dim": 8, "depth": 1, "num_heads": 2, "mlp_dim": 16}
    config = TrainConfig(
        **{"recipe": "test", "tier": "cpu", "dataset": "set.npz", "steps": 1}
        | {"model": ViTConfig(**(fields | sizes | (model or {})))}
        | {"preprocess": UNCHANGED}
        | changes,
    )
    return open_sources(config, CPU)


def numbers(source, **options):
    """The number of each image, in the order in which the source yields them."""
    batches = source.batches(batch_size=4, **options)
    return [
        round(float(image[0, 0, 0]))
        for images, _ in batches
        for image in images
    ]


def test_training_images_come_shuffled_and_all_of_them(here):
    seen = numbers(sources().train)
    assert seen != sorted(seen)
    assert sorted(seen) == list(range(30))


def test_test_images_come_in_order_and_all_of_them(here):
    assert numbers(sources().test) == list(range(100, 112))


def test_without_a_share_there_is_no_validation(here):
    assert sources().validation is None


def test_validation_is_held_out_of_the_training_images(here):
    parts = sources(validation=0.3)
    held_out, trained = numbers(parts.validation), numbers(parts.train)
    assert len(held_out) == 9
    assert sorted(held_out + trained) == list(range(30))


def test_validation_has_every_class_alike(here):
    held_out = sources(validation=0.3).validation
    assert held_out.labels.bincount().tolist() == [3, 3, 3]


def test_validation_is_the_same_for_every_seed(here):
    assert numbers(sources(validation=0.3, seed=0).validation) == numbers(
        sources(validation=0.3, seed=1).validation
    )


def test_only_training_images_are_augmented(here):
    parts = sources(validation=0.3, augment=Augment(shift=1))
    assert numbers(parts.test) == list(range(100, 112))
    assert len(set(numbers(parts.validation))) == 9
    # a shift moves the number away from its corner in 8 of 9 draws
    assert numbers(parts.train).count(0) > 10


def test_max_images_cuts_both_parts(here):
    parts = sources(max_images=10)
    assert sorted(numbers(parts.train)) == list(range(10))
    assert numbers(parts.test) == list(range(100, 110))


def test_max_images_above_what_there_is_takes_all(here):
    parts = sources(max_images=1000)
    assert (len(parts.train), len(parts.test)) == (30, 12)


def test_validation_is_taken_from_what_max_images_leaves(here):
    parts = sources(max_images=10, validation=0.3)
    assert sorted(numbers(parts.train) + numbers(parts.validation)) == list(
        range(10)
    )


def test_the_names_of_the_classes_reach_every_part(here):
    parts = sources(validation=0.3)
    for part in (parts.train, parts.validation, parts.test):
        assert part.class_names == ("0", "1", "2")


@pytest.mark.parametrize("num_classes", [0, 2, 4])
def test_another_number_of_classes_is_one_sentence(here, num_classes):
    with pytest.raises(
        UserError, match=r"has 3 classes, .* model\.num_classes=3"
    ):
        sources(model={"num_classes": num_classes})


def test_another_image_size_is_one_sentence(here):
    with pytest.raises(UserError, match="are 8x8, the model wants 12x8"):
        sources(model={"image_size": (12, 8)})


def test_another_number_of_channels_is_one_sentence(here):
    with pytest.raises(UserError, match="have 1 channels, the model wants 3"):
        sources(model={"in_channels": 3})


def test_a_share_that_leaves_no_image_is_one_sentence(here):
    with pytest.raises(UserError, match="leaves one part empty"):
        sources(validation=0.01)


def test_a_missing_set_is_one_sentence(here):
    with pytest.raises(UserError, match="pass fallback=digits"):
        sources(dataset="mnist")


def test_a_missing_file_is_one_sentence(here):
    with pytest.raises(UserError, match=r"nothing\.npz"):
        sources(dataset="nothing.npz")


def test_digits_stand_in_only_where_asked_for(here):
    model = {"image_size": 28, "num_classes": 10}
    parts = sources(model=model, dataset="mnist", fallback="digits")
    assert (parts.dataset.name, parts.dataset.requested) == ("digits", "mnist")


def test_shapes_are_made_for_the_model(here):
    model = {"image_size": (16, 20), "in_channels": 3, "num_classes": 5}
    parts = sources(model=model, dataset="shapes-1k", max_images=20)
    assert parts.train.images.shape == (20, 3, 16, 20)
    assert parts.train.num_classes == 5


@pytest.fixture
def pets(here):
    """The folder pets/: 12 + 4 pictures of two classes, one value each."""
    for part, count in (("train", 6), ("val", 2)):
        for first, name in ((0, "ant"), (100, "bee")):
            for i in range(count):
                path = here / "pets" / part / name / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("L", (9, 9), first + i).save(path)
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


def test_data_says_where_the_folder_of_a_named_set_is(pets):
    parts = of_pets(dataset="imagenet", data=str(pets))
    assert (parts.dataset.name, len(parts.train)) == ("pets", 12)


def test_a_share_of_a_folder_is_held_out(pets):
    parts = of_pets(validation=0.5)
    held_out, trained = numbers(parts.validation), numbers(parts.train)
    assert len(held_out) == 6
    assert sorted(held_out + trained) == [*range(6), *range(100, 106)]


def test_a_folder_with_val_and_test_validates_on_val(pets):
    (pets / "test/bee").mkdir(parents=True)
    Image.new("L", (9, 9), 200).save(pets / "test/bee/x.png")
    parts = of_pets()
    assert numbers(parts.test) == [200]
    assert numbers(parts.validation) == [0, 1, 100, 101]
    assert len(numbers(of_pets(validation=0.5).validation)) == 6


def test_max_images_takes_pictures_of_every_class(pets):
    parts = of_pets(max_images=2)
    assert sorted(numbers(parts.train)) == [0, 100]
    assert numbers(parts.test) == [0, 100]


def test_only_pictures_to_train_on_are_augmented(pets):
    parts = of_pets(validation=0.5, augment=Augment(jitter=0.9))
    assert parts.train.augment and not parts.test.augment
    assert numbers(parts.test) == [0, 1, 100, 101]
    assert all(
        value in (*range(6), *range(100, 106))
        for value in numbers(parts.validation)
    )


def test_workers_are_for_folders(pets):
    assert of_pets(num_workers=2).train.num_workers == 2
    with pytest.raises(UserError, match=r"lives on the device .* at 0"):
        sources(num_workers=2)


def test_a_folder_with_another_number_of_classes_is_one_sentence(pets):
    with pytest.raises(
        UserError, match=r"pets has 2 classes, .* model\.num_classes=2"
    ):
        of_pets(model={"num_classes": 3})


def test_a_folder_that_is_not_there_is_one_sentence(here):
    with pytest.raises(UserError, match="there is no folder 'gone'"):
        sources(dataset="imagenet", data="gone")
    with pytest.raises(UserError, match=r"'imagenet' .*data=FOLDER"):
        sources(dataset="imagenet")
