"""Drawings of chapter 6: the numbers behind them, and their alt text."""

import pytest

from tests.figures.drawn import words
from vitedu.figures.chapters import recipe
from vitedu.figures.palette import CLASS, PATCHES, STREAM

ROWS = [
    recipe.Row("smaller patches for it", [2.0, 3.0, 4.0], recipe.PICTURES),
    recipe.Row("cosine", [-1.0] * 3, recipe.STEPS),
]
LEFT = recipe.Move("mixing", (90.0, 40.0), (50.0, 43.0))


def test_curves_part_and_end_on_their_numbers():
    seen = {1: (29.0, 28.0), 20: (85.8, 35.8)}
    mine = {1: (20, 20), 20: (46, 43)}
    figure, alt = recipe.parting({"": seen, "yours": mine})
    upper, lower = figure.axes
    assert words(upper) == ["86% learned from", "36% held out"]
    assert words(lower) == ["46% learned from", "43% held out"]
    learned, held = upper.lines
    assert list(learned.get_ydata()) == [29.0, 85.8]
    assert list(held.get_xdata()) == [1, 20]
    assert upper.get_ylim() == lower.get_ylim() == (0, 104)
    assert "a run, at the end 86% on the pictures it learned from" in alt
    assert "yours, at the end 46%" in alt
    (_, above), (_, below) = (text.xyann for text in lower.texts)
    assert above > 0 > below  # close numbers are kept apart


def test_what_an_ingredient_brings_is_the_mean_of_its_seeds():
    figure, alt = recipe.brings(ROWS, 1.5)
    (axes,) = figure.axes
    assert words(axes) == ["+3.0", "\N{MINUS SIGN}1.0", "two errors"]
    seeds, stem, mean = axes.lines[1:4]
    assert list(seeds.get_xdata()) == [2, 3, 4]
    assert [*stem.get_xdata(), *mean.get_xdata()] == [0, 3, 3]
    colors = [tick.get_color() for tick in axes.get_yticklabels()]
    assert colors == [PATCHES, STREAM]
    assert "it +3.0; cosine -1.0. The band is two errors, 1.5" in alt
    lines = axes.get_yticklabels()[0].get_text().splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= recipe.LETTERS


def test_a_ring_is_what_it_brought_to_a_shorter_run():
    rows = [recipe.Row("mixing", [-3.4], recipe.PICTURES, [-4.7])]
    figure, alt = recipe.brings(rows, 1.9, "in 24 epochs")
    (axes,) = figure.axes
    _, _, mean, ring = axes.lines  # no small dot for a single run
    assert [*mean.get_xdata(), *ring.get_xdata()] == [-3.4, -4.7]
    assert (mean.get_fillstyle(), ring.get_fillstyle()) == ("full", "none")
    assert axes.texts[0].xy[0] == -4.7  # the number is outside of both
    assert "mixing -4.7 and then -3.4. The band is two errors, 1.9" in alt
    assert axes.get_xlabel() == "points in 24 epochs"


def test_the_band_lies_around_nothing():
    (axes,) = recipe.brings(ROWS, 1.5)[0].axes
    drawn, to_data = axes.patches[0].get_extents(), axes.transData.inverted()
    assert drawn.transformed(to_data).intervalx == pytest.approx([-1.5, 1.5])


def test_a_run_and_a_move_are_where_their_percentages_say():
    paths = {"mine": [(30, 29), (88, 38)], "last": [(70, 61)]}
    move = LEFT._replace(error=1.5)
    figure, alt = recipe.plane(paths, [move], right=90, high=70)
    (axes,) = figure.axes
    assert axes.get_xlim() == (20, 90) and axes.get_ylim() == (20, 70)
    diagonal, path, last, *ends = axes.lines[:5]
    ((bar,),) = (error.lines[2] for error in axes.containers)
    assert bar.get_segments()[0].tolist() == [[50, 41.5], [50, 44.5]]
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata())
    assert path.get_xydata().tolist() == [[30, 29], [88, 38]]
    assert [e.get_xydata().tolist() for e in ends] == [[[90, 40]], [[50, 43]]]
    (arrow,) = (text for text in axes.texts if not text.get_text())
    assert (arrow.xyann, arrow.xy) == (LEFT.start, LEFT.end)
    assert (path.get_color(), last.get_color()) == (STREAM, CLASS)
    assert ends[-1].get_color() == PATCHES
    assert words(axes) == ["no gap", "mine", "last", "mixing"]
    assert "last ends at 70 and 61%; mixing leads from 90 and 40%" in alt
    assert "to 50 and 43%; the bar at its end: 1.5 either way" in alt


def test_what_has_only_a_height_is_a_line_across_the_map():
    marks, kinds = {"a CNN": 65.84}, {recipe.STEPS: "time"}
    figure, alt = recipe.plane(None, (), {"here": (82, 35)}, marks, kinds)
    (axes,) = figure.axes
    assert list(axes.lines[-1].get_ydata()) == [65.84] * 2
    assert words(axes) == ["no gap", "here", "66% a CNN", "time"]
    assert axes.texts[-1].get_color() == STREAM
    assert "a line at 65.8%, a CNN" in alt
