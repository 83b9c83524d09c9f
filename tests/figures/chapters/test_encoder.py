"""The numbers behind the drawings of the chapter on the encoder."""

import io
import math

import pytest
import torch

from vitedu.figures.chapters import encoder as drawings

pytestmark = pytest.mark.slow  # draws


def drawn(axes):
    """Label and points of each line of a panel."""
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def words(axes):
    return [text.get_text() for text in axes.texts]


def packed(axes):
    """The pieces of each line of words that has several colours."""
    from matplotlib.offsetbox import AnnotationBbox

    lines = [each for each in axes.artists if isinstance(each, AnnotationBbox)]
    return [
        [area.get_text() for area in line.offsetbox.get_children()]
        for line in lines
    ]


def test_likeness_is_the_cosine_with_one_patch_without_the_class_token():
    tokens = torch.zeros(197, 2)
    tokens[0] = torch.tensor([9.0, 9.0])  # belongs to no patch
    tokens[1:, 0] = 3.0
    tokens[1 + 20] = torch.tensor([0.0, 5.0])
    figure, alt = drawings.likeness(torch.rand(3, 28, 28), {"no": tokens}, 33)
    picture, panel, *_ = figure.axes
    shown = panel.images[0].get_array()
    assert shown.shape == (14, 14)
    assert shown[1][6] == 0  # patch 20
    assert shown.sum() == 195
    # row 2, column 5, of patches two pixels wide
    assert picture.patches[0].get_bbox().bounds == (9.5, 3.5, 2, 2)
    assert "no: 99 %" in alt


def test_likeness_has_one_scale_from_0_to_1():
    torch.manual_seed(0)
    streams = {"a": torch.randn(196, 4), "b": torch.ones(196, 4)}
    figure, _ = drawings.likeness(torch.rand(3, 28, 28), streams, 0)
    for panel in figure.axes[1:3]:
        low, high = panel.images[0].get_clim()
        assert low == 0 and high == pytest.approx(1)


@pytest.mark.parametrize("number, across", [(3, 2), (5, 3)])
def test_likeness_has_large_panels_if_they_are_few(number, across):
    streams = {str(n): torch.ones(196, 4) for n in range(number)}
    figure, _ = drawings.likeness(torch.rand(3, 28, 28), streams, 0)
    assert figure.axes[0].get_gridspec().ncols == across


def test_averages_tell_how_far_the_farthest_token_is_from_the_mean():
    mix = torch.full((3, 3), 0.25) + 0.25 * torch.eye(3)
    tokens = torch.tensor([[4.0, 0], [0, 4], [2, 2]])
    figure, alt = drawings.averages([tokens, mix @ tokens])
    lines = drawn(figure.axes[0])
    assert lines["tokens"] == tokens.tolist()
    assert lines["after 1"] == [[2.5, 1.5], [1.5, 2.5], [2, 2]]
    far = math.dist((4, 0), (2, 2))
    assert f"{far:.2f}, {far / 4:.2f}" in alt


def test_the_block_has_both_equations_and_both_lines_of_code():
    figure, alt = drawings.block()
    axes = figure.axes[0]
    names = words(axes)
    for name, count in (("norm", 2), ("+", 2), ("reads", 2), ("adds", 2)):
        assert names.count(name) == count
    lines = ["".join(pieces) for pieces in packed(axes)]
    assert "x = x + self.attn(self.norm1(x))" in lines
    assert "return x + self.mlp(self.norm2(x))" in lines
    assert sum("LN" in each for each in lines) == 2
    assert "equation (2)" in alt and "equation (3)" in alt


def test_the_lines_of_the_block_are_those_of_the_code():
    from inspect import getsource

    from vitedu.plain import EncoderBlock

    figure, _ = drawings.block()
    lines = ["".join(pieces) for pieces in packed(figure.axes[0])]
    code = getsource(EncoderBlock.forward)
    assert all(line in code for line in lines if "self." in line)


def test_influence_counts_pairs_of_different_tokens():
    alone, all_with_all = torch.eye(3), torch.ones(3, 3)
    figure, alt = drawings.influence({"MLP": alone, "attention": all_with_all})
    assert "Of 6 pairs of different tokens: MLP 0, attention 6" in alt
    left, right = figure.axes
    assert left.images[0].get_array().sum() == 3
    assert right.images[0].get_array().all()


def test_gelu_dips_below_zero_where_relu_does_not():
    figure, alt = drawings.activations()
    lines = drawn(figure.axes[0])
    assert min(y for _, y in lines["ReLU"]) == 0
    assert min(y for _, y in lines["GELU"]) == pytest.approx(-0.17, abs=0.005)
    assert "dips to -0.17" in alt


def test_answers_are_written_after_each_block_with_a_bar_as_long():
    guesses = {
        "Hopper": [("crayfish", 0.05), ("military uniform", 0.74)],
        "cat": [("crayfish", 0.05), ("tabby", 0.5)],
    }
    pictures = {name: torch.rand(3, 8, 8) for name in guesses}
    figure, alt = drawings.answers(pictures, guesses)
    axes = figure.axes[0]
    assert words(axes).count("crayfish 5") == 2
    assert {"military uniform 74", "tabby 50", "0", "1"} <= set(words(axes))
    grounds, bars = axes.patches[::2], axes.patches[1::2]
    shares = [
        bar.get_width() / ground.get_width()
        for ground, bar in zip(grounds, bars, strict=True)
    ]
    assert shares == pytest.approx([0.05, 0.74, 0.05, 0.5])
    assert len(figure.axes) == 3  # the table and two photographs
    assert "Hopper begins with crayfish and ends with military uniform" in alt
    assert "after each of 1 blocks" in alt


def test_losses_stand_beside_the_constant_answer():
    figure, alt = drawings.losses({"slow": [2.5, 2.25]}, constant=2.0)
    assert drawn(figure.axes[0])["slow"] == [[0, 2.5], [1, 2.25]]
    assert "over 1 steps; the best constant answer has 2.0" in alt


def test_losses_have_their_names_outside_of_the_panel():
    runs = {"pre": [2.0, 0.0], "post": [2.0, 2.0], "slow": [2.0, 1.0]}
    figure, alt = drawings.losses(runs, constant=2.0)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(runs)
    assert figure.axes[0].get_legend() is None
    _, *lines = figure.axes[0].lines
    assert [line.get_linestyle() for line in lines] == ["-", "--", ":"]
    assert "pre 0.0; post 2.0; slow 1.0" in alt


def test_medians_are_lines_and_seeds_are_dots():
    runs = {"pre": [[3.0, 1.0, 2.0], [0.4] * 3], "post": [[1.0] * 3] * 2}
    figure, alt = drawings.medians((1, 24), {"gradient": runs})
    axes = figure.axes[0]
    dots = [line for line in axes.lines if line.get_linestyle() == "None"]
    assert [line.get_ydata()[0] for line in dots[:3]] == [3, 1, 2]
    assert drawn(axes)["pre"] == [[1, 2], [24, 0.4]]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1", "24"]
    assert "Medians of 3 seeds, from 1 block to 24" in alt
    assert "gradient, pre: 2 to 0.4" in alt


@pytest.mark.parametrize("draw", ["block", "activations"])
def test_drawings_fit_a_phone_and_can_be_saved(draw):
    figure, alt = getattr(drawings, draw)()
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=50)
    assert alt.endswith(".") and figure.get_size_inches()[0] <= 5
    assert figure.get_facecolor()[3] == 1  # legible on a dark page too
