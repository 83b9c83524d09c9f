"""Data of one's own as a source: each kind gives what the model wants."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close
from torch.utils.data import DataLoader, Dataset, IterableDataset

from vitedu.data import (
    Augment,
    ImageSource,
    PreprocessSpec,
    Source,
    as_source,
    find_images,
    load_dataset,
    load_folder,
    normalise,
    read_image,
)
from vitedu.data.open import holds_pictures
from vitedu.errors import UserError

SPEC = PreprocessSpec(image_size=(6, 8))
RAW = PreprocessSpec(image_size=(6, 8), mean=0.0, std=1 / 255)  # 0..255
LABELS = [0, 1, 2, 0, 1]
# five pictures of the model's size and five of another
PIXELS = np.random.RandomState(0).randint(0, 256, (5, 6, 8, 3), np.uint8)
LARGE = np.random.RandomState(1).randint(0, 256, (5, 16, 12, 3), np.uint8)


def everything(source, **options):
    options = {"epoch": 0, "seed": 0, "batch_size": 2} | options
    batches = list(source.batches(**options))
    return tuple(torch.cat([batch[i] for batch in batches]) for i in (0, 1))


def prepared(pictures, spec=SPEC):
    """What evaluation feeds for these pictures."""
    return normalise(torch.stack([read_image(p, spec) for p in pictures]), spec)


class Photos(Dataset):
    """Pictures (any kind) in a list, and their labels."""

    def __init__(self, pictures, transform=None, labels=LABELS):
        self.pictures, self.targets = list(pictures), list(labels)
        self.transform = transform

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        picture = self.pictures[index]
        if self.transform is not None:
            picture = self.transform(picture)
        return picture, self.targets[index]


@pytest.fixture
def folder(tmp_path):
    for index, (pixels, label) in enumerate(zip(LARGE, LABELS, strict=True)):
        path = tmp_path / "photos" / "abc"[label] / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return tmp_path / "photos"


# Kinds


def test_a_folder_of_class_folders_is_a_source(folder):
    source = as_source(str(folder), preprocess=SPEC)
    assert isinstance(source, Source)
    assert (len(source), source.class_names) == (5, ("a", "b", "c"))
    images, labels = everything(source)
    assert labels.tolist() == [0, 0, 1, 1, 2]
    want = prepared([LARGE[i] for i in (0, 3, 1, 4, 2)])
    assert_close(images, want, rtol=0, atol=0)


def test_a_warning_names_what_is_left_out_of_a_folder(folder):
    (folder / "a/0.png").write_bytes(b"no picture")
    with pytest.warns(
        UserWarning, match=r"photos: 1 of 5 pictures is left out: .* a/0\.png"
    ) as caught:
        source = as_source(folder, preprocess=SPEC)
    (warning,) = caught
    assert warning.filename == __file__
    assert len(source) == len(everything(source)[1]) == 4
    # they name it themselves
    as_source(find_images(folder), preprocess=SPEC)


@pytest.mark.parametrize(
    "labels", [LABELS, np.array(LABELS), torch.tensor(LABELS)]
)
@pytest.mark.parametrize("pixels", [PIXELS, LARGE], ids=["fits", "resized"])
def test_arrays_in_memory_are_a_source(pixels, labels):
    source = as_source((pixels, labels), preprocess=SPEC)
    assert source.class_names == ("0", "1", "2")
    images, numbers = everything(source)
    assert_close(images, prepared(pixels), rtol=0, atol=0)
    assert numbers.tolist() == LABELS


@pytest.mark.parametrize(
    "grey", [LARGE[..., 0], LARGE[..., :1], torch.from_numpy(LARGE[..., 0])]
)
def test_grey_becomes_what_the_model_wants(grey):
    images, _ = everything(as_source((grey, LABELS), preprocess=SPEC))
    assert_close(images, prepared(LARGE[..., 0]), rtol=0, atol=0)


def test_arrays_of_another_size_are_resized_for_the_model():
    digits = load_dataset("digits").test
    source = as_source(digits, preprocess=SPEC)
    images, _ = next(source.batches(epoch=0, seed=0, batch_size=3))
    want = prepared([digits.images[i, 0].numpy() for i in range(3)])
    assert_close(images, want, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_floats_are_fed_as_they_are(kind):
    images = kind(prepared(PIXELS).double().numpy())
    got, _ = everything(as_source((images, LABELS), preprocess=SPEC))
    assert_close(got, prepared(PIXELS), rtol=0, atol=0)


PICTURES = {
    "pillow": lambda folder: [Image.fromarray(pixels) for pixels in LARGE],
    "arrays": lambda folder: list(LARGE),
    "tensors": lambda folder: [
        torch.from_numpy(pixels).permute(2, 0, 1) for pixels in LARGE
    ],
    "paths": lambda folder: [
        folder / "abc"[label] / f"{i}.png" for i, label in enumerate(LABELS)
    ],
    "encoded": lambda folder: [
        (folder / "abc"[label] / f"{i}.png").read_bytes()
        for i, label in enumerate(LABELS)
    ],
    "floats": lambda folder: list(prepared(LARGE)),
}


@pytest.mark.parametrize(
    "num_workers", [0, pytest.param(2, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", PICTURES)
def test_a_torch_dataset_is_a_source(folder, name, num_workers):
    photos = Photos(PICTURES[name](folder))
    source = as_source(photos, preprocess=SPEC, num_workers=num_workers)
    assert (len(source), source.num_classes) == (5, 3)
    images, labels = everything(source)
    assert_close(images, prepared(LARGE), rtol=0, atol=0)
    assert labels.tolist() == LABELS


def test_a_list_of_pictures_with_labels_is_a_source(folder):
    pairs = list(zip(PICTURES["paths"](folder), LABELS, strict=True))
    images, labels = everything(as_source(pairs, preprocess=SPEC))
    assert_close(images, prepared(LARGE), rtol=0, atol=0)
    assert labels.tolist() == LABELS


@pytest.mark.parametrize("is_prepared", [False, True])
def test_torchvisions_folder_with_and_without_our_transform(
    folder, is_prepared
):
    from vitedu.compat import import_torchvision

    import_torchvision()
    from torchvision.datasets import ImageFolder

    photos = ImageFolder(folder, transform=SPEC if is_prepared else None)
    source = as_source(photos, preprocess=SPEC)
    assert source.class_names == ("a", "b", "c")
    ours = as_source(folder, preprocess=SPEC)
    assert torch.equal(everything(source)[0], everything(ours)[0])


def test_a_source_is_returned_as_it_is(folder):
    source = ImageSource(find_images(folder), SPEC)
    assert as_source(source, preprocess=RAW, shuffle=True) is source


class OwnSource:
    """What anybody may write."""

    num_classes, class_names = 2, ("ant", "bee")

    def __len__(self):
        return 3

    def batches(self, *, epoch, seed, batch_size, start=0, rank=0, world=1):
        yield torch.zeros(3, 3, 6, 8), torch.tensor([0, 1, 0])


def test_a_class_with_the_four_members_is_a_source():
    source = OwnSource()
    assert isinstance(source, Source)
    assert as_source(source, preprocess=SPEC) is source


# Drawing


def drawn(picture):
    """A transform that draws from all three of Python's usual generators."""
    light = random.random() + np.random.rand() + torch.rand(()).item()
    return picture.point(lambda value: value * light / 3)


