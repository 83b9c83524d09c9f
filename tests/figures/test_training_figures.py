"""Drawings of a training: the numbers behind them, and their alt text."""

import math

import pytest
import torch

from vitedu.figures import training


def test_a_grid_has_a_panel_an_image_under_its_title():
    figure, alt = training.digit_grid(torch.rand(3, 1, 28, 28), ["7", "2", "1"])
    shown = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in shown] == ["7", "2", "1"]
    assert alt == "3 digits: 7; 2; 1."
    assert [len(axes.lines) for axes in shown] == [0, 0, 0]


def test_patch_lines_lie_between_the_pixels():
    figure, alt = training.digit_grid(
        torch.rand(1, 1, 28, 28), ["4"], patch_size=7
    )
    places = [line.get_ydata()[0] for line in figure.axes[0].lines[::2]]
    assert places == [6.5, 13.5, 20.5]
    assert "patches of 7 pixels" in alt


def test_a_step_divides_every_part_by_the_whole_batch():
    figure, alt = training.one_step([3, 1])
    words = [text.get_text() for text in figure.axes[0].texts]
    assert "sum of 3 losses\nover 4" in words
    assert "sum of 1 losses\nover 4" in words
    assert "parts of 3 and 1" in alt


def test_schedules_are_drawn_as_given():
    figure, alt = training.schedules({"cosine": [0, 2, 1], "flat": [0, 2, 2]})
    drawn = {
        line.get_label(): line.get_ydata().tolist()
        for line in figure.axes[0].lines
    }
    assert drawn == {"cosine": [0, 2, 1], "flat": [0, 2, 2]}
    assert "to 2 at step 1" in alt


def test_the_floor_under_tanh_is_the_closed_form():
    figure, alt = training.bounded_loss(10, 1.0)
    curve, point = figure.axes[0].lines
    assert curve.get_ydata()[0] == pytest.approx(math.log(10))
    assert point.get_ydata()[0] == pytest.approx(math.log(1 + 9 * math.exp(-2)))
    assert "0.7966" in alt


def test_losses_draw_a_line_a_run_and_the_floor():
    history = [{"step": 10, "loss": 2.0}, {"step": 20, "loss": 0.5}]
    figure, alt = training.losses({"a": history, "b": history}, floor=0.8)
    assert len(figure.axes[0].lines) == 3
    assert "a from 2.00 to 0.50" in alt and "0.8000" in alt


def test_the_chosen_rate_is_ringed():
    figure, alt = training.rates({0.001: 90.0, 0.01: 95.0}, 0.01)
    ring = figure.axes[0].lines[1]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (0.01, 95.0)
    assert "95.0 % at 0.01" in alt


def test_a_rung_shows_its_seeds_their_mean_and_its_error():
    _, alt = training.ladder({"seed": [1.0, 2.0, 3.0]})
    # deviation 1 over the root of 3
    assert alt == "Held-out accuracy in percent: seed 2.00 ± 0.58."


def test_standard_error_is_the_deviation_over_the_root_of_n():
    assert training.standard_error([1.0, 3.0]) == pytest.approx(1.0)


def test_confusion_counts_mistakes_alone():
    counts = torch.tensor([[5, 2], [3, 7]])
    figure, alt = training.confusion(counts, ["0", "1"])
    words = [text.get_text() for text in figure.axes[0].texts]
    assert words == ["2", "3"]
    assert "5 mistakes" in alt and "(3 times) a 1 is taken for a 0" in alt
    assert counts[0, 0] == 5


def test_attention_maps_share_one_scale():
    received = torch.tensor([0.1, 0.4]).view(1, 2, 1, 1).expand(1, 2, 4, 4)
    figure, alt = training.attention_maps(
        torch.rand(1, 1, 28, 28), received, ["layer 1", "layer 2"]
    )
    limits = [axes.images[0].get_clim() for axes in figure.axes[1:3]]
    assert limits == [pytest.approx((0, 0.4))] * 2
    assert "the highest share is 0.40" in alt


def test_two_maps_name_their_peaks():
    left, right = torch.zeros(4, 4), torch.zeros(4, 4)
    left[1, 2], right[3, 0] = 15.0, 2.0
    _, alt = training.two_maps(left, right, ["attention", "loss"])
    assert "attention: highest 15.0 in row 2, column 3" in alt
    assert "loss: highest 2.00 in row 4, column 1" in alt
