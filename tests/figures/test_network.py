"""The drawing of the whole network: what is lit, on which ground it reads."""

import pytest
from matplotlib.colors import to_rgb

from tests.figures.drawn import fill
from vitedu.figures import network, palette
from vitedu.figures.network import LIT, PARTS

pytestmark = pytest.mark.slow  # draws


def faces(figure):
    """The colour of each box by its words; None if it is an outline."""
    (axes,) = figure.axes
    words = {text.get_position(): text.get_text() for text in axes.texts}
    boxes = [p for p in axes.patches if type(p).__name__ == "FancyBboxPatch"]
    return {
        words[
            box.get_x() + box.get_width() / 2,
            box.get_y() + box.get_height() / 2,
        ]: fill(box) if box.get_facecolor()[3] else None
        for box in boxes
    }


def contrast(*colors):
    """As the contrast rules of WCAG define it."""
    light = []
    for color in colors:
        parts = [
            x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4
            for x in to_rgb(color)
        ]
        weights = (0.2126, 0.7152, 0.0722)
        light.append(sum(w * p for w, p in zip(weights, parts, strict=True)))
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.parametrize("lit", [(name,) for name in (*PARTS, *LIT)])
def test_what_is_lit_has_its_colour_and_the_rest_is_an_outline(lit):
    figure, _ = network(*lit)
    parts = LIT.get(*lit, lit)
    assert faces(figure) == {
        words: color if part in parts else None
        for part, (words, color, *_) in PARTS.items()
    }
    assert figure.get_facecolor()[3] == 0


def test_several_parts_can_be_lit_and_the_alt_text_says_which():
    figure, alt = network("token", "head")
    lit = [words for words, face in faces(figure).items() if face]
    assert lit == ["class token", "class token → head"]
    assert alt.endswith("In colour: class token; class token → head.")
    assert network("network")[1].endswith("In colour: all of it.")


def test_the_book_s_colours_are_legible_in_boxes_and_on_both_pages():
    assert {color for _, color, *_ in PARTS.values()} == set(palette.TINTS)
    for color in palette.TINTS:
        assert contrast("white", color) > 4.5
    for page in ("#ffffff", "#14181e"):
        assert contrast(palette.GREY, page) > 3.9
