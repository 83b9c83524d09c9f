"""Your own folder: its parts, its classes, and its pictures in training."""

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
from vitedu.data.open import known_classes, open_split

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
    assert pets.train.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert pets.test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert pets.validation is None


def test_a_class_may_be_missing_from_a_later_part(folder):
    for path in (folder / "val/ant").iterdir():
        path.unlink()
    (folder / "val/ant").rmdir()
    assert load_folder(folder).test.labels.tolist() == [1, 1, 2, 2]


def test_with_val_and_test_one_validates_and_one_tests(folder):
    write(folder / "test/bee/x.png")
    pets = load_folder(folder)
    assert (len(pets.validation), pets.test.labels.tolist()) == (6, [1])


def test_test_alone_tests(folder):
    (folder / "val").rename(folder / "test")
    pets = load_folder(folder)
    assert (pets.validation, len(pets.test)) == (None, 6)


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


def names_of(pictures):
    """Where the pictures lie below their class."""
    return [f"{path.parent.name}/{path.name}" for path, _ in pictures]


@pytest.fixture
def flat(tmp_path):
    """Class folders alone: 10 ants, 5 bees, 2 cats, 1 dog."""
    for name, count in (("ant", 10), ("bee", 5), ("cat", 2), ("dog", 1)):
        for i in range(count):
            write(tmp_path / "zoo" / name / f"{i}.png", 10 * i)
    return tmp_path / "zoo"


def test_of_class_folders_alone_a_share_of_each_class_is_held_out(flat):
    zoo = load_folder(flat)
    assert zoo.class_names == ("ant", "bee", "cat", "dog")
    assert zoo.test.labels.tolist() == [0, 0, 1]
    assert zoo.validation is None
    assert zoo.notes == (
        "zoo doesn't have train/ and val/, so 3 of its 18 pictures (20% of "
        "each class, drawn with seed 0) are held out for testing",
    )
    both = names_of(zoo.train) + names_of(zoo.test)
    assert sorted(both) == sorted(names_of(find_images(flat)))


def test_the_same_pictures_are_held_out_every_time_and_everywhere(
    flat, tmp_path
):
    first = load_folder(flat)
    again = load_folder(flat.rename(tmp_path / "elsewhere"))
    assert names_of(first.test) == names_of(again.test)
    assert first.digest == again.digest


def test_of_train_alone_a_share_is_held_out_as_well(flat, tmp_path):
    root = tmp_path / "pets"
    root.mkdir()
    flat.rename(root / "train")
    pets = load_folder(root)
    assert (len(pets.train), len(pets.test)) == (15, 3)
    assert pets.notes == (
        "pets doesn't have val/ and test/, so 3 of its 18 pictures (20% of "
        "each class, drawn with seed 0) are held out for testing",
    )


def test_too_few_pictures_to_hold_any_out_is_one_sentence(tmp_path):
    for name in ("ant", "bee"):
        write(tmp_path / "pair" / name / "x.png")
    with pytest.raises(
        UserError, match=r"too few pictures .* \(2 in all\); .* into val/"
    ):
        load_folder(tmp_path / "pair")


def test_a_folder_of_other_things_says_what_it_holds(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / "x" / name).mkdir(parents=True)
    (tmp_path / "x" / "notes.txt").write_text("")
    with pytest.raises(
        UserError,
        match=r"x contains 3 folders without pictures \(a, b, c\) and 1 file "
        r"\(notes.txt\); a folder to train on contains a folder of "
        r"pictures for",
    ):
        load_folder(tmp_path / "x")


def test_a_class_without_pictures_is_named(folder):
    """It could not be learned, and the model would have a class too many."""
    (folder / "train/dog").mkdir()
    with pytest.raises(UserError, match=r"no pictures in .*train/dog, so"):
        load_folder(folder)


def test_hidden_folders_and_files_are_no_pictures(flat):
    for name in (".cache", ".ipynb_checkpoints", "__MACOSX", "@eaDir"):
        write(flat / name / "x.png")
    write(flat / "ant" / ".ipynb_checkpoints" / "0-checkpoint.png")
    (flat / "bee" / "._0.png").write_bytes(b"what macOS leaves")
    zoo = load_folder(flat)
    assert zoo.class_names == ("ant", "bee", "cat", "dog")
    assert len(zoo.train) + len(zoo.test) == 18


def test_a_picture_may_have_any_name(flat):
    picture = flat / "ant" / "0.png"
    picture.rename(picture.with_name(os.fsdecode(b"\xe4\x1b[31m.png")))
    zoo = load_folder(flat)
    assert len(zoo.train) + len(zoo.test) == 18
    assert open_split(zoo.train).digest() != zoo.digest


