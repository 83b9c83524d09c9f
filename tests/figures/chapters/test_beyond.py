"""Drawings of chapter 20: the numbers behind them, and their alt text."""

import base64
import json
import re

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.colors import to_hex

from vitedu.figures.chapters import beyond
from vitedu.figures.palette import ATTENTION, CLASS


def test_each_new_picture_gets_its_outline():
    masks = torch.zeros(3, 16, 16, dtype=torch.bool)
    masks[:, 4:12, 4:12] = True
    pictures = torch.rand(3, 3, 16, 16)
    figure, alt = beyond.outlines(pictures, masks, ~masks, 81.6)
    drawn = [axes for axes in figure.axes if axes.images]
    assert [len(axes.collections) for axes in drawn] == [3, 3, 3]
    assert alt.startswith("3 new") and "82%" in alt


def test_shares_of_patches_stand_beside_the_picture():
    shares = torch.tensor([[0.0, 0.25], [1.0, 1.0]])
    figure, alt = beyond.patches_of(torch.rand(3, 8, 8), shares)
    shown = figure.axes[1].images[0].get_array()
    assert np.array_equal(shown, shares.numpy())
    assert "2 patches wholly, 1 in part" in alt


def test_the_best_block_is_named_and_every_seed_drawn():
    iou = {
        f"iou/{block}/{count}": {
            "value": 80.0 - abs(block - 7) - (count == 10),
            "per_seed": [79.0, 80.0, 81.0],
        }
        for block in range(1, 13)
        for count in (10, 40, 1000)
    }
    figure, alt = beyond.by_block(iou, 18.0)
    (axes,) = figure.axes
    assert alt.count("after block 7") == 3 and "79% after block 7" in alt
    assert len(axes.collections) == 36  # dots, three seeds each
    assert axes.lines[2].get_color() == CLASS
    words = [each.get_text() for each in axes.get_legend().get_texts()]
    assert words == ["1,000 pictures", "40 pictures", "10 pictures"]


def test_the_first_component_says_where_it_differs():
    values = torch.zeros(8, 8)
    values[0, 0] = values[7, 7] = 5.0
    _, alt = beyond.first_component(torch.rand(3, 16, 16), values)
    assert "but for 2, all of them in the corners" in alt
    values[3, 3] = 5.0
    _, alt = beyond.first_component(torch.rand(3, 16, 16), values)
    assert "but for 3, most of them" in alt


def test_colours_stand_with_their_photographs():
    pictures = {str(n): torch.rand(3, 8, 8) for n in range(3)}
    figure, alt = beyond.colours(pictures, [torch.rand(4, 4, 3)] * 3)
    assert sum(len(axes.images) for axes in figure.axes) == 6
    assert alt.startswith("Photographs (0, 1, 2)")


def test_a_patch_gets_the_outline_of_what_is_like_it():
    like = torch.zeros(4, 4)
    like[:, :2] = 1.0
    figure, alt = beyond.pointed(
        torch.rand(3, 16, 16), {"suit": (1, 0)}, [like]
    )
    assert len(figure.axes[0].collections) == 2 and "suit 50%" in alt


def test_the_page_gets_cosines_close_to_the_true_ones():
    generator = torch.Generator().manual_seed(0)
    few = torch.randn(36, 10, generator=generator)
    tokens = few @ torch.randn(10, 192, generator=generator)
    unit = beyond.unit_tokens(tokens)
    assert torch.allclose(unit.norm(dim=1), torch.ones(36))
    shown = beyond.Kin({"cat": (torch.rand(3, 64, 64), unit.view(6, 6, -1))})
    html = shown._repr_html_()
    [told] = re.findall('data-told="(.*?)"', html)
    told = json.loads(told.replace("&quot;", '"'))["cat"]
    assert told["grid"] == [6, 6]
    assert base64.b64decode(told["picture"])[:2] == b"\xff\xd8"  # a JPEG
    numbers = np.frombuffer(base64.b64decode(told["tokens"]), np.int8)
    sent = torch.tensor(numbers.copy()).float().view(36, -1)
    sent = F.normalize(sent, dim=1)
    # a number is rounded to 1/127
    assert (sent @ sent.mT - unit @ unit.mT).abs().max() < 0.03


def test_cells_have_the_colour_of_their_kind():
    box = torch.tensor([[1.0, 2.0, 5.0, 6.0]])
    boxes = [torch.cat([box, box + 1]), box + 2, torch.zeros(0, 4)]
    names = ("red cells", "white cells", "platelets")
    figure, alt = beyond.cells(torch.rand(3, 12, 16), boxes, names, "found")
    (axes,) = figure.axes
    drawn = [patch.get_bbox().bounds for patch in axes.patches]
    assert drawn == [(1, 2, 4, 4), (2, 3, 4, 4), (3, 4, 4, 4)]
    assert axes.texts[0].get_color() == CLASS
    assert axes.texts[1].get_color() == ATTENTION
    assert alt.endswith("found: 2 red cells, 1 white cells, 0 platelets.")
    right = [torch.tensor(x) > 0 for x in ([1, 0], [1], [])]
    picture = torch.rand(3, 12, 16)
    lost = [torch.zeros(0, 4), box + 3, torch.zeros(0, 4)]
    figure, alt = beyond.cells(picture, boxes, names, "found", right, lost)
    *drawn, missed = figure.axes[0].patches
    dashed = [box.get_linestyle() not in ("-", "solid") for box in drawn]
    assert dashed == [False, True, False]
    assert missed.get_bbox().bounds == (4, 5, 4, 4)
    assert to_hex(missed.get_edgecolor()) == ATTENTION.lower()
    assert "2 red cells (1 right)" in alt and alt.endswith("dashed; 1 missed.")


def test_counts_are_off_by_their_mean_difference():
    names = ("red", "white", "platelets")
    pairs = [[[3, 1, 0], [5, 1, 2]], [[4, 1, 0], [3, 1, 0]]]
    figure, alt = beyond.counted(pairs, [3.5, 1, 1], names)
    assert len(figure.axes) == 3
    assert list(figure.axes[0].lines[1].get_ydata()) == [3.5, 3.5]
    red, white, _ = (axes.collections[0] for axes in figure.axes)
    assert len(red.get_offsets()) == 2 and len(white.get_offsets()) == 1
    assert alt.endswith("red 1.5, white 0.0, platelets 1.0.")
