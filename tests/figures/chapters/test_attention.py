"""Drawings of chapter 2: the numbers behind them, and their alt text."""

import pytest
import torch

from tests.figures.drawn import names, words
from vitedu.figures.chapters import attention

PICTURE = torch.rand(3, 32, 48, generator=torch.Generator().manual_seed(0))


def two_heads():
    """Two heads over 2x3 patches: each looks at one patch alone."""
    left, right = torch.zeros(2, 2, 3)
    left[0, 0], right[1, 2] = 0.5, 0.05
    return torch.stack([left, right])


def test_a_frame_is_around_its_patch():
    figure, alt = attention.named(PICTURE, {"cap": (1, 2)}, 16)
    (axes,) = figure.axes
    assert {patch.get_xy() for patch in axes.patches} == {(31.5, 15.5)}
    assert words(axes) == ["cap"]
    assert "the cap at row 1, column 2" in alt


def test_the_dictionary_is_drawn_against_the_direction():
    answered = {"length 1": torch.tensor([1.0, 2.0, 3.0, 2.0, 1.0])}
    directions = torch.arange(0, 361, 90.0)
    figure, alt = attention.answers(directions, answered, {0: 1})
    line, entries = figure.axes[0].lines
    assert line.get_xdata().tolist() == [0, 90, 180, 270, 360]
    assert line.get_ydata().tolist() == [1, 2, 3, 2, 1]
    assert entries.get_xydata().tolist() == [[0, 1]]
    assert "length 1 from 1 to 3" in alt


def test_outputs_are_drawn_inside_the_triangle():
    corners = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    inwards = torch.tensor([[0.8, 0.6], [0.6, 0.8], [0.75, 0.75]])
    figure, alt = attention.triangle(corners, inwards)
    lines = figure.axes[0].lines
    squares = [x.get_xydata()[0] for x in lines if x.get_marker() == "s"]
    assert squares == pytest.approx(inwards.numpy())
    assert "x3 to (0.75, 0.75)" in alt


def test_the_slope_is_drawn_where_it_is_named():
    figure, alt = attention.steepness({"near": 0.0, "far": 7.6})
    curve, near, _, far, *_ = figure.axes[0].lines
    assert curve.get_ydata()[0] == 0.5
    for mark, slope in ((near, 0.25), (far, 0.0005)):
        (left, right), (low, high) = mark.get_data()
        assert (high - low) / (right - left) == pytest.approx(slope, abs=1e-5)
    assert "near 0.2, far 0.0005" in alt


def test_the_patch_that_asks_is_framed_and_its_twin_is_dashed():
    figure, alt = attention.puzzle(torch.zeros(3, 32, 32), 5, 7)
    asks, twin = figure.axes[0].patches
    assert asks.get_xy() == (8.2, 8.2)  # second row, second column
    assert twin.get_xy() == (24.2, 8.2)
    assert asks.get_linestyle() == "-"
    assert twin.get_linestyle() != "-"
    assert "its twin has a dashed frame" in alt


def test_what_moves_is_counted():
    column = torch.zeros(2, 4).bool()
    column[:, 1] = True
    tables = {"default": column, "swapped": ~column}
    figure, alt = attention.moved(tables, (0, 1))
    assert "default: 2 tokens, in 2 pictures" in alt
    assert names(figure.legends[0].get_texts()) == ["changes", "stays"]
    # of four tokens, every fifth is numbered
    assert names(figure.axes[0].get_xticklabels()) == ["1"]


def test_maps_are_brightest_where_a_head_looks():
    figure, alt = attention.heads(
        PICTURE, {"block 1": (two_heads(), (0, 1))}, "Maps."
    )
    first, second = figure.axes[:2]
    for axes, (row, column) in ((first, (0, 0)), (second, (1, 2))):
        red = torch.tensor(axes.images[0].get_array())[..., 0]  # (16, 24)
        patches = red.unflatten(0, (2, 8)).unflatten(2, (3, 8)).mean(dim=(1, 3))
        assert divmod(int(patches.argmax()), 3) == (row, column)
        (frame,) = axes.patches
        assert frame.get_xy() == (7.5, -0.5)  # around the patch that asks
    assert first.get_ylabel() == "block 1"
    assert [x.get_title() for x in (first, second)] == ["head 1", "head 2"]
    assert alt == "Maps."
    assert names(figure.axes[2].get_xticklabels()) == ["0%", "3%", "≥ 6%"]
    rows = {str(block): (two_heads(), (0, 0)) for block in (1, 2, 3)}
    figure, _ = attention.heads(PICTURE, rows, "All maps.", across=2)
    titles = [axes.get_title() for axes in figure.axes[:8]]
    assert titles == ["1.1", "1.2", "2.1", "2.2", "3.1", "3.2", "", ""]
