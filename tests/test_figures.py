"""The curves of a run: what they show, and their alt text."""

import io

import pytest

from vitedu.figures import curves

HISTORY = [
    {"step": 10, "loss": 2.25, "train_accuracy": 20.0},
    {"step": 20, "loss": 1.5, "train_accuracy": 55.0},
    {"step": 20, "validation_accuracy": 60.0, "validation_loss": 1.25},
    {"step": 30, "loss": 0.5, "train_accuracy": 80.0},
    {"step": 40, "loss": 0.25, "train_accuracy": 90.0},
    {"step": 40, "validation_accuracy": 88.0, "validation_loss": 0.5},
    {"step": 40, "test_accuracy": 87.5},
]


def drawn(axes):
    """Label and points of each line of a panel."""
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def png(figure):
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=50)
    return content.getvalue()


def test_loss_and_accuracies_are_drawn_named_and_told_apart_in_grey():
    figure, alt = curves(HISTORY)
    left, right = figure.axes
    (points,) = drawn(left).values()
    assert points == [[10, 2.25], [20, 1.5], [30, 0.5], [40, 0.25]]
    assert drawn(right) == {
        "train": [[10, 20], [20, 55], [30, 80], [40, 90]],
        "validation": [[20, 60], [40, 88]],
        "test": [[40, 87.5]],
    }
    assert left.get_xlabel() == right.get_xlabel() == "step"
    assert left.get_ylabel() == "training loss (nats)"
    assert right.get_ylabel() == "accuracy (%)"
    # another dash, another marker or another shade
    styles = {(x.get_linestyle(), x.get_marker()) for x in right.lines}
    assert len(styles) == 3
    assert figure.get_facecolor()[3] == 1.0
    assert "from 2.25 to 0.25 nats over 40 steps" in alt and "87.5" in alt
    assert "\n" not in alt and alt.endswith(".")


@pytest.mark.slow
@pytest.mark.parametrize(
    "history",
    [
        HISTORY,
        HISTORY[:1],
        [{"step": 1, "loss": 0.0, "train_accuracy": 100.0}],
        [{"step": 1, "loss": 1.0, "train_accuracy": 0.0}] * 2,
    ],
    ids=["whole", "one-line", "loss-zero", "twice"],
)
def test_it_can_be_saved_without_a_warning(history):
    assert png(curves(history)[0]).startswith(b"\x89PNG")


def test_without_an_accuracy_there_is_no_empty_panel():
    # soft labels, or a run that was stopped early
    figure, alt = curves([{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}])
    (panel,) = figure.axes
    assert panel.get_ylabel() == "training loss (nats)"
    assert "accuracy" not in alt


def test_a_single_measurement_is_a_point_that_can_be_seen():
    history = [
        {"step": 5, "loss": 2.0, "train_accuracy": 10.0},
        {"step": 5, "validation_accuracy": 12.0, "validation_loss": 2.0},
    ]
    figure, alt = curves(history)
    lines = [line for panel in figure.axes for line in panel.lines]
    assert len(lines) == 3
    assert all(line.get_marker() == "o" for line in lines)
    assert alt == (
        "Training loss is 2 nats at step 5. Accuracy at the end: train 10.0%, "
        "validation 12.0%."
    )


def test_several_measurements_are_a_line_without_points():
    figure, _ = curves(HISTORY)
    (loss,) = figure.axes[0].lines
    train, validation, test = figure.axes[1].lines
    assert loss.get_linestyle() == train.get_linestyle() == "-"
    assert {x.get_marker() for x in (loss, train, validation)} <= {"", "None"}
    assert test.get_marker() == "o"


@pytest.mark.slow
def test_equal_histories_give_equal_pictures():
    assert png(curves(HISTORY)[0]) == png(curves(HISTORY)[0])


def test_no_window_and_no_global_figure_is_made():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    curves(HISTORY)
    assert plt.get_fignums() == before
