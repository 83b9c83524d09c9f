"""Chapter 7's drawings: what is drawn, and their alt text."""

import pytest
import torch

from vitedu import budget
from vitedu.figures.chapters import speed
from vitedu.figures.palette import CLASS, STREAM
from vitedu.model import ViT, ViTConfig
from vitedu.plain import ViT as PlainViT

pytestmark = pytest.mark.slow  # draws


def words(axes):
    """All that is written inside of a panel."""
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.0, torch.float16, "0" + "01111" + 10 * "0"),
        (1.0, torch.bfloat16, "0" + "01111111" + 7 * "0"),
        (-1.5, torch.float16, "1" + "01111" + "1" + 9 * "0"),
        (1.0, torch.float32, "0" + "01111111" + 23 * "0"),
    ],
)
def test_the_bits_are_sign_exponent_and_fraction(value, dtype, expected):
    assert speed.bits(value, dtype) == expected


def test_a_number_has_a_square_for_each_of_its_bits():
    figure, alt = speed.formats(0.1)
    (axes,) = figure.axes
    written = words(axes)
    assert len([word for word in written if word in "01"]) == 32 + 16 + 16
    assert len(axes.patches) == 64 + 3  # and the legend
    for name in ("float32", "bfloat16", "float16"):
        assert name in written
    assert "float16, 5 bits of exponent and 10 of fraction" in alt
    assert "stores 0.099975586" in alt


def test_gradients_below_float16_are_red_until_they_are_scaled():
    sizes = 2.0 ** torch.tensor([-30.0, -29.0, -27.0, -10.0])
    figure, alt = speed.gradients(sizes, (1, 1_024))
    upper, lower = figure.axes
    assert "as they are, 75% become 0" in alt
    assert "times 1,024, 0% become 0 and 0% overflow" in alt
    assert words(upper) == ["as they are:\n75% become 0"]
    assert filled(upper) == {CLASS, STREAM}
    assert filled(lower) == {STREAM}


def filled(axes):
    """The colours of the bars that have a height."""
    from matplotlib.colors import to_hex

    bars = axes.containers[0]
    return {to_hex(bar.get_facecolor()) for bar in bars if bar.get_height()}


def test_the_mixed_step_has_a_line_of_code_for_each_box():
    figure, alt = speed.mixed_step()
    written = words(figure.axes[0])
    assert "(loss * scale).backward()" in written
    assert len([each for each in written if each]) == 10  # arrows are empty
    assert "five boxes" in alt and "skips" in alt


def test_a_rescue_has_its_runs_above_the_scale():
    losses = {
        "float32": torch.linspace(2, 1, 40),
        "float16": torch.full((40,), 2.3),
        "scaled": torch.linspace(2, 1.5, 40),
    }
    figure, alt = speed.rescue(losses, [2.0**step for step in range(40)])
    upper, lower = figure.axes
    assert [line.get_label() for line in upper.lines] == [*losses]
    assert lower.get_yscale() == "log"
    assert "float16, 2.3 to 2.3" in alt
    assert "from 1 to 549,755,813,888" in alt


def test_what_is_kept_is_what_the_budget_counts():
    config = ViTConfig(
        image_size=32,
        patch_size=8,
        num_classes=5,
        embed_dim=24,
        depth=2,
        num_heads=2,
        mlp_dim=48,
    )
    images = torch.zeros(2, 3, 32, 32)
    fused = speed.kept(ViT(config), images)
    counted = budget.memory(config, batch_size=2).activations
    assert sum(fused.values()) == counted
    assert fused["image"] == images.nbytes and fused["attention maps"] == 0
    plain = speed.kept(PlainViT(32, 8, 3, 5, 24, 2, 2, 48), images)
    # each map is kept once, for the softmax and for the product
    assert plain["attention maps"] == 2 * 2 * 2 * 17 * 17 * 4
    assert plain["MLP"] == fused["MLP"]


def test_memory_is_stacked_by_part_and_says_the_whole():
    kept = {
        "one": {"image": 1.0, "norms": 2.0, "attention maps": 3.0},
        "two": {"image": 1.0, "norms": 1.0},
    }
    figure, alt = speed.memory(kept)
    axes = figure.axes[0]
    assert words(axes) == ["6.0", "2.0"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [*kept]
    assert "one, 6.0 in all (image 1.0, norms 2.0, attention maps 3.0)" in alt


def test_a_roofline_has_a_roof_for_each_format_and_names_its_points():
    points = {
        "float32": [speed.Work("add", 0.1, 1.0), speed.Work("big", 90.0, 40.0)],
        "bfloat16": [speed.Work("add", 0.2, 2.0), speed.Work("big", 180, 90.0)],
    }
    figure, alt = speed.roofline({"float32": 50, "bfloat16": 200}, 10, points)
    (axes,) = figure.axes
    named = ["memory:\n10 GB/s", "float32", "bfloat16", "add", "big"]
    assert words(axes) == named
    slope, roof = axes.lines[:2]
    assert slope.get_ydata()[1] == 200
    assert roof.get_xdata()[0] == 5  # where memory and arithmetic meet
    assert [*roof.get_ydata()] == [50, 50]
    assert "bfloat16 200 beyond 20 operations per byte" in alt
    assert "add 1.0 and 2.0; big 40.0 and 90.0." in alt


def test_a_vit_is_drawn_as_multiples_of_a_resnet():
    ratios = {"speed": {64: 1.5, 224: 0.9}, "batch": {64: 1.2, 224: 1.3}}
    figure, alt = speed.over_size(ratios)
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines[:2]] == [*ratios]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["64", "224"]
    assert "speed: 1.50 at 64, 0.90 at 224. batch: 1.20 at 64" in alt