# --- pictures that cannot be read


def damage(folder, *names):
    for name in names:
        path = folder / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_damaged_pictures_are_left_out_and_listed(folder):
    damage(folder, "val/ant/1.png", "train/bee/2.png")
    (folder / "train/cat/far.heic").write_bytes(b"\0\0\0\x18ftypheic")
    pets = load_folder(folder)
    assert pets.train.labels.tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert pets.test.labels.tolist() == [0, 1, 1, 2, 2]
    first, second, third = pets.skipped
    assert first.startswith("cannot read train/bee/2.png: ")
    assert second.startswith("cannot read train/cat/far.heic: pillow ")
    assert third.startswith("cannot read val/ant/1.png: ")
    (note,) = pets.notes
    assert note == f"3 of 16 pictures are left out: {first}; {second}; {third}"


def test_a_run_on_a_folder_does_not_see_that_broken_pictures_were_deleted(flat):
    names = "ant/3.png", "bee/0.png"
    damage(flat, *names)
    before = load_folder(flat)
    for name in names:
        (flat / name).unlink()
    after = load_folder(flat)
    assert before.digest == after.digest
    assert list(before.train) == list(after.train)
    assert list(before.test) == list(after.test)
    assert open_split(before.train).digest() == open_split(after.train).digest()
    assert (len(before.skipped), after.skipped) == (2, ())


def test_a_class_whose_every_picture_is_damaged_is_named(folder):
    damage(folder, *(f"train/bee/{i}.png" for i in range(3)))
    with pytest.raises(
        UserError,
        match="no picture of the class 'bee' can be read; 3 of 9 pictures "
        "are left",
    ):
        load_folder(folder)


@pytest.mark.parametrize(
    ("train", "val"),
    [("Train", "Valid"), ("training", "validation"), ("TRAIN", "Test")],
)
def test_parts_have_their_usual_names_in_any_case(folder, train, val):
    before = load_folder(folder)
    (folder / "train").rename(folder / train)
    (folder / "val").rename(folder / val)
    pets = load_folder(folder)
    assert pets.class_names == ("ant", "bee", "cat")
    assert torch.equal(pets.train.labels, before.train.labels)
    assert torch.equal(pets.test.labels, before.test.labels)
    assert evaluation_part(folder) == folder / val
    assert folder_of("cifar10", str(folder)) == folder


def test_valid_beside_test_is_to_choose_by(folder):
    (folder / "val").rename(folder / "valid")
    write(folder / "test/bee/x.png")
    pets = load_folder(folder)
    assert (len(pets.validation), len(pets.test)) == (6, 1)


def test_a_part_under_two_names_is_refused(folder):
    write(folder / "Valid/bee/x.png")
    with pytest.raises(UserError, match="has Valid/ and val/, two names of on"):
        load_folder(folder)


def test_a_part_without_train_is_no_class(flat):
    write(flat / "Valid/ant/x.png")
    with pytest.raises(UserError, match="has Valid/, which looks like a part"):
        load_folder(flat)


def test_a_class_may_be_called_train(flat):
    """Planes, trains and automobiles."""
    (flat / "ant").rename(flat / "train")
    zoo = load_folder(flat)
    assert zoo.class_names == ("bee", "cat", "dog", "train")
    assert evaluation_part(flat) == flat


def test_the_classes_are_told_without_listing_the_pictures(folder, flat):
    assert known_classes(str(folder), num_classes=0) == ("ant", "bee", "cat")
    assert known_classes(str(flat), num_classes=0) == (
        "ant",
        "bee",
        "cat",
        "dog",
    )
    with pytest.raises(UserError, match="there is no folder"):
        known_classes("pets", str(folder / "gone"), num_classes=0)


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
    train = open_split(load_folder(folder).train)
    assert train.spread(3).labels.tolist() == [0, 1, 2]
    assert len(train.spread(5)) == 5
    assert train.spread(100) is train


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


@pytest.mark.slow
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
    with pytest.raises(UserError, match=r"1\.png does not exist"):
        list(source.batches(batch_size=2))


@pytest.mark.parametrize("recipe_set", ["digits", "shapes-1k", "cifar10"])
def test_pictures_in_data_are_taken_whatever_the_recipe(folder, recipe_set):
    assert folder_of(recipe_set, str(folder)) == folder
    assert folder_of(recipe_set, str(folder / "val")) == folder / "val"
    assert folder_of(recipe_set, None) is None


def test_a_set_that_lies_in_data_comes_before_its_pictures(folder):
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            (folder / f"{part}-{kind}-ubyte").write_bytes(b"")
    assert folder_of("mnist", str(folder)) is None
    assert folder_of("cifar10", str(folder)) == folder
