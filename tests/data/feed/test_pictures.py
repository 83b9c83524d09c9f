"""Pictures on a disk: which are found, how they are labelled and fed."""

import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from vitedu import UserError
from vitedu.data import (
    ImageSource,
    PreprocessSpec,
    find_images,
    match_classes,
    normalise,
    read_image,
)

SPEC = PreprocessSpec(image_size=8)


def picture(path, value=0, size=(12, 10)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, value, value)).save(path)


@pytest.fixture
def folder(tmp_path):
    """Two classes, three pictures; and what is no picture."""
    picture(tmp_path / "cat/b.png", 10)
    picture(tmp_path / "cat/a.JPG", 20)
    picture(tmp_path / "ant/deeper/c.png", 30)
    (tmp_path / "ant/notes.txt").write_text("no picture")
    return tmp_path


def table(folder, text):
    path = folder / "labels.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "labels", "names"),
    [
        ("filename,class_index,more\ny.png,3,a\nx.png,7,b\n", [7, 3], ()),
        ("filename,class\nx.png,dog\ny.png,ant\n", [1, 0], ("ant", "dog")),
    ],
)
def test_a_table_labels_a_flat_folder(tmp_path, text, labels, names):
    for name in ("x.png", "y.png"):
        picture(tmp_path / name)
    pictures = find_images(tmp_path, labels=table(tmp_path, text))
    assert [path.name for path, _ in pictures] == ["x.png", "y.png"]
    assert pictures.labels.tolist() == labels
    assert pictures.class_names == names


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "header with the columns filename"),
        ("file,class\nx.png,1\n", "header with the columns filename"),
        ("filename,class_index\nx.png,one\n", "whole number from 0 up"),
        ("filename,class_index\nx.png,-1\n", "whole number from 0 up"),
        ("filename,class_index\nx.png,\n", "without a class_index"),
        (f"filename,class_index\nx.png,{10**20}\n", "at most 9 digits"),
        ("filename,class_index\nx.png,1\nx.png,2\n", "'x.png' twice"),
        (
            "filename,class_index\ngone.png,1\n",
            "names 1 picture missing from .*: gone.png",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path, text, complaint):
    picture(tmp_path / "x.png")
    with pytest.raises(UserError, match=complaint):
        find_images(tmp_path, labels=table(tmp_path, text))


def test_a_folder_without_class_folders_says_what_to_do(tmp_path):
    picture(tmp_path / "x.png")
    with pytest.raises(UserError, match=r"labels=FILE\.csv"):
        find_images(tmp_path)
    with pytest.raises(UserError, match="there is no folder"):
        find_images(tmp_path / "gone")


@pytest.mark.parametrize(
    "num_workers", [0, pytest.param(2, marks=pytest.mark.slow)]
)
def test_batches_hold_every_picture_once_as_the_model_wants_it(
    folder, num_workers
):
    source = ImageSource(find_images(folder), SPEC, num_workers=num_workers)
    batches = list(source.batches(batch_size=2))
    images = torch.cat([images for images, _ in batches])
    labels = torch.cat([labels for _, labels in batches])
    assert [len(images) for images, _ in batches] == [2, 1]
    assert labels.tolist() == [0, 1, 1] and labels.dtype == torch.int64
    want = [
        normalise(read_image(path, SPEC)[None], SPEC)
        for path, _ in source.pictures
    ]
    assert_close(images, torch.cat(want), rtol=0, atol=0)


@pytest.mark.parametrize(
    "num_workers", [0, pytest.param(1, marks=pytest.mark.slow)]
)
def test_a_picture_damaged_in_mid_run_is_named_in_one_sentence(
    folder, num_workers
):
    source = ImageSource(find_images(folder), SPEC, num_workers=num_workers)
    (folder / "cat/b.png").write_bytes(b"no picture at all")
    with pytest.raises(UserError, match=r"b\.png: it is not a pic") as caught:
        list(source.batches(batch_size=2))
    assert "Traceback" not in str(caught.value)


def test_damaged_pictures_of_a_table_are_left_out(tmp_path):
    for name in ("x.png", "y.png"):
        picture(tmp_path / name)
    labels = table(tmp_path, "filename,class_index\ny.png,3\nx.png,7\n")
    (tmp_path / "x.png").write_bytes(b"no picture at all")
    pictures = find_images(tmp_path, labels=labels)
    assert pictures.labels.tolist() == [3] and len(pictures.skipped) == 1
    (tmp_path / "y.png").write_bytes(b"no picture at all")
    with pytest.raises(
        UserError, match=r"none of the pictures in .* first of 2: can"
    ):
        find_images(tmp_path, labels=labels)


@pytest.mark.slow
def test_what_pillow_warns_of_is_read_on_a_worker_in_silence(
    tmp_path, monkeypatch, capfd
):
    picture(tmp_path / "cat/a.png")
    with Image.open(tmp_path / "cat/a.png") as image:
        width, height = image.size
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", width * height - 1)
    source = ImageSource(find_images(tmp_path), SPEC, num_workers=1)
    ((images, _),) = source.batches(batch_size=2)
    assert len(images) == 1
    assert capfd.readouterr().err == ""


def test_labels_become_the_models_own(folder):
    pictures = match_classes(find_images(folder), ("dog", "cat", "ant"), 3)
    assert pictures.labels.tolist() == [2, 1, 1]
    assert pictures.class_names == ("dog", "cat", "ant")
    unnamed = match_classes(find_images(folder), (), 2)
    assert unnamed.labels.tolist() == [0, 1, 1]  # by sorted name


def test_folders_of_another_problem_are_refused(folder):
    with pytest.raises(UserError, match=r"no class for 1 folder \(ant\)"):
        match_classes(find_images(folder), ("cat", "dog"), 2)
    with pytest.raises(UserError, match="3 without names"):
        match_classes(find_images(folder), (), 3)


def test_an_index_beyond_the_models_classes_is_refused(tmp_path):
    picture(tmp_path / "x.png")
    labels = table(tmp_path, "filename,class_index\nx.png,10\n")
    with pytest.raises(
        UserError, match="the label 10, but there are 10 classes"
    ):
        match_classes(find_images(tmp_path, labels=labels), (), 10)


@pytest.mark.parametrize("name", ["n01443537", "goldfish"])
def test_imagenets_folders_may_bear_codes_or_names(tmp_path, name):
    picture(tmp_path / name / "x.png")
    pictures = match_classes(find_images(tmp_path), (), 1000)
    assert pictures.labels.tolist() == [1]
