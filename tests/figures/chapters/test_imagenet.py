"""Drawings of chapter 12: the numbers behind them, and their alt text."""

import pytest

from vitedu.figures.chapters import imagenet
from vitedu.figures.schematic import TIMES


def test_losses_share_a_scale_and_what_leaves_it_is_said():
    curves = {"fine": [1.8, 0.5], "lost": [1.8, 70.0]}
    figure, alt = imagenet.losses(curves, 1.79)
    left, right = figure.axes
    assert list(left.lines[1].get_ydata()) == [1.8, 0.5]
    assert left.get_ylim() == right.get_ylim() == (0, imagenet.HIGHEST)
    assert "fine: from 1.80 to 0.50; lost: from 1.80 to 70.00, 70 in" in alt


def test_a_run_says_where_to_look_and_how_its_epochs_end():
    _, alt = imagenet.rehearsal([1.8] * 10 + [1.5] * 10 + [0.4] * 20, 1.79)
    assert "the first step, at 1: 1.80; half-way through" in alt
    assert "the warm-up ends, at 20: 1.50. It ends at 0.40" in alt
    _, alt = imagenet.epochs([7.0] * 10 + [5.0] * 10 + [2.0] * 10, 6.9, 10)
    assert "7.00 at the end of the first epoch, after 10 steps, 5.00" in alt


def test_both_kinds_of_answers_are_split_by_the_second_look():
    account = {"right": [20, 3], "wrong": [4, 5], "no class fits": [6, 2]}
    figure, alt = imagenet.second_look(account)
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths == pytest.approx([0.75, 0.25, 0.5, 0.15, 0.1, 0.3, 0.2, 0.5])
    assert "30 are right by the one label and 10 wrong" in alt
    assert "Of the wrong ones, 3 are right after all, 5 still wrong" in alt


def test_bytes_of_a_block_are_laid_end_to_end():
    figure, alt = imagenet.kept()
    bars = figure.axes[0].patches
    assert [bar.get_width() for bar in bars] == [4, 10, 4, 18]
    assert [bar.get_x() for bar in bars] == [0, 4, 14, 18]
    assert alt.endswith("Together 36.")


def test_six_tasks_say_what_tuning_adds_over_the_floor_and_guessing():
    metrics = {}
    names = [name for group in imagenet.TASKS.values() for name in group]
    for number, task in enumerate(names):
        metrics[f"most_frequent/{task}"] = {"value": 10}
        for name, value in {"pixels": 20, "frozen": 50, "tuned": 60}.items():
            seeds = [value + number - 1, value + number + 1]
            each = {"value": value + number, "per_seed": seeds}
            metrics[f"test/{task}/{name}"] = each
    metrics["test/place/tuned"]["value"] = 90
    figure, alt = imagenet.tasks(metrics)
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [*range(20, 26)]
    assert all(list(line.get_xdata()) == [10, 10] for line in axes.lines)
    gains = [each.get_text() for each in axes.texts]
    assert [x for x in gains if "+" in x] == ["+10"] * 5 + ["+35"]
    assert f"MNIST 21.0 from 16 {TIMES} 16 pixels, frozen features 51.0" in alt
