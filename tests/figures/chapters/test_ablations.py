"""Drawings of chapter 16: the numbers behind them, and their alt text."""

import pytest
import torch

from tests.figures.drawn import words
from vitedu.data import glyphs
from vitedu.figures.chapters import ablations


@pytest.mark.parametrize("where", ["all", "upper", "lower"])
def test_the_glyphs_are_found_where_they_are(where):
    images, labels = glyphs.left_of(50, where=where, seed=4)
    a, b = ablations.places(images).T
    assert torch.equal((a % 6 < b % 6).long(), labels)
    rows = torch.stack([a, b]) // 6
    assert where == "all" or ((rows < 3) == (where == "upper")).all()


def test_both_letters_stand_in_every_picture():
    images, labels = glyphs.left_of(4, where="upper", seed=2)
    figure, alt = ablations.puzzles(images, labels)
    assert all(words(axes) == ["A", "B"] for axes in figure.axes)
    assert alt.endswith("yes, no, yes, no.")


def test_a_network_that_is_right_above_alone():
    pairs = [(a, b) for a in range(36) for b in range(36) if a % 6 != b % 6]
    upper = [max(a, b) < 18 for a, b in pairs]
    left = [a % 6 < b % 6 for a, b in pairs]
    both = zip(left, upper, strict=True)
    tenths = "".join(str(9 * (is_left == up)) for is_left, up in both)
    right = ablations.right_by_rows(tenths)
    assert (right[:3, :3] == 100).all()
    assert (right[3:] == 0).all() and (right[:, 3:] == 0).all()
    _, alt = ablations.by_rows({"one": right, "two": right})
    assert "one: 100% where it has learned, 0 below" in alt

    def knows(images):
        a, b = ablations.places(64 * images + 128).T % 6
        return torch.stack([a > b, a < b], 1) * 9.0

    assert (ablations.right_by_rows(ablations.tenths(knows)) == 100).all()
    assert ablations.in_half(tenths, "lower") == (1, 1)  # sure, and wrong
    assert ablations.in_half(tenths, "upper") == (1, 0)
    page = ablations.Pairs({"one": tenths})._repr_html_()
    assert f"&quot;one&quot;: &quot;{tenths}&quot;" in page


def test_every_run_is_a_point():
    kinds = {"upper": [100.0, 99.0], "lower": [45.0, 40.0]}
    figure, alt = ablations.runs({"1-D": kinds}, "right (%)", 50)
    points = [x for line in figure.axes[0].lines for x in line.get_xdata()]
    assert {100, 99, 45, 40} <= {*points}
    assert "1-D upper 99.5, lower 42.5" in alt
    groups = {"none": {"upper": [50.0]}, "1-D": {"lower": [45.0, 40.0]}}
    figure, _ = ablations.runs(groups, "right (%)", with_means=True)
    assert [42.5, 42.5] in [[*x.get_xdata()] for x in figure.axes[0].lines]
    _, alt = ablations.arrows([(60, 90), (40, 95)], "right (%)", 50)
    assert alt.endswith("from 40.0 to 95.0; 60.0 to 90.0.")


def test_the_best_rate_is_named():
    x = [1e-3, 2e-3, 4e-3]
    curves = {
        "class token": (x, [[30.0, 32.0], [40.0, 42.0], [35.0, 35.0]]),
        "mean": (x, [[30.0, 30.0], [35.0, 35.0], [45.0, 47.0]]),
    }
    _, alt = ablations.rates(curves)
    assert "class token 31.0% at 0.001, best 41.0 at 0.002" in alt
    assert "best 46.0 at 0.004" in alt


def test_a_patch_has_its_columns_vector_and_its_rows():
    figure, _ = ablations.table_of(torch.zeros(3, 1), torch.zeros(2, 1))
    cells = words(figure.axes[0])
    assert cells.count("X2") == 3 and cells.count("Y2") == 4


def test_what_a_network_costs_is_said_twice():
    rivals = {"one": (1.0, 1.0, [38.0]), "other": (1.4, 2.0, [40.0, 42.0])}
    figure, alt = ablations.costs(rivals)
    found = [axes.lines[1].get_xdata().tolist() for axes in figure.axes]
    assert found == [[1.4, 1.4], [2.0, 2.0]]
    assert "other 41.0% at 1.40 times the multiply-adds and 2.00" in alt


def test_what_grows_is_drawn_in_the_order_of_its_cost():
    names = ("depth", "width", "MLP", "patches", "all")
    grown = {name: [(1.0, [40.0, 42.0]), (0.5, [38.0])] for name in names}
    figure, alt = ablations.shapes(grown)
    assert figure.axes[0].lines[0].get_xdata().tolist() == [0.5, 1.0]
    assert "depth 38.0% at 0.5, 41.0% at 1.0" in alt
