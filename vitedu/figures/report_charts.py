"""The curves of a run's report, as SVG in the colours of the page."""

import io
from typing import Any, NamedTuple

from vitedu.figures.charts import bare, chart
from vitedu.figures.curves import measured
from vitedu.figures.palette import CLASS, PALE, PATCHES

# Stands for the page's colour of words until the drawing is done.
INK = "#010203"
INKED = ["text.color", "axes.edgecolor", "axes.labelcolor"]
INKED += ["xtick.color", "ytick.color"]
COLORS = {"train": PALE, "validation": PATCHES, "test": CLASS}
MUCH = 10  # times the lowest loss: from there on its axis is logarithmic
WIDTH, HEIGHT = 4.2, 2.7  # inches: 10 points stay legible on a phone

Points = list[tuple[int, float]]  # a step, and what was measured there


class Chart(NamedTuple):
    """A drawing, and the words for who cannot see it."""

    title: str
    svg: str
    alt: str


def charts(history: list[dict[str, Any]]) -> list[Chart]:
    """Loss, accuracy and learning rate of a run's log, those that it has."""
    losses, rates = measured(history, "loss"), measured(history, "lr")
    accuracies = {
        part: points
        for part in COLORS
        if (points := measured(history, f"{part}_accuracy"))
    }
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
        alt = (
            f"Training loss from {first:.3g} to {last:.3g} nats in {step:,} "
            "steps."
        )
        drawn.append(Chart("Loss", drawing, alt))
    if accuracies:
        ends = ", ".join(
            f"{part} {points[-1][1]:.1f} %"
            for part, points in accuracies.items()
        )
        drawing = svg(accuracies, ylabel="accuracy (%)")
        drawn.append(
            Chart("Accuracy", drawing, f"Accuracy at the end: {ends}.")
        )
    if rates:
        step, highest = max(rates, key=lambda point: point[1])
        alt = (
            f"Learning rate, where it was logged: highest {highest:.3g} at "
            f"step {step:,}, {rates[-1][1]:.3g} at the end."
        )
        drawing = svg({"": rates}, ylabel="learning rate", ylim=(0, None))
        drawn.append(Chart("Learning rate", drawing, alt))
    return drawn


def svg(lines: dict[str, Points], **settings: Any) -> str:
    """Lines over the steps; `settings` are those of matplotlib's axes."""
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
