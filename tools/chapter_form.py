"""The form of a chapter: what its notebook must have, rule by rule.

    python tools/chapter_form.py [01 05 ...]

prints what is wrong with the notebook that a text gives (with the outputs that
were committed). Each rule is a function from a notebook to a list of
complaints; `tests/test_book.py` asks them all. `EVERYWHERE` are the rules of
every executed page, `CHAPTERS` those of chapters alone.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lock
import nbformat
import notebooks
from book_ext import place_of
from cells import alt_text, code, markdown, pictures, printed, tags, visible
from dress import SETUP, dress
from nbformat import NotebookNode
from prose import (
    CODE_IN_LINE,
    FENCED,
    INLINE_MATH,
    NO_WORDS,
    TABLE,
    headings,
    links,
    readable,
    section,
)

MOST_LINES, MOST_COLUMNS, MOST_PRINTED = 25, 80, 72
SECTIONS = [
    "## Exercises",
    "## Second reading",
    "## Where this is in the paper",
    "### What differs",
    "## Three readings",
    "## Solutions",
]
FEWEST_EXERCISES, MOST_EXERCISES = 5, 7
MYST = {
    "a role": r"\{[\w:+.-]+\}`",
    "a directive": r"^\s*(?:>\s*)*(?:`{3,}|~{3,})\{",
    "a colon fence": r"^\s*(?:>\s*)*:::",
    "a label": r"^\s*\([\w:.-]+\)=\s*$",
    "a substitution": r"\{\{.*?\}\}",
    "attributes": r"(?:^|[\]`)])\{[#.][\w-]+.*?\}",
    "a MyST comment": r"^%\s",
}
PLACEHOLDER = re.compile(r"\{[A-Za-z_][\w.]*(?:![rs])?(?::[^{}]*)?\}")
UNFINISHED = re.compile(r"\bNN\b|\bTODO\b|\bFIXME\b|\bXXX\b")
# where papers live; what is there, or is cited with a year, is in the
# bibliography
PAPERS = re.compile(
    r"https?://(?:[\w.-]+\.)?(?:arxiv\.org|doi\.org|openreview\.net|"
    r"aclanthology\.org|mlr\.press|nips\.cc|neurips\.cc|thecvf\.com|jmlr\.org)/"
)
YEAR = re.compile(r"\b(?:19|20)\d\d[a-z]?\)?\s*$")
# inside a line: the mark of an item, or the blanks that indented its next line
ITEM_IN_LINE = re.compile(r"\S +\*(?= +\S)|\S {3,}(?=\S)")
# an item with a number, up to the next or to an empty line
NUMBERED = re.compile(r"^ *(\d+)\. (?:.+\n?(?! *\d+\. ))*", re.MULTILINE)
# of a language, not of a directive
CODE_BLOCK = re.compile(
    r"^(?P<fence>```+|~~~+)(?!\{).*?^(?P=fence)\s*$", re.MULTILINE | re.DOTALL
)
DRAWING = {"matplotlib", "plt", "pyplot", "imshow", "subplots", "savefig"}
PLUMBING = {"register_forward_hook", "register_forward_pre_hook"}


def number(text: Path) -> int | None:
    """A chapter's number; None for another page."""
    found = re.match(r"(\d\d)_", text.stem)
    return int(found[1]) if found else None


def bibliography() -> dict[str, str]:
    """Address to key of every entry of references.bib that has one."""
    text = (notebooks.BOOK / "references.bib").read_text(encoding="utf-8")
    entries = re.split(r"^(?=@)", text, flags=re.MULTILINE)
    found = {}
    for entry in entries:
        key = re.match(r"@\w+\{([^,\s]+),", entry)
        url = re.search(
            r"^\s*url\s*=\s*[{\"]([^}\"]+)[}\"]", entry, re.MULTILINE
        )
        if key and url:
            found[url[1].strip()] = key[1]
    return found


def first_line(source: str) -> str:
    """What a complaint quotes of a cell."""
    return source.strip().splitlines()[0][:60] if source.strip() else "(empty)"


