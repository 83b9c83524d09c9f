"""Drawings of chapter 10: the numbers behind them, and their alt text."""

import torch

from tests.figures.drawn import words
from vitedu.figures.chapters import resolution

COUNTS = {112: 600, 224: 813, 288: 830, 384: 790}
COSTS = {112: 0.25, 224: 1.0, 288: 1.8, 384: 3.7}
ERRORS = {112: 10.0, 224: 0.0, 288: 9.0, 384: 12.0}


def test_a_photograph_is_cut_into_as_many_patches_as_its_title_says():
    pictures = [torch.rand(3, 32, 48), torch.rand(3, 64, 64)]
    figure, alt = resolution.cuts(pictures, ["oil\n1%", "rocket\n2%"])
    *whole, left, right = figure.axes
    titles = [axes.get_title().split("\n")[1] for axes in whole]
    assert titles == ["6 patches", "16 patches"]
    assert len(left.lines) == 2 + 1 and len(right.lines) == 3 + 3
    assert [words(left), words(right)] == [["oil\n1%"], ["rocket\n2%"]]
    assert right.get_xlim() == (64 * 0.375 - 0.5, 64 * 0.625 - 0.5)
    assert "32\N{MULTIPLICATION SIGN}48 pixels, 6 patches: oil 1%" in alt


def test_one_table_fills_rows_and_two_have_a_row_each():
    grids = {"old": torch.rand(4, 4, 8), "new": torch.rand(6, 6, 8)}
    figure, _ = resolution.numbers({"4": grids["old"]}, range(8))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [f"channel {n}" for n in range(8)]
    shown = figure.axes[5].images[0].get_array()
    assert torch.equal(torch.tensor(shown), grids["old"][..., 5])
    figure, alt = resolution.numbers(grids, (1, 7))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["channel 1", "channel 7", "", ""]
    sides = [len(axes.images[0].get_array()) for axes in figure.axes]
    assert sides == [4, 4, 6, 6]
    assert figure.axes[2].get_ylabel() == "new"
    assert "4 by 4 and 6 by 6 places" in alt


def test_new_places_are_where_pytorch_puts_them():
    old = torch.tensor([10.0, 20.0, 30.0])[None, None]
    for is_cells in (False, True):
        found = torch.nn.functional.interpolate(
            old, 5, mode="linear", align_corners=not is_cells
        )[0, 0]
        left, right = (5, 35) if is_cells else (10, 30)
        places = torch.tensor(resolution._places(5, left, right, is_cells))
        assert torch.allclose(found, places.clamp(10, 30))


def test_the_larger_hill_is_the_smaller_one_interpolated():
    small = torch.tensor(resolution.HILL).float()[None, None]
    larger = torch.nn.functional.interpolate(
        small, (5, 5), mode="bilinear", align_corners=True
    )
    assert larger[0, 0].tolist() == [[*row] for row in resolution.LARGER_HILL]


def test_the_band_is_two_errors_around_the_count_at_the_trained_side():
    figure, alt = resolution.curve(COUNTS, COSTS, ERRORS, trained=224)
    upper, lower = figure.axes
    edges = upper.collections[0].get_paths()[0].vertices
    at_last = {height for side, height in edges if side == 384}
    assert at_last == {813 - 24, 813 + 24}
    assert min(upper.get_ylim()) < min(COUNTS.values())
    assert "grey: within 2 standard\nerrors of 224" in words(upper)
    assert words(lower) == ["0.2", "1.0", "1.8", "3.7"]
    assert [bar.get_height() for bar in lower.patches] == [*COSTS.values()]
    assert "288 pixels 830 at 1.8 times the cost" in alt
    assert alt.endswith("two standard errors from 224 pixels: 112.")


def test_the_slider_gets_every_size_with_its_answers():
    answers = {160: [("oil", 0.4), ("gas", 0.25)], 224: [("rocket", 0.999)]}
    told = resolution.Sizes(torch.rand(3, 32, 32), answers).told
    assert told["answers"] == {
        160: [["oil", 40], ["gas", 25]],
        224: [["rocket", 100]],
    }
    page = resolution.Sizes(torch.rand(3, 32, 32), answers)._repr_html_()
    assert 'data-part="sizes"' in page and "&quot;160&quot;" in page


def test_practice_shows_each_seed_and_their_mean():
    found = {(224, 224): [93.0, 94.0], (224, 384): [89.0, 91.0]}
    figure, alt = resolution.practice(found)
    (axes,) = figure.axes
    assert [line.get_xdata()[0] for line in axes.lines] == [93.5, 90.0]
    assert [len(dots.get_offsets()) for dots in axes.collections] == [2, 2]
    assert "trained at 224 pixels and tested at 384 90.0 (89.0, 91.0)" in alt


def test_maps_of_answers_share_a_scale():
    chances = {"cat": torch.rand(2, 6), "cup": torch.zeros(2, 6)}
    marked = {"cup": (slice(0, 1), slice(2, 5))}
    figure, alt = resolution.where(torch.rand(2, 3, 32, 96), chances, marked)
    *panels, bar = figure.axes
    maps = panels[1::2]
    assert [axes.get_title() for axes in maps] == [*chances]
    assert {axes.images[0].get_clim() for axes in maps} == {(0, 0.8)}
    assert bar.get_xticklabels()[-1].get_text() == "80%"
    frames = [p.get_bbox().bounds for axes in panels for p in axes.patches]
    assert frames == [(31.5, -0.5, 48, 16), (1.5, -0.5, 3, 1)]
    assert alt.endswith("cat; cup (with an outline around some patches).")
