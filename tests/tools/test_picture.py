"""The pictures of the front page: cut as the network cuts, and true."""

import re
from pathlib import Path

import numpy as np
import picture
import pytest
from PIL import Image

import vitedu

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model():
    return vitedu.load("ViT-Ti/16")


def test_the_first_page_says_what_the_model_answers(model):
    page = (ROOT / "book/index.md").read_text()
    message = re.findall(
        r'--share: (\d+)"><span>([^<]+)</span> <span>(\d+)%</span>', page
    )
    guesses = vitedu.classify(model, vitedu.data.photo("hopper"), top=3)
    shares = [round(100 * guess.probability) for guess in guesses]
    assert message == [
        (str(share), guess.name, str(share))
        for guess, share in zip(guesses, shares, strict=True)
    ]


def test_a_map_runs_from_0_to_1_over_the_grid(model):
    shares = picture.attention(model, vitedu.data.photo("hopper"))
    assert shares.shape == (14, 14)
    assert (shares.min(), shares.max()) == (0, 1)
    face, sky = shares[2:9, 5:9].mean(), shares[2:9, 11:].mean()
    assert face > 2 * sky  # as the words under the picture say


def test_a_mosaic_put_together_is_the_photograph():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (12, 8, 3), dtype=np.uint8)
    patches = picture.mosaic(Image.fromarray(pixels), columns=2, rows=3, side=4)
    assert patches.shape == (3, 2, 4, 4, 3)
    whole = np.asarray(picture.sheet(patches, gap=0))
    assert np.array_equal(whole[..., :3], pixels)


def test_pictures_are_small():
    small = sorted((ROOT / "book/pictures").glob("part-*.png"))
    assert len(small) == 5
    assert [path for path in small if path.stat().st_size > 60_000] == []


def test_the_logo_is_the_one_that_is_drawn():
    for name in ("logo", "favicon"):
        path = ROOT / f"book/_static/{name}.svg"
        assert path.read_text() == picture.logo()
