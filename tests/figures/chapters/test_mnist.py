"""Drawings of chapter 5: the numbers behind them, and their alt text."""

import torch

from tests.figures.drawn import names, words
from vitedu.figures.chapters import mnist
from vitedu.figures.palette import CLASS, PATCHES


def test_a_grid_has_a_panel_an_image_under_its_title():
    figure, alt = mnist.digit_grid(torch.rand(3, 1, 28, 28), ["7", "2", "1"])
    shown = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in shown] == ["7", "2", "1"]
    assert alt == "3 digits: 7; 2; 1."
    assert [len(axes.lines) for axes in shown] == [0, 0, 0]
    digit = torch.rand(1, 1, 28, 28)  # cut between the pixels
    figure, alt = mnist.digit_grid(digit, ["4"], patch_size=7)
    lines = figure.axes[0].lines
    assert [line.get_ydata()[0] for line in lines[::2]] == [6.5, 13.5, 20.5]
    assert {line.get_color() for line in lines} == {PATCHES}
    assert "patches of 7 pixels" in alt


def test_a_schedule_is_drawn_as_given_and_rates_with_their_mistakes():
    figure, alt = mnist.schedule([0, 2, 1, 0])
    assert figure.axes[0].lines[0].get_ydata().tolist() == [0, 2, 1, 0]
    assert "up to 2 at step 1" in alt
    assert words(figure.axes[0]) == [" warm-up", " decay"]
    figure, alt = mnist.rates({0.001: 10.0, 0.01: 5.0}, linear=8)
    assert words(figure.axes[0]) == ["10.0%", "5.0%", "linear layer: 8%"]
    assert "10.0% at 0.001, 5.0% at 0.01. A dashed line" in alt


def test_a_ladder_draws_every_seed_and_its_mean():
    rungs = {"first": [8.0, 10.0], "second": [4.0, 4.0]}
    means = {"first": (9.0, 1.0), "second": (4.0, 0.0)}
    figure, alt = mnist.ladder(rungs, means)
    (axes,) = figure.axes
    assert axes.lines[0].get_xdata().tolist() == [8.0, 10.0]
    assert words(axes) == ["9.0 ± 1.0", "4.0 ± 0.0"]
    assert "first 9.0 ± 1.0; second 4.0 ± 0.0" in alt


def test_a_ruler_marks_every_change_for_each_number_of_seeds():
    few, many = {"rate": 2.5, "shifts": -0.1}, {"rate": 6.0, "shifts": 1.0}
    figure, alt = mnist.ruler({"3 seeds": few, "20 seeds": many})
    (axes,) = figure.axes
    places = [[*line.get_xdata()] for line in axes.lines]
    assert places == [[2.5, -0.1], [6.0, 1.0]]
    assert words(axes) == ["no result", "hint", "result"]
    assert "with 3 seeds: rate 2.5, shifts -0.1" in alt


def test_a_toss_marks_the_lead_over_two_errors_and_a_bar_has_its_note():
    figure, alt = mnist.toss(10, 90, "the second")
    (mark,), band = figure.axes[0].lines, figure.axes[0].patches[0]
    assert [*mark.get_xdata()] == [80, 80]
    assert [band.get_x(), band.get_width()] == [-20, 40]  # two errors of 10
    assert "measured lead of the second is 80" in alt
    figure, _ = mnist.duel({"one": 3, "other": 2}, {"other": "lucky"})
    assert words(figure.axes[0]) == ["3", "2", "lucky"]


def test_runs_have_their_losses_above_their_rates():
    losses = {
        "constant": torch.tensor([2.0, 2.0, 1.5, 1.5]),
        "falling": torch.tensor([2.0, 2.0, 1.0, 1.0]),
    }
    rates = {"constant": [1, 1, 1, 1], "falling": [0, 1, 1, 0]}
    figure, alt = mnist.runs(losses, rates, per_epoch=2)
    upper, lower = figure.axes
    assert upper.lines[1].get_color() == CLASS
    assert list(upper.lines[1].get_ydata()) == [2.0, 2.0, 1.0, 1.0]
    assert [[*line.get_ydata()] for line in lower.lines] == [*rates.values()]
    assert names(upper.get_legend().get_texts()) == ["constant", "falling"]
    assert "constant, from 2.00 in the first epoch" in alt
    assert "falling, from 2.00 in the first epoch over 1.00 halfway" in alt


def test_paths_have_a_panel_a_walk_on_one_scale():
    walks = {"constant": torch.ones(4, 3), "cosine": torch.zeros(4, 3)}
    figure, alt = mnist.paths(walks)
    first, second = figure.axes
    assert first.get_title() == "rate: constant"
    assert first.get_ylim() == second.get_ylim()
    assert len(first.lines) == 3 + 1  # a line for each weight, and where 0 is
    assert alt.startswith("Paths of 3 weights towards 0")
    assert "constant, on average 1.00 from 0 at the end; cosine" in alt


def test_confusion_leaves_out_what_is_right():
    counts = torch.tensor([[9, 2], [0, 7]])
    figure, alt = mnist.confusion(counts, ["0", "1"])
    assert words(figure.axes[0]) == ["2"]
    assert "2 mistakes" in alt
    assert "Most frequent (2 times): a 0 read as a 1" in alt
    shown = figure.axes[0].images[0].get_array()
    assert shown.mask.tolist() == [[True, False], [False, True]]
    assert shown[1, 0] == 0  # no mistake has the darkest colour
    assert counts.tolist() == [[9, 2], [0, 7]]


def test_two_maps_print_their_values():
    left, right = torch.tensor([[20.0, 80.0]]), torch.tensor([[0.5, -0.001]])
    figure, alt = mnist.two_maps(left, right, ["attention (%)", "loss"])
    assert words(figure.axes[0]) == ["20", "80"]
    assert words(figure.axes[1]) == ["0.50", "0.00"]
    assert "attention (%): highest 80 in row 1, column 2" in alt
