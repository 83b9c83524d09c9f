"""Drawings of chapter 1: the numbers behind them, and their alt text."""

import pytest
import torch

from tests.figures.drawn import words
from vitedu.figures.chapters import images
from vitedu.plain import patchify

GUESSES = [("military uniform", 0.83), ("bearskin", 0.04)]
SAID = "military uniform 83%, bearskin 4%."


def widths(axes):
    return [bar.get_width() for bar in axes.patches]


def titles(figure, **where):
    found = [axes.get_title(**where) for axes in figure.axes]
    return [title for title in found if title]


def test_a_mosaic_of_a_picture_s_own_tiles_is_the_picture_and_gaps_are_white():
    picture = torch.rand(3, 4, 6)
    corners = [(y, x) for y in (0, 2) for x in (0, 2, 4)]
    tiles = [picture[:, y : y + 2, x : x + 2] for y, x in corners]
    assert torch.equal(images.mosaic(tiles, columns=3), picture)
    picture = images.mosaic([torch.zeros(1, 2, 2)] * 4, columns=2, gap=1)
    assert picture.shape == (1, 5, 5)
    assert picture[0, 2].tolist() == picture[0, :, 2].tolist() == [1.0] * 5
    assert float(picture.sum()) == 9


def test_shuffling_keeps_every_tile():
    tiles = [torch.full((1, 1, 1), float(number)) for number in range(9)]
    mixed = images.shuffled(tiles, seed=3)
    assert mixed.shape == (1, 3, 3)
    assert mixed.flatten().sort().values.tolist() == list(range(9))
    assert mixed.flatten().tolist() != list(range(9))
    assert torch.equal(mixed, images.shuffled(tiles, seed=3))


def test_answers_are_bars_of_their_shares():
    figure, alt = images.answers(torch.rand(3, 8, 8), GUESSES, "Noise.")
    _, right = figure.axes
    assert widths(right) == [0.83, 0.04]
    assert words(right) == ["83%", "military uniform", "4%", "bearskin"]
    assert alt == f"Noise. The model's answers as bars: {SAID}"


def test_numbered_patches_are_those_of_patchify_in_one_colour_with_the_image():
    image = torch.arange(2 * 4 * 4).reshape(2, 4, 4)
    figure, alt = images.numbered(image, 2)
    (axes,) = figure.axes
    written = words(axes)
    rows = patchify(image[None], 2)[0]
    place = written.index("flat patches") + 1
    assert [int(each) for each in written[place:]] == rows.flatten().tolist()
    assert ", ".join(map(str, rows[0].tolist())) in alt
    numbers = [each for each in written if each.isdigit()]
    faces = {}
    for number, cell in zip(numbers, axes.patches, strict=True):
        faces.setdefault(number, set()).add(cell.get_facecolor())
    assert all(len(colours) == 1 for colours in faces.values())
    assert len(set().union(*faces.values())) == 4


def test_the_central_drawing_says_each_step_in_code_and_in_shapes():
    photograph, vectors = torch.rand(3, 224, 224), torch.randn(196, 192)
    figure, alt = images.embedding(photograph, vectors)
    written = words(figure.axes[0])
    for code, shape in (
        ("x", "(1, 3, 224, 224)"),
        ("flat =\npatchify(x, 16)", "(1, 196, 768)"),
        ("E", "(768, 192)"),
        ("flat @ E", "(1, 196, 192)"),
    ):
        assert code in written and shape in written and shape in alt
    # the photograph, three of its patches and the pixels of each in a row
    assert len(figure.axes[0].images) == 7


def test_digits_are_rows_under_their_titles_and_the_first_is_outlined():
    rows = {
        "as squares": torch.rand(3, 1, 4, 4),
        "as strips": torch.rand(2, 1, 4, 4),
    }
    outline = [(0, 1), (4, 1), (4, 2)]
    figure, alt = images.digits(rows, "Five digits.", [outline])
    assert titles(figure, loc="left") == list(rows)
    assert sum(len(axes.images) for axes in figure.axes) == 5
    outlined, *others = figure.axes
    assert not any(axes.patches for axes in others)
    corners = outlined.patches[0].get_xy().tolist()  # along edges of pixels
    assert corners[:3] == [[-0.5, 0.5], [3.5, 0.5], [3.5, 1.5]]
    assert alt == "Five digits."


def test_a_question_s_row_has_the_patches_that_answer_most_and_least():
    kernels = {"warm": torch.randn(3, 4, 4), "right": torch.randn(3, 4, 4)}
    maps = [torch.tensor([[0.0, 1], [-3, 0]]), 9 * torch.randn(2, 2)]
    rows = {
        name: (kernels[name], each)
        for name, each in zip(kernels, maps, strict=True)
    }
    picture = torch.arange(64.0).reshape(1, 8, 8).expand(3, 8, 8) / 63
    figure, _ = images.questions(rows, picture, 5, "Two kernels.")
    _, whole, everyone, yes, no, *others = figure.axes
    expected = "warm, the picture, all answers, yes +1.0, no \N{MINUS SIGN}3.0"
    assert ", ".join(titles(figure)[:5]) == expected
    # row 0, column 1 says yes; row 1, column 0 says no
    for axes, first in ((yes, 4), (no, 32)):
        drawn = axes.images[0].get_array()
        assert drawn.shape == (4, 4, 3)
        assert float(drawn[0, 0, 0]) == pytest.approx(first / 63, abs=1 / 30)
    for axes, side in ((whole, 4), (everyone, 1)):
        corners = [frame.get_xy() for frame in axes.patches]
        right, below = (side - 0.5, -0.5), (-0.5, side - 0.5)
        assert corners == [right, right, below, below]
    scales = [axes.images[0].get_clim() for axes in (everyone, others[2])]
    assert scales == [(-5, 5)] * 2
    # nothing is grey and the largest number is full colour
    kernel = torch.tensor([0.0, 0.5, -1.0]).reshape(3, 1, 1)
    assert images.around_grey(kernel).flatten().tolist() == [0.5, 0.75, 0.0]


def test_all_kernels_are_drawn_in_order_and_the_first_large():
    filters = torch.rand(32, 3, 4, 4)
    order = [11, 9, *range(9), 10, *range(12, 32)]
    figure, alt = images.kernels(filters, order, 2, "Noise.")
    (axes,) = figure.axes
    together, *large = (torch.tensor(x.get_array()) for x in axes.images)
    assert words(axes) == ["question 11", "question 9"]
    assert alt == "Noise. The first are numbers 11, 9."
    assert together.shape == (10, 94, 3)  # two rows of 16, with gaps
    for number, place in ((11, (0, 0)), (9, (0, 6)), (16, (6, 0))):
        expected = images.around_grey(filters[number]).permute(1, 2, 0)
        y, x = place
        assert torch.equal(together[y : y + 4, x : x + 4], expected)
    for number, tile in zip(order, large, strict=False):
        expected = images.around_grey(filters[number]).permute(1, 2, 0)
        assert torch.equal(tile, expected)


def test_under_each_picture_is_what_the_model_says():
    panels = {
        title: (torch.rand(3, 8, 8), name, share)
        for title, (name, share) in zip("abc", 2 * GUESSES, strict=False)
    }
    figure, alt = images.captioned(panels, 2, "Noise.")
    assert titles(figure) == ["a", "b", "c"]
    drawn = [axes for axes in figure.axes if axes.patches]
    assert [widths(axes) for axes in drawn] == [[0.83], [0.04], [0.83]]
    assert words(drawn[1]) == ["4%", "bearskin"]
    assert alt.startswith("Noise. Under them: a, military uniform 83%; b, ")
