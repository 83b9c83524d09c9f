"""Showing a figure: the picture, and the words that go with it."""

from base64 import b64decode
from io import BytesIO

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from matplotlib.figure import Figure
from PIL import Image
from traitlets.config import Config

from vitedu import figures

pytestmark = pytest.mark.slow  # draws


@pytest.fixture(autouse=True)
def shell(tmp_path, monkeypatch):
    """What a notebook runs in: outside of it `display` prints words alone."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    without_history = Config({"HistoryManager": {"enabled": False}})
    yield InteractiveShell.instance(config=without_history)
    InteractiveShell.clear_instance()


def plain_figure():
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1], [0, 1], color="#b3541e")
    return figure


def shown(alt="A line that rises from 0 to 1.", figure=None):
    with capture_output() as captured:
        figures.show(figure or plain_figure(), alt)
    (output,) = captured.outputs
    return output


def test_the_alt_text_stands_beside_the_picture_and_in_its_metadata():
    output = shown("A line\n   that rises from 0 to 1.")
    assert output.data["text/plain"] == "A line that rises from 0 to 1."
    assert output.metadata["image/png"]["alt"] == output.data["text/plain"]


def test_equal_figures_are_equal_bytes():
    assert shown().data == shown().data


def test_the_picture_keeps_its_background_and_its_colour():
    raw = b64decode(shown().data["image/png"])
    picture = Image.open(BytesIO(raw)).convert("RGB")
    assert picture.size == (240, 120)  # 2 by 1 inches at 120 dots
    assert picture.getpixel((0, 0)) == (255, 255, 255)
    # a palette may move a colour by a little
    nearest = min(
        max(abs(a - b) for a, b in zip(color, (0xB3, 0x54, 0x1E), strict=True))
        for _, color in picture.getcolors()
    )
    assert nearest <= 3


def transparent_figure():
    figure = plain_figure()
    figure.patch.set_alpha(0)
    return figure


def test_a_transparent_figure_stays_transparent():
    raw = b64decode(shown(figure=transparent_figure()).data["image/png"])
    picture = Image.open(BytesIO(raw)).convert("RGBA")
    assert picture.getpixel((0, 0))[3] == 0
    colors = {color for _, color in picture.getcolors(picture.size[0] ** 2)}
    assert (0xB3, 0x54, 0x1E, 255) in colors


def test_equal_transparent_figures_are_equal_bytes():
    first, second = (shown(figure=transparent_figure()) for _ in range(2))
    assert first.data == second.data


def test_a_half_transparent_ground_becomes_white():
    figure = plain_figure()
    figure.patch.set_alpha(0.5)
    raw = b64decode(shown(figure=figure).data["image/png"])
    picture = Image.open(BytesIO(raw)).convert("RGBA")
    assert picture.getpixel((0, 0)) == (255, 255, 255, 255)


@pytest.mark.parametrize("alt", ["", "   ", "curves.png", "CURVES.JPG"])
def test_a_figure_without_words_is_refused(alt):
    with pytest.raises(ValueError, match="words that say what is seen"):
        figures.show(plain_figure(), alt)
