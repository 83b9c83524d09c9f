"""Drawings of chapter 7: the numbers behind them, and their alt text."""

import torch
import torch.nn.functional as F

from tests.figures.drawn import fill, names, words
from tests.tiny import tiny
from vitedu import budget
from vitedu.figures.chapters import speed
from vitedu.figures.palette import CLASS, STREAM
from vitedu.model import ViT
from vitedu.plain import ViT as PlainViT


def test_the_bits_are_sign_exponent_and_fraction():
    assert speed.bits(1.0, torch.float32) == "0" + "01111111" + 23 * "0"
    assert speed.bits(1.0, torch.bfloat16) == "0" + "01111111" + 7 * "0"
    assert speed.bits(-1.5, torch.float16) == "1" + "01111" + "1" + 9 * "0"


def test_a_number_has_a_square_for_each_of_its_bits():
    figure, alt = speed.formats(0.1)
    (axes,) = figure.axes
    written = words(axes)
    assert len([word for word in written if word in "01"]) == 32 + 16 + 16
    assert len(axes.patches) == 64 + 3  # and the legend
    assert {"float32", "bfloat16", "float16"} <= set(written)
    assert "float16, 5 bits of exponent and 10 of fraction" in alt
    assert "stores 0.099975586" in alt


def test_gradients_below_float16_are_red_until_they_are_scaled():
    sizes = 2.0 ** torch.tensor([-30.0, -29.0, -27.0, -10.0])
    figure, alt = speed.gradients(sizes, (1, 1_024))
    upper, lower = figure.axes
    assert " 4,096, 75% become 0" in alt
    assert "then times 1,024, 0% become 0 and 0% overflow" in alt
    lost = "\N{DIVISION SIGN} 4,096:\n75% become 0"
    assert words(upper) == [lost, "fewer\nbits", "all bits"]
    for axes, colors in ((upper, {CLASS, STREAM}), (lower, {STREAM})):
        high = [bar for bar in axes.containers[0] if bar.get_height()]
        assert set(map(fill, high)) == colors


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
    config = tiny(image_size=32, patch_size=8, embed_dim=24, mlp_dim=48)
    images = torch.zeros(2, 3, 32, 32)
    fused = speed.kept(ViT(config), images)
    counted = budget.memory(config, batch_size=2).activations
    assert sum(fused.values()) == counted
    assert fused["image"] == images.nbytes and fused["attention maps"] == 0
    sizes = (config.num_classes, 24, config.depth, config.num_heads, 48)
    plain = speed.kept(PlainViT(32, 8, 3, *sizes), images)
    # each map is kept once, for the softmax and for the product
    assert plain["attention maps"] == 2 * 2 * 4 * 17 * 17 * 4
    assert plain["MLP"] == fused["MLP"]


def test_memory_is_stacked_by_part_and_says_the_whole():
    kept = {
        "one": {"image": 1.0, "norms": 2.0, "attention maps": 3.0},
        "two": {"image": 1.0, "norms": 1.0},
    }
    figure, alt = speed.memory(kept)
    axes = figure.axes[0]
    assert words(axes) == ["6.0", "2.0"]
    assert names(axes.get_yticklabels()) == [*kept]
    assert "one, 6.0 in all (image 1.0, norms 2.0, attention maps 3.0)" in alt


def test_a_roofline_bends_where_memory_and_arithmetic_meet():
    points = [speed.Work("add", 0.1, 1.0), speed.Work("big", 90.0, 40.0)]
    figure, alt = speed.roofline(50, 10, points)
    (axes,) = figure.axes
    limits = ["memory:\n10 GB/s", "arithmetic: 50 billion a second"]
    assert words(axes) == [*limits, "add", "big"]
    roof = axes.lines[0]
    assert [*roof.get_xdata()][1] == 5
    assert [*roof.get_ydata()][1:] == [50, 50]
    assert "to 50 billion operations a second, at 5 operations per byte" in alt
    assert "add 1.0; big 40.0." in alt


def test_a_profile_knows_products_and_ends_on_the_rest():
    model = torch.nn.Linear(256, 256)

    def step():
        F.gelu(model(torch.ones(64, 256))).sum().backward()
        torch.optim.AdamW(model.parameters()).step()

    times = speed.times_by_kind(step, torch.device("cpu"))
    assert {*times} == {*speed.KINDS, "the rest"}
    assert times["products"] > 0 < times["GELU"]
    assert times["softmax"] == times["norms"] == 0
    figure, alt = speed.profile_bars({"products": 3.0, "the rest": 1.0})
    assert words(figure.axes[0]) == ["75%", "25%"]
    assert alt.endswith("products 75%, the rest 25%.")


def test_a_vit_is_drawn_as_multiples_of_a_resnet():
    ratios = {"speed": {64: 1.5, 224: 0.9}, "batch": {64: 1.2, 224: 1.3}}
    figure, alt = speed.over_size(ratios)
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines[:2]] == [*ratios]
    assert names(axes.get_xticklabels()) == ["64", "224"]
    assert "speed: 1.50 at 64, 0.90 at 224. batch: 1.20 at 64" in alt
