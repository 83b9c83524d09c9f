"""Drawings of chapter 6: the numbers behind them, and their alt text."""

import pytest

from tests.figures.drawn import words
from vitedu.figures.chapters import recipe
from vitedu.figures.palette import CLASS, PATCHES, STREAM

ROWS = [
    recipe.Row("the recipe", [43.0, 44.0, 45.0], [47.0, 48.0, 49.0]),
    recipe.Row("+ mixup", [40.0, 41.0, 42.0], [42.0] * 3, recipe.PICTURES),
    recipe.Row("no smoothing", [44.0] * 3, [60.0] * 3, recipe.LABELS),
]
SINGLE = recipe.Row("a CNN", [65.84], (), recipe.STEPS)


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
    assert upper.get_ylim() == lower.get_ylim() == (0, 100)
    assert "a run, at the end 86% on the pictures it learned from" in alt
    assert "yours, at the end 46%" in alt
    above, below = (text.xy[1] for text in lower.texts)
    assert above - below == pytest.approx(9)  # close numbers are kept apart


def test_a_row_has_its_seeds_their_mean_and_the_gap():
    figure, alt = recipe.switches(ROWS, 0.5, "the recipe")
    left, gaps = figure.axes
    assert words(left) == ["44.0", "41.0", "44.0"]
    assert words(gaps) == ["4", "1", "16"]
    assert [bar.get_x() for bar in gaps.patches] == [0, 0, 0]
    assert [bar.get_width() for bar in gaps.patches] == [4.0, 1.0, 16.0]
    assert "+ mixup 41.0 ± 0.5, 42 on what it learned" in alt
    colors = [tick.get_color() for tick in left.get_yticklabels()]
    assert colors[1:] == [PATCHES, CLASS]


def test_the_band_is_two_errors_of_a_difference_around_the_standard():
    (axes, _) = recipe.switches(ROWS, 0.5, "the recipe")[0].axes
    band, to_data = axes.patches[0].get_extents(), axes.transData.inverted()
    (low, _), (high, _) = to_data.transform([band.min, band.max])
    error = 2**0.5 * 0.5
    assert [low, high] == pytest.approx([44 - 2 * error, 44 + 2 * error])
    assert not recipe.switches(ROWS, 0.5)[0].axes[0].patches


def test_rows_judged_on_other_pictures_are_below_a_line():
    own = [row._replace(learned=()) for row in ROWS]
    figure, alt = recipe.switches(own, 0.5, others=[SINGLE])
    (axes,) = figure.axes
    assert len(axes.get_yticks()) == 4
    assert any(list(line.get_ydata()) == [2.5, 2.5] for line in axes.lines)
    assert axes.get_xlim()[1] == 100
    assert axes.get_xlabel() == "right (%)"
    assert alt.endswith("of the test part: a CNN 65.8, one run.")


def test_a_single_run_is_a_ring_without_a_bar_and_a_long_name_is_broken():
    figure, _ = recipe.switches([SINGLE._replace(words="a " * 20)], 0.5)
    (axes,) = figure.axes
    (ring,) = axes.lines
    assert ring.get_markerfacecolor() == "white"
    assert ring.get_color() == STREAM and not axes.collections
    lines = axes.get_yticklabels()[0].get_text().splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= recipe.LETTERS


def test_an_arrow_leads_from_the_short_run_to_the_long_one():
    brings = {"mixup": (-2.5, 1.5), "smoothing": (0.2, 0.5)}
    kinds = {"mixup": recipe.PICTURES, "smoothing": recipe.LABELS}
    figure, alt = recipe.turning(brings, kinds, ("8", "24"), band=0.9)
    (axes,) = figure.axes
    (arrow,) = axes.texts  # what changes by less than the band has none
    assert (arrow.xyann[0], arrow.xy[0]) == (-2.5, 1.5)
    assert "mixup -2.5 and +1.5; smoothing" in alt and "than 0.9" in alt
