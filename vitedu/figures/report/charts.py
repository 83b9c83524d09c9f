"""The curves of a run: a figure for its folder, and SVG for its report."""

import io
from typing import TYPE_CHECKING, Any, NamedTuple

from vitedu.figures.charts import bare, chart
from vitedu.figures.palette import CLASS, PALE, PATCHES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# each accuracy's line in `curves`: its dash or its point, and its shade
STYLES = {"train": ("-", "0.6"), "validation": ("--", "C0"), "test": ("o", "k")}
COLORS = {"train": PALE, "validation": PATCHES, "test": CLASS}
# Stands for the page's text colour while drawing.
INK = "#010203"
INKED = ["text.color", "axes.edgecolor", "axes.labelcolor"]
INKED += ["xtick.color", "ytick.color"]
MUCH = 10  # times the lowest loss: from there on its axis is logarithmic
WIDTH, HEIGHT = 4.2, 2.7  # inches: 10 points stay legible on a phone

Points = list[tuple[int, float]]  # a step, and what was measured there


def measured(history: list[dict[str, Any]], name: str) -> Points:
    return [(line["step"], line[name]) for line in history if name in line]


def accuracies_in(history: list[dict[str, Any]]) -> dict[str, Points]:
    found = {part: measured(history, f"{part}_accuracy") for part in STYLES}
    return {part: points for part, points in found.items() if points}


def curves(history: list[dict[str, Any]]) -> "tuple[Figure, str]":
    """The lines of a run's log as two panels, and their alt text.

    Training loss in nats on the left, accuracy in percent on the right (missing
    if none was measured), over steps; a single measurement is a point.
    ValueError: no line has a loss.
    """
    losses, accuracies = measured(history, "loss"), accuracies_in(history)
    if not losses:
        raise ValueError("the history has no line with a loss")
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


class Chart(NamedTuple):
    title: str
    svg: str
    alt: str


def charts(history: list[dict[str, Any]]) -> list[Chart]:
    losses, rates = measured(history, "loss"), measured(history, "lr")
    accuracies = accuracies_in(history)
    drawn = []
    if losses:
        (_, first), (step, last) = losses[0], losses[-1]
        values = [loss for _, loss in losses]
        is_wide = 0 < MUCH * min(values) < max(values)
        drawing = svg(
            {"": losses},
            ylabel="training loss (nats)",
            yscale="log" if is_wide else "linear",
        )
        alt = f"from {first:.3g} to {last:.3g} nats in {step:,} steps"
        drawn.append(Chart("Loss", drawing, f"Training loss {alt}."))
    if accuracies:
        ends = ", ".join(
            f"{part} {points[-1][1]:.1f} %"
            for part, points in accuracies.items()
        )
        drawing = svg(accuracies, ylabel="accuracy (%)")
        alt = f"Accuracy at the end: {ends}."
        drawn.append(Chart("Accuracy", drawing, alt))
    if rates:
        step, highest = max(rates, key=lambda point: point[1])
        drawing = svg({"": rates}, ylabel="learning rate", ylim=(0, None))
        alt = (
            f"Learning rate, where it was logged: highest {highest:.3g} at "
            f"step {step:,}, {rates[-1][1]:.3g} at the end."
        )
        drawn.append(Chart("Learning rate", drawing, alt))
    return drawn


def svg(lines: dict[str, Points], **settings: Any) -> str:
    from matplotlib import rc_context

    style: dict[Any, Any] = dict.fromkeys(INKED, INK)
    file = io.StringIO()
    # the salt: equal runs give equal bytes
    with rc_context(style | {"svg.hashsalt": "vitedu"}):
        figure, axes = chart(WIDTH, HEIGHT)
        bare(axes)
        for name, points in lines.items():
            axes.plot(
                *zip(*points, strict=True),
                marker="o" if len(points) == 1 else "",
                color=COLORS.get(name, INK),
                label=name,
            )
        axes.set(xlabel="step", **settings)
        if "" not in lines:
            axes.legend(frameon=False, labelcolor=INK)
        figure.savefig(
            file, format="svg", transparent=True, metadata={"Date": None}
        )
    drawing = file.getvalue()
    return drawing[drawing.index("<svg") :].replace(INK, "currentColor")