def own_draws(**options):
    photos = Photos(map(Image.fromarray, LARGE), transform=drawn)
    return as_source(photos, preprocess=SPEC, shuffle=True, **options)


def given_draws(**options):
    photos = Photos(map(Image.fromarray, LARGE))
    options = {"augment": drawn, "shuffle": True} | options
    return as_source(photos, preprocess=SPEC, **options)


@pytest.mark.parametrize("make", [own_draws, given_draws])
@pytest.mark.parametrize(
    "num_workers", [0, pytest.param(2, marks=pytest.mark.slow)]
)
def test_what_a_function_draws_is_decided_by_seed_epoch_and_index(
    make, num_workers
):
    want = everything(make(), epoch=1, seed=2, batch_size=5)
    source = make(num_workers=num_workers)
    got = everything(source, epoch=1, seed=2, batch_size=2)
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])
    rest = everything(source, epoch=1, seed=2, batch_size=2, start=1)
    assert torch.equal(rest[0], want[0][2:])
    other = everything(source, epoch=2, seed=2, batch_size=5)
    assert not torch.equal(other[0].sum((1, 2, 3)), want[0].sum((1, 2, 3)))


def test_a_function_gets_the_picture_in_its_full_size_and_colours(folder):
    seen = []

    def note(picture):
        seen.append((picture.size, picture.mode))
        return picture.rotate(180)

    for data in (folder, (LARGE, LABELS), Photos(LARGE)):
        source = as_source(data, preprocess=SPEC, augment=note)
        images, _ = everything(source)
        order = [0, 3, 1, 4, 2] if data == folder else range(5)
        want = prepared([LARGE[i, ::-1, ::-1] for i in order])
        assert_close(images, want, rtol=0, atol=0)
    assert set(seen) == {((12, 16), "RGB")}


def test_a_function_works_on_arrays_of_the_models_size_too():
    source = as_source(
        (PIXELS, LABELS), preprocess=SPEC, augment=lambda p: p.rotate(180)
    )
    want = prepared(PIXELS[:, ::-1, ::-1])
    assert_close(everything(source)[0], want, rtol=0, atol=0)


@pytest.mark.parametrize("data", [(LARGE, LABELS), Photos(LARGE)])
def test_our_own_augmentation_works_on_every_kind(data):
    options = {"preprocess": SPEC, "augment": Augment(crop=0.3, erase=0.5)}
    first, again = (everything(as_source(data, **options))[0] for _ in "ab")
    assert torch.equal(first, again)
    assert not torch.equal(first, prepared(LARGE))


