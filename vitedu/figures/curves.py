"""Drawings used in more than one place."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# each accuracy's line: its dash or its point, and its shade
STYLES = {
    "train": ("-", "0.6"),
    "validation": ("--", "C0"),
    "test": ("o", "k"),
}


def curves(history: list[dict[str, Any]]) -> "tuple[Figure, str]":
    """The lines of a run's log as two panels, and their alt text.

    Left the training loss in nats, right accuracy in percent, both over steps; a
    single measurement is a point. Where no accuracy was measured the left panel is
    alone.
    ValueError: no line holds a loss.
    """
    from matplotlib.figure import Figure

    lines = [line for line in history if "loss" in line]
    if not lines:
        raise ValueError("the history holds no line with a loss")
    accuracies = {
        part: points
        for part in STYLES
        if (points := measured(history, f"{part}_accuracy"))
    }
    num_panels = 2 if accuracies else 1
    figure = Figure(figsize=(4 * num_panels, 3), layout="constrained")
    panels = figure.subplots(1, num_panels, squeeze=False)[0]
    panels[0].plot(
        *zip(*measured(history, "loss"), strict=True),
        marker="o" if len(lines) == 1 else "",
        color="black",
    )
    panels[0].set(xlabel="step", ylabel="training loss (nats)")
    if all(line["loss"] > 0 for line in lines):
        panels[0].set_yscale("log")
    alt = (
        f"Training loss goes from {lines[0]['loss']:.2f} to {lines[-1]['loss']:.2f} "
        f"nats over {lines[-1]['step']} steps"
    )
    if len(lines) == 1:
        alt = (
            f"Training loss is {lines[0]['loss']:.2f} nats at step "
            f"{lines[0]['step']}"
        )
    for part, points in accuracies.items():
        dash, shade = STYLES[part]
        panels[1].plot(
            *zip(*points, strict=True),
            "o" if len(points) == 1 else dash,
            color=shade,
            label=part,
        )
    if accuracies:
        panels[1].set(xlabel="step", ylabel="accuracy (%)")
        panels[1].legend()
        part, points = list(accuracies.items())[-1]
        alt += f"; {part} accuracy ends at {points[-1][1]:.1f} %"
    return figure, f"{alt}."


def measured(
    history: list[dict[str, Any]], name: str
) -> list[tuple[int, float]]:
    """Step and value of every line that holds `name`."""
    return [(line["step"], line[name]) for line in history if name in line]
