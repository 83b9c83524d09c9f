"""Drawings of chapter 19: the numbers behind them, and their alt text."""

import numpy as np
import pytest
import torch

from vitedu.figures.chapters import unlabelled

MASK = torch.tensor([True, False, False, True])
PICTURES = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def shown(axes):
    """What a panel shows, (h, w) or (h, w, 3)."""
    return np.asarray(axes.images[0].get_array())


def test_hidden_patches_get_a_colour_that_no_digit_has():
    picture = unlabelled.seen(PICTURES[0], MASK, 4)
    assert picture.shape == (3, 8, 8)
    assert (picture[:, :4, 4:] == PICTURES[0, :, :4, 4:]).all()
    cover = picture[:, :4, :4].flatten(1)
    assert (cover == cover[:, :1]).all() and cover[0, 0] != cover[2, 0]


def test_the_answer_stands_between_question_and_truth():
    masks = MASK.expand(3, 4)
    figure, alt = unlabelled.completed(PICTURES, masks, 1 - PICTURES, 4)
    panels = [shown(axes) for axes in figure.axes]
    assert len(panels) == 9 and panels[0].shape == (8, 8, 3)
    assert np.allclose(panels[3:6], np.subtract(1, panels[6:]), atol=0.02)
    assert alt.startswith("3 handwritten digits") and "50%" in alt
    alone = unlabelled.completed(PICTURES, masks, PICTURES, only=["true"])
    assert len(alone[0].axes) == 3 and alone[1].endswith("digits, as they are.")
    both, read = {"painted": PICTURES, "copied": PICTURES}, {"copied": "719"}
    figure, alt = unlabelled.completed(PICTURES, masks, both, 4, read)
    assert "".join(axes.get_xlabel() for axes in figure.axes) == "719"
    assert "painted and copied" in alt and alt.endswith("them as 7, 1, 9.")


def test_one_digit_under_several_masks():
    given = torch.stack([MASK, ~MASK]), [1, 7], PICTURES[:2], [4, 9]
    figure, alt = unlabelled.guesses(PICTURES[0], *given)
    assert not np.allclose(*map(shown, figure.axes[1:3]))
    told = [axes.get_xlabel() for axes in figure.axes]
    assert told[1:3] + told[4:] == ["1", "7", "4", "9"]
    assert "covered in 2 ways" in alt and "on black as 1, 7" in alt
    assert alt.endswith("as 4, 9.")


def test_the_step_is_named_from_which_on_the_mean_is_beaten():
    curve = [(50, 0.8), (100, 0.4), (150, 0.26), (200, 0.2)]
    figure, alt = unlabelled.losses(curve, 0.3)
    assert (figure.axes[0].lines[0].get_xydata() == curve).all()
    assert "from 0.80 to 0.20" in alt and "from step 150 on" in alt


def test_the_same_scraps_in_two_places():
    figure, alt = unlabelled.scraps(PICTURES[:2], torch.stack([MASK, ~MASK]), 4)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["a digit", "what's visible", "laid out anew"]
    assert alt.startswith("A digit")


def test_rows_of_pictures_have_names():
    rows = {"perfect": PICTURES, "true": PICTURES}
    figure, alt = unlabelled.targets(rows)
    assert [axes.get_ylabel() for axes in figure.axes[::3]] == [*rows]
    assert alt.startswith("3 handwritten digits in 2 rows: perfect, true")


def test_a_class_is_drawn_as_its_colour():
    classes = torch.tensor([[0, 511], [7, 448]])
    figure, alt = unlabelled.mosaic(torch.rand(3, 8, 8), classes)
    colours = shown(figure.axes[1])
    assert colours[0, 0] == pytest.approx(3 * [1 / 16], abs=0.01)
    assert colours[1, 0] == pytest.approx([1 / 16, 1 / 16, 15 / 16], abs=0.01)
    assert "4 patches; 4 different colours" in alt


def measured(value, **more):
    return {"value": value, "per_seed": [value] * 3, **more}


def test_a_line_for_each_way_to_begin():
    starts = ["pixels", *unlabelled.STARTS]
    metrics = {f"probe/{x}": measured(10.0 + i) for i, x in enumerate(starts)}
    metrics |= {
        f"shots/{x}/{k}": measured(5.0) for x in starts for k in (1, 5, 10)
    }
    metrics |= {
        f"tuned/{start}{more}": measured(40.0, train_per_seed=[60.0, 62.0])
        for start in starts
        for more in ("", ", longer")
    }
    figure, alt = unlabelled.bought(metrics)
    left, right = figure.axes
    assert len(left.lines) == 3  # without masked patch prediction
    assert right.lines[1].get_ydata().tolist() == [61, 61]
    assert "pixels 5, 5, 5, 10%" in alt
    assert "from scratch 40 (its own 61), 40 (its own 61)%" in alt


def test_hollow_when_frozen_and_filled_when_set_free():
    starts, row = ["pixels", *unlabelled.BEGUN], {"train_per_seed": [70.0]}
    names = [f"probe/cifar-{x}/1000" for x in (*starts, "scratch-again1")]
    names += [f"tuned/cifar-{x}/1000" for x in starts[1:]]
    runs = {x: measured(30.0 + i, **row) for i, x in enumerate(names)}
    figure, alt = unlabelled.set_free(runs)
    points = [x.get_offsets().tolist() for x in figure.axes[0].collections[:3]]
    assert points[0] == [[30, 0]] * 3 and points[2] == [[36, 1]] * 3
    assert points[1] == [[31, 1]] * 3 + [[35, 1]] * 3
    assert "from scratch frozen 33 (its own 70)" in alt
    assert "set free" not in unlabelled.set_free(runs, only=["probe"])[1]


def test_an_arrow_for_each_kind_of_pictures():
    names = {"few": 20.0, "more": 50.0}
    metrics = {k: measured(x, train_per_seed=[70.0]) for k, x in names.items()}
    kinds = {kind: (metrics, *names) for kind in ("digits", "shapes")}
    figure, alt = unlabelled.gained(kinds, {"digits": measured(55.0)})
    rows = [x.get_offsets().tolist() for x in figure.axes[0].collections]
    assert rows[0] == [[20, 0]] * 3 and rows[4] == [[50, 1]] * 3
    assert rows[2] == [[55, -0.2]] * 3 and "much compute 55%" in alt
    assert [x.get_text() for x in figure.axes[0].texts] == ["", "+30"] * 2
    assert "shapes from scratch 20% (its own 70), with MAE first 50%" in alt


def test_a_line_over_labels_for_each_start():
    knows = [90.0, 96.0], [90.0, 96.0], [50.0, 60.0]
    metrics = {
        f"tuned/cifar-{start}/{k}": measured(k / 100, train_per_seed=own)
        for start in unlabelled.BEGUN
        for k, own in zip(unlabelled.LABELS, knows, strict=True)
    }
    figure, alt = unlabelled.by_labels(metrics)
    left, right = (axes.lines[0].get_ydata().tolist() for axes in figure.axes)
    assert left == [5, 10, 50] and right == [93, 93, 55]
    assert "from scratch 5, 10, 50%" in alt
    words = {each.get_text() for each in figure.axes[0].texts}
    assert {"2\N{MULTIPLICATION SIGN}", "5\N{MULTIPLICATION SIGN}?"} <= words
