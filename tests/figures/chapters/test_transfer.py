"""Drawings of chapter 11: the numbers behind them, and their alt text."""

import pytest
import torch

from tests.figures.drawn import words
from vitedu.figures.chapters import transfer
from vitedu.figures.palette import ATTENTION, CLASS


def test_momentum_draws_gradients_and_the_velocity_on_one_scale():
    gradients = {"agree": [1, 1], "disagree": [1, -1]}
    velocities = {"agree": [1, 1.9], "disagree": [1, -0.1]}
    figure, alt = transfer.momentum(gradients, velocities)
    upper, lower = figure.axes
    assert [bar.get_height() for bar in lower.patches] == [1, -1]
    assert lower.lines[0].get_ydata().tolist() == [1, -0.1]
    assert {y for y in lower.lines[-1].get_ydata()} == {10}  # the limit
    assert upper.get_ylim() == lower.get_ylim()
    assert "agree, a velocity of 1.9 at most; disagree, a velocity" in alt


def test_clipping_shortens_what_is_longer_than_the_circle():
    figure, alt = transfer.clipping([0.6, 3])
    axes = figure.axes[0]
    written = [each.strip() for each in words(axes) if each.strip()]
    assert sorted(written) == ["0.6 stays", "3 becomes 1", "length 1"]
    ends = [x.xy for x in axes.texts if hasattr(x, "arrow_patch")]
    lengths = sorted((x**2 + y**2) ** 0.5 for x, y in ends)
    assert lengths == pytest.approx([0.6, 1, 3])
    assert alt.endswith("Lengths: 0.6 stays, 3 becomes 1.")


def test_a_run_has_a_panel_for_losses_and_one_for_lengths_with_the_limit():
    figure, alt = transfer.run([0.7, 0.1], [2.0, 0.5])
    upper, lower = figure.axes
    assert upper.lines[0].get_ydata().tolist() == [0.7, 0.1]
    assert lower.lines[0].get_ydata().tolist() == [2.0, 0.5]
    assert list(lower.lines[1].get_ydata()) == [1, 1]
    assert lower.get_yscale() == "log"
    assert "0.50 to 2.00, in 1 steps above the dashed line at 1." in alt


def test_crops_draws_every_box_on_the_photograph_and_frames_its_cut():
    boxes = [(0.0, 0.0, 0.5, 0.5), (0.25, 0.5, 0.75, 0.5)]
    cut = torch.rand(2, 3, 4, 4)
    cuts = {"a cat": (torch.rand(3, 10, 20), boxes, cut, [False, True])}
    figure, alt = transfer.crops(cuts)
    whole, first, second = figure.axes
    assert (words(first), words(second)) == ([], ["M"])
    corners = [patch.get_xy() for patch in whole.patches]
    assert corners[1::2] == [(-0.5, -0.5), (4.5, 4.5)]
    assert whole.patches[3].get_width() == pytest.approx(15)
    colors = [each.patches[-1].get_edgecolor() for each in (whole, first)]
    assert colors[0] != colors[1]
    assert first.patches[1].get_edgecolor() == whole.patches[1].get_edgecolor()
    assert alt.startswith("A cat: each with 2 boxes, of 25% to 38% of the area")


def test_ways_are_compared_by_a_dot_a_seed_and_the_mean():
    figure, alt = transfer.compared({"yours": [70, 72], "AdamW": [66]})
    axes = figure.axes[0]
    dots = [each.get_offsets().tolist() for each in axes.collections]
    assert dots == [[[70, 0], [72, 0]], [[66, 1]]]
    assert words(axes) == ["71.0", "66.0"]
    assert alt.endswith("percent right: yours 71.0, AdamW 66.0.")


def test_changed_answers_are_mended_spoiled_or_wrong_twice():
    before, after = torch.eye(3)[[0, 1, 2, 2]], torch.eye(3)[[1, 1, 1, 2]]
    after[2] *= 9  # the surest comes first
    found = transfer.changed(before, after, torch.tensor([1, 2, 0, 2]))
    assert found == {"mended": [0], "spoiled": [], "wrong both times": [2, 1]}


def test_answers_are_green_where_they_are_right():
    told = transfer.told(torch.eye(2), torch.zeros(2), ["tin", "jar"])
    pictures, titles = torch.rand(2, 3, 4, 4), ["1. tin", "2. tin"]
    figure, alt = transfer.answers(pictures, titles, {"tuned": told})
    colors = [axes.texts[0].get_color() for axes in figure.axes[:2]]
    assert colors == [ATTENTION, CLASS]
    assert "1. tin (tuned: tin 73%); 2. tin (tuned: jar 73%)" in alt
