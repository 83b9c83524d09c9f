"""Drawings of the chapter on the whole network: the numbers behind them."""

import io

import pytest
import torch

from vitedu.figures.vit import (
    gradients,
    losses,
    parameter_shares,
    pictures,
    readout,
    tokens,
)


def words(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def png(figure):
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=50)
    return content.getvalue()


def test_one_class_token_stands_before_every_image():
    figure, alt = tokens(batch=2, patches=3)
    assert words(figure).count("class") == 2
    assert words(figure).count("class\n(1, 1, d)") == 1
    assert [w for w in words(figure) if w.startswith("row")] == [
        f"row {i}" for i in range(4)
    ]
    assert "4 positions" in alt


def test_the_tanh_after_the_logits_is_crossed_out():
    figure, alt = readout()
    assert "never here" in words(figure)
    assert "crossed out" in alt


def test_pictures_keep_their_order():
    black, white = torch.zeros(3, 4, 4), torch.ones(3, 4, 4)
    figure, alt = pictures(black, white, ("night", "day"), "All dark.")
    shown = [axes.images[0].get_array().max() for axes in figure.axes]
    assert shown == [0, 1]
    assert alt == "Night; day. All dark."


def test_losses_are_means_over_ten_steps():
    figure, alt = losses([2.0] * 10 + [1.0] * 10, [2.0] * 20, floor=1.5)
    plain, squashed, floor = figure.axes[0].lines
    assert plain.get_xydata().tolist() == [[5, 2], [15, 1]]
    assert squashed.get_ydata().tolist() == [2, 2]
    assert set(floor.get_ydata()) == {1.5}
    assert words(figure) == ["1.00", "2.00"]
    assert "falls to 1.00" in alt and "on the logits to 2.00" in alt


def test_a_silent_part_is_written_as_zero():
    steps = {
        "step 0": {"a": 0.0, "head": 0.5},
        "step 1": {"a": 0.25, "head": 1.0},
    }
    figure, alt = gradients(steps)
    assert words(figure) == ["0", "0.5", "0.25", "1"]
    assert "0 in 1 of 2 parts, all but head" in alt


def test_shares_of_the_weights_sum_to_a_hundred():
    counts = {"A": {"x": 1, "y": 3}, "B": {"x": 1, "y": 1}}
    figure, alt = parameter_shares(counts)
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths == [25, 50, 75, 50]
    assert words(figure) == ["25.0 + 75.0", "50.0 + 50.0"]
    assert "In B 50.0 % are in x, 50.0 % are in y." in alt


@pytest.mark.parametrize("draw", [tokens, readout])
def test_a_drawing_can_be_saved_and_is_opaque(draw):
    figure, _ = draw()
    assert figure.get_facecolor()[3] == 1.0
    assert png(figure).startswith(b"\x89PNG")
