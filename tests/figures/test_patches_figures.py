"""Drawings of cut pictures: the numbers behind them, and their alt text."""

import pytest
import torch

from vitedu.figures import patches
from vitedu.model.patches import patchify, unpatchify


def test_a_mosaic_of_a_picture_s_own_tiles_is_the_picture():
    picture = torch.rand(3, 4, 6)
    tiles = [picture[:, y : y + 2, x : x + 3] for y in (0, 2) for x in (0, 3)]
    assert torch.equal(patches.mosaic(tiles, columns=2), picture)
    # the same order as patchify's rows
    back = unpatchify(patchify(picture[None], (2, 3)), (2, 3), (2, 2))
    assert torch.equal(patches.mosaic(tiles, columns=2), back[0])


def test_the_gap_of_a_mosaic_is_white():
    picture = patches.mosaic([torch.zeros(1, 2, 2)] * 4, columns=2, gap=1)
    assert picture.shape == (1, 5, 5)
    assert picture[0, 2].tolist() == [1.0] * 5
    assert picture[0, :, 2].tolist() == [1.0] * 5
    assert float(picture.sum()) == 9


@pytest.mark.parametrize("count", [0, 3])
def test_tiles_that_do_not_fill_their_rows_are_refused(count):
    with pytest.raises(ValueError, match=f"{count} tiles do not fill rows"):
        patches.mosaic([torch.zeros(1, 2, 2)] * count, columns=2)


def test_pictures_stand_under_their_titles_at_one_scale():
    figure, alt = patches.pictures(
        {"tall": torch.rand(3, 8, 4), "wide": torch.rand(3, 4, 8)}, "Noise."
    )
    assert [axes.get_title() for axes in figure.axes] == ["tall", "wide"]
    assert figure.axes[0].get_gridspec().get_width_ratios() == [4, 8]
    assert alt == "From the left: tall; wide. Noise."


def test_pictures_that_are_equally_tall_are_as_wide_as_their_shapes():
    panels = {"small": torch.rand(3, 4, 4), "wide": torch.rand(3, 10, 20)}
    figure, _ = patches.pictures(panels, "Noise.", equally_tall=True)
    assert figure.axes[0].get_gridspec().get_width_ratios() == [1, 2]


def test_a_picture_keeps_its_colours_to_a_level():
    picture = torch.rand(3, 5, 5)
    figure, _ = patches.pictures({"one": picture}, "Noise.")
    shown = torch.tensor(figure.axes[0].images[0].get_array())
    error = (shown.permute(2, 0, 1) - picture).abs().max()
    # half a level, and the last bit of float32
    assert error < 0.5 / patches.LEVELS + 1e-6


def test_plain_digits_stand_without_a_word():
    figure, alt = patches.plain(torch.rand(3, 1, 28, 28), "Three digits.")
    assert len(figure.axes) == 3 and alt == "Three digits."
    for axes in figure.axes:
        assert axes.images and not axes.texts and not axes.get_title()
        assert not axes.get_xlabel() and not axes.get_ylabel()


def test_right_guesses_stand_above_wrong_ones():
    guesses, labels = torch.tensor([4, 9, 2]), torch.tensor([4, 7, 2])
    figure, alt = patches.guessed(torch.rand(3, 1, 28, 28), guesses, labels)
    words = [axes.get_xlabel() for axes in figure.axes if axes.images]
    assert words == ["says 4", "says 2", "says 9\nis 7"]
    names = [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()]
    assert names == ["right", "wrong"]
    assert "the first 1 of the 1 in 3" in alt


def test_numbered_rows_are_those_of_patchify():
    image = torch.arange(2 * 4 * 6).reshape(2, 4, 6)
    figure, alt = patches.numbered(image, 2)
    words = [text.get_text() for text in figure.axes[0].texts]
    place = words.index("one row a patch") + 1
    rows = patchify(image[None], 2)[0]
    assert [int(word) for word in words[place:]] == rows.flatten().tolist()
    assert ", ".join(map(str, rows[0].tolist())) in alt


def test_a_patch_has_one_colour_in_the_image_and_in_its_row():
    image = torch.arange(16).reshape(1, 4, 4)
    figure, _ = patches.numbered(image, 2)
    faces = {}
    words = [
        t.get_text() for t in figure.axes[0].texts if t.get_text().isdigit()
    ]
    for word, cell in zip(words, figure.axes[0].patches, strict=True):
        faces.setdefault(word, set()).add(cell.get_facecolor())
    assert all(len(colours) == 1 for colours in faces.values())
    assert len({face for colours in faces.values() for face in colours}) == 4


def test_the_lit_token_is_the_lit_patch():
    _, alt = patches.strides()
    assert "6 tokens of 4 numbers" in alt and "the second, share" in alt


def test_kernels_are_grey_at_zero_and_scaled_row_by_row():
    small = torch.tensor([[[[0.0, 0.1], [-0.1, 0.05]]]])
    figure, alt = patches.filters({"small": small, "large": 100 * small})
    upper, lower = (
        torch.tensor(axes.images[0].get_array()) for axes in figure.axes
    )
    torch.testing.assert_close(upper, lower)
    torch.testing.assert_close(upper, torch.tensor([[0.5, 1], [0, 0.75]]))
    assert "2x2 numbers" in alt and "small: 1; large: 1" in alt


def test_words_stand_under_the_last_row_of_kernels_a_tile_each():
    rows = {"one": torch.rand(2, 1, 3, 3), "two": torch.rand(2, 1, 3, 3)}
    figure, alt = patches.filters(rows, ["60%", "40%"])
    upper, lower = figure.axes
    assert not upper.texts
    # the middles of tiles three wide with one between
    places = [(text.get_text(), text.get_position()[0]) for text in lower.texts]
    assert places == [("60%", 1), ("40%", 5)]
    assert "60%, 40%" in alt


def test_cost_names_where_the_pairs_overtake_the_rest():
    figure, alt = patches.cost([8, 4, 2], [1.0, 4.0, 16.0], [2.0, 3.0, 4.0])
    drawn = {
        line.get_label(): line.get_ydata().tolist()
        for line in figure.axes[0].lines
    }
    assert drawn == {
        "all the rest": [2.0, 3.0, 4.0],
        "pairs": [1.0, 4.0, 16.0],
    }
    assert "At P = 2, 16 billion" in alt and "from P = 4 down" in alt
