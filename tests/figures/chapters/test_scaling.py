"""Drawings of chapter 18: the numbers behind them, and their alt text."""

import pytest
import torch
from matplotlib.colors import to_hex

from tests.figures.drawn import words
from vitedu.evaluate.scaling import power_law
from vitedu.figures.chapters import scaling
from vitedu.figures.palette import ATTENTION, PATCHES

COST = torch.tensor([50.0, 200, 800, 3200])
POINTS = {"vit": (COST, 12 * COST**-0.1), "resnet": (COST, 24 * COST**-0.2)}
LAWS = {
    "vit": (torch.tensor(12.0), torch.tensor(-0.1)),
    "resnet": (torch.tensor(24.0), torch.tensor(-0.2)),
}
REAL = {"B/16": (200.0, 2.8)}


def test_a_point_per_network_in_the_colours_of_its_family():
    figure, alt = scaling.table(POINTS, {50: "R50"})
    (axes,) = figure.axes
    colors = [to_hex(line.get_color()) for line in axes.lines]
    assert colors == [ATTENTION, PATCHES]
    assert "4 ViTs from 5.4 to 8.1%" in alt and "4 ResNets" in alt
    assert words(axes) == ["R50", "R50"]  # both families have one for 50


def test_the_arrow_is_as_long_as_a_resnet_needs():
    figure, alt = scaling.laws(POINTS, LAWS, 256.0)
    # 12 * 256 ** -0.1 = 24 * (256 r) ** -0.2, so r = 2 ** 5 / 256 ** 0.5
    assert words(figure.axes[0]) == ["2.0 times"]
    assert "ViT 12.0 times C to the power -0.100" in alt
    (arrow,) = [x for x in figure.axes[0].texts if x.arrow_patch is not None]
    assert arrow.xy[0] == pytest.approx(512, rel=1e-4)
    figure, alt = scaling.invented([POINTS] * 2, power_law, 256.0)
    assert alt.endswith("at 256 exaFLOPs: 2.0 times, 2.0 times.")


def test_the_band_has_its_ends_in_words():
    ratio = torch.tensor([5.0, 3.0])
    ends = torch.stack([ratio - 1, ratio + 2])
    figure, alt = scaling.times(
        torch.tensor([55.0, 1200]), ratio, ends.mul(2), ends, REAL
    )
    assert "5.0 times (4.0 to 7.0, stretched 8.0 to 14.0) at 55 exa" in alt
    assert "3.0 times (2.0 to 5.0, stretched 4.0 to 10.0) at 1,200" in alt
    said = ["B/16", "the paper: 2 to 4", "dark: bootstrap", "light: stretched"]
    assert words(figure.axes[0]) == said


def test_every_set_has_its_interval():
    found = {"mean": (4.0, 2.8, 5.8), "Flowers": (44.0, 17.0, 80.0)}
    figure, alt = scaling.sets(found, 16)
    ends = [list(line.get_xdata()) for line in figure.axes[0].lines[::2]]
    assert ends == [[2.8, 5.8], [17.0, 80.0]]
    assert "mean 4.0 (2.8 to 5.8); Flowers 44.0" in alt
    inside = [x.get_markerfacecolor() for x in figure.axes[0].lines[1::2]]
    assert inside[0] != "white" == inside[1]  # no ResNet took 44 times as much


def test_the_arrow_goes_back_to_the_first_resnet_as_good_as_a_vit():
    cost = torch.tensor([5.0, 10, 15, 20])
    curves = {
        "vit": (cost, torch.tensor([[2, 1, 0.8, 0.4], [2, 2, 2, 0.3]])),
        "resnet": (cost, torch.tensor([[0.9, 0.4, 0.1, 0.01]] * 2)),
    }
    other = curves | {"resnet": (cost / 2, curves["resnet"][1])}
    figure, alt = scaling.ours({"6 million": curves, "11 million": other})
    # pairs say 20 / 10 and 20 / 15, and twice as much
    assert [words(each) for each in figure.axes] == [
        ["1.7 times"],
        ["3.3 times"],
    ]
    assert "6 million: ViT 0.350, ResNet 0.010, the arrow 1.7 times" in alt
