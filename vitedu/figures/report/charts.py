"""The curves of a run: a figure for its folder, and SVG for its report."""

import io
from collections.abc import Callable
from typing import Any, NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vitedu.figures.charts import bare, chart
from vitedu.figures.palette import CLASS, PALE, PATCHES

# Stands for the page's text colour while drawing.
INK = "#010203"
INKED = ["text.color", "axes.edgecolor", "axes.labelcolor"]
INKED += ["xtick.color", "ytick.color"]
# accuracies also differ without colour
STYLES = {
    "": {"color": INK},
    "train": {"color": PALE},
    "validation": {"color": PATCHES, "linestyle": "--"},
    "test": {"color": CLASS, "marker": "o"},
}
MUCH = 10  # times the lowest loss: from there on its axis is logarithmic
WIDTH, HEIGHT = 4.2, 2.7  # inches: 10 points stay legible on a phone

Points = list[tuple[int, float]]  # a step, and what was measured there


class Chart(NamedTuple):
    title: str
    lines: dict[str, Points]  # one alone is called ""
    alt: str
    axis: dict[str, Any]  # settings of the vertical one


def charts(history: list[dict[str, Any]]) -> list[Chart]:
    def measured(name: str) -> Points:
        return [(line["step"], line[name]) for line in history if name in line]

    losses, rates = measured("loss"), measured("lr")
    parts = {part: measured(f"{part}_accuracy") for part in STYLES if part}
    accuracies = {part: points for part, points in parts.items() if points}
    found = []
    if losses:
        (_, first), (step, last) = losses[0], losses[-1]
        alt = f"goes from {first:.3g} to {last:.3g} nats over {step:,} steps"
        if len(losses) == 1:
            alt = f"is {last:.3g} nats at step {step:,}"
        values = [loss for _, loss in losses]
        is_wide = 0 < MUCH * min(values) < max(values)
        axis = {"ylabel": "training loss (nats)"}
        axis["yscale"] = "log" if is_wide else "linear"
        found.append(Chart("Loss", {"": losses}, f"Training loss {alt}.", axis))
    if accuracies:
        ends = [f"{part} {x[-1][1]:.1f}%" for part, x in accuracies.items()]
        alt = f"Accuracy at the end: {', '.join(ends)}."
        axis = {"ylabel": "accuracy (%)"}
        found.append(Chart("Accuracy", accuracies, alt, axis))
    if rates:
        step, highest = max(rates, key=lambda point: point[1])
        alt = (
            f"Learning rate, where it was logged: highest {highest:.3g} at "
            f"step {step:,}, {rates[-1][1]:.3g} at the end."
        )
        axis = {"ylabel": "learning rate", "ylim": (0, None)}
        found.append(Chart("Learning rate", {"": rates}, alt, axis))
    return found


def curves(history: list[dict[str, Any]]) -> tuple[Figure, str]:
    """The lines of a run's log as two panels, and their alt text.

    Training loss in nats on the left, accuracy in percent on the right (missing
    if none was measured), over steps; a single measurement is a point.
    """
    shown = [x for x in charts(history) if x.title in ("Loss", "Accuracy")]
    figure, panels = chart(4 * len(shown), 3, 1, len(shown), squeeze=False)
    for axes, each in zip(panels[0], shown, strict=True):
        draw(axes, each)
    return figure, " ".join(each.alt for each in shown)


def svg(shown: Chart) -> str:
    return drawn_svg(lambda axes: draw(axes, shown))


def drawn_svg(draw_on: Callable[[Axes], None]) -> str:
    """One panel as SVG, in the page's text colour where INK is used."""
    file = io.StringIO()
    # the salt: equal runs give equal bytes
    style: dict[Any, Any] = dict.fromkeys(INKED, INK)
    with rc_context(style | {"svg.hashsalt": "vitedu"}):
        figure, axes = chart(WIDTH, HEIGHT)
        bare(axes)
        draw_on(axes)
        figure.savefig(
            file, format="svg", transparent=True, metadata={"Date": None}
        )
    drawing = file.getvalue()
    return drawing[drawing.index("<svg") :].replace(INK, "currentColor")


def draw(axes: Axes, shown: Chart) -> None:
    for name, points in shown.lines.items():
        style: dict[str, Any] = {"marker": "o"} if len(points) == 1 else {}
        steps, values = zip(*points, strict=True)
        axes.plot(steps, values, label=name, **STYLES[name] | style)
    axes.set(xlabel="step", **shown.axis)
    if "" not in shown.lines:
        axes.legend(frameon=False, labelcolor=INK)
