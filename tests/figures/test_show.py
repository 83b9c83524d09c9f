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

BROWN = (0xB3, 0x54, 0x1E)


@pytest.fixture(autouse=True)
def shell(tmp_path, monkeypatch):
    """What a notebook runs in: outside of it `display` prints words alone."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    without_history = Config({"HistoryManager": {"enabled": False}})
    yield InteractiveShell.instance(config=without_history)
    InteractiveShell.clear_instance()


def shown(alt="A line that rises from 0 to 1.", ground=1.0):
    """What is shown of a brown line on a ground as opaque as this."""
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1], [0, 1], color="#b3541e")
    figure.patch.set_alpha(ground)
    with capture_output() as captured:
        figures.show(figure, alt)
    (output,) = captured.outputs
    return output


def picture(ground):
    raw = b64decode(shown(ground=ground).data["image/png"])
    return Image.open(BytesIO(raw)).convert("RGBA")


def test_the_alt_text_stands_beside_the_picture_and_in_its_metadata():
    output = shown("A line\n   that rises from 0 to 1.")
    assert output.data["text/plain"] == "A line that rises from 0 to 1."
    assert output.metadata["image/png"]["alt"] == output.data["text/plain"]


@pytest.mark.parametrize("draw", ["imshow", "pcolormesh"])
def test_a_figure_without_pictures_is_a_chart(draw):
    assert shown().metadata["image/png"]["chart"]
    figure = Figure(figsize=(2, 1))
    getattr(figure.subplots(), draw)([[0, 1], [1, 0]])
    with capture_output() as captured:
        figures.show(figure, "Four squares.")
    assert not captured.outputs[0].metadata["image/png"]["chart"]


@pytest.mark.parametrize("ground", [1, 0])
def test_equal_figures_are_equal_bytes(ground):
    assert shown(ground=ground).data == shown(ground=ground).data


@pytest.mark.parametrize(("ground", "corner"), [(1, 255), (0.5, 255), (0, 0)])
def test_the_picture_keeps_its_background_and_its_colour(ground, corner):
    """It is opaque or transparent: half of it becomes white."""
    found = picture(ground)
    assert found.size == (240, 120)  # 2 by 1 inches at 120 dots
    assert found.getpixel((0, 0))[3] == corner
    if corner:
        assert found.getpixel((0, 0))[:3] == (255, 255, 255)
    # a palette may move a colour by a little
    nearest = min(
        max(abs(a - b) for a, b in zip(color, (*BROWN, 255), strict=True))
        for _, color in found.getcolors(240 * 120)
    )
    assert nearest <= 3 * bool(corner)


@pytest.mark.parametrize("alt", ["", "   ", "curves.png", "CURVES.JPG"])
def test_a_figure_without_words_is_refused(alt):
    with pytest.raises(ValueError, match="words that say what is seen"):
        shown(alt)
