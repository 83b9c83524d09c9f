"""A folder of one's own: its parts, its classes, and its pictures in training."""

import multiprocessing
import os
import signal

import numpy as np
import pytest
import torch
from PIL import Image

from vitedu import UserError
from vitedu.data import (
    Augment,
    ImageSource,
    PreprocessSpec,
    evaluation_part,
    find_images,
    folder_of,
    load_folder,
)
from vitedu.data.folders import split_pictures, spread

SPEC = PreprocessSpec(image_size=8, mean=0.0, std=1 / 255)
AUGMENT = Augment(crop=0.3, flip=True, rotate=9, rand_layers=1, erase=0.5)


def write(path, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((10, 12, 3), value, np.uint8)
    pixels[::2] = 255 - value
    Image.fromarray(pixels).save(path)


@pytest.fixture
def folder(tmp_path):
    """9 + 6 pictures of three classes; each its own shade."""
    for part, count in (("train", 3), ("val", 2)):
        for index, name in enumerate(("ant", "bee", "cat")):
            for i in range(count):
                path = tmp_path / "pets" / part / name / f"{i}.png"
                write(path, 10 * index + i)
    return tmp_path / "pets"


def test_the_parts_are_class_folders_numbered_alike(folder):
    pets = load_folder(folder)
    assert (pets.name, pets.class_names) == ("pets", ("ant", "bee", "cat"))
    assert pets.train.labels == (0, 0, 0, 1, 1, 1, 2, 2, 2)
    assert pets.test.labels == (0, 0, 1, 1, 2, 2)
    assert pets.validation is None


def test_a_class_may_be_missing_from_a_later_part(folder):
    for path in (folder / "val/ant").iterdir():
        path.unlink()
    (folder / "val/ant").rmdir()
    assert load_folder(folder).test.labels == (1, 1, 2, 2)


def test_with_val_and_test_one_validates_and_one_tests(folder):
    write(folder / "test/bee/x.png")
    pets = load_folder(folder)
    assert (len(pets.validation.paths), pets.test.labels) == (6, (1,))


def test_test_alone_tests(folder):
    (folder / "val").rename(folder / "test")
    pets = load_folder(folder)
    assert (pets.validation, len(pets.test.paths)) == (None, 6)


def test_the_digest_follows_names_and_sizes_and_not_the_place(folder, tmp_path):
    first = load_folder(folder).digest
    assert load_folder(folder.rename(tmp_path / "moved")).digest == first
    write(tmp_path / "moved/val/ant/more.png")
    assert load_folder(tmp_path / "moved").digest != first


def test_a_strange_class_is_named(folder):
    write(folder / "val/dog/x.png")
    with pytest.raises(
        UserError, match=r"val has the class 'dog', .* ant, bee"
    ):
        load_folder(folder)


@pytest.mark.parametrize(
    ("take", "sentence"),
    [
        ("train", "pets has no train/; a folder to train on holds train/"),
        ("val", "has train/, but neither val/ nor test/"),
    ],
)
def test_a_missing_part_is_named(folder, take, sentence):
    (folder / take).rename(folder / "elsewhere")
    with pytest.raises(UserError, match=sentence):
        load_folder(folder)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UserError, match=r"there is no folder '.*gone'"):
        load_folder(tmp_path / "gone")


def test_known_names_are_never_folders(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    folder.rename("mnist")
    assert folder_of("mnist") is folder_of("mnist", "elsewhere") is None
    assert folder_of("shapes-10k") is folder_of("set.npz") is None
    assert folder_of("anything", "set.npz") is None


def test_a_folder_is_named_by_itself_or_by_data(folder, monkeypatch):
    assert folder_of(str(folder)) == folder
    assert folder_of("imagenet", str(folder)) == folder
    assert folder_of("imagenet", "gone").name == "gone"  # said when opened
    assert folder_of("imagenet") is None


def test_the_part_to_test_on_is_found(folder):
    assert evaluation_part(folder) == folder / "val"
    assert evaluation_part(folder / "val") == folder / "val"
    write(folder / "test/bee/x.png")
    assert evaluation_part(folder) == folder / "test"


def test_a_few_pictures_are_of_every_class(folder):
    train = load_folder(folder).train
    assert spread(train, 3).labels == (0, 1, 2)
    assert len(spread(train, 5).paths) == 5
    assert spread(train, 100) == train


def test_a_share_is_held_out_of_every_class(folder):
    train = load_folder(folder).train
    kept, held_out = split_pictures(train, 0.3, seed=0)
    assert held_out.labels == (0, 1, 2)
    assert sorted(kept.paths + held_out.paths) == list(train.paths)


def feed(folder, **options):
    options = {"augment": AUGMENT, "shuffle": True} | options
    return ImageSource(find_images(folder / "train"), SPEC, **options)


def everything(batches):
    batches = list(batches)
    return tuple(torch.cat([batch[i] for batch in batches]) for i in (0, 1))


@pytest.fixture(scope="module")
def one_epoch(tmp_path_factory):
    """A folder of 9 pictures, and what an epoch in one batch gives of it."""
    root = tmp_path_factory.mktemp("pets")
    for index, name in enumerate(("ant", "bee", "cat")):
        for i in range(3):
            write(root / "train" / name / f"{i}.png", 60 * index + 15 * i)
    return root, everything(feed(root).batches(epoch=1, seed=2, batch_size=9))


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_sample_does_not_depend_on_the_batch_size(one_epoch, batch_size):
    root, want = one_epoch
    got = everything(feed(root).batches(epoch=1, seed=2, batch_size=batch_size))
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])


