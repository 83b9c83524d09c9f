"""Drawings of chapter 8: the numbers behind them, and their alt text."""

import pytest
import torch

from tests.figures.drawn import fill, names, words
from vitedu.figures.chapters import scale
from vitedu.figures.palette import ATTENTION, CLASS

ROWS = [
    scale.Omission("nothing left out", [0.0, 0.0], [64.0, 66.0]),
    scale.Omission("without average", [0.1, 0.3], [64.0, 66.0]),
    scale.Omission("without step", [50.0, 48.0], [73.0, 75.0]),
]


def test_the_ring_frames_what_has_changed():
    history = torch.ones(3, 2, 2)
    history[1] = torch.tensor([[1, 2], [2, 1]])  # each has sent one part
    history[2] = 2
    figure, alt = scale.ring(history)
    start, first, place, last = figure.axes
    assert words(start) == ["1", "1", "1", "1"]
    assert words(first) == ["1", "2", "2", "1"]
    assert words(place) == ["0", "1"]
    assert words(last) == ["2", "2", "2", "2"]
    framed = [len(axes.lines) for axes in (start, first, last)]
    assert framed == [0, 2, 2]
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["start", "round 1", "", "round 2"]
    assert names(last.get_xticklabels()) == ["0", "1"]
    assert "2 processes in a ring" in alt
    assert "after each round is 1, 2, 2" in alt
    # an arrow from each process to the next
    circle = scale.ring(torch.ones(7, 4, 4))[0].axes[4]
    arrows = [text for text in circle.texts if not text.get_text()]
    assert len(arrows) == 4 == len(words(circle))


def test_what_is_left_out_has_its_distance_and_its_accuracy():
    figure, alt = scale.omissions(ROWS)
    (axes,) = figure.axes
    written = words(axes)
    assert written == ["0%", "65%", "0.2%", "65%", "49%", "74%", "digits\nread"]
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == pytest.approx([0, 0.2, 49])
    assert list(map(fill, axes.patches)) == [ATTENTION, CLASS, CLASS]
    assert "without step: 49% away, accuracy 74%." in alt


def test_every_start_is_a_line_and_every_kill_a_cross():
    starts = [(0, 23, True), (20, 71, True), (70, 100, False)]
    figure, alt = scale.lives([*map(scale.Life._make, starts)], 100, saves=5)
    (axes,) = figure.axes
    told = ["grey lines: saves", "light red: done again"]
    assert words(axes) == ["killed", "done", *told]
    assert {5, 95} < set(axes.get_xticks(minor=True))
    spans = [list(line.get_xdata()) for line in axes.lines[::2]]
    assert spans == [[0, 23], [20, 71], [70, 100]]
    assert "".join(each.get_marker() for each in axes.lines[1::2]) == "XXo"
    again = [each.get_segments()[0][:, 0].tolist() for each in axes.collections]
    assert again == [[20, 23], [70, 71]]
    assert "killed after step 23, 71;" in alt
    assert "the last one gets to step 100" in alt
