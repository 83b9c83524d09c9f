"""Drawings of the chapter on the whole network: their content and words."""

import inspect
import re

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch

from vitedu import plain
from vitedu.figures.chapters.vit import (
    GROUPS,
    STATIONS,
    answers,
    equations,
    losses,
    neighbours,
    shares,
    tokens,
)
from vitedu.figures.palette import TINTS

pytestmark = pytest.mark.slow  # draws


def words(axes):
    return [text.get_text() for text in axes.texts]


def test_one_class_token_goes_in_front_of_every_image():
    figure, alt = tokens(batch=2, patches=3)
    found = words(figure.axes[0])
    assert found.count("class") == 2
    assert found.count("class token\n(1, 1, d)") == 1
    assert [word for word in found if word.isdigit()] == [
        *"123",  # the first image's patches
        *"123",  # the second's
        *"0123",  # one row of positions for each token
    ]
    assert "4 positions" in alt


def test_the_lines_of_code_are_those_of_the_network():
    source = inspect.getsource(plain.ViT) + inspect.getsource(
        plain.EncoderBlock
    )
    for _, _, _, code in STATIONS:
        does = re.sub(r"^(x = x |x = |y = |return )", "", code)
        assert does in source, code


def test_symbol_box_and_code_of_a_step_are_in_one_colour():
    figure, alt = equations()
    boxes = [
        patch
        for patch in figure.axes[0].patches
        if isinstance(patch, FancyBboxPatch)
    ]
    assert [to_hex(box.get_edgecolor()) for box in boxes] == [
        color for _, color, _, _ in STATIONS
    ]
    assert [to_hex(box.get_facecolor()) for box in boxes] == [
        TINTS[color] for _, color, _, _ in STATIONS
    ]
    assert all(code in alt for _, _, _, code in STATIONS)


def test_the_equations_are_on_an_opaque_ground():
    figure, _ = equations()
    assert figure.get_facecolor()[3] == 1


def test_nothing_of_the_equations_leaves_its_box():
    figure, _ = equations()
    figure.canvas.draw()
    axes = figure.axes[0]
    boxes = [box for box in axes.patches if isinstance(box, FancyBboxPatch)]
    texts = [text for text in axes.texts if text.get_zorder() == 4]
    assert len(texts) == 3 * len(boxes)
    for box, three in zip(
        boxes, zip(*[iter(texts)] * 3, strict=True), strict=True
    ):
        ground = box.get_window_extent()
        title, symbols, _ = (text.get_window_extent() for text in three)
        for text in three:
            inside = text.get_window_extent()
            assert ground.x0 < inside.x0 and inside.x1 < ground.x1
        assert title.x1 < symbols.x0


def test_losses_are_means_over_twenty_steps():
    figure, alt = losses([2.0] * 20 + [1.0] * 20, [2.0] * 40, floor=1.5)
    squashed, plain_line, floor = figure.axes[0].lines
    assert plain_line.get_xydata().tolist() == [[10, 2], [30, 1]]
    assert squashed.get_ydata().tolist() == [2, 2]
    assert set(floor.get_ydata()) == {1.5}
    assert "falls to 1.0" in alt and "ends at 2.0" in alt


def test_shares_of_the_weights_sum_to_a_hundred():
    counts = dict(zip(GROUPS, (30, 60, 4, 3, 2, 1), strict=True))
    figure, alt = shares({"A": counts, "B": dict.fromkeys(GROUPS, 1)})
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths[: len(GROUPS)] == [30, 60, 4, 3, 2, 1]
    assert sum(widths) == pytest.approx(200)
    assert words(figure.axes[0])[:2] == ["30 %", "60 %"]
    assert "A 30 % attention and 60 % MLP" in alt


def test_a_map_shows_which_positions_are_like_that_of_its_patch():
    # 4 by 4 places: a column has one direction
    rows = torch.eye(4).repeat(4, 1)
    figure, alt = neighbours(rows, (1, 7))
    first, second, scale = figure.axes
    assert [axes.get_title() for axes in (first, second)] == [
        "patch 1",
        "patch 7",
    ]
    for axes, column in (first, 0), (second, 2):
        shown = axes.images[0].get_array()
        assert (shown[:, column] == 1).all() and shown.sum() == 4
        assert axes.images[0].get_clim() == (-1, 1)
    assert [frame.get_xy() for frame in second.patches] == [(1.5, 0.5)] * 2
    assert scale.get_xlabel() and "1, 7" in alt


def test_head_and_class_token_are_counted_apart():
    assert list(GROUPS) == [
        "attention",
        "MLP",
        "patch embedding",
        "class token, positions",
        "head",
        "norms",
    ]
    assert len(set(GROUPS.values())) == len(GROUPS)


def test_answers_are_beside_their_photographs():
    pictures = torch.stack([torch.zeros(3, 4, 4), torch.ones(3, 4, 4)])
    guesses = [[("night", 0.75), ("cave", 0.2)], [("day", 0.5), ("fog", 0.1)]]
    figure, alt = answers(pictures, guesses)
    night, first, day, second = figure.axes
    assert [axes.images[0].get_array().max() for axes in (night, day)] == [0, 1]
    assert words(first) == ["night", "75 %", "cave", "20 %"]
    assert words(second) == ["day", "50 %", "fog", "10 %"]
    assert alt.endswith("night 75 %, day 50 %.")