def strings(tree: ast.AST) -> Iterator[str]:
    """All string constants; the constant parts of an f-string as one."""
    inner = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [v for v in node.values if isinstance(v, ast.Constant)]
            inner |= set(map(id, parts))
            yield "".join(str(part.value) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in inner:
                yield node.value


def names(tree: ast.AST) -> set[str]:
    """All names and attributes that are read, written or imported."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found |= set(node.name.split(".")) | {node.asname or node.name}
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
    return found


# ------------------------------------------------- rules of every executed page


def begins_with_links_and_setup(notebook: NotebookNode) -> list[str]:
    """A line of links, a silent setup, a title; then the versions."""
    if len(notebook.cells) < 4:
        return ["fewer than four cells"]
    bad = []
    line, setup, title = notebook.cells[:3]
    if line.cell_type != "markdown" or tags(line) != ["links", "remove-cell"]:
        bad.append(
            'the first cell is Markdown, tagged ["links", "remove-cell"]'
        )
    if not re.fullmatch(
        r"\[Open in Colab\]\(https://colab\.\S+\) · "
        r"\[this page on the site\]\(https://\S+\)(?: · .+)?",
        line.source,
    ):
        bad.append(f"the cell of links is one line: {first_line(line.source)}")
    if setup.cell_type != "code" or tags(setup) != ["setup", "remove-cell"]:
        bad.append('the second cell is code, tagged ["setup", "remove-cell"]')
    elif setup.outputs:
        bad.append("the setup cell is silent where vitedu is installed")
    if title.cell_type != "markdown" or not title.source.startswith("# "):
        bad.append("the third cell begins with the title, `# ...`")
    second = code(notebook)[1:2]
    if not second or "nbval-ignore-output" not in tags(second[0]):
        bad.append("the second code cell is tagged nbval-ignore-output")
    elif len(printed(second[0]).strip().splitlines()) != 1:
        bad.append("the second code cell prints one line of versions")
    return bad


def has_no_raw_myst(notebook: NotebookNode) -> list[str]:
    """Markdown cells read well without the site."""
    bad = []
    for cell in markdown(notebook):
        source = CODE_BLOCK.sub("", cell.source)
        source = CODE_IN_LINE.sub("`code`", source)
        for name, pattern in MYST.items():
            for found in re.finditer(pattern, source, re.MULTILINE):
                line = source[found.start() :].strip().splitlines()[0]
                bad.append(f"{name} of MyST: {line[:60]}")
    return bad


def breaks_its_lists(notebook: NotebookNode) -> list[str]:
    """Each item of a list begins a line: none runs on in the one before."""
    bad = []
    for cell in markdown(notebook):
        text = TABLE.sub("", cell.source)
        for pattern in (*NO_WORDS, CODE_IN_LINE, INLINE_MATH):
            text = pattern.sub("x", text)
        places = [(line, ITEM_IN_LINE) for line in text.splitlines()]
        for found in NUMBERED.finditer(text):
            following = rf"[.?!:)*] +{int(found[1]) + 1}\. +(?=[A-Z*\[x])"
            places.append((found[0], re.compile(following)))
        for text, mark in places:
            if found := mark.search(text.strip()):
                words = text.strip()[found.start() :].split("\n")[0]
                bad.append(f"an item in the middle of a line: {words[:60]}")
    return bad


def has_no_placeholders(notebook: NotebookNode) -> list[str]:
    """No braces that a format string left behind, and nothing unfinished."""
    shown = [
        re.sub(r"`[^`]*`", " ", readable(cell.source))
        for cell in markdown(notebook)
    ]
    for cell in code(notebook):
        shown += [printed(cell), *map(alt_text, pictures(cell))]
    pages = "\n".join(shown)
    found = [*PLACEHOLDER.findall(pages), *UNFINISHED.findall(pages)]
    return [f"a placeholder is left: {each}" for each in found]


def shows_errors_in_failure_cells_alone(notebook: NotebookNode) -> list[str]:
    """`raises-exception` where an error is shown, and `failure` beside it."""
    bad = []
    for cell in code(notebook):
        failed = any(output.output_type == "error" for output in cell.outputs)
        if failed != ("raises-exception" in tags(cell)):
            bad.append(f"raises-exception or not: {first_line(cell.source)}")
        if failed and "failure" not in tags(cell):
            bad.append(f"no tag `failure`: {first_line(cell.source)}")
    return bad


def checks_print_one_line(notebook: NotebookNode) -> list[str]:
    """A check cell asserts and prints one line; there is at least one."""
    checks = [c for c in code(notebook) if "nbval-check-output" in tags(c)]
    bad = [] if checks else ["a check cell is missing (nbval-check-output)"]
    for cell in checks:
        if "assert" not in cell.source:
            bad.append(f"a check without assert: {first_line(cell.source)}")
        if len(printed(cell).strip().splitlines()) != 1:
            bad.append(f"a check prints one line: {first_line(cell.source)}")
    return bad


def has_alt_text(notebook: NotebookNode) -> list[str]:
    """Each figure says in words what is seen."""
    bad = []
    for cell in code(notebook):
        for picture in pictures(cell):
            alt = alt_text(picture)
            if len(alt) < 20 or re.search(r"\.(png|jpe?g|svg)$", alt.lower()):
                bad.append(f"alt text {alt!r}: {first_line(cell.source)}")
            # `show` writes both; nbval compares the text, nobody the metadata
            elif alt != picture.data.get("text/plain"):
                bad.append(f"show(figure, alt): {first_line(cell.source)}")
    return bad


def folds_what_is_hidden(notebook: NotebookNode) -> list[str]:
    """Hidden cells are folded in Jupyter and Colab, and only they are."""
    dressed = nbformat.from_dict(json.loads(json.dumps(notebook)))
    dressed = dress(dressed, "any")
    return [
        f"make execute folds it: {first_line(cell.source)}"
        for cell, other in zip(notebook.cells, dressed.cells, strict=True)
        if cell.metadata != other.metadata
    ]


def links_lead_somewhere(notebook: NotebookNode) -> list[str]:
    """Papers are in the bibliography; pages exist, and places are headings."""
    known = bibliography()
    places = {
        place_of(heading)
        for cell in markdown(notebook)
        for heading in headings(cell.source)
    }
    bad = []
    for cell in markdown(notebook):
        for text, address in links(cell.source):
            if "links" in tags(cell):
                continue
            name, _, place = address.partition("#")
            if re.match(r"https?:", address):
                paper = PAPERS.match(address) or YEAR.search(text)
                if paper and address not in known:
                    bad.append(f"no entry of references.bib has {address}")
            elif address.startswith("#"):
                if place not in places:
                    bad.append(f"no heading here is called {address}")
            elif not (notebooks.BOOK / name).is_file():
                bad.append(f"book/{name} does not exist")
    return bad


def keeps_its_columns(notebook: NotebookNode) -> list[str]:
    """80 columns of code, 72 of what is printed."""
    bad = []
    for cell in code(notebook):
        if "setup" in tags(cell):
            continue
        for line in cell.source.splitlines():
            if len(line) > MOST_COLUMNS:
                bad.append(f"a line of {len(line)} columns: {line[:60]}")
    return bad


# ------------------------------------------------------------ rules of chapters


def prints_narrow_lines(notebook: NotebookNode) -> list[str]:
    """A phone shows 72 columns at most."""
    return [
        f"a printed line of {len(line)} columns: {line[:60]}"
        for cell in code(notebook)
        for line in printed(cell).splitlines()
        if len(line) > MOST_PRINTED
    ]


def has_small_cells(notebook: NotebookNode) -> list[str]:
    """25 lines, a taught definition apart."""
    return [
        f"{len(cell.source.splitlines())} lines: {first_line(cell.source)}"
        for cell in code(notebook)
        if not {"teaches", "setup"} & set(tags(cell))
        and len(cell.source.splitlines()) > MOST_LINES
    ]


def shows_a_failure(notebook: NotebookNode) -> list[str]:
    """A real mistake is shown by running it."""
    found = any("failure" in tags(cell) for cell in code(notebook))
    return [] if found else ["no cell is tagged `failure`"]


def hides_its_plumbing(notebook: NotebookNode) -> list[str]:
    """Asserts, alt text, drawing code and hooks are in hidden cells.

    Alt text is a string of more columns than a line may print. A taught cell is
    the package's, and a line `figures.show(*module.function(...))` may be seen.
    """
    bad = []
    for cell in visible(notebook):
        if "teaches" in tags(cell):
            continue
        tree = ast.parse(cell.source)
        what = []
        if any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
            what.append("assert")
        what += sorted(names(tree) & (DRAWING | PLUMBING | {"alt"}))
        if any(len(each) > MOST_PRINTED for each in strings(tree)):
            what.append("a long string")
        if "nbval-check-output" in tags(cell):
            what.append("nbval-check-output")
        if what:
            where = first_line(cell.source)
            bad.append(f"{', '.join(what)} in a visible cell: {where}")
    return bad


def asks_a_question_early(notebook: NotebookNode) -> list[str]:
    """In bold, before the first section, and the versions are folded."""
    bad = []
    before = "\n\n".join(cell.source for cell in markdown(notebook)[1:])
    before = re.split(r"^## ", before, maxsplit=1, flags=re.MULTILINE)[0]
    bold = re.findall(r"\*\*(.+?)\*\*", before, re.DOTALL)
    if not any(each.rstrip().endswith("?") for each in bold):
        bad.append("no bold question before the first section")
    second = code(notebook)[1:2]
    if second and "hide-input" not in tags(second[0]):
        bad.append("the second code cell is tagged hide-input")
    return bad


def has_its_sections(notebook: NotebookNode) -> list[str]:
    """Each once, in order."""
    source = "\n\n".join(cell.source for cell in markdown(notebook))
    source = FENCED.sub("", source)
    lines = [line.strip() for line in source.splitlines()]
    found = [line for line in lines if line in SECTIONS]
    return [] if found == SECTIONS else [f"sections are {', '.join(found)}"]


def has_exercises_with_solutions(notebook: NotebookNode) -> list[str]:
    """Five to seven, starred; each with a solution that any client can fold."""
    source = "\n\n".join(cell.source for cell in markdown(notebook))
    asked = section(source, "## Exercises")
    solved = section(source, "## Solutions")
    numbers = re.findall(r"^\*\*(\d+)\.\*\* +★{1,3} ", asked, re.MULTILINE)
    solutions = re.findall(r"<summary>Solution (\d+)\b.*?</summary>", solved)
    bad = []
    if not FEWEST_EXERCISES <= len(numbers) <= MOST_EXERCISES:
        bad.append(f"{len(numbers)} exercises that begin like `**1.** ★ `")
    if numbers != [str(n + 1) for n in range(len(numbers))]:
        bad.append(f"exercises are numbered {', '.join(numbers)}")
    if solutions != numbers:
        bad.append(f"solutions are numbered {', '.join(solutions)}")
    return bad + [each for c in markdown(notebook) for each in folds(c.source)]


def folds(source: str) -> list[str]:
    """What is wrong with `<details>` in a cell: GitHub asks for blank lines."""
    bad = []
    if source.count("<details>") != source.count("</details>"):
        bad.append("<details> without </details>, or the reverse")
    for block in re.findall(r"<details>.*?</details>", source, re.DOTALL):
        if not re.match(r"<details>\s*<summary>.+?</summary>\n\n", block):
            bad.append(f"no blank line after </summary>: {block[:60]!r}")
        if not block.endswith("\n\n</details>"):
            bad.append(f"no blank line before </details>: {block[-60:]!r}")
    return bad


def taught_code_is_self_contained(notebook: NotebookNode) -> list[str]:
    """It reads its arguments, imports and what was taught, by ruff's F821."""
    lines = []
    for cell in code(notebook):
        if "setup" in tags(cell):
            lines.append(SETUP)
        elif "failure" in tags(cell):
            continue
        elif "teaches" in tags(cell):
            lines.append(cell.source)
        else:
            lines += [
                ast.unparse(node)
                for node in ast.parse(cell.source).body
                if isinstance(node, ast.Import | ast.ImportFrom)
            ]
    ruff = [notebooks.RUFF, "check", "--isolated", "--select", "F821", "-q"]
    done = subprocess.run(
        [*ruff, "--output-format", "concise", "-"],
        input="\n\n\n".join(lines),
        capture_output=True,
        text=True,
    )
    return [line for line in done.stdout.splitlines() if "F821" in line]


def pastes_nothing_again(notebook: NotebookNode) -> list[str]:
    """What is taught is imported where it's used again, never written twice."""
    known = set(lock.plain_definitions())
    bad = []
    for cell in code(notebook):
        if {"teaches", "setup", "failure"} & set(tags(cell)):
            continue
        for node in ast.parse(cell.source).body:
            if isinstance(node, lock.DEFINITIONS) and node.name in known:
                bad.append(f"{node.name} is vitedu.plain's: teach or import it")
    return bad


EVERYWHERE = [
    begins_with_links_and_setup,
    has_no_raw_myst,
    breaks_its_lists,
    has_no_placeholders,
    shows_errors_in_failure_cells_alone,
    checks_print_one_line,
    has_alt_text,
    folds_what_is_hidden,
    links_lead_somewhere,
    keeps_its_columns,
]
CHAPTERS = [
    prints_narrow_lines,
    has_small_cells,
    shows_a_failure,
    hides_its_plumbing,
    asks_a_question_early,
    has_its_sections,
    has_exercises_with_solutions,
    taught_code_is_self_contained,
    pastes_nothing_again,
]


OF_OUTPUTS = [
    begins_with_links_and_setup,
    shows_errors_in_failure_cells_alone,
    checks_print_one_line,
    has_alt_text,
    prints_narrow_lines,
]


def main(arguments: list[str] | None = None) -> int:
    """Print what is wrong; 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*")
    options = parser.parse_args(arguments)
    total = 0
    for text in notebooks.chosen(options.numbers):
        notebook, old = notebooks.read_text(text), notebooks.written(text)
        is_chapter = number(text) is not None
        rules = EVERYWHERE + CHAPTERS * is_chapter
        if old and notebooks.executed(old) == notebooks.digest(notebook):
            notebook = notebooks.with_outputs(notebook, old)
        else:
            print(f"{text.stem}: not executed: its outputs are not looked at")
            rules = [rule for rule in rules if rule not in OF_OUTPUTS]
        for rule in rules:
            for complaint in rule(notebook):
                print(f"{text.stem}: {rule.__name__}: {complaint}")
                total += 1
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
