"""Drawings of chapter 4: the numbers behind them, and their alt text."""

import pytest
import torch

from tests.figures.drawn import words
from vitedu.figures.chapters import vit


def test_one_class_token_goes_in_front_of_every_image():
    figure, alt = vit.tokens(batch=2, patches=3)
    found = words(figure.axes[0])
    assert found.count("class") == 2
    assert found.count("class token\n(1, 1, d)") == 1
    # the patches of two images, and one row of positions for each token
    numbered = [each for each in found if each[-1:].isdigit()]
    assert numbered == "a1 a2 a3 b1 b2 b3 0 1 2 3".split()
    assert "4 positions" in alt


def test_shares_of_the_weights_sum_to_a_hundred():
    groups = list(vit.GROUPS)
    assert groups[:2] == ["attention", "MLP"] and "head" in groups
    assert "class token, positions" in groups  # not with the head
    assert len(set(vit.GROUPS.values())) == len(groups) == 6
    counts = dict(zip(groups, (30, 60, 4, 3, 2, 1), strict=True))
    figure, alt = vit.shares({"A": counts, "B": dict.fromkeys(groups, 1)})
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths[:6] == [30, 60, 4, 3, 2, 1]
    assert sum(widths) == pytest.approx(200)
    assert words(figure.axes[0])[:2] == ["30%", "60%"]
    assert "A 30% attention and 60% MLP" in alt


def test_a_map_shows_which_positions_are_like_that_of_its_patch():
    # 4 by 4 places: a column has one direction
    figure, alt = vit.neighbours(torch.eye(4).repeat(4, 1), (1, 7))
    first, second, scale = figure.axes
    assert [x.get_title() for x in (first, second)] == ["token 1", "token 7"]
    for axes, column in (first, 0), (second, 2):
        shown = axes.images[0].get_array()
        assert (shown[:, column] == 1).all() and shown.sum() == 4
        assert axes.images[0].get_clim() == (-1, 1)
    assert [frame.get_xy() for frame in second.patches] == [(1.5, 0.5)] * 2
    assert scale.get_xlabel() and "1, 7" in alt


def test_answers_are_beside_their_photographs():
    pictures = torch.stack([torch.zeros(3, 4, 4), torch.ones(3, 4, 4)])
    guesses = [[("night", 0.75), ("cave", 0.2)], [("day", 0.5), ("fog", 0.1)]]
    figure, alt = vit.answers(pictures, guesses)
    night, first, day, second = figure.axes
    assert [axes.images[0].get_array().max() for axes in (night, day)] == [0, 1]
    assert words(first) == ["night", "75%", "cave", "20%"]
    assert words(second) == ["day", "50%", "fog", "10%"]
    assert alt.endswith("night 75%, day 50%.")
    assert len(vit.answers(pictures[:1], guesses[:1])[0].axes) == 2
