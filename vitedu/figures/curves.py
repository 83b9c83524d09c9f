"""The curves of a run: its loss, and the accuracies that were measured."""

from typing import TYPE_CHECKING, Any

from vitedu.figures.charts import chart

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

    Left the training loss in nats, right accuracy in percent, both over steps;
    a single measurement is a point. If no accuracy was measured, the left panel
    is alone.
    ValueError: no line has a loss.
    """
    losses = measured(history, "loss")
    if not losses:
        raise ValueError("the history has no line with a loss")
    accuracies = {
        part: points
        for part in STYLES
        if (points := measured(history, f"{part}_accuracy"))
    }
    columns = 2 if accuracies else 1
    figure, panels = chart(4 * columns, 3, 1, columns, squeeze=False)
    left, *right = panels[0]
    marker = "o" if len(losses) == 1 else ""
    left.plot(*zip(*losses, strict=True), marker=marker, color="black")
    left.set(xlabel="step", ylabel="training loss (nats)")
    if all(loss > 0 for _, loss in losses):
        left.set_yscale("log")
    (_, first), (step, last) = losses[0], losses[-1]
    alt = (
        f"Training loss goes from {first:.2f} to {last:.2f} nats "
        f"over {step} steps"
    )
    if len(losses) == 1:
        alt = f"Training loss is {last:.2f} nats at step {step}"
    for axes in right:
        for part, points in accuracies.items():
            dash, shade = STYLES[part]
            style = "o" if len(points) == 1 else dash
            axes.plot(
                *zip(*points, strict=True), style, color=shade, label=part
            )
        axes.set(xlabel="step", ylabel="accuracy (%)")
        axes.legend()
        alt += f"; {part} accuracy ends at {points[-1][1]:.1f} %"
    return figure, f"{alt}."


def measured(
    history: list[dict[str, Any]], name: str
) -> list[tuple[int, float]]:
    """Step and value of every line that has `name`."""
    return [(line["step"], line[name]) for line in history if name in line]
