"""Tables of a run's report, as HTML: confusions, classes, settings."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from vitedu.errors import escaped
from vitedu.evaluate.confusion import (
    Predictions,
    class_scores,
    confusion_matrix,
    most_confused,
)

DASH = "\u2013"
MOST_IN_MATRIX = 20  # classes; of more, the most frequent mistakes are listed
MOST_PAIRS = 20
MOST_CLASSES = 1000  # rows of the table of classes
MOST_NAMED_COLUMNS = 4  # classes; the columns of more are numbered
# Most of a cell's colour, so that the words in it stay legible.
STRONGEST = 0.6
RIGHT, WRONG = "47 111 176", "184 50 58"  # palette.PATCHES, palette.CLASS


def text(value: object) -> str:
    """Words for a page, whatever they contain: markup, control characters."""
    return escape(escaped(str(value)))


def confusions(answers: Predictions, names: Sequence[str]) -> str:
    """The confusion matrix, or of many classes the most frequent mistakes."""
    if answers.num_classes <= MOST_IN_MATRIX:
        return matrix(answers, names)
    found = most_confused(answers, MOST_PAIRS)
    if not found:
        return "<p>No class was taken for another.</p>"
    total = class_scores(answers).num_images.tolist()
    rows = [
        [names[label], names[predicted], f"{count:,} of {total[label]:,}"]
        for label, predicted, count in found
    ]
    return table(
        "The most frequent mistakes",
        ["class", "taken for", "pictures"],
        rows,
        is_words=True,
    )


def matrix(answers: Predictions, names: Sequence[str]) -> str:
    """A row for each true class, a column for each answer."""
    is_numbered = len(names) > MOST_NAMED_COLUMNS
    words = (
        "Each row is a class, each column what its pictures were taken for. "
        "Blue is right, red is wrong."
    )
    heads: list[object] = [*names]
    rows: list[object] = [*names]
    if is_numbered:
        words += " The columns have the numbers of the rows."
        heads = [*range(1, len(names) + 1)]
        rows = [f"{number} {name}" for number, name in enumerate(names, 1)]
    head = "".join(f'<th scope="col">{text(each)}</th>' for each in heads)
    counts = confusion_matrix(answers).tolist()
    body = "".join(
        f'<tr><th scope="row">{text(name)}</th>{cells(counts[row], row)}</tr>'
        for row, name in enumerate(rows)
    )
    return f"<p>{words}</p>" + scrolling(
        '<table class="matrix"><thead><tr><th scope="col">class</th>'
        f"{head}</tr></thead><tbody>{body}</tbody></table>",
        "Confusion matrix",
    )


def cells(counts: Sequence[int], row: int) -> str:
    """A row of the matrix: the more of the class, the stronger the colour.

    By the square root, so that a few mistakes can be seen.
    """
    total = max(sum(counts), 1)
    parts = []
    for column, count in enumerate(counts):
        color = RIGHT if column == row else WRONG
        strength = STRONGEST * math.sqrt(count / total)
        style = f' style="background:rgb({color}/{strength:.2f})"'
        parts.append(f"<td{style if count else ''}>{count:,}</td>")
    return "".join(parts)


def classes(answers: Predictions, names: Sequence[str]) -> str:
    """Recall and precision of each class; of many classes the worst first."""
    scores = class_scores(answers)
    columns = zip(
        names,
        scores.num_images.tolist(),
        scores.num_correct.tolist(),
        scores.recall.tolist(),
        scores.precision.tolist(),
        strict=True,
    )
    found = list(columns)
    words = (
        "Recall: how many of a class's pictures get its name. Precision: how "
        "many of the pictures that get its name deserve it."
    )
    if len(found) > MOST_IN_MATRIX:
        # classes without test pictures come last
        found.sort(key=lambda row: (math.isnan(row[3]), row[3]))
        words += " The lowest recall comes first."
    if len(found) > MOST_CLASSES:
        words += f" {MOST_CLASSES:,} of {len(found):,} classes are shown."
    rows = [
        [name, f"{count:,}", f"{correct:,}", percent(recall), percent(precise)]
        for name, count, correct, recall, precise in found[:MOST_CLASSES]
    ]
    heads = ["class", "pictures", "right", "recall", "precision"]
    return f"<p>{words}</p>{table('Class by class', heads, rows)}"


def percent(share: float) -> str:
    """ "96.7 %"; a dash where there is nothing to divide by."""
    return DASH if math.isnan(share) else f"{100 * share:.1f} %"


def settings(rows: Mapping[str, Any], label: str) -> str:
    """Names and values."""
    return table(label, ["setting", "value"], rows.items(), is_words=True)


def table(
    label: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    is_words: bool = False,
) -> str:
    """A table whose first column names its rows; `label` is read aloud."""
    head = "".join(f'<th scope="col">{text(each)}</th>' for each in heads)
    body = "".join(
        f'<tr><th scope="row">{text(first)}</th>'
        + "".join(f"<td>{text(each)}</td>" for each in others)
        + "</tr>"
        for first, *others in rows
    )
    kind = ' class="words"' if is_words else ""
    return scrolling(
        f"<table{kind}><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>",
        label,
    )


def scrolling(content: str, label: str) -> str:
    """Content that scrolls by itself where it is too wide or too long."""
    return (
        '<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{text(label)}">{content}</div>'
    )
