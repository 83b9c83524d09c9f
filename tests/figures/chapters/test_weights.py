"""Chapter 9's drawings: what is drawn, and their alt text."""

import pytest
import torch

from vitedu.figures.chapters import weights
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    DARK,
    MLP,
    PATCHES,
    POSITIONS,
    STREAM,
    TINTS,
)

pytestmark = pytest.mark.slow  # draws

ROWS = [
    weights.Dialect("one", ("a/", "b"), (4, 2, 2), ("f(", " x)"), "heads"),
    weights.Dialect("two", ("c.d",), (12, 4), ("x[8:]",), "joint"),
    weights.Dialect("three", ("e",), (4, 4), ("x",), "three"),
]
COSTS = [
    weights.Cost("tanh_gelu", "tanh GELU", 813, 0.02),
    weights.Cost("qk_swapped", "q and k swapped", 9, 27.0),
    weights.Cost("bgr", "BGR for RGB", 650, 12.0),
]


def words(axes):
    """All that is written inside of a panel."""
    return [text.get_text() for text in axes.texts]


def test_an_answer_is_red_where_its_name_is_another():
    pictures = dict.fromkeys("ab", torch.rand(3, 8, 8))
    before = {"a": "cat 84%", "b": "espresso 91%"}
    after = {"a": "cat 81%", "b": "candle 71%"}
    figure, alt = weights.answers(pictures, before, after)
    assert [axes.get_title() for axes in figure.axes] == [*before.values()]
    (same,), (other,) = (axes.texts for axes in figure.axes)
    assert [same.get_color(), other.get_color()] == [DARK, CLASS]
    assert "b: first espresso 91%, then candle 71%" in alt


def test_every_dialect_has_its_name_shape_and_way_to_ours():
    figure, alt = weights.dialects(ROWS)
    written = words(figure.axes[0])
    for row in ROWS:
        assert {row.owner, *row.code, *row.name} <= set(written)
        assert f"({', '.join(map(str, row.shape))})" in written
    assert (
        "one, a/b of shape (4, 2, 2), in by out, becomes ours by f( x)" in alt
    )
    assert "two, c.d of shape (12, 4), out by in, becomes ours by x[8:]" in alt
    assert "in 3 dialects" in alt


def test_beside_the_values_is_which_axis_is_the_inputs():
    figure, _ = weights.dialects(ROWS)
    written = words(figure.axes[0])
    down, across = "\N{DOWNWARDS ARROW}", "\N{RIGHTWARDS ARROW}"
    found = [text for text in written if text[0] in (down, across)]
    ours = [f"{down}out", f"{across}in"]
    assert found == [f"{down}in", f"{across}out", *ours, *ours]


def test_the_values_alone_are_filled_and_three_matrices_are_apart():
    figure, _ = weights.dialects(ROWS)
    boxes = figure.axes[0].patches
    full = [box for box in boxes if filled(box) == ATTENTION]
    assert len(boxes) == 9 and len(full) == 3
    assert all(filled(box) in (ATTENTION, TINTS[ATTENTION]) for box in boxes)
    _, joint, three = (boxes[i : i + 3] for i in (0, 3, 6))
    gaps = [
        upper.get_y() - upper.get_height() - lower.get_y()
        for upper, lower, _ in (joint, three)
    ]
    assert gaps == pytest.approx([0, weights.GAP])


def filled(box):
    """The colour of a rectangle, as palette.py writes it."""
    from matplotlib.colors import to_hex

    return to_hex(box.get_facecolor())


def test_nothing_of_a_dialect_leaves_the_drawing():
    name = ("MultiHeadDotProductAttention_1/", 36 * "x")
    code = ("rearrange(x,", ' "d heads hd -> (heads hd) d")')
    row = weights.Dialect("somebody", name, (192, 3, 64), code, "heads")
    figure, _ = weights.dialects([row])
    figure.canvas.draw()
    ground = figure.bbox
    for text in figure.axes[0].texts:
        place = text.get_window_extent()
        assert place.x0 >= ground.x0 and place.x1 <= ground.x1
        assert place.y0 >= ground.y0 and place.y1 <= ground.y1


def test_mistakes_are_sorted_by_what_they_cost():
    figure, alt = weights.costs(COSTS, 1_000, 813)
    left, far = figure.axes
    assert words(left) == ["9", "650", "813"]
    assert [bar.get_width() for bar in left.patches] == [9, 650, 813]
    names = [tick.get_text() for tick in left.get_yticklabels()]
    assert names == ["q and k swapped", "BGR for RGB", "tanh GELU"]
    points = far.collections[0].get_offsets()[:, 0].tolist()
    assert points == [27.0, 12.0, 0.02]
    assert far.get_xscale() == "log"
    parts = ["attention", "pixels", "MLP"]
    assert words(far) == ["27", "12", "0.02", *parts]
    assert "Of 1,000 photographs 813 are right" in alt
    assert "BGR for RGB 650, by 12; tanh GELU 813, by 0.02." in alt


@pytest.mark.parametrize(
    ("key", "color"),
    [
        ("qk_swapped", ATTENTION),
        ("qkv_by_head", ATTENTION),
        ("out_transposed", ATTENTION),
        ("positions_transposed", POSITIONS),
        ("kernel_transposed", PATCHES),
        ("pixels_0_1", PATCHES),
        ("tanh_gelu", MLP),
        ("norm_eps_1e-12", STREAM),
        ("anything", DARK),
    ],
)
def test_a_mistake_has_the_colour_of_its_part(key, color):
    assert weights.color_of(key) == color
