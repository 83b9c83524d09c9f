"""Drawings of the chapter on attention: the numbers behind them."""

import io

import pytest
import torch

from vitedu.figures.chapters.attention import (
    GREENS,
    answers,
    deal,
    layer,
    moved,
    steepness,
    triangle,
)
from vitedu.figures.palette import ATTENTION
from vitedu.figures.photos import heads, named

pytestmark = pytest.mark.slow  # draws

PICTURE = torch.rand(3, 32, 48, generator=torch.Generator().manual_seed(0))
THREE = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
INWARDS = torch.tensor([[0.8, 0.6], [0.6, 0.8], [0.75, 0.75]])
CARDS = torch.zeros(10, 4, 4)
DIM, BRIGHT = torch.full((10,), 0.1), torch.eye(10)[7]


def words(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def png(figure):
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=50)
    return content.getvalue()


def two_heads():
    """Two heads over 2x3 patches: each looks at one patch alone."""
    left, right = torch.zeros(2, 2, 3)
    left[0, 0], right[1, 2] = 0.5, 0.05
    return torch.stack([left, right])


def dictionary():
    answered = {"length 1": torch.tensor([1.0, 2.0, 3.0, 2.0, 1.0])}
    return answers(torch.arange(0, 361, 90.0), answered, {0: 1})


def slopes():
    return steepness({"near": 0.0, "far": 7.6})


def dealt():
    rows = {"pixels": DIM, "learned": BRIGHT}
    return deal(CARDS[0], CARDS, rows, 7)


def tables():
    column = torch.zeros(2, 4).bool()
    column[:, 1] = True
    return moved({"default": column, "swapped": ~column}, (0, 1))


def looks():
    return heads(PICTURE, {"block 1": (two_heads(), (0, 1))}, "Maps of " * 4)


DRAWINGS = {
    "named": lambda: named(PICTURE, {"cap": (0, 1)}, 16),
    "answers": dictionary,
    "triangle": lambda: triangle(THREE, INWARDS),
    "steepness": slopes,
    "deal": dealt,
    "moved": tables,
    "heads": looks,
    "layer": layer,
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_drawing_can_be_saved_and_says_what_is_seen(name):
    figure, alt = DRAWINGS[name]()
    assert png(figure).startswith(b"\x89PNG")
    assert len(alt) > 20 and "\n" not in alt
    assert figure.get_figwidth() <= 5


def test_drawings_with_axes_are_opaque():
    grounds = {
        name: draw()[0].get_facecolor()[3] for name, draw in DRAWINGS.items()
    }
    assert grounds == dict.fromkeys(DRAWINGS, 1) | {"layer": 0}


def test_a_frame_is_around_its_patch():
    figure, alt = named(PICTURE, {"cap": (1, 2)}, 16)
    (axes,) = figure.axes
    assert {patch.get_xy() for patch in axes.patches} == {(31.5, 15.5)}
    assert words(figure) == ["cap"]
    assert "the cap at row 1, column 2" in alt


def test_the_dictionary_is_drawn_against_the_direction():
    figure, alt = dictionary()
    line, entries = figure.axes[0].lines
    assert line.get_xdata().tolist() == [0, 90, 180, 270, 360]
    assert line.get_ydata().tolist() == [1, 2, 3, 2, 1]
    assert entries.get_xydata().tolist() == [[0, 1]]
    assert "length 1 from 1 to 3" in alt


def test_outputs_are_drawn_inside_the_triangle():
    figure, alt = triangle(THREE, INWARDS)
    squares = [
        line.get_xydata()[0].tolist()
        for line in figure.axes[0].lines
        if line.get_marker() == "s"
    ]
    assert torch.allclose(torch.tensor(squares).float(), INWARDS)
    assert "x3 to (0.75, 0.75)" in alt


def test_the_slope_is_drawn_where_it_is_named():
    figure, alt = slopes()
    curve, *marks = figure.axes[0].lines
    assert curve.get_ydata()[0] == 0.5
    (left, right), (low, high) = marks[0].get_data()
    # at equal scores
    assert (high - low) / (right - left) == pytest.approx(0.25)
    (left, right), (low, high) = marks[2].get_data()
    assert (high - low) / (right - left) == pytest.approx(0.0005, abs=1e-5)
    assert "near 0.2, far 0.0005" in alt


def test_the_right_card_is_framed_and_bars_are_weights():
    figure, alt = dealt()
    (axes,) = figure.axes
    frames = [patch for patch in axes.patches if not patch.get_fill()]
    assert [frame.get_xy() for frame in frames] == [(2.01, 1.69)]  # second row
    bars = [patch for patch in axes.patches if patch.get_height() == 0.18]
    shares = [bar.get_width() / 0.86 for bar in bars]  # a whole card is 1
    assert shares[:10] == pytest.approx([0.1] * 10)
    assert shares[10:] == pytest.approx(
        [float(card == 7) for card in range(10)]
    )
    assert {"10%", "100%"} <= set(words(figure))
    assert "learned give most to the 7, 100%; the right card is the 7" in alt


def test_each_step_of_the_layer_has_its_green_and_its_equation():
    figure, alt = layer()
    (axes,) = figure.axes
    boxes = [p for p in axes.patches if type(p).__name__ == "FancyBboxPatch"]
    assert len(boxes) == len(GREENS) == len(set(GREENS)) == 4
    assert ATTENTION in GREENS
    for number in (5, 6, 7, 8):
        assert any(text.endswith(f"({number})") for text in words(figure))
    assert "weights @ v" in words(figure)
    assert [words(figure).count(head) for head in "12"] == [3, 3]  # q, k, v
    assert figure.patch.get_alpha() == 0
    assert "U_msa" in alt


def test_what_moves_is_counted():
    figure, alt = tables()
    assert "default: 2 tokens move, in 2 pictures" in alt
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["moves", "does not move"]
    ticks = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert ticks == ["1"]  # of four tokens, every fifth is numbered


def test_maps_are_brightest_where_a_head_looks():
    figure, alt = looks()
    first, second = figure.axes[:2]
    for axes, (row, column) in ((first, (0, 0)), (second, (1, 2))):
        red = torch.tensor(axes.images[0].get_array())[..., 0]  # (16, 24)
        patches = red.unflatten(0, (2, 8)).unflatten(2, (3, 8)).mean(dim=(1, 3))
        assert divmod(int(patches.argmax()), 3) == (row, column)
        (frame,) = axes.patches
        assert frame.get_xy() == (7.5, -0.5)  # around the patch that asks
    assert first.get_ylabel() == "block 1"
    assert [axes.get_title() for axes in (first, second)] == [
        "head 1",
        "head 2",
    ]
    assert alt == "Maps of " * 4


def test_many_blocks_stand_side_by_side():
    rows = {str(block): (two_heads(), (0, 0)) for block in (1, 2, 3)}
    figure, _ = heads(PICTURE, rows, "All maps.", across=2)
    titles = [axes.get_title() for axes in figure.axes[:8]]
    assert titles == ["1.1", "1.2", "2.1", "2.2", "3.1", "3.2", "", ""]
