"""Chapter 14's drawings: what is drawn, and their alt text."""

import pytest
import torch
from matplotlib.colors import to_hex

from vitedu.figures.chapters import resnets
from vitedu.figures.palette import ATTENTION, PALE, PATCHES, STREAM

pytestmark = pytest.mark.slow  # draws


def metric(*per_seed):
    """A row of the record, as far as it is drawn."""
    return {"per_seed": list(per_seed)}


METRICS = {
    "vit-1k": metric(20.0, 22.0, 24.0),
    "vit-10k": metric(50.0, 52.0, 54.0),
    "resnet-1k": metric(40.0, 40.0, 40.0),
    "resnet-10k": metric(51.0, 52.0, 53.0),
    "resnet-10k-sgd": metric(90.0, 90.0, 90.0),
}


def words(axes):
    """All that is written inside of a panel."""
    return [text.get_text() for text in axes.texts]


def is_inside(figure):
    """Whether nothing that is written leaves the drawing."""
    figure.canvas.draw()
    ground = figure.bbox
    places = [text.get_window_extent() for text in figure.axes[0].texts]
    return all(
        place.x0 >= ground.x0
        and place.x1 <= ground.x1
        and place.y0 >= ground.y0
        and place.y1 <= ground.y1
        for place in places
    )


def test_a_column_of_the_moved_maps_has_one_scale():
    maps = torch.rand(3, 8, 8), torch.tensor([[1.0, -2]]), torch.ones(2, 2)
    other = torch.rand(3, 8, 8), torch.tensor([[3.0, 0]]), torch.zeros(2, 2)
    figure, alt = resnets.moved({"still": maps, "moved by 8": other}, 8)
    _, edges, tokens, _, edges_moved, tokens_moved = figure.axes
    for axes in (edges, edges_moved):
        assert axes.images[0].get_clim() == (-3, 3)
    for axes in (tokens, tokens_moved):
        assert axes.images[0].get_clim() == (-1, 1)
    assert "2 by 2 squares" in alt and "by 8 pixels" in alt
    for axes in figure.axes:  # the line is at the same share of each width
        (line,) = axes.lines
        left, right = axes.get_xlim()
        share = (line.get_xdata()[0] - left) / (right - left)
        assert share == pytest.approx(resnets.GUIDE)


def test_zeros_of_a_matrix_are_white_and_counted():
    layers = {
        "dense": (torch.ones(3, 3), "9 numbers,\nall learned"),
        "convolution": (torch.eye(3), "one"),
    }
    figure, alt = resnets.matrices(layers)
    shown = figure.axes[1].images[0]
    assert shown.get_array().mask.sum() == 6
    assert to_hex(shown.cmap.get_bad()) == "#ffffff"
    assert figure.axes[0].get_xlabel().startswith("pixel in\n9 numbers")
    assert "dense, 9 of 9 entries are not zero, 9 numbers, all learned" in alt
    assert "convolution, 3 of 9 entries are not zero, one" in alt


def test_pixels_that_notice_are_counted_and_attention_is_green():
    near, all_of_it = torch.zeros(5, 5), torch.ones(5, 5)
    near[1:4, 1:4] = 1
    maps = {"1\nconvolution": near > 0, "attention,\none block": all_of_it > 0}
    figure, alt = resnets.reach(maps)
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert labels == ["9 pixels", "25 pixels"]
    colors = [to_hex(axes.images[0].cmap(1.0)) for axes in figure.axes]
    assert colors == [PATCHES, ATTENTION]
    assert "1 convolution: 9; attention, one block: 25." in alt


def test_windows_are_centred_as_the_padding_says():
    figure, alt = resnets.windows()
    written = words(figure.axes[0])
    assert written.count("0") == 3  # SAME has one of the two borders
    pale = [t.get_text() for t in figure.axes[0].texts if t.get_color() == PALE]
    assert pale == ["0"] and "unused" in written
    blue = [t for t in figure.axes[0].texts if t.get_color() == PATCHES]
    assert [text.get_text() for text in blue] == list("acegbdfh")
    assert "a, c, e and g" in alt and is_inside(figure)


def test_both_units_have_three_convolutions_and_three_norms():
    figure, alt = resnets.units()
    written = words(figure.axes[0])
    for name in (resnets.NARROW, resnets.LOOK, resnets.WIDEN):
        assert written.count(name) == 2
    assert sum("norm" in each for each in written) == 6
    assert written.count("+") == 2 and written.count("ReLU") == 1
    assert "then ReLU on the stream; BiT's" in alt and is_inside(figure)


def test_the_stem_has_its_code_in_the_colour_of_its_box():
    figure, alt = resnets.stem()
    code = {t.get_text(): t.get_color() for t in figure.axes[0].texts}
    assert code["maps = self.backbone(images)"] == PATCHES
    assert code["self.proj(words)"] == ATTENTION
    assert "196 words" in alt and is_inside(figure)


def test_the_race_draws_what_is_recorded():
    figure, alt = resnets.race(METRICS)
    (axes,) = figure.axes
    assert words(axes) == ["ResNet", "ViT", "guessing"]
    assert "ResNet 40 % from 1,000, 52 % from 10,000" in alt
    assert "ViT 22 % from 1,000, 52 % from 10,000." in alt
    assert "hybrid" not in alt and "90" not in alt
    heights = [text.xy[1] for text in axes.texts[:2]]
    assert abs(heights[0] - heights[1]) >= 4  # or one would cover the other


def test_the_error_is_that_of_the_mean():
    assert resnets.standard_error([20.0, 22.0, 24.0]) == pytest.approx(
        2 / 3**0.5
    )
    assert resnets.standard_error([5.0]) == 0


def test_maps_of_a_sheet_have_one_scale_and_their_corners_in_words():
    read = {
        "ViT": torch.tensor([[80.0, 20], [20, 10]]),
        "ResNet": torch.full((2, 2), 83.0),
        "hybrid": torch.tensor([[88.0, 50], [50, 30]]),
    }
    figure, alt = resnets.sheets(torch.zeros(28, 28), read, 7)
    panels = figure.axes[1:4]
    assert [axes.get_title() for axes in panels] == [*read]
    assert all(axes.images[0].get_clim() == (0, 100) for axes in panels)
    assert words(panels[0]) == ["80", "10"]
    circles = [line.get_xdata()[0] for line in panels[0].lines]
    assert circles == [2 / 7, 12 / 7]
    assert "ViT 80 % in the upper left corner, 10 %" in alt


def test_a_norm_is_an_outline_and_a_convolution_is_filled():
    figure, _ = resnets.units()
    faces = [patch.get_facecolor() for patch in figure.axes[0].patches]
    filled = [to_hex(face) for face in faces if face[3]]
    assert filled.count(PATCHES) == 6 and filled.count(STREAM) == 1
    assert sum(face[3] == 0 for face in faces) == 6
