"""Drawings used in more than one place."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def curves(history: list[dict[str, Any]]) -> "tuple[Figure, str]":
    """The lines of a run's log as two panels, and their alt text.

    Left the training loss in nats, right accuracy in percent, both over steps.
    ValueError: no line holds a loss.
    """
    from matplotlib.figure import Figure

    lines = [line for line in history if "loss" in line]
    if not lines:
        raise ValueError("the history holds no line with a loss")
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(
        [x["step"] for x in lines], [x["loss"] for x in lines], color="black"
    )
    left.set(xlabel="step", ylabel="training loss (nats)")
    if all(line["loss"] > 0 for line in lines):
        left.set_yscale("log")
    styles = {
        "train_accuracy": "-",
        "validation_accuracy": "--",
        "test_accuracy": "o",
    }
    shades = {
        "train_accuracy": "0.6",
        "validation_accuracy": "C0",
        "test_accuracy": "k",
    }
    for name, style in styles.items():
        points = [(x["step"], x[name]) for x in history if name in x]
        if points:
            steps, values = zip(*points, strict=True)
            label = name.removesuffix("_accuracy")
            right.plot(steps, values, style, color=shades[name], label=label)
    right.set(xlabel="step", ylabel="accuracy (%)")
    alt = (
        f"Training loss goes from {lines[0]['loss']:.2f} to {lines[-1]['loss']:.2f} "
        f"nats over {lines[-1]['step']} steps"
    )
    if right.lines:
        right.legend()
        reached = right.lines[-1]
        percent = reached.get_ydata()[-1]
        alt += f"; {reached.get_label()} accuracy ends at {percent:.1f} %"
    alt += "."
    return figure, alt
