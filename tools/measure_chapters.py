"""How long each chapter is, and how it talks: a table, or JSON.

    python tools/measure_chapters.py [01 05 ...] [--json]

What is measured is the *main path* of `book/text/NN_name.py`: everything before
the heading `## Exercises`. Exercises, second reading, the paper, readings and
solutions don't count, nor does the cell of links. A `!` marks what is beyond
its limit (`LIMITS`).

words
    Of Markdown, split at white space, where a piece has a letter or a digit:
    prose, headings, lists, quotes and tables. Equations, fenced code, HTML tags
    and the addresses of links are left out; a piece of `code` in a line counts
    as its words.
code lines
    Lines that are not blank (comments count) in the code cells that a reader
    sees: those tagged `hide-input`, `hide-cell`, `remove-cell` or
    `remove-input` are left out.
you
    *You, your, yours, yourself, you're, you'll, you've, you'd* in 1,000 words
    of prose. Prose is the above without tables.
numerals
    Pieces of prose that begin with a digit (after signs and brackets) in 100
    words of prose: `224`, `2,500`, `86%`, `16x16`, `(3)`. A name with a digit
    in it isn't one (`ViT-Ti/16`, `ImageNet-21k`), nor are numbers spelled in
    letters, in equations, in `code`, in tables, in the text of a link
    (*chapter 3*, *Xiong et al. 2020*), or at the head of a list's item.
longest, median
    Lines of a visible code cell, blank ones included; the longest of those that
    are not tagged `teaches`.
figures
    Pictures among the outputs of the notebook's main path, if it was executed.
"""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import cells
import notebooks
from nbformat import NotebookNode
from prose import numerals, pieces, readable, spoken

# what a chapter keeps: "at most" for the first two and the fourth
LIMITS = {"words": 2500, "code_lines": 150, "you": 6.0, "numerals": 2.5}
AT_LEAST = {"you"}
HEADINGS = {
    "chapter": "chapter",
    "words": "words",
    "code_lines": "code lines",
    "you": "you/1000",
    "numerals": "num./100",
    "longest": "longest",
    "median": "median",
    "figures": "figures",
}
EXERCISES = re.compile(r"^## Exercises\b", re.MULTILINE)
YOU = re.compile(
    r"\b(?:you|your|yours|yourself|yourselves|you['\u2019](?:re|ll|ve|d))\b",
    re.IGNORECASE,
)


def main_path(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells before `## Exercises`, and what is above it in its own cell."""
    path = []
    for cell in notebook.cells:
        if "links" in cells.tags(cell):
            continue
        found = cell.cell_type == "markdown" and EXERCISES.search(cell.source)
        if found:
            above = cell.copy()
            above.source = cell.source[: found.start()]
            return [*path, above]
        path.append(cell)
    return path


def measure(notebook: NotebookNode) -> dict[str, float]:
    """The measures defined above, for one chapter's cells."""
    path = NotebookNode(cells=main_path(notebook))
    markdown = [cell.source for cell in cells.markdown(path)]
    prose = "\n\n".join(spoken(each) for each in markdown)
    words = len(pieces(prose)) or 1
    code = [
        (cell.source.splitlines(), cells.tags(cell))
        for cell in cells.visible(path)
    ]
    lengths = [len(lines) for lines, _ in code]
    untaught = [len(lines) for lines, tags in code if "teaches" not in tags]
    return {
        "words": sum(len(pieces(readable(each))) for each in markdown),
        "code_lines": sum(bool(x.strip()) for lines, _ in code for x in lines),
        "you": round(1000 * len(YOU.findall(prose)) / words, 1),
        "numerals": round(100 * len(numerals(prose)) / words, 2),
        "longest": max(untaught, default=0),
        "median": statistics.median(lengths) if lengths else 0,
        "figures": sum(len(cells.pictures(cell)) for cell in path.cells),
    }


def measure_text(text: Path) -> dict[str, float]:
    """One chapter: its text, and the figures of its notebook."""
    found = measure(notebooks.read_text(text))
    if written := notebooks.written(text):
        found["figures"] = measure(written)["figures"]
    return {"chapter": text.stem, **found}


def beyond(found: dict[str, float]) -> list[str]:
    """The names of what is beyond its limit."""
    return [
        name
        for name, limit in LIMITS.items()
        if (found[name] < limit if name in AT_LEAST else found[name] > limit)
    ]


def table(rows: list[dict[str, float]]) -> str:
    """All chapters, one a line, under headings and limits."""
    limits = {
        name: f"{'≥' if name in AT_LEAST else '≤'} {limit:g}"
        for name, limit in LIMITS.items()
    }
    lines = [
        [*HEADINGS.values()],
        [limits.get(name, "") for name in HEADINGS],
    ]
    for row in rows:
        marks = dict.fromkeys(beyond(row), "!")
        numbers = [
            f"{row[name]:g}{marks.get(name, '')}"
            for name in HEADINGS
            if name != "chapter"
        ]
        lines.append([row["chapter"], *numbers])
    first, *others = zip(*lines, strict=True)
    columns = [justified(first, str.ljust)]
    columns += [justified(column, str.rjust) for column in others]
    return "\n".join(map("  ".join, zip(*columns, strict=True)))


def justified(
    column: Sequence[str], justify: Callable[[str, int], str]
) -> list[str]:
    """A column of a table in one width."""
    width = max(map(len, column))
    return [justify(each, width) for each in column]


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 if a chapter is beyond a limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    texts = notebooks.chosen(options.numbers or ["0", "1", "2"])
    rows = [measure_text(text) for text in texts]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print(table(rows))
    return int(any(beyond(row) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
