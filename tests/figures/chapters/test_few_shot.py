"""Drawings of chapter 13: the numbers behind them, and their alt text."""

import pytest
import torch

from tests.figures.drawn import names, words
from vitedu.figures.chapters import few_shot
from vitedu.figures.palette import CLASS


def test_likeness_sorts_by_class_and_takes_the_mean_off():
    features = torch.tensor([[9.0, 1], [9, -1], [9, 1], [9, -1]])
    labels = torch.tensor([0, 1, 0, 1])
    figure, alt = few_shot.likeness(features, labels, ["ants", "bees"])
    axes = figure.axes[0]
    shown = torch.tensor(axes.images[0].get_array())
    signs = torch.tensor([1.0, 1, -1, -1], dtype=torch.double)
    assert torch.allclose(shown, signs.outer(signs))
    assert names(axes.get_xticklabels()) == ["ants", "bees"]
    assert axes.get_xticks().tolist() == [0.5, 2.5]
    assert len(axes.lines) == 2  # an edge between the classes, both ways
    assert "mean cosine 1.0" in alt and "(-1.0)" in alt
    # the likeness of a photograph with itself is no part of the mean
    features = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    _, alt = few_shot.likeness(features, labels, ["ants", "bees"])
    assert "mean cosine -1.0" in alt and "(0.0)" in alt


def test_curves_draw_means_bands_and_chance():
    draws = {
        "nearest mean": {1: [0.7, 0.9], 5: [0.9, 0.9]},
        "least squares": {1: [0.4, 0.6], 5: [1.0, 0.9]},
    }
    figure, alt = few_shot.curves(draws, num_classes=2)
    (axes,) = figure.axes
    grey, red, chance = axes.lines
    assert grey.get_ydata() == pytest.approx([80, 90])
    assert red.get_ydata() == pytest.approx([50, 95])
    assert red.get_color() == CLASS
    assert set(chance.get_ydata()) == {50}
    assert len(axes.collections) == 2
    assert words(axes) == ["90%", "95%", "guessing"]
    assert "least squares 50% from 1, 95% from 5" in alt
    assert "nearest mean 70 to 90% from 1, 90 to 90% from 5" in alt
    # a band leaves out a tenth at either end
    shares = [number / 100 for number in range(31)]
    assert few_shot._band(shares) == pytest.approx((3, 27))
    assert few_shot._band([0.5]) == (50, 50)


def test_wrong_answers_are_red_and_say_what_it_is():
    images = [torch.zeros(3, 8, 8)] * 6
    truths = ["ring", "half_disc", "star", "disc", "cross", "square"]
    said = ["ring", "disc", *truths[2:]]
    figure, alt = few_shot.answers(images, said, truths)
    right, wrong, *_ = (axes.title for axes in figure.axes)
    assert names([right, wrong]) == ["ring", "disc\n(half disc)"]
    assert wrong.get_color() == CLASS != right.get_color()
    assert sum(bool(axes.images) for axes in figure.axes) == 6
    assert "6 pictures" in alt and "disc, but it is a half disc" in alt


def test_the_dip_is_named_and_the_columns_are_marked():
    by_lambda = {
        "none": {10: 0.9, 190: 0.5, 240: 0.8},
        "large": {10: 0.9, 190: 0.95, 240: 0.95},
    }
    figure, alt = few_shot.dip(by_lambda, 193)
    grey, red, mark = figure.axes[0].lines
    assert red.get_color() == CLASS
    assert red.get_ydata() == pytest.approx([90, 50, 80])
    assert grey.get_ydata() == pytest.approx([90, 95, 95])
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
    assert words(figure.axes[0]) == ["no: platelet"]
    assert "2 boxes, named 2 red cells, 0 platelets; 1 of" in alt
