"""How long each chapter is, and how it talks: a table, or JSON.

    python tools/measure_chapters.py [01 05 ...] [--json]

Measured is the *main path* of `book/text/NN_name.py`: everything before the heading
`## Exercises`. Exercises, second reading, the paper, readings and solutions do not
count, nor does the cell of links. A `!` marks what is beyond its limit (`LIMITS`).

words
    Of Markdown, split at white space, where a piece holds a letter or a digit: prose,
    headings, lists, quotes and tables. Equations, fenced code, HTML tags and the
    addresses of links are left out; a piece of `code` in a line counts as its words.
code lines
    Lines that are not blank (comments count) in the code cells that a reader sees:
    those tagged `hide-input`, `hide-cell`, `remove-cell` or `remove-input` are left
    out.
you
    *You, your, yours, yourself, you're, you'll, you've, you'd* in 1,000 words of prose.
    Prose is the above without tables.
numerals
    Pieces of prose that begin with a digit (after signs and brackets) in 100 words of
    prose: `224`, `2,500`, `86%`, `16x16`, `(3)`. A name with a digit in it is none
    (`ViT-Ti/16`, `ImageNet-21k`), nor are numbers spelled in letters, in equations, in
    `code`, in tables, in the text of a link (*chapter 3*, *Xiong et al. 2020*), or at
    the head of a list's item.
longest, median
    Lines of a visible code cell, blank ones included; the longest of those that are not
    tagged `teaches`.
figures
    Pictures among the outputs of the notebook's main path, if it was executed.
"""

import argparse
import json
import re
import statistics
import sys
from pathlib import Path

import nbformat
import notebooks
from nbformat import NotebookNode

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
HIDDEN = {"hide-input", "hide-cell", "remove-cell", "remove-input"}
EXERCISES = re.compile(r"^## Exercises\b", re.MULTILINE)
YOU = re.compile(
    r"\b(?:you|your|yours|yourself|yourselves|you['\u2019](?:re|ll|ve|d))\b",
    re.IGNORECASE,
)
# in this order
NO_WORDS = (
    re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)\s*$", re.M | re.S),
    re.compile(r"<!--.*?-->", re.S),
    re.compile(r"\$\$.*?\$\$", re.S),
    re.compile(r"\\begin\{(?P<name>[a-z]+\*?)\}.*?\\end\{(?P=name)\}", re.S),
)
INLINE_MATH = re.compile(r"(?<![\\$\w])\$(?!\s)(?:\\.|[^$\\])+?\$(?![\w$])")
TAG = re.compile(r"</?[A-Za-z][^<>]*>")
LINK = re.compile(
    r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^()]*(?:\([^()]*\))?[^()]*\)"
)
CODE = re.compile(r"(?P<ticks>`+)(?!`)(.+?)(?<!`)(?P=ticks)(?!`)", re.S)
TABLE = re.compile(r"^\s*(?:>\s*)?\|.*$", re.MULTILINE)
ITEM = re.compile(
    r"^(\s*(?:>\s*)*(?:#+\s+)?)(?:\*\*)?\d+[.)](?:\*\*)?(?=\s)", re.M
)
NUMERAL = re.compile(r"^[^\w]*\d")


def main_path(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells before `## Exercises`; of the one that holds it, what is above it."""
    cells = []
    for cell in notebook.cells:
        if "links" in cell.metadata.get("tags", []):
            continue
        found = cell.cell_type == "markdown" and EXERCISES.search(cell.source)
        if found:
            above = cell.copy()
            above.source = cell.source[: found.start()]
            return [*cells, above]
        cells.append(cell)
    return cells


def pieces(text: str) -> list[str]:
    """What stands between white space and holds a letter or a digit."""
    return [each for each in text.split() if re.search(r"\w", each)]


def readable(markdown: str) -> str:
    """Markdown without equations, fenced code, tags and addresses of links."""
    for pattern in NO_WORDS:
        markdown = pattern.sub(" ", markdown)
    kept = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[2])  # a dollar or a bracket in code is neither
        return f"\0{len(kept) - 1}\0"

    markdown = CODE.sub(keep, markdown)
    for pattern in (INLINE_MATH, TAG):
        markdown = pattern.sub(" ", markdown)
    markdown = LINK.sub(lambda found: f"\1{found[1]}\2", markdown)
    return re.sub(
        r"\0(\d+)\0", lambda found: f"`{kept[int(found[1])]}`", markdown
    )


def spoken(markdown: str) -> str:
    """Of `readable`: the prose, without tables."""
    return TABLE.sub("", readable(markdown))


def numerals(prose: str) -> list[str]:
    """The pieces of prose that are numbers to a reader."""
    prose = re.sub("`[^`]*`|\1[^\2]*\2", " ", ITEM.sub(r"\1", prose))
    return [each for each in pieces(prose) if NUMERAL.match(each)]


def measure(notebook: NotebookNode) -> dict[str, float]:
    """What the docstring above defines, for one chapter's cells."""
    cells = main_path(notebook)
    markdown = [c.source for c in cells if c.cell_type == "markdown"]
    read = [readable(each) for each in markdown]
    prose = "\n\n".join(spoken(each) for each in markdown)
    words = len(pieces(prose)) or 1
    code = [
        cell
        for cell in cells
        if cell.cell_type == "code"
        and not HIDDEN & set(cell.metadata.get("tags", []))
    ]
    lengths = [len(cell.source.splitlines()) for cell in code]
    free = [
        length
        for cell, length in zip(code, lengths, strict=True)
        if "teaches" not in cell.metadata.get("tags", [])
    ]
    return {
        "words": sum(len(pieces(each)) for each in read),
        "code_lines": sum(
            bool(line.strip()) for c in code for line in c.source.splitlines()
        ),
        "you": round(1000 * len(YOU.findall(prose)) / words, 1),
        "numerals": round(100 * len(numerals(prose)) / words, 2),
        "longest": max(free, default=0),
        "median": statistics.median(lengths) if lengths else 0,
        "figures": sum(
            "image/png" in output.get("data", {})
            for cell in cells
            for output in cell.get("outputs", [])
        ),
    }


def measure_text(text: Path) -> dict[str, float]:
    """One chapter: its text, and the figures of its notebook."""
    found = measure(notebooks.read_text(text))
    path = notebooks.notebook_path(text)
    if path.exists():
        written = nbformat.read(path, as_version=4)
        found["figures"] = measure(written)["figures"]
    return {"chapter": text.stem, **found}


def beyond(found: dict[str, float]) -> list[str]:
    """The names of what is beyond its limit."""
    return [
        name
        for name, limit in LIMITS.items()
        if (found[name] < limit if name in AT_LEAST else found[name] > limit)
    ]


def shown(value: float | str) -> str:
    """A value as the table has it."""
    return value if isinstance(value, str) else f"{value:g}"


def table(rows: list[dict[str, float]]) -> str:
    """All chapters, one a line, under headings and limits."""
    limits = {
        name: f"{'≥' if name in AT_LEAST else '≤'} {limit:g}"
        for name, limit in LIMITS.items()
    }
    lines = [
        [*HEADINGS.values()],
        [limits.get(name, "") for name in HEADINGS],
        *(
            [
                f"{shown(row[name])}{'!' if name in beyond(row) else ''}"
                for name in HEADINGS
            ]
            for row in rows
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(
                zip(line, widths, strict=True)
            )
        )
        for line in lines
    )


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 if a chapter is beyond a limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    texts = notebooks.chosen(options.numbers or ["0", "1"])
    rows = [measure_text(text) for text in texts]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print(table(rows))
    return int(any(beyond(row) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
