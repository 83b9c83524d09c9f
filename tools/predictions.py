"""Questions that a page asks before it answers: the site's part of them.

A Markdown cell tagged `predict` ends on a bold question, and on a list of
answers to choose from unless it asks for a number. In Jupyter, in print and
without JavaScript that is all, and the answer follows. On the site the answer
waits until the reader has chosen, and a typical wrong guess is told what went
wrong (`tools/static/predict.js`).

`book/predictions.toml` has what the site says, for each page in the order of
its cells. `ask` repeats the question. For a list, `right` is the number of the
right item, from 1. For a number: `number`, and how far off is still right,
`within`. The answer is what follows up to the end of the first paragraph;
`paragraphs`, of that Markdown cell, if it takes more, or 0 if nothing has to
wait. If that isn't the right cell, the answer goes `through` so many. `says` is
the diagnosis of other answers, [[answer, words], ...]; `why`, if there is more
to say, comes with the right one.
"""

import json
import re
import tomllib
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[1] / "book/predictions.toml"
HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
BLANK = re.compile(r"\n\s*\n")
START = '\n\n<div class="predict" data-predict="{}"></div>\n'
END = '\n\n<div class="predict-end"></div>\n\n'


@cache
def predictions() -> dict[str, list[dict[str, Any]]]:
    """Page to its questions."""
    return tomllib.loads(PATH.read_text(encoding="utf-8"))


def with_predictions(page: str, cells: list[dict[str, Any]]) -> None:
    """Mark, in place, where each question of a page and its answer end."""
    asked = iter(predictions().get(page, []))
    waits, question = 0, {}  # Markdown cells until the answer ends
    for cell in cells:
        if cell["cell_type"] != "markdown":
            continue
        source = "".join(cell["source"])
        if waits == 1:
            place = end_of(source, question.get("paragraphs", 1))
            source = source[:place] + END + source[place:]
        waits = max(waits - 1, 0)
        if is_question(cell):
            question = next(asked)
            waits = question.get("paragraphs", 1) and question.get("through", 1)
            content = escape(json.dumps(question, ensure_ascii=False))
            source += START.format(content)
        cell["source"] = source


def is_question(cell: dict[str, Any]) -> bool:
    return "predict" in cell["metadata"].get("tags", ())


def end_of(source: str, paragraphs: int) -> int:
    """Where so many paragraphs end; before the first heading at the latest."""
    heading = HEADING.search(source)
    ends = [found.start() for found in BLANK.finditer(source)]
    last = ends[paragraphs - 1] if len(ends) >= paragraphs else len(source)
    return min(last, heading.start() if heading else last)


def mark(app: Any, page: str, content: list[str]) -> None:
    """Sphinx's event `source-read`: a notebook is still JSON there."""
    if not str(app.env.doc2path(page)).endswith(".ipynb"):
        return
    notebook = json.loads(content[0])
    with_predictions(page.rpartition("/")[2], notebook["cells"])
    content[0] = json.dumps(notebook)
