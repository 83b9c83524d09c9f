"""The drawing of the whole network: what is lit, on which ground it reads."""

import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import FancyBboxPatch

from vitedu.figures import network, palette
from vitedu.figures.network import LIT, PARTS
from vitedu.figures.palette import GREY

pytestmark = pytest.mark.slow  # draws


def faces(figure):
    """The colour of each box by its words; None if it is an outline."""
    axes = figure.axes[0]
    words = {
        (text.get_position()): text.get_text()
        for text in axes.texts
        if text.get_text()
    }
    found = {}
    for patch in axes.patches:
        if not isinstance(patch, FancyBboxPatch):
            continue
        middle = (
            patch.get_x() + patch.get_width() / 2,
            patch.get_y() + patch.get_height() / 2,
        )
        face = patch.get_facecolor()
        found[words[middle]] = to_hex(face) if face[3] else None
    return found


def luminance(color):
    """As the contrast rules of WCAG define it."""
    parts = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in to_rgb(color)
    ]
    return sum(
        w * p for w, p in zip((0.2126, 0.7152, 0.0722), parts, strict=True)
    )


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", [*PARTS, *LIT])
def test_what_is_lit_has_its_colour_and_the_rest_is_an_outline(name):
    figure, _ = network(name)
    lit = LIT.get(name, (name,))
    assert faces(figure) == {
        words: color if part in lit else None
        for part, (words, color, *_) in PARTS.items()
    }


def test_several_parts_can_be_lit():
    figure, alt = network("token", "head")
    lit = [words for words, face in faces(figure).items() if face]
    assert lit == ["class token", "class token → head"]
    assert alt.endswith("In colour: class token; class token → head.")


@pytest.mark.parametrize("lit", [(), ("",), ("patch",), ("mlp", "all")])
def test_a_part_that_is_not_drawn_is_refused(lit):
    with pytest.raises(ValueError, match="lit must be one of patches, token"):
        network(*lit)


def test_the_parts_have_the_books_colours():
    assert {color for _, color, *_ in PARTS.values()} == set(palette.TINTS)


def test_the_ground_is_transparent():
    assert network("mlp")[0].get_facecolor()[3] == 0


@pytest.mark.parametrize("page", ["#ffffff", "#14181e"])
def test_words_outside_of_boxes_are_legible_on_both_pages(page):
    assert contrast(GREY, page) > 3.9


@pytest.mark.parametrize("color", palette.TINTS)
def test_white_words_are_legible_in_every_box(color):
    assert contrast("white", color) > 4.5


def test_the_alt_text_says_what_is_lit():
    assert network("attention")[1].endswith("In colour: norm, attention.")
    assert network("network")[1].endswith("In colour: all of it.")
