"""Many pictures at once, from Python."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vitedu
from tests.evaluate.small import small
from vitedu import UserError, predict
from vitedu.pictures import PreprocessSpec

NAMES = ("ant", "bee", "cat")


@pytest.fixture
def model():
    made = small()
    made.preprocess = PreprocessSpec(image_size=(8, 8))
    made.class_names = NAMES
    return made


@pytest.fixture
def album(tmp_path):
    """Three pictures, a text, and a file that is no picture."""
    for name, shade in {"b.png": 200, "a/2.png": 90, "a/1.jpg": 30}.items():
        path = tmp_path / "album" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 12), (shade, 9, 9)).save(path)
    (tmp_path / "album" / "c.jpg").write_bytes(b"no picture")
    (tmp_path / "album" / "notes.txt").write_text("none either")
    return tmp_path / "album"


def test_a_folder_is_named_and_unreadable_pictures_have_their_reason(
    model, album
):
    found = predict(model, album, top=2)
    files = [Path(each.file).relative_to(album) for each in found]
    assert [*map(Path.as_posix, files)] == [
        "a/1.jpg",
        "a/2.png",
        "b.png",
        "c.jpg",
    ]
    *readable, broken = found
    for each in readable:
        guesses = vitedu.classify(model, each.file, top=2)
        assert each.names == tuple(guess.name for guess in guesses)
        # float32, batches of another size
        assert each.probabilities == pytest.approx(
            [guess.probability for guess in guesses], abs=2e-6
        )
        assert each.names == tuple(NAMES[index] for index in each.classes)
        assert each.error == ""
    assert broken.error.endswith("it is not a picture that pillow can read")
    assert broken[1:4] == ((), (), ())


def test_lists_may_mix_folders_paths_and_pictures(model, album):
    image = Image.open(album / "b.png")
    pixels = np.asarray(image)
    found = predict(
        model, [album / "a", str(album / "b.png"), image, pixels, "gone.png"]
    )
    assert [each.file for each in found[2:]] == [
        str(album / "b.png"),
        "picture 2",
        "picture 3",
        "gone.png",
    ]
    for each in found[3:5]:
        assert (each.names, each.classes) == (found[2].names, found[2].classes)
        # float32, another row of the batch
        assert each.probabilities == pytest.approx(
            found[2].probabilities, abs=2e-6
        )
    assert found[5].error == "gone.png does not exist"


def test_an_iterator_will_do_and_may_be_empty(model, album):
    found = predict(model, album.glob("*.png"))
    assert [Path(each.file).name for each in found] == ["b.png"]
    assert predict(model, album.glob("*.webp")) == []


def test_one_picture_is_a_list_of_one_and_a_batch_a_list(model):
    image = Image.new("RGB", (8, 8), (9, 99, 199))
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    (one,) = predict(model, image)
    assert one.names[0] == vitedu.classify(model, image)[0].name
    assert [one] == predict(model, pixels)
    assert [each[1:] for each in predict(model, pixels[None])] == [one[1:]]


def test_the_only_picture_has_to_be_readable(model, album):
    with pytest.raises(UserError, match="it is not a picture"):
        predict(model, album / "c.jpg")


def test_an_object_that_is_no_picture_is_a_mistake(model):
    with pytest.raises(UserError, match="an array or a tensor, got tuple"):
        predict(model, [("photo.jpg", 3)])


def test_dark_and_light_are_swapped_if_asked_for(model):
    image = Image.new("RGB", (8, 8), (9, 99, 199))
    inverse = Image.new("RGB", (8, 8), (246, 156, 56))
    assert predict(model, image, invert=True) == predict(model, inverse)
