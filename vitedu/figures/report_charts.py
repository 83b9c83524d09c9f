"""The curves of a run's report, each drawn once for a light and a dark page."""

import io
from base64 import b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

from vitedu.figures.charts import bare, chart
from vitedu.figures.curves import measured
from vitedu.figures.palette import CLASS, DARK, PALE, PATCHES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIGHT = "#e6e8eb"  # words and lines on a dark ground
# Stands for DARK or LIGHT until the drawing is done; no other colour is this.
INK = "#010203"
ACCURACIES = {"train": PALE, "validation": PATCHES, "test": CLASS}
MUCH = 10  # times the lowest loss: from there on its axis is logarithmic
WIDTH, HEIGHT = 4.2, 2.7  # inches: 10 points stay legible on a phone


class Chart(NamedTuple):
    """A drawing as data URIs, and the words for who cannot see it."""

    title: str
    light: str
    dark: str
    alt: str


def charts(history: list[dict[str, Any]]) -> list[Chart]:
    """Loss, accuracy and learning rate of a run's log, those that it has."""
    drawn = [
        loss_chart(measured(history, "loss")),
        accuracy_chart(history),
        rate_chart(measured(history, "lr")),
    ]
    return [each for each in drawn if each is not None]


def loss_chart(points: list[tuple[int, float]]) -> Chart | None:
    """The training loss over the steps."""
    if not points:
        return None
    from matplotlib.ticker import LogFormatter

    def draw(axes: "Axes") -> None:
        line(axes, points, INK)
        axes.set(xlabel="step", ylabel="training loss (nats)")
        losses = [loss for _, loss in points]
        if 0 < MUCH * min(losses) < max(losses):
            axes.set_yscale("log")
            for which in (
                axes.yaxis.set_major_formatter,
                axes.yaxis.set_minor_formatter,
            ):
                which(LogFormatter(minor_thresholds=(1.5, 0.5)))

    (_, first), (step, last) = points[0], points[-1]
    alt = (
        f"Training loss from {first:.3g} to {last:.3g} nats in {step:,} steps."
    )
    return finished("Loss", draw, alt)


def accuracy_chart(history: list[dict[str, Any]]) -> Chart | None:
    """The accuracies over the steps."""
    found = {
        part: points
        for part in ACCURACIES
        if (points := measured(history, f"{part}_accuracy"))
    }
    if not found:
        return None

    def draw(axes: "Axes") -> None:
        for part, points in found.items():
            line(axes, points, ACCURACIES[part], label=part)
        axes.set(xlabel="step", ylabel="accuracy (%)")
        axes.legend(frameon=False, labelcolor=INK)

    ends = ", ".join(
        f"{part} {points[-1][1]:.1f} %" for part, points in found.items()
    )
    return finished("Accuracy", draw, f"Accuracy at the end: {ends}.")


def rate_chart(points: list[tuple[int, float]]) -> Chart | None:
    """The learning rate over the steps."""
    if not points:
        return None

    def draw(axes: "Axes") -> None:
        line(axes, points, INK)
        axes.set(xlabel="step", ylabel="learning rate", ylim=(0, None))

    step, highest = max(points, key=lambda point: point[1])
    alt = (
        f"Learning rate, where it was logged: highest {highest:.3g} at step "
        f"{step:,}, {points[-1][1]:.3g} at the end."
    )
    return finished("Learning rate", draw, alt)


def line(
    axes: "Axes", points: list[tuple[int, float]], color: str, label: str = ""
) -> None:
    """A line through the points; a single one is a dot."""
    marker = "o" if len(points) == 1 else ""
    axes.plot(
        *zip(*points, strict=True), marker=marker, color=color, label=label
    )


def finished(title: str, draw: Any, alt: str) -> Chart:
    """The chart that `draw` fills, in both colours of ink."""
    from matplotlib import rc_context

    ink: dict[Any, Any] = dict.fromkeys(
        (
            "text.color",
            "axes.edgecolor",
            "axes.labelcolor",
            "xtick.color",
            "ytick.color",
        ),
        INK,
    )
    # equal runs give equal bytes
    with rc_context(ink | {"svg.hashsalt": "vitedu"}):
        figure, axes = chart(WIDTH, HEIGHT)
        bare(axes)
        draw(axes)
        text = svg(figure)
    return Chart(
        title, uri(text.replace(INK, DARK)), uri(text.replace(INK, LIGHT)), alt
    )


def svg(figure: "Figure") -> str:
    """A figure as SVG on a transparent ground."""
    file = io.StringIO()
    figure.savefig(
        file, format="svg", transparent=True, metadata={"Date": None}
    )
    return file.getvalue()


def uri(text: str) -> str:
    """An SVG as the address of an image."""
    return f"data:image/svg+xml;base64,{b64encode(text.encode()).decode()}"
