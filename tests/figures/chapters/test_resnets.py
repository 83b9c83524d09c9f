"""Drawings of chapter 14: the numbers behind them, and their alt text."""

import pytest
import torch
from matplotlib.colors import to_hex

from tests.figures.drawn import words
from vitedu.figures.chapters import resnets
from vitedu.figures.palette import ATTENTION, PATCHES


def test_the_moved_maps_have_one_scale_and_a_line_at_one_place():
    first = torch.rand(3, 8, 8), torch.tensor([[1.0, -2]])
    other = torch.rand(3, 8, 8), torch.tensor([[3.0, 0]])
    figure, alt = resnets.moved({"still": first, "moved by 8": other}, 8)
    for axes in figure.axes[1::2]:
        assert axes.images[0].get_clim() == (-3, 3)
    assert "by 8 pixels" in alt
    for axes in figure.axes:  # the line is at the same share of each width
        (line,) = axes.lines
        left, right = axes.get_xlim()
        share = (line.get_xdata()[0] - left) / (right - left)
        assert share == pytest.approx(resnets.GUIDE)


def test_zeros_of_a_matrix_are_white_and_counted():
    layers = {
        "dense": (torch.ones(3, 3), "9 numbers,\nall learned"),
        "convolution": (torch.eye(3), "one"),
    }
    figure, alt = resnets.matrices(layers)
    shown = figure.axes[1].images[0]
    assert shown.get_array().mask.sum() == 6
    assert to_hex(shown.cmap.get_bad()) == "#ffffff"
    assert figure.axes[0].get_xlabel().startswith("pixel in\n9 numbers")
    assert "dense, 9 of 9 entries are not zero, 9 numbers, all learned" in alt
    assert "convolution, 3 of 9 entries are not zero, one" in alt


def test_pixels_that_notice_are_counted_and_attention_is_green():
    near, all_of_it = torch.zeros(5, 5), torch.ones(5, 5)
    near[1:4, 1:4] = 1
    maps = {"1\nconvolution": near > 0, "attention,\none block": all_of_it > 0}
    figure, alt = resnets.reach(maps)
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert labels == ["9 pixels", "25 pixels"]
    colors = [to_hex(axes.images[0].cmap(1.0)) for axes in figure.axes]
    assert colors == [PATCHES, ATTENTION]
    assert "1 convolution: 9; attention, one block: 25." in alt


def test_the_error_is_that_of_the_mean():
    error = resnets.standard_error([20.0, 22.0, 24.0])
    assert error == pytest.approx(2 / 3**0.5)
    assert resnets.standard_error([5.0]) == 0


def test_maps_of_a_sheet_have_one_scale_and_their_corners_in_words():
    read = {
        "ViT": torch.tensor([[80.0, 20], [20, 10]]),
        "ResNet": torch.full((2, 2), 83.0),
    }
    figure, alt = resnets.sheets(torch.zeros(28, 28), read, 14)
    panels = figure.axes[1:3]
    assert [axes.get_title() for axes in panels] == [*read]
    assert all(axes.images[0].get_clim() == (0, 100) for axes in panels)
    assert words(panels[0]) == ["80", "10"]
    assert "ViT: 32% on average, 80% at rows and columns 2, 10% at 14" in alt
    figure, _ = resnets.sheets(None, read, 14, framed=["ViT"])
    assert [len(axes.patches) for axes in figure.axes[:2]] == [1, 0]
    # without a sample nothing is framed: they learned everywhere
    figure, _ = resnets.sheets(None, dict.fromkeys("abcdef", read["ViT"]), 14)
    assert not any(axes.lines or axes.patches for axes in figure.axes[:6])
