"""Drawings of the chapter on attention: the numbers behind them."""

import io

import pytest
import torch

from vitedu.figures.attention import (
    answers,
    flow,
    hears,
    saturation,
    split,
    triangle,
)
from vitedu.figures.maps import dealt, framed, looks

PICTURE = torch.rand(3, 32, 48, generator=torch.Generator().manual_seed(0))
THREE = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
INWARDS = torch.tensor([[0.8, 0.6], [0.6, 0.8], [0.75, 0.75]])


def words(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def png(figure):
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=50)
    return content.getvalue()


def one_of_each():
    grid = torch.tensor([[0.0, 0.5, 0.25], [0.125, 0.0, 0.125]])
    yes = torch.eye(2).bool()
    return {
        "framed": framed(PICTURE, {"A": (0, 1)}, 16),
        "answers": answers(
            torch.arange(0, 361, 90.0),
            {"length 1": torch.tensor([1.0, 2.0, 3.0, 2.0, 1.0])},
            {0: 1},
        ),
        "triangle": triangle(THREE, INWARDS),
        "flow": flow(THREE, THREE, THREE, THREE, torch.eye(3), THREE),
        "saturation": saturation({1: 1.0, 4: 4.1}, {"near": 0.0, "far": 8.0}),
        "looks": looks(
            PICTURE, {name: (grid, (0, 1)) for name in "rgb"}, "All is seen."
        ),
        "dealt": dealt(
            {
                "a deal": (
                    torch.zeros(4, 4),
                    torch.ones(4, 4, 4),
                    {
                        "pixels": torch.tensor([0.25, 0.25, 0.125, 0.375]),
                        "learned": torch.tensor([0.125, 0.5, 0.25, 0.125]),
                    },
                    1,
                )
            }
        ),
        "split": split(),
        "hears": hears({(name, "image"): yes for name in "abcd"}),
    }


@pytest.mark.parametrize("name", one_of_each())
def test_every_drawing_can_be_saved_and_says_what_is_seen(name):
    figure, alt = one_of_each()[name]
    assert png(figure).startswith(b"\x89PNG")
    assert len(alt) > 20 and "\n" not in alt
    assert figure.get_facecolor()[3] == 1.0
    assert figure.get_figwidth() <= 5


def test_a_frame_lies_around_its_patch():
    figure, alt = framed(PICTURE, {"A": (1, 2)}, 16)
    (axes,) = figure.axes
    assert {patch.get_xy() for patch in axes.patches} == {(31.5, 15.5)}
    assert words(figure) == ["A"]
    assert "A at row 1, column 2" in alt


def test_the_dictionary_is_drawn_against_the_direction():
    figure, alt = one_of_each()["answers"]
    line, entries = figure.axes[0].lines
    assert line.get_xdata().tolist() == [0, 90, 180, 270, 360]
    assert line.get_ydata().tolist() == [1, 2, 3, 2, 1]
    assert entries.get_xydata().tolist() == [[0, 1]]
    assert "length 1 from 1.0 to 3.0" in alt


def test_outputs_are_drawn_inside_the_triangle():
    figure, alt = triangle(THREE, INWARDS)
    squares = [
        line.get_xydata()[0].tolist()
        for line in figure.axes[0].lines
        if line.get_marker() == "s"
    ]
    assert torch.allclose(torch.tensor(squares).float(), INWARDS)
    assert "x3 to (0.75, 0.75)" in alt


def test_the_flow_holds_the_numbers_of_all_its_matrices():
    weights = torch.tensor([[0.11, 0.445, 0.445]] * 3)
    figure, alt = flow(THREE, THREE, THREE, 10 * THREE, weights, THREE)
    assert words(figure).count("10") == 4
    assert words(figure).count("0.11") == 3
    assert "Rows of A: 0.11" in alt


def test_the_slope_of_equal_scores_is_a_quarter():
    figure, alt = one_of_each()["saturation"]
    upper, lower = figure.axes
    curve, near, far = lower.lines
    assert curve.get_ydata()[0] == 0.25
    assert near.get_ydata() == [0.25]
    assert far.get_ydata()[0] < 0.001
    assert upper.lines[1].get_xydata().tolist() == [[1, 1], [4, 4.1]]
    assert lower.get_yscale() == "log"
    assert "near: 0.25, far: 0.00034" in alt


def test_maps_share_one_scale_around_an_equal_share():
    grid = torch.tensor([[0.125, 0.5, 0.125], [0.125, 0.0625, 0.0625]])
    maps = {
        name: (grid, (0, place)) for place, name in enumerate(("B", "F", "S"))
    }
    figure, alt = looks(PICTURE, maps, "All is seen.")
    for axes in figure.axes[1:4]:
        (shown,) = axes.images
        assert shown.get_clim() == (-2, 2)
        assert torch.tensor(shown.get_array()).allclose((6 * grid).log2())
        (dot,) = axes.lines
        assert dot.get_xydata().tolist() == [[1, 0]]
    assert words(figure) == ["B", "F", "S"]
    assert "S looks at 4 of 6, most at row 0, column 1, 3.0 times" in alt
    assert alt.endswith("All is seen.")


@pytest.mark.parametrize(
    ("weights", "many"), [([0.25] * 4, 4), ([0.5, 0.5, 0, 0], 2)]
)
def test_a_map_says_at_how_many_patches_it_looks(weights, many):
    grid = torch.tensor(weights).view(2, 2)
    maps = {name: (grid, (0, 0)) for name in "abc"}
    figure, _ = looks(PICTURE, maps)
    titles = [axes.get_title() for axes in figure.axes]
    assert f"a\nlooks at {many} of 4" in titles


def test_one_place_in_all_maps_is_framed_once():
    figure, _ = one_of_each()["looks"]
    assert words(figure) == [""]


def test_a_deal_shows_the_right_card_and_what_each_chooses():
    figure, alt = one_of_each()["dealt"]
    (axes,) = figure.axes
    yellow = [
        patch.get_xy()
        for patch in axes.patches
        if patch.get_facecolor()[:3]
        == pytest.approx((1, 0.843, 0.369), abs=0.01)
    ]
    assert yellow == [(1, -0.05)]
    lengths = [patch.get_width() / 0.9 for patch in axes.patches]
    assert lengths[1:5] == pytest.approx([0.25, 0.25, 0.125, 0.375])
    assert [word for word in words(figure) if word[0] == "0"] == [
        "0.38",
        "0.50",
    ]
    assert "a deal: the right one is 1" in alt
    assert "pixels choose 3 (0.38), learned choose 1 (0.50)" in alt


def test_each_head_has_a_query_a_key_and_a_value():
    figure, _ = split()
    found = [word for word in words(figure) if word.startswith("$")]
    assert found == [f"${name}_{head}$" for name in "qkv" for head in (1, 2)]


def test_hearing_is_counted():
    figure, alt = one_of_each()["hears"]
    assert "image hears image (a): 2 of 4" in alt
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["moves", "does not move"]
