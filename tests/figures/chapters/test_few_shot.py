"""Drawings of chapter 13: the numbers behind them, and their alt text."""

import pytest
import torch

from tests.figures.drawn import names, words
from vitedu.figures.chapters import few_shot
from vitedu.figures.palette import CLASS


def test_pairs_name_both_and_a_wrong_one_is_red():
    pictures = [torch.zeros(3, 8, 8)] * 2
    kinds, found = ["glass", "metal"], ["glass", "paper"]
    figure, alt = few_shot.pairs(pictures, pictures, kinds, found)
    upper, lower = figure.axes[:2], figure.axes[2:]
    assert names(axes.title for axes in upper) == kinds
    right, wrong = (axes.xaxis.label for axes in lower)
    assert names([right, wrong]) == found
    assert wrong.get_color() == CLASS != right.get_color()
    assert all(axes.images for axes in figure.axes)
    assert "2 photographs" in alt and "glass, glass; metal, paper." in alt


def test_curves_draw_two_means_and_the_band_of_the_second():
    draws = {
        "nearest mean": {1: [0.7, 0.9], 5: [0.9, 0.9], 6: [0.9, 0.9]},
        "formula": {1: [0.4, 0.6], 5: [1.0, 0.9], 6: [1.0, 0.9]},
    }
    figure, alt = few_shot.curves(draws)
    (axes,) = figure.axes
    grey, red = axes.lines
    assert grey.get_ydata() == pytest.approx([80, 90, 90])
    assert red.get_ydata() == pytest.approx([50, 95, 95])
    assert red.get_color() == CLASS
    (band,) = axes.collections
    points = band.get_paths()[0].vertices.tolist()
    assert {(1, 40), (1, 60), (5, 90), (5, 100)} <= set(map(tuple, points))
    assert words(axes) == ["90%", "95%"]
    assert names(axes.get_xticklabels()) == ["1", "5", ""]  # 5 and 6 touch
    assert "formula 50% from 1, 95% from 5, 95% from 6" in alt
    assert "nearest mean 80% from 1, 90% from 5" in alt
    assert "draws of formula: 40 to 60% from 1, 90 to 100% from 5" in alt
    # a band leaves out a tenth at either end
    shares = [number / 100 for number in range(31)]
    assert few_shot._band(shares) == pytest.approx((3, 27))
    assert few_shot._band([0.5]) == (50, 50)


def test_wrong_answers_are_red_and_say_what_it_is():
    images = [torch.zeros(3, 8, 8)] * 6
    truths = ["ring", "half_disc", "star", "disc", "cross", "square"]
    said = ["ring", "disc", *truths[2:]]
    figure, alt = few_shot.answers(images, said, truths, ["sure", "unsure"])
    right, wrong, *_ = (axes.title for axes in figure.axes)
    assert names([right, wrong]) == ["ring", "disc\n(half disc)"]
    assert wrong.get_color() == CLASS != right.get_color()
    assert sum(bool(axes.images) for axes in figure.axes) == 6
    beside = names(axes.yaxis.label for axes in figure.axes)
    assert [name for name in beside if name] == ["sure", "unsure"]
    assert "6 pictures" in alt and "disc, but it is a half disc" in alt


def test_the_dip_is_named_and_the_columns_are_marked():
    by_lambda = {
        "none": {10: 0.9, 190: 0.5, 240: 0.8},
        "large": {10: 0.9, 190: 0.95, 240: 0.95},
    }
    figure, alt = few_shot.dip(by_lambda, 193)
    usual, small, mark = figure.axes[0].lines
    assert usual.get_color() == CLASS  # as in the curves
    assert small.get_ydata() == pytest.approx([90, 50, 80])
    assert usual.get_ydata() == pytest.approx([90, 95, 95])
    assert set(mark.get_xdata()) == {193}
    assert "none: 90% from 10, then down to 50% from 190" in alt
    assert "large: 95% from 240" in alt
    few = {"none": {2: 0.5, 4: 0.6}, "large": {2: 0.5, 4: 0.7}}
    (axes,) = few_shot.dip(few, 193)[0].axes
    assert len(axes.lines) == 2 and not words(axes)


def test_a_slide_says_which_of_its_boxes_has_a_wrong_name():
    boxes, truths = [[0, 0, 40, 40], [40, 40, 80, 80]], ["red cell", "platelet"]
    given, picture = ["red cell"] * 2, torch.rand(3, 120, 160)
    figure, alt = few_shot.slide(picture, boxes, given, truths)
    title = "framed in red: a platelet, named red cell"
    assert figure.axes[0].get_title() == title
    assert "2 boxes, named 2 red cells, 0 platelets; 1 of" in alt
