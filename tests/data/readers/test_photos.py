"""The photographs of the package: what they are, and whose."""

import os
from importlib import resources
from pathlib import Path

import pytest

from vitedu import UserError
from vitedu.data import photo
from vitedu.data.readers.photos import PHOTOS

FOLDER = resources.files("vitedu.data") / "photos"
SIZES = {  # width, height
    "hopper": (512, 600),
    "cat": (451, 300),
    "coffee": (480, 320),
    "astronaut": (480, 480),
    "rocket": (480, 320),
}


@pytest.mark.parametrize("name", PHOTOS)
def test_a_photograph_is_a_small_rgb_picture(name):
    image = photo(name)
    assert (image.mode, image.size) == ("RGB", SIZES[name])
    low_high = image.getextrema()  # decoded, though its file is closed
    assert all(high - low > 150 for low, high in low_high)
    assert len((FOLDER / f"{name}.jpg").read_bytes()) < 65_000


def test_the_credits_name_each_of_them():
    credits = (FOLDER / "CREDITS.txt").read_text()
    notice = Path(__file__).parents[3].joinpath("NOTICE").read_text()
    for name in PHOTOS:
        assert f"{name}.jpg" in credits and f"{name}.jpg" in notice


@pytest.mark.parametrize("name", ["dog", "Hopper", "../digits", None])
def test_another_name_gets_the_five(name):
    with pytest.raises(UserError) as error:
        photo(name)
    said = str(error.value)
    assert "there is no photograph" in said and "\n" not in said
    assert all(each in said for each in PHOTOS)


def test_hopper_is_the_picture_that_matplotlib_carries():
    import matplotlib

    theirs = Path(matplotlib.get_data_path(), "sample_data/grace_hopper.jpg")
    assert (FOLDER / "hopper.jpg").read_bytes() == theirs.read_bytes()


@pytest.mark.skipif("VITEDU_DATA" not in os.environ, reason="no real data")
@pytest.mark.parametrize("name", PHOTOS[1:])
def test_the_others_are_those_of_the_data_folder(name):
    theirs = Path(os.environ["VITEDU_DATA"], "photos", f"{name}.jpg")
    assert (FOLDER / f"{name}.jpg").read_bytes() == theirs.read_bytes()
