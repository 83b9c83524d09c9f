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


def test_numbered_rows_are_those_of_patchify_in_one_colour_with_the_image():
    image = torch.arange(2 * 4 * 4).reshape(2, 4, 4)
    figure, alt = images.numbered(image, 2)
    (axes,) = figure.axes
    written = words(axes)
    rows = patchify(image[None], 2)[0]
    place = written.index("one row per patch") + 1
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
        ("patchify(x, 16)", "(1, 196, 768)"),
        ("E", "(768, 192)"),
        ("patchify(x, 16) @ E", "(1, 196, 192)"),
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


def test_maps_of_answers_share_one_scale():
    kernels = {"warm": torch.randn(3, 4, 4), "right": torch.randn(3, 4, 4)}
    maps = [torch.randn(2, 2), 9 * torch.randn(2, 2)]
    figure, _ = images.questions(kernels, maps, 5, "Two kernels.")
    assert titles(figure)[:2] == ["warm", "right"]
    assert [x.images[0].get_clim() for x in figure.axes[2:4]] == [(-5, 5)] * 2
    # nothing is grey and the largest number is full colour
    kernel = torch.tensor([0.0, 0.5, -1.0]).reshape(3, 1, 1)
    assert images.around_grey(kernel).flatten().tolist() == [0.5, 0.75, 0.0]


def test_kernels_are_drawn_under_their_numbers_in_groups():
    filters = torch.rand(12, 3, 4, 4)
    groups = {"first": [11, *range(8)], "last": [9]}
    figure, alt = images.kernels(filters, groups, "Noise.")
    assert titles(figure) == ["11", *"01234567", "9"]
    assert [text.get_text() for text in figure.texts] == ["first", "last"]
    said = "first, 11, 0, 1, 2, 3, 4, 5, 6, 7; last, 9."
    assert alt == f"Noise. Their numbers: {said}"
    shown = torch.tensor(figure.axes[-1].images[0].get_array())
    expected = images.around_grey(filters[9]).permute(1, 2, 0)
    assert torch.equal(shown, expected)
    # the ninth begins a new row
    first, ninth = (figure.axes[i].get_position() for i in (0, 8))
    assert ninth.x0 == pytest.approx(first.x0) and ninth.y1 < first.y0


def test_what_is_read_is_drawn_as_maps_on_one_scale_with_gaps():
    photograph, maps = torch.rand(3, 8, 8), torch.arange(16.0).reshape(4, 2, 2)
    figure, alt = images.reading(photograph, maps, GUESSES, 5, "Noise.")
    _, right, below = figure.axes
    shown = right.images[0]
    assert shown.get_clim() == (-5, 5)
    cells = torch.as_tensor(shown.get_array().filled(-1))
    # two rows of two maps of 2x2, a cell between them
    assert cells.shape == (5, 5)
    assert torch.equal(cells[:2, 3:], maps[1])
    assert torch.equal(cells[3:, :2], maps[2])
    assert (cells[2] == -1).all() and (cells[:, 2] == -1).all()
    assert widths(below) == [0.83, 0.04]
    assert alt == f"Noise. Below, the model's answers as bars: {SAID}"
