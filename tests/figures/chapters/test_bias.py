"""Drawings of chapter 17: the numbers behind them, and their alt text."""

import pytest
import torch
from matplotlib.colors import to_hex

from tests.figures.drawn import words
from vitedu.figures.chapters import bias
from vitedu.figures.palette import ATTENTION, PATCHES

METRICS = {
    f"{network}-same{off}-{number}": {
        "value": value,
        "per_seed": [69.0, 70.0, 71.0],
        "train_per_seed": [99.0, 99.0, 99.0],
    }
    for network, value in (("vit", 98.0), ("resnet", 60.0))
    for off in ("", "-off")
    for number in ("300", "fresh")
}


def test_puzzles_have_the_lines_of_their_patches():
    images = torch.rand(2, 16, 16)
    figure, alt = bias.puzzles({"here": (images, ["same", "other"])}, "Two.")
    assert [len(axes.lines) for axes in figure.axes] == [6, 6]
    assert [axes.get_xlabel() for axes in figure.axes] == ["same", "other"]
    assert alt == "Two."


def test_a_glyph_is_framed_where_it_is():
    image, glyph = torch.full((16, 16), 0.5), torch.eye(4) / 2 + 0.25
    image[3:7, 9:13] = glyph + 0.05
    assert bias.corners(image, glyph[None]) == [(3, 9)]
    assert bias.corners(image, 1 - glyph[None]) == []


def test_accuracy_over_numbers_has_two_lines_for_each_network():
    panels = {"here": "same", "there": "same-off"}
    figure, alt = bias.by_number(METRICS, panels)
    assert [axes.get_title() for axes in figure.axes] == ["here", "there"]
    for axes in figure.axes:
        curves = [x for x in axes.lines if x.get_label() in ("ResNet", "ViT")]
        for line, (color, shift) in zip(
            curves, ((PATCHES, 1.0), (ATTENTION, 1.08)), strict=True
        ):
            places = [shift * place for place in (300, bias.FRESH)]
            assert list(line.get_xdata()) == pytest.approx(places)
            assert to_hex(line.get_color()) == color
    assert "there: ResNet 60, 60 (its own 99, 99); ViT 98, 98" in alt


def test_steps_and_pictures_have_a_panel_for_each_length():
    row = METRICS["vit-same-300"]
    metrics = {
        f"vit-same-off-{number}{end}": row | {"value": value}
        for end, value in (("", 55.0), ("-4800-steps", 72.0))
        for number in ("3k", "10k", "30k", "fresh")
    }
    figure, alt = bias.more_steps(metrics)
    for axes, value in zip(figure.axes, (55.0, 72.0), strict=True):
        (line,) = (x for x in axes.lines if x.get_label() == "ViT")
        assert list(line.get_ydata()) == [value] * 4
        assert axes.get_title() in bias.LENGTHS
    assert "4,800 steps: ViT 72, 72, 72, 72 (its own 99" in alt


def test_two_sizes_grow_in_three_panels():
    row = {key: [69.0, 70.0, 71.0] for key in bias.JUDGED.values()}
    names = (f"{n}-{m}" for n in ("vit-6", "resnet-6") for m in bias.SHAPES)
    metrics = {name: row for name in names}
    large = {name.replace("6", "20"): row for name in metrics}
    figure, alt = bias.growing(metrics | large)
    assert [len(axes.containers) for axes in figure.axes] == [4, 4, 4]
    assert (
        "new ones, ViT 6 M 70, 70, 70, 70, 70; new forms, five of each" in alt
    )


def test_all_answers_stand_beside_a_picture_in_pieces():
    told = ("cat, 84%", "anemone, 25%", "cat, 84%")
    figure, alt = bias.jumbled(
        {name: (*torch.rand(2, 3, 8, 8), told) for name in ("cat", "cup")}
    )
    for axes in figure.axes[2:]:
        said = [each for each in words(axes) if not each.endswith(":")]
        assert said == ["anemone\n25%", "cat\n84%"]
    assert "cup: cat, 84%; in pieces: anemone, 25%; with its table" in alt


@pytest.mark.parametrize(("name", "style"), [("L/16", "-"), ("B/32", "--")])
def test_a_line_per_network_over_what_it_was_pretrained_on(name, style):
    figure, alt = bias.pretrained({name: (71.16, 80.99, 84.37)})
    line = figure.axes[0].lines[0]
    assert list(line.get_ydata()) == [71.16, 80.99, 84.37]
    assert line.get_linestyle() == style
    assert f"{name} 71.16, 80.99, 84.37" in alt