def test_a_sample_does_not_depend_on_the_workers(one_epoch):
    root, want = one_epoch
    source = feed(root, num_workers=2)
    got = everything(source.batches(epoch=1, seed=2, batch_size=2))
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])


@pytest.mark.parametrize("start", [1, 2, 3])
def test_a_resumed_epoch_goes_on_with_the_same_batches(one_epoch, start):
    root, want = one_epoch
    rest = list(feed(root).batches(epoch=1, seed=2, batch_size=4, start=start))
    assert len(rest) == 3 - start
    for number, (images, labels) in enumerate(rest, start):
        assert torch.equal(images, want[0][4 * number : 4 * number + 4])
        assert torch.equal(labels, want[1][4 * number : 4 * number + 4])


def test_processes_share_the_batch_that_one_would_have(one_epoch):
    root, want = one_epoch
    for rank in range(2):
        batches = list(
            feed(root).batches(
                epoch=1, seed=2, batch_size=4, rank=rank, world=2
            )
        )
        # the last batch has one picture: none is left for the second process
        assert [len(labels) for _, labels in batches] == [2, 2, 1 - rank]
        assert batches[-1][0].shape[1:] == (3, 8, 8)
        got = torch.cat([images for images, _ in batches])
        places = [i for i in range(9) if i % 4 % 2 == rank]
        assert torch.equal(got, want[0][places])


def test_epoch_and_seed_change_the_order_and_the_pictures(one_epoch):
    root, _ = one_epoch
    for options in ({"augment": None}, {"shuffle": False}):
        first, again, epoch, seed = (
            everything(
                feed(root, **options).batches(epoch=e, seed=s, batch_size=9)
            )[0]
            for e, s in ((0, 0), (0, 0), (1, 0), (0, 1))
        )
        assert torch.equal(first, again)
        assert not torch.equal(first, epoch)
        assert not torch.equal(first, seed)


def test_without_augmentation_pictures_are_those_of_evaluation(one_epoch):
    root, _ = one_epoch
    plain = ImageSource(find_images(root / "train"), SPEC)
    for augment in (None, Augment()):
        source = feed(root, augment=augment, shuffle=False)
        assert torch.equal(
            everything(source.batches(batch_size=4))[0],
            everything(plain.batches(batch_size=9))[0],
        )


def test_erased_pictures_hold_zeros_after_the_normalisation(one_epoch):
    root, _ = one_epoch
    spec = PreprocessSpec(image_size=8, mean=0.31, std=0.2)  # no pixel gives 0
    pictures = find_images(root / "train")
    source = ImageSource(pictures, spec, augment=Augment(erase=1.0))
    images, _ = everything(source.batches(batch_size=9))
    plain, _ = everything(ImageSource(pictures, spec).batches(batch_size=9))
    assert (images == 0).any()
    assert torch.equal(images[images != 0], plain[images != 0])


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_damaged_picture_is_named_in_training(folder, num_workers):
    (folder / "train/bee/1.png").write_bytes(b"no picture at all")
    source = feed(folder, num_workers=num_workers)
    with pytest.raises(UserError, match=r"1\.png is no picture"):
        list(source.batches(batch_size=2))


def test_workers_go_on_when_a_signal_reaches_them(one_epoch):
    """Ctrl-C does; the run then wants the rest of its step before it saves."""
    root, want = one_epoch
    batches = feed(root, num_workers=1).batches(epoch=1, seed=2, batch_size=1)
    images = [next(batches)[0]]
    for worker in multiprocessing.active_children():
        os.kill(worker.pid, signal.SIGINT)
        os.kill(worker.pid, signal.SIGTERM)
    images += [image for image, _ in batches]
    assert torch.equal(torch.cat(images), want[0])


def test_a_picture_that_has_gone_is_named(folder):
    source = feed(folder)
    (folder / "train/bee/1.png").unlink()
    with pytest.raises(UserError, match=r"1\.png cannot be read"):
        list(source.batches(batch_size=2))


def test_neither_reading_nor_drawing_touches_the_global_generator(one_epoch):
    root, _ = one_epoch
    before = torch.get_rng_state()
    list(feed(root).batches(batch_size=4))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_wrong_call_is_refused_at_once(one_epoch):
    root, _ = one_epoch
    with pytest.raises(ValueError, match="batch_size from 1"):
        feed(root).batches(batch_size=0)
    with pytest.raises(ValueError, match="rank 2 is not one of 2"):
        feed(root).batches(batch_size=1, rank=2, world=2)


@pytest.mark.parametrize("recipe_set", ["digits", "shapes-1k", "cifar10"])
def test_data_with_train_in_it_is_a_folder_whatever_the_recipe(
    folder, recipe_set
):
    assert folder_of(recipe_set, str(folder)) == folder
    assert folder_of(recipe_set, None) is None
    # a folder of arrays stays one
    assert folder_of(recipe_set, str(folder / "val")) is None
