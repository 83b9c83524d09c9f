"""Chapter 8's drawings: what is drawn, and their alt text."""

from io import BytesIO

import pytest
import torch

from vitedu.figures.chapters import scale
from vitedu.figures.palette import ATTENTION, CLASS

pytestmark = pytest.mark.slow  # draws

ROWS = [
    scale.Omission("nothing left out", [0.0, 0.0], [64.0, 66.0]),
    scale.Omission("without average", [0.1, 0.3], [64.0, 66.0]),
    scale.Omission("without step", [50.0, 48.0], [73.0, 75.0]),
]
LIVES = [
    scale.Life(0, 23, True),
    scale.Life(20, 71, True),
    scale.Life(70, 100, False),
]


def words(axes):
    """All that is written inside of a panel."""
    return [text.get_text() for text in axes.texts if text.get_text()]


def test_the_step_in_slices_has_four_boxes_with_their_code():
    figure, alt = scale.slices()
    written = words(figure.axes[0])
    assert {
        'F.cross_entropy(…, reduction="sum")',
        "optimizer.step()",
        "next slice",
    } <= set(written)
    assert "divided by the size n of the whole batch" in alt


def test_the_ring_frames_what_has_changed():
    history = torch.ones(3, 2, 2)
    history[1:, 1, 0] = 2  # process 0 has sent its first part
    history[1:, 0, 1] = 2
    history[2] = 2
    figure, alt = scale.ring(history)
    start, first, place, last = figure.axes
    assert words(start) == ["1", "1", "1", "1"]
    assert words(first) == ["1", "2", "2", "1"]
    assert words(place) == ["0", "1"]
    assert words(last) == ["2", "2", "2", "2"]
    framed = [len(axes.lines) for axes in (start, first, last)]
    assert framed == [0, 2, 2]
    assert [axes.get_title() for axes in figure.axes] == [
        *("start", "round 1", "", "round 2")
    ]
    for axes in (start, first, last):
        ticks = [tick.get_text() for tick in axes.get_xticklabels()]
        assert ticks == ["0", "1"]
    assert "2 processes in a ring" in alt
    assert "after each round is 1, 2, 2" in alt


def test_the_ring_has_an_arrow_from_each_process_to_the_next():
    figure, _ = scale.ring(torch.ones(7, 4, 4))
    circle = figure.axes[4]
    arrows = [text for text in circle.texts if not text.get_text()]
    assert len(arrows) == 4 == len(words(circle))


def test_what_is_left_out_has_its_distance_and_its_accuracy():
    from matplotlib.colors import to_hex

    figure, alt = scale.omissions(ROWS)
    (axes,) = figure.axes
    written = words(axes)
    assert written == ["0%", "65%", "0.2%", "65%", "49%", "74%", "digits\nread"]
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == pytest.approx([0, 0.2, 49])
    colors = [to_hex(bar.get_facecolor()) for bar in axes.patches]
    assert colors == [ATTENTION, CLASS, CLASS]
    assert "without step: 49% away, accuracy 74%." in alt


def test_every_start_is_a_line_and_every_kill_a_cross():
    figure, alt = scale.lives(LIVES, 100)
    (axes,) = figure.axes
    spans = [list(line.get_xdata()) for line in axes.lines[::2]]
    assert spans == [[0, 23], [20, 71], [70, 100]]
    markers = [line.get_marker() for line in axes.lines[1::2]]
    assert markers == ["X", "X", "o"]
    assert "killed after step 23, 71;" in alt
    assert "the last one gets to step 100" in alt


@pytest.mark.parametrize(
    "draw",
    [
        scale.slices,
        lambda: scale.omissions(ROWS),
        lambda: scale.lives(LIVES, 9),
    ],
)
def test_no_word_leaves_its_drawing(draw):
    figure, _ = draw()
    figure.savefig(BytesIO())  # which lays it out
    ground = figure.bbox
    for axes in figure.axes:
        for text in axes.texts:
            place = text.get_window_extent()
            assert place.x0 >= ground.x0 and place.x1 <= ground.x1
            assert place.y0 >= ground.y0 and place.y1 <= ground.y1
