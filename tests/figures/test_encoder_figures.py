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


def test_similarity_draws_the_picture_and_every_map():
    maps = {0: torch.eye(2), 1: torch.full((2, 2), 0.5)}
    figure, alt = drawings.similarity(torch.rand(8, 8, 3), maps, (0, 1))
    picture, none, one, *_ = figure.axes
    assert picture.images[0].get_array().shape == (8, 8, 3)
    assert none.images[0].get_array().tolist() == [[1, 0], [0, 1]]
    assert one.images[0].get_clim() == (-1, 1)
    assert "0.00 after 0, 0.50 after 1" in alt


def test_similarity_marks_the_patch_by_row_and_column():
    maps = {0: torch.zeros(2, 4)}
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
    _, alt = drawings.influence({"MLP": alone, "attention": all_with_all})
    assert "of 6: MLP 0, attention 6" in alt


def test_both_orders_have_the_same_parts():
    figure, _ = drawings.two_orders()
    parts = words(figure.axes[0])
    for part, count in (("norm", 4), ("attention", 2), ("MLP", 2), ("+", 4)):
        assert parts.count(part) == count


def test_writes_are_shown_in_percent_of_the_stream():
    figure, alt = drawings.writes([1.0, 2.0], {"MLP": [0.5, 0.25]})
    upper, lower = figure.axes
    assert upper.lines[0].get_xydata().tolist() == [[1, 1], [2, 2]]
    assert drawn(lower)["MLP"] == [[1, 50], [2, 25]]
    assert "MLP from 50 to 25 %" in alt


def test_gradients_are_drawn_by_block_from_one():
    figure, alt = drawings.gradient_by_block({"pre-norm": [2.0, 0.5]})
    assert drawn(figure.axes[0])["pre-norm"] == [[1, 2], [2, 0.5]]
    assert "2.0 in the first, 0.5 in the last" in alt


def test_depths_are_written_out_on_both_axes():
    values = {"pre-norm": [2.0, 0.4]}
    figure, alt = drawings.by_depth((1, 24), values, "gradient norm")
    axes = figure.axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1", "24"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["0.5", "1", "2"]
    assert "Gradient norm in stacks of 1 to 24 blocks" in alt


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
