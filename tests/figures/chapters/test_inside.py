"""Drawings of chapter 15: the numbers behind them, and their alt text."""

import json
import re
from base64 import b64decode
from html import unescape

import pytest
import torch

from vitedu.figures.chapters import inside


def test_heads_are_dots_and_those_above_the_line_are_counted():
    far = torch.tensor([[10.0, 20], [30, 60]])
    figure, alt = inside.distances({"ours": far, "theirs": far / 2}, 25)
    left, right = figure.axes
    heads = [line.get_ydata() for line in left.lines[:2]]
    assert [list(each) for each in heads] == [[10, 30], [20, 60]]
    assert "ours: from 10 to 20 in the first block, 30 to 60 in the" in alt
    assert "2 of 4 are above" in alt and "1 of 4 are above" in alt
    assert left.get_ylim() == right.get_ylim()


def test_a_table_of_positions_has_a_map_for_each():
    table = torch.arange(16.0).view(2, 2, 2, 2) / 16
    figure, alt = inside.crosses({"a": table, "two\nlines": table})
    sheet = figure.axes[0].images[0].get_array()
    assert sheet.shape == (5, 5)
    assert sheet.mask[2].all() and not sheet.mask[:2, :2].any()
    assert sheet[3, 1] == table[1, 0, 0, 1]
    assert "a: 2 by 2; two lines: 2 by 2" in " ".join(alt.split())
    figure, alt = inside.crosses({"": table}, step=2)
    assert figure.axes[0].images[0].get_array().shape == (2, 2)
    figure, alt = inside.crosses({"a": table, "b": table}, marked={(1, 0): "A"})
    (marked,) = figure.axes[0].texts
    assert (marked.get_text(), *marked.get_position()) == ("A", 0, 1)
    assert not figure.axes[1].texts and "A in row 1, column 0" in alt


@pytest.mark.parametrize(
    ("titles", "shape"), [(["one"], (1, 4)), (["one", "other"], (2, 3))]
)
def test_maps_of_a_photograph_share_a_scale(titles, shape):
    images = torch.rand(2, 3, 8, 8)
    maps = {
        title: torch.rand(2, 4, 4) * (1 + number)
        for number, title in enumerate(titles)
    }
    figure, alt = inside.looked_at(images, maps, ["cat", "cup"])
    assert figure.axes[0].get_subplotspec().get_gridspec().get_geometry() == (
        shape
    )
    shown = figure.axes[1 : 1 + len(titles)]
    assert len({axes.images[0].get_clim() for axes in shown}) == 1
    assert alt.endswith("cat, cup.")


def test_a_map_falls_on_its_photograph_as_a_light():
    images, light = torch.ones(1, 3, 8, 8), torch.tensor([[[1.0, 0], [4, 0]]])
    maps = {"before": torch.rand(1, 2, 2), "after": light}
    figure, alt = inside.looked_at(images, maps, ["cup"], lit="it looked at")
    _, before, after, lit = figure.axes
    assert before.images[0].get_clim() != after.images[0].get_clim()
    shown = lit.images[0].get_array()
    assert shown[7, 0].min() == 1 and 0 < shown[:, 7].max() < 0.1
    assert lit.get_title() == "it looked at" and "as a light" in alt


def test_patches_that_are_gone_are_grey():
    gone, rows = torch.tensor([[1]]), {"all": torch.tensor([0.9])}
    figure, alt = inside.removed(torch.ones(1, 3, 8, 8), gone, ["cup"], rows, 4)
    shown = figure.axes[0].images[0].get_array()
    assert shown[:4, 4:].max() < 0.6 and shown[4:].min() == 1
    assert figure.axes[0].get_xlabel() == "all 90%" and "cup: all 90%" in alt


def test_curves_of_removal_are_in_percent_with_two_errors():
    curve = {"shares": [0, 0.5], "probability": [0.8, 0.2], "error": [0.0, 0.1]}
    figure, alt = inside.removal({"rollout": curve})
    line = figure.axes[0].containers[0].lines
    assert list(line[0].get_ydata()) == pytest.approx([80, 20])
    assert line[2][0].get_segments()[1][:, 1] == pytest.approx([0, 40])
    assert "rollout: 80, 20 percent" in alt


def test_tokens_without_a_place_are_below_the_picture():
    plain = torch.ones(196)
    plain[[0, 13]] = 500
    outside = torch.cat([torch.tensor([400.0, 9.0]), torch.ones(196)])
    figure, alt = inside.norms({"before": plain, "after": outside})
    before, after = (axes.images[0].get_array() for axes in figure.axes[:2])
    assert before.shape == after.shape == (16, 14)
    assert before[0, 13] == 500 and before.mask[14:].all()
    assert after[15, 10] == 400 and after[15, 12] == 9
    assert [x.get_text() for x in figure.axes[1].texts] == ["registers"]
    assert "before: 2 giants in the picture; after: 0 giants in" in alt
    assert alt.endswith("1 outside.")


def test_lengths_and_shares_have_the_same_blocks():
    lengths = {"corners": [1.0, 400.0], "others": [1.0, 20.0]}
    figure, alt = inside.growth(lengths, [0.02, 0.5])
    above, below = figure.axes
    assert list(above.lines[0].get_ydata()) == [1, 400]
    assert [bar.get_height() for bar in below.patches] == [2, 50]
    assert "corners 1 to 400; others 1 to 20" in alt and "2, 50 percent" in alt


def test_a_cost_has_its_error():
    rows = {"corners\ndropped": {"more": 0.2, "error_of_more": 0.01}}
    figure, alt = inside.costs(rows)
    (bar,) = figure.axes[0].patches
    assert bar.get_width() == 0.2
    assert figure.axes[0].texts[0].get_text() == "+0.20"
    assert "corners dropped +0.200 ± 0.010" in alt


def test_filters_are_stretched_each_by_itself():
    small = torch.stack([torch.zeros(3, 2, 2), torch.ones(3, 2, 2)])
    small[:, 0, 0, 0] += 0.1
    figure, alt = inside.filters(small)
    first, second = (axes.images[0].get_array() for axes in figure.axes[:2])
    assert first.max() == second.max() == 1 and first.min() == 0
    assert alt.startswith("2 small pictures")


def test_the_page_gets_the_corners_of_each_photograph():
    lengths = torch.full((2, 200), 12.0)
    lengths[0, :4], lengths[1, 4], lengths[1, 5] = 440, 500, torch.nan
    answers = torch.tensor([[0.1, 0.2, 0.7, 0.0], [0.6, 0.3, 0.1, 0.0]])
    row = {"value": 0.7, "more": 0.01, "error_of_more": 0.002}
    shown = inside.Corners(
        dict.fromkeys(("cat", "cup"), torch.rand(3, 28, 28)),
        {"moved": (lengths, answers)},
        {"moved": row},
        ["a cat", 'a "cup"', "tea & milk", "none"],
    )
    [told] = re.findall('data-told="(.*?)"', shown._repr_html_())
    told = json.loads(unescape(told))
    assert told["pictures"]["cat"].startswith("data:image/jpeg;base64,")
    [[name, loss, (cat, cup)]] = told["changes"]
    assert (name, loss) == ("moved", "0.700 (+0.010 ± 0.002)")
    assert cat["giants"] == [0, 4] and cup["giants"] == [1, 0]
    best = [["tea & milk", 0.7], ['a "cup"', 0.2], ["a cat", 0.1]]
    assert cat["top"] == best
    sizes = b64decode(cup["lengths"])
    assert len(sizes) == 200 and sizes[4] > 240 and sizes[5] == 0
