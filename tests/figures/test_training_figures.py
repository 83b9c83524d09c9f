"""Drawings of a training: the numbers behind them, and their alt text."""

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


def test_losses_draw_the_lines_and_the_mean_of_each_epoch():
    history = [
        {"step": 10, "loss": 2.0},
        {"step": 20, "loss": 1.0},
        {"step": 30, "loss": 0.5},
    ]
    figure, alt = training.losses({"a": history, "b": history}, per_epoch=20)
    drawn = [line.get_ydata().tolist() for line in figure.axes[0].lines]
    assert drawn == [[2.0, 1.0, 0.5], [1.5, 0.5]] * 2
    assert "a from 1.50 to 0.50" in alt


def test_an_epoch_ends_with_its_last_step():
    lines = [{"step": step, "loss": float(step)} for step in (1, 4, 5, 9)]
    assert training.epoch_means(lines, 4) == [2.5, 5.0, 9.0]


def test_rates_show_mistakes_and_the_rate_that_is_taken():
    figure, alt = training.rates({0.001: 90.0, 0.01: 95.0}, 0.005)
    curve, taken = figure.axes[0].lines
    assert curve.get_ydata().tolist() == [10.0, 5.0]
    assert taken.get_xdata()[0] == 0.005
    assert "10.0 % at 0.001, 5.0 % at 0.01" in alt


def test_the_first_rung_may_lie_outside_the_axis():
    rungs = {"far": [1.0, 2.0], "near": [90.0, 91.0], "top": [94.0, 95.0]}
    figure, alt = training.ladder(rungs)
    axes = figure.axes[0]
    low, high = axes.get_xlim()
    assert 80 < low < 90 and 95 < high < 100
    words = [text.get_text() for text in axes.texts]
    assert words == [
        "1.50 ± 0.50",
        "← far outside",
        "90.50 ± 0.50",
        "94.50 ± 0.50",
    ]
    assert "far 1.50 ± 0.50; near" in alt


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
    assert "5 mistakes" in alt and "in 2 cells" in alt
    assert "(3 times) is taken a 1 for a 0" in alt
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


def test_cosines_and_neighbours_of_a_table():
    # two rows of two places: along a row alike, across rows opposite
    one = torch.tensor([3.0, 4.0])
    table = torch.stack([one, 2 * one, -one, -one]).view(2, 2, 2)
    alike = training.cosines(table)
    assert alike[0, 0].tolist() == [
        pytest.approx([1.0, 1.0]),
        pytest.approx([-1.0, -1.0]),
    ]
    # four pairs side by side: two at 1, two at -1; both diagonals are at -1
    assert training.neighbours(alike) == pytest.approx((0.0, -1.0))


def test_a_position_table_is_a_map_for_every_place():
    figure, alt = training.position_table(torch.rand(4, 4, 16))
    assert sum(bool(axes.images) for axes in figure.axes) >= 16
    assert "16 maps of 4 by 4 patches" in alt
