"""The report of a run: one self-contained page, on screen or paper.

`render(Contents(...))` is its HTML. Names of files and classes are escaped, and
the page forbids scripts and requests of any kind.
"""

import math
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from torch import Tensor

from vitedu import evaluate
from vitedu.data import Source
from vitedu.errors import escaped
from vitedu.evaluate.classify import class_names
from vitedu.figures.report.charts import charts, svg
from vitedu.figures.report.examples import Measured, jpeg, lit, measure
from vitedu.files import replace_file
from vitedu.train.config import TrainConfig, as_typed, dotted
from vitedu.train.journal import Run
from vitedu.train.recipes.compare import changed_settings, model_line
from vitedu.train.run_folder import RunFolder

MOST_SKIPPED = 100  # sentences about pictures that were left out
MOST_IN_MATRIX = 20  # classes; of more, the most frequent mistakes are listed
MOST_PAIRS = 20
MOST_CLASSES = 1000  # rows of the table of classes
MOST_NAMED_COLUMNS = 4  # classes; the columns of more are numbered


class Contents(NamedTuple):
    """All that a report says.

    `run` is the folder's displayed name, `model` one line on the network.
    `changed` is what differs from the recipe (None if that is unknown).
    `missing` says why `measured` is None.
    """

    run: str
    model: str
    result: Mapping[str, Any]
    history: list[dict[str, Any]]
    class_names: Sequence[str]
    settings: Mapping[str, str]
    changed: Mapping[str, str] | None
    measured: Measured | None
    missing: str = ""


def write_report(
    run: Run,
    folder: RunFolder,
    test: Source | str,
    should_stop: Callable[[], bool] = lambda: False,
) -> Measured | None:
    config = TrainConfig.from_json(run.result["config"])
    measured = None
    if not isinstance(test, str):
        measured = measure(run.model, test, config, should_stop)
    changed = changed_settings(config)
    contents = Contents(
        run=str(folder.path),
        model=model_line(config),
        result=run.result,
        history=run.history,
        class_names=class_names(run.model, config.model.num_classes),
        settings={x: as_typed(y) for x, y in dotted(config.to_json())},
        changed=changed
        and {
            name: f"{as_typed(now)} (recipe: {as_typed(before)})"
            for name, (before, now) in changed.items()
        },
        measured=measured,
        missing=test if isinstance(test, str) else "",
    )
    replace_file(folder.report, render(contents))
    return measured


def template(name: str, **filters: Callable[..., Any]) -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda x: escaped(x) if type(x) is str else x,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": "{:,}".format, "jpeg": jpeg} | filters
    folder = files(__package__)
    head = folder.joinpath("head.html").read_text("utf-8")
    environment.globals["head"] = Markup(head)
    return environment.from_string(folder.joinpath(name).read_text("utf-8"))


def render(contents: Contents) -> str:
    page = template(
        "page.html",
        lit=lambda example: lit(example.picture, example.shares),
        place_of_most=place_of_most,
        svg=lambda chart: Markup(svg(chart)),
    )
    values = {
        "charts": charts(contents.history),
        "facts": facts(contents),
        "most_skipped": MOST_SKIPPED,
        "newline": Markup("\n"),
        "notes": notes(contents),
        "shell_name": shlex.quote(contents.run),
    }
    if contents.measured is not None:
        values |= tables(contents.measured.answers, contents.class_names)
    return page.render(contents._asdict() | values)


def facts(contents: Contents) -> list[tuple[str, str]]:
    result = contents.result
    rows = sorted(result.get("facts", {}).items())
    name = "images_per_second"
    if speeds := [line[name] for line in contents.history if name in line]:
        speed = f"{statistics.median(speeds):,.0f} images/s"
        if wait := result.get("data_wait"):
            speed += f", {100 * wait:.0f}% of the time waiting for data"
        rows.append(("speed", speed))
    return rows


def notes(contents: Contents) -> list[str]:
    """The log's, and what the result alone says (which weights were kept)."""
    found = [line["note"] for line in contents.history if "note" in line]
    text = contents.result.get("notes", "")
    more = text.removeprefix("; ".join(found)).removeprefix("; ")
    return [*found, more] if more else found


def tables(
    answers: evaluate.Predictions, names: Sequence[str]
) -> dict[str, Any]:
    found = evaluate.class_scores(answers)
    columns = found.num_images, found.num_correct, found.recall, found.precision
    scores = list(zip(names, *map(Tensor.tolist, columns), strict=True))
    if answers.num_classes <= MOST_IN_MATRIX:
        matrix = evaluate.confusion_matrix(answers).tolist()
        is_numbered = len(names) > MOST_NAMED_COLUMNS
        return {"scores": scores, "matrix": matrix, "is_numbered": is_numbered}
    # classes without test pictures come last
    scores.sort(key=lambda row: (math.isnan(row[3]), row[3]))
    total = found.num_images.tolist()
    confusions = [
        (names[label], names[predicted], f"{count:,} of {total[label]:,}")
        for label, predicted, count in evaluate.most_confused(
            answers, MOST_PAIRS
        )
    ]
    return {"scores": scores[:MOST_CLASSES], "confusions": confusions}


def place_of_most(shares: Tensor) -> str:
    rows, columns = shares.shape
    row, column = divmod(int(shares.argmax()), columns)
    return (
        f"Attention map of {rows} by {columns} patches; most comes from row "
        f"{row + 1}, column {column + 1}."
    )
