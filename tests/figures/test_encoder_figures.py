"""The numbers behind the drawings of the chapter on the encoder."""

import io

import pytest
import torch

from vitedu.figures import encoder as drawings


def drawn(axes):
    """Label and points of each line of a panel."""
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def words(axes):
    return [text.get_text() for text in axes.texts]


def test_similarity_draws_the_picture_and_every_map_on_its_own_scale():
    maps = {0: 1.5 * torch.eye(2), 2: torch.tensor([[0, 4e-10], [8e-10, 0]])}
    figure, alt = drawings.similarity(torch.rand(8, 8, 3), maps, (0, 1))
    picture, none, two, *_ = figure.axes
    assert picture.images[0].get_array().shape == (8, 8, 3)
    assert none.images[0].get_array().tolist() == [[1, 0], [0, 1]]
    assert two.images[0].get_array().tolist() == [[0, 0.5], [1, 0]]
    assert two.get_title() == "2 layers: lowest\ncosine 1 - 8e-10"
    assert "-0.50 after 0, 1 - 8e-10 after 2" in alt


def test_similarity_marks_the_patch_by_row_and_column():
    maps = {0: torch.ones(2, 4)}
    figure, _ = drawings.similarity(torch.rand(8, 16, 3), maps, (1, 2))
    picture, none, *_ = figure.axes
    assert picture.patches[0].get_bbox().bounds == (8, 4, 4, 4)
    assert none.patches[0].get_bbox().bounds == (1.5, 0.5, 1, 1)


def test_spread_and_size_are_drawn_over_layers():
    figure, alt = drawings.spread_and_size(
        {"a": [0.9, 1e-16]}, {"a": [1.0, 2.0]}
    )
    upper, lower = figure.axes
    assert drawn(upper)["a"] == [[0, 0.9], [1, 1e-16]]
    assert drawn(lower)["a"] == [[0, 1], [1, 2]]
    # rounding errors differ between machines, and the text is compared
    assert "below 1e-13" in alt


def test_the_stream_is_read_and_written_twice():
    figure, _ = drawings.river()
    assert words(figure.axes[0]).count("+") == 2
    assert words(figure.axes[0]).count("reads") == 2


def test_layer_norm_leaves_three_places_in_the_plane():
    before = torch.tensor([[3.0, 1], [1, 3], [4, 4], [0.2, 0]])
    after = torch.tensor([[1.0, -1], [-1, 1], [0, 0], [1, -1]])
    figure, alt = drawings.plane(before, after)
    lines = drawn(figure.axes[0])
    assert lines["token"] == before.tolist()
    assert lines["after LayerNorm"] == after.tolist()
    assert "4 tokens" in alt and "3 places" in alt


def test_the_difference_of_the_gelus_is_drawn_in_ten_thousandths():
    figure, alt = drawings.activations()
    (difference, _) = figure.axes[1].lines
    assert max(abs(difference.get_ydata())) == pytest.approx(4.73, abs=0.005)
    assert "4.73e-04" in alt


def test_influence_counts_pairs_of_different_tokens():
    alone, all_with_all = torch.eye(3), torch.ones(3, 3)
    figure, alt = drawings.influence({"MLP": alone, "attention": all_with_all})
    assert "of 6: MLP 0, attention 6" in alt
    left, right, _ = figure.axes
    assert left.get_title() == "MLP\n0 of 6 pairs"
    # zeros are masked, so that the white of the panel shows
    assert (left.images[0].get_array().mask == (alone == 0).numpy()).all()
    assert not right.images[0].get_array().mask.any()


def test_both_orders_have_the_same_parts():
    figure, _ = drawings.two_orders()
    parts = words(figure.axes[0])
    for part, count in (("norm", 4), ("attention", 2), ("MLP", 2), ("+", 4)):
        assert parts.count(part) == count


def test_writes_are_shown_in_percent_of_the_stream():
    figure, alt = drawings.writes(
        [1.0, 2.0, 3.0], {"MLP": [0.5, 0.4, 0.6]}, {"MLP": [0.5, 0.2, 0.2]}
    )
    upper, lower = map(drawn, figure.axes)
    assert upper["stream"] == [[1, 1], [2, 2], [3, 3]]
    assert upper["MLP"] == [[1, 0.5], [2, 0.4], [3, 0.6]]
    assert lower["MLP"] == [[1, 50], [2, 20], [3, 20]]
    assert "MLP between 0.40 and 0.60" in alt and "from 50 to 20 %" in alt


def test_the_square_of_the_thin_line_rises_evenly_between_the_ends():
    streams = [1.0, 2.0, 3.0]
    figure, _ = drawings.writes(streams, {"MLP": streams}, {"MLP": streams})
    root = [y for _, y in drawn(figure.axes[0])["square root"]]
    assert root == pytest.approx([1, 5**0.5, 3])


def test_medians_are_lines_and_seeds_are_dots():
    figure, alt = drawings.medians(
        range(1, 13), {"pre-norm": [[3.0, 1.0, 2.0]] * 12}, ("block", "norm")
    )
    axes = figure.axes[0]
    dots = [line for line in axes.lines if line.get_linestyle() == "None"]
    assert [set(line.get_ydata()) for line in dots] == [{3}, {1}, {2}]
    assert drawn(axes)["pre-norm"] == [[block, 2] for block in range(1, 13)]
    assert axes.get_xscale() == "linear" and axes.get_yscale() == "log"
    assert "Norm, median of 3 seeds; block: 1 and 12" in alt
    assert "pre-norm 2.00, 2.00 (seeds 1.00 to 3.00)" in alt


def test_few_places_are_written_out_on_both_axes():
    values = {"pre-norm": [[2.0, 2.0], [0.4, 0.4]]}
    labels = ("blocks in the stack", "gradient norm")
    figure, alt = drawings.medians((1, 24), values, labels)
    axes = figure.axes[0]
    assert axes.get_xscale() == "log"
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1", "24"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["0.5", "1", "2"]
    assert "blocks in the stack: 1 and 24" in alt


def test_losses_stand_beside_the_constant_answer():
    figure, alt = drawings.loss_lines({"slow": [2.5, 2.25]}, constant=2.0)
    assert drawn(figure.axes[0])["slow"] == [[0, 2.5], [1, 2.25]]
    assert "after 1 steps, the constant answer being 2.0" in alt


@pytest.mark.parametrize("draw", ["river", "activations", "two_orders"])
def test_schematics_are_opaque_and_can_be_saved(draw):
    figure, alt = getattr(drawings, draw)()
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=50)
    assert figure.get_facecolor()[3] == 1.0 and alt.endswith(".")
    assert figure.get_size_inches()[0] <= 5
