"""Drawings of chapter 9: the numbers behind them, and their alt text."""

import pytest
import torch

from tests.figures.drawn import fill, names, words
from vitedu.figures import palette
from vitedu.figures.chapters import weights
from vitedu.figures.palette import ATTENTION, CLASS, DARK, TINTS

ROWS = [
    weights.Dialect("one", ("a/", "b"), (4, 2, 2), ("f(", " x)"), "heads"),
    weights.Dialect("two", ("c.d",), (12, 4), ("x[8:]",), "joint"),
    weights.Dialect("three", ("e",), (4, 4), ("x",), "three"),
]
COSTS = [
    weights.Cost("tanh_gelu", "tanh GELU", 813, 0.02),
    weights.Cost("qk_swapped", "q and k swapped", 9, 27.0),
    weights.Cost("bgr", "BGR for RGB", 650, 12.0),
]
MISTAKES = {
    "ATTENTION": ["qk_swapped", "qkv_by_head", "out_transposed"],
    "POSITIONS": ["positions_transposed"],
    "PATCHES": ["kernel_transposed", "pixels_0_1"],
    "MLP": ["tanh_gelu"],
    "STREAM": ["norm_eps_1e-12"],
    "DARK": ["anything"],
}


def test_an_answer_is_red_where_its_name_is_another():
    pictures = dict.fromkeys("ab", torch.rand(3, 8, 8))
    before = {"a": "cat 84%", "b": "espresso 91%"}
    after = {"a": "cat 81%", "b": "candle 71%"}
    figure, alt = weights.answers(pictures, before, after)
    assert [axes.get_title() for axes in figure.axes] == [*before.values()]
    (same,), (other,) = (axes.texts for axes in figure.axes)
    assert [same.get_color(), other.get_color()] == [DARK, CLASS]
    assert "b: first espresso 91%, then candle 71%" in alt


def test_every_dialect_has_its_name_axes_and_way_to_ours():
    figure, alt = weights.dialects(ROWS)
    written = words(figure.axes[0])
    for row in ROWS:
        assert {row.owner, *row.code, *row.name} <= set(written)
        assert f"({', '.join(map(str, row.shape))})" in written
    # beside the values, which axis is the inputs
    arrows = [text for text in written if text[0] in "\u2193\u2192"]
    ours = ["\u2193out", "\u2192in"]
    assert arrows == ["\u2193in", "\u2192out", *ours, *ours]
    assert "one, a/b of shape (4, 2, 2), in by out, becomes ours by f(" in alt
    assert "two, c.d of shape (12, 4), out by in, becomes ours by x[8:]" in alt
    assert "in 3 dialects" in alt


def test_the_values_alone_are_filled_and_three_matrices_are_apart():
    boxes = weights.dialects(ROWS)[0].axes[0].patches
    fills = [fill(box) for box in boxes]
    assert fills.count(ATTENTION) == 3 and fills.count(TINTS[ATTENTION]) == 6
    _, joint, three = (boxes[i : i + 3] for i in (0, 3, 6))
    gaps = [
        upper.get_y() - upper.get_height() - lower.get_y()
        for upper, lower, _ in (joint, three)
    ]
    assert gaps == pytest.approx([0, weights.GAP])


def test_a_long_name_stays_in_the_drawing():
    name = ("MultiHeadDotProductAttention_1/", 36 * "x")
    code = ("rearrange(x,", ' "d heads hd -> (heads hd) d")')
    row = weights.Dialect("somebody", name, (192, 3, 64), code, "heads")
    weights.dialects([row])  # conftest.py asks


def test_mistakes_are_sorted_by_what_they_cost():
    figure, alt = weights.costs(COSTS, 1_000, 813)
    left, far = figure.axes
    parts = names(figure.legends[0].get_texts())
    assert " ".join(words(left) + parts) == "9 650 813 attention pixels MLP"
    assert [bar.get_width() for bar in left.patches] == [9, 650, 813]
    rows = ["q and k swapped", "BGR for RGB", "tanh GELU"]
    assert names(left.get_yticklabels()) == rows
    points = far.collections[0].get_offsets()[:, 0].tolist()
    assert points == [27.0, 12.0, 0.02]
    assert far.get_xscale() == "log"
    assert words(far) == ["27", "12", "0.02"]
    assert "Of 1,000 photographs 813 are right" in alt
    assert "BGR for RGB 650, by 12; tanh GELU 813, by 0.02." in alt


def test_a_mistake_has_the_colour_of_its_part():
    for color, keys in MISTAKES.items():
        for key in keys:
            assert weights.color_of(key) == getattr(palette, color), key