class Reusing(Photos):
    """A data set that puts each picture where the one before was."""

    def __getitem__(self, index):
        buffer = self.__dict__.setdefault("buffer", LARGE[0].copy())
        buffer[:] = self.pictures[index]
        return buffer, self.targets[index]


def test_a_data_set_may_use_its_memory_again_for_the_next_picture():
    options = {"preprocess": SPEC, "augment": Augment(crop=0.3, flip=True)}
    want, _ = everything(as_source(Photos(LARGE), **options))
    found, _ = everything(as_source(Reusing(LARGE), **options))
    assert torch.equal(found, want)


def test_augmentation_that_is_off_changes_nothing():
    source = as_source((LARGE, LABELS), preprocess=SPEC, augment=Augment())
    assert torch.equal(everything(source)[0], prepared(LARGE))


# What does not fit


def once():
    yield torch.zeros(1, 3, 6, 8), torch.tensor([0])


class Endless(IterableDataset):
    def __iter__(self):
        return once()


FLOATS = np.zeros((5, 3, 6, 8), np.float32)


def test_an_empty_folder_holds_no_pictures(folder, tmp_path):
    (tmp_path / "empty/class").mkdir(parents=True)
    (tmp_path / "empty/loose.png").touch()  # in no class
    assert holds_pictures(folder) and not holds_pictures(tmp_path / "empty")


def test_a_folder_with_parts_asks_for_one(folder):
    folder.rename(folder.parent / "train")
    with pytest.raises(UserError, match=r"several parts; give one .*/train$"):
        as_source(folder.parent, preprocess=SPEC)
    (folder.parent / "val").symlink_to(folder.parent / "train")
    with pytest.raises(UserError, match=r"parts; give one of them, \.train"):
        as_source(load_folder(folder.parent), preprocess=SPEC)


class Nameless(Photos):
    """A dataset that tells nothing before it is read."""

    def __init__(self, pictures):
        super().__init__(pictures)
        self.numbers = self.targets
        del self.targets

    def __getitem__(self, index):
        return self.pictures[index], self.numbers[index]


def test_a_dataset_that_does_not_tell_its_classes_is_asked_for_them():
    with pytest.raises(
        UserError, match=r"Nameless doesn't keep its labels, .* num_classes="
    ):
        as_source(Nameless(LARGE), preprocess=SPEC)
    source = as_source(Nameless(LARGE), preprocess=SPEC, num_classes=3)
    assert source.class_names == ("0", "1", "2")
    assert everything(source)[1].tolist() == LABELS


@pytest.mark.parametrize(
    "num_workers", [0, pytest.param(1, marks=pytest.mark.slow)]
)
def test_a_label_without_a_class_is_found_when_it_is_read(num_workers):
    source = as_source(
        Nameless(LARGE), preprocess=SPEC, num_classes=2, num_workers=num_workers
    )
    with pytest.raises(UserError, match=r"Nameless\[2\] has the label 2, but"):
        everything(source)


def loader_of(pictures):
    """A loader that cuts its pictures into pairs."""
    return DataLoader(Photos(pictures), batch_size=2)


def test_floats_from_0_to_1_are_right_for_a_model_that_wants_them():
    spec = PreprocessSpec(image_size=(6, 8), mean=0.0, std=1.0)
    floats = torch.from_numpy(PIXELS).permute(0, 3, 1, 2) / 255
    images, _ = everything(as_source((floats, LABELS), preprocess=spec))
    assert torch.equal(images, floats)


@pytest.mark.parametrize("batch_size", [1, 3, 5])
@pytest.mark.parametrize("make", [Photos, loader_of])
def test_raw_floats_are_found_however_small_the_batches_are(make, batch_size):
    floats = torch.from_numpy(PIXELS).permute(0, 3, 1, 2) / 255
    source = as_source(make(floats), preprocess=SPEC)
    with pytest.raises(UserError, match=r"in 0.*\.\.1, .*check_range=False"):
        everything(source, batch_size=batch_size)


@pytest.mark.parametrize(
    "make", [Photos, loader_of, lambda floats: (floats, LABELS)]
)
def test_pictures_that_are_all_bright_can_be_declared_right(make):
    bright = prepared(PIXELS // 2 + 128)
    with pytest.raises(UserError, match="check_range=False"):
        everything(as_source(make(bright), preprocess=SPEC))
    source = as_source(make(bright), preprocess=SPEC, check_range=False)
    assert torch.equal(everything(source)[0], bright)


def test_a_damaged_picture_of_a_dataset_is_named(folder):
    path = folder / "a" / "0.png"
    path.write_bytes(b"no picture at all")
    pairs = [(Path(path), 0)] * 3
    with pytest.raises(UserError, match=r"0\.png: it is not a picture"):
        everything(as_source(pairs, preprocess=SPEC))
