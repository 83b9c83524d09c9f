"""Drawings of chapter 3: the numbers behind them, and their alt text."""

import math

import pytest
import torch

from tests.figures.drawn import lines, names, words
from vitedu.figures.chapters import encoder


def shares(axes):
    """How much of its ground each bar covers."""
    widths = [patch.get_width() for patch in axes.patches]
    pairs = zip(widths[::2], widths[1::2], strict=True)
    return [bar / ground for ground, bar in pairs]


def test_likeness_is_the_cosine_with_one_patch_without_the_class_token():
    tokens = torch.zeros(197, 2)
    tokens[0] = torch.tensor([9.0, 9.0])  # belongs to no patch
    tokens[1:, 0] = 3.0
    tokens[1 + 20] = torch.tensor([0.0, 5.0])
    figure, alt = encoder.likeness(torch.rand(3, 28, 28), {"no": tokens}, 33)
    picture, panel, *_ = figure.axes
    shown = panel.images[0].get_array()
    assert shown.shape == (14, 14)
    assert shown[1][6] == 0  # patch 20
    assert shown.sum() == 195
    # row 2, column 5, of patches two pixels wide
    assert picture.patches[0].get_bbox().bounds == (9.5, 3.5, 2, 2)
    assert "no: 99%" in alt


@pytest.mark.parametrize("beside", [True, False])
def test_likeness_has_one_scale_beside_a_picture_and_in_a_row(beside):
    torch.manual_seed(0)
    streams = {str(n): torch.randn(196, 4) for n in range(3)}
    picture = torch.rand(3, 28, 28) if beside else None
    figure, alt = encoder.likeness(picture, streams, 0)
    assert figure.axes[0].get_gridspec().ncols == 3
    for panel in figure.axes[beside : 3 + beside]:
        assert panel.images[0].get_clim() == pytest.approx((0, 1))
        assert {frame.get_bbox().bounds for frame in panel.patches} == {
            (-0.5, -0.5, 1, 1)
        }
    assert ("photograph" in alt) == beside


def test_averages_tell_how_far_the_farthest_token_is_from_the_mean():
    mix = torch.full((3, 3), 0.25) + 0.25 * torch.eye(3)
    tokens = torch.tensor([[4.0, 0], [0, 4], [2, 2]])
    figure, alt = encoder.averages([tokens, mix @ tokens])
    drawn = lines(figure.axes[0])
    assert drawn["three tokens"] == tokens.tolist()
    assert drawn["after layer 1"] == [[2.5, 1.5], [1.5, 2.5], [2, 2]]
    far = math.dist((4, 0), (2, 2))
    assert f"{far:.2f}, {far / 4:.2f}" in alt


def test_influence_counts_pairs_of_different_tokens():
    alone, all_with_all = torch.eye(3), torch.ones(3, 3)
    figure, alt = encoder.influence({"MLP": alone, "attention": all_with_all})
    assert "Of 6 pairs of different tokens: MLP 0, attention 6" in alt
    left, right = figure.axes
    assert left.images[0].get_array().sum() == 3
    assert right.images[0].get_array().all()


def test_gelu_dips_below_zero_where_relu_does_not():
    figure, alt = encoder.activations()
    drawn = lines(figure.axes[0])
    assert min(y for _, y in drawn["ReLU"]) == 0
    assert min(y for _, y in drawn["GELU"]) == pytest.approx(-0.17, abs=0.005)
    assert "dips to -0.17" in alt


def test_parts_have_a_row_per_network():
    said = {
        "whole": [("cat", 0.75), ("cup", 0.5)],
        "no norms": [("harp", 0.25), ("hook", 1.0)],
    }
    pictures = {name: torch.rand(3, 8, 8) for name in ("cat", "coffee")}
    figure, alt = encoder.parts(pictures, said)
    axes, *photographs = figure.axes
    drawn = words(axes)
    assert {"no\nnorms", "harp\n25%"} <= set(drawn)
    assert shares(axes) == pytest.approx([0.75, 0.5, 0.25, 1.0])
    assert len(photographs) == 2
    assert "no norms: harp 25%, hook 100%." in alt


def test_answers_are_written_after_each_block_with_a_bar_as_long():
    guesses = {
        "Hopper": [("crayfish", 0.05), ("military uniform", 0.74)],
        "cat": [("crayfish", 0.05), ("tabby", 0.5)],
    }
    pictures = {name: torch.rand(3, 8, 8) for name in guesses}
    figure, alt = encoder.answers(pictures, guesses)
    axes, *photographs = figure.axes
    assert words(axes).count("crayfish 5%") == 2
    assert {"military uniform 74%", "tabby 50%", "0", "1"} <= set(words(axes))
    assert shares(axes) == pytest.approx([0.05, 0.74, 0.05, 0.5])
    assert len(photographs) == 2
    assert "Hopper begins with crayfish and ends with military uniform" in alt
    assert "after each of 1 blocks" in alt


def test_losses_stand_beside_the_constant_answer_and_are_named_outside():
    runs = {"pre": [2.0, 0.0], "post": [2.0, 2.0], "slow": [2.5, 2.25]}
    figure, alt = encoder.losses(runs, constant=2.0)
    (axes,) = figure.axes
    assert lines(axes)["slow"] == [[0, 2.5], [1, 2.25]]
    assert names(figure.legends[0].get_texts()) == list(runs)
    assert axes.get_legend() is None
    _, *drawn = axes.lines
    assert [line.get_linestyle() for line in drawn] == ["-", "--", ":"]
    assert "over 1 steps; the best constant answer has 2.0" in alt
    assert "pre 0.0; post 2.0; slow 2.2" in alt
