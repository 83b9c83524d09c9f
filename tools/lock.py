"""The lock between book and package: a chapter's code is the package's code.

A cell tagged `teaches` is one top-level definition. It must be, to the letter,
the definition of that name in `vitedu/`, with docstrings cut to their first
line on both sides: chapters 1 to 5 write `vitedu/plain.py`, the others teach
the rest. The package is the source; nothing here writes to it.
"""

import ast
import difflib
import functools
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLAIN = ROOT / "vitedu/plain.py"
PLAIN_CHAPTERS = ("01", "02", "03", "04", "05")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def shortened(source: str) -> str:
    """A definition, dedented, with each docstring cut to its first line."""
    source = textwrap.dedent(source).strip("\n")
    lines = source.splitlines()
    definitions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, DEFINITIONS) and ast.get_docstring(node)
    ]
    # from the last to the first, so that the line numbers before it stay right
    for node in sorted(definitions, key=lambda each: each.lineno, reverse=True):
        text = node.body[0]
        if text.lineno < text.end_lineno:
            first = ast.get_docstring(node).splitlines()[0]
            cut = " " * text.col_offset + f'"""{first}"""'
            lines[text.lineno - 1 : text.end_lineno] = [cut]
    return "\n".join(lines)


@functools.cache  # the whole package's, chapter after chapter
def definitions_of(source: str) -> dict[str, str]:
    """Name to the shortened text of each top-level definition, in order."""
    lines = source.splitlines()
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, DEFINITIONS):
            decorators = [each.lineno for each in node.decorator_list]
            first = min([node.lineno, *decorators])
            text = "\n".join(lines[first - 1 : node.end_lineno])
            found[node.name] = shortened(text)
    return found


def plain_definitions(path: Path = PLAIN) -> dict[str, list[str]]:
    """What chapters 1 to 5 write: the definitions of `vitedu/plain.py`."""
    found = definitions_of(path.read_text())
    return {name: [text] for name, text in found.items()}


def written_in(chapter: int, path: Path = PLAIN) -> set[str]:
    """The names below plain.py's comment `# Chapter N: ...`."""
    parts = re.split(r"^# Chapter (\d+):.*$", path.read_text(), flags=re.M)
    numbers, sources = parts[1::2], parts[2::2]
    return {
        name
        for number, source in zip(numbers, sources, strict=True)
        if int(number) == chapter
        for name in definitions_of(source)
    }


def package_definitions(
    package: Path = ROOT / "vitedu",
) -> dict[str, list[str]]:
    """What later chapters teach: name to texts in the package.

    Not in plain.py, nor in check/, where a check is named after what it checks.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        if path == package / "plain.py" or path.parent.name == "check":
            continue
        for name, text in definitions_of(path.read_text()).items():
            found.setdefault(name, []).append(text)
    return found


def chapter_definitions(stem: str) -> dict[str, list[str]]:
    """What the chapter `stem` (NN_name) is compared with."""
    if stem.startswith(PLAIN_CHAPTERS):
        return plain_definitions()
    return package_definitions()


def taught_name(cell_source: str) -> str:
    """The name that a `teaches` cell defines. ValueError: no one definition."""
    body = ast.parse(cell_source).body
    if len(body) != 1 or not isinstance(body[0], DEFINITIONS):
        raise ValueError(
            "a cell tagged `teaches` must be one definition and nothing else"
        )
    return body[0].name


def package_source(name: str, definitions: dict[str, list[str]]) -> str:
    """The package's text of `name`. ValueError: there are none, or several."""
    sources = definitions.get(name, [])
    if len(sources) != 1:
        raise ValueError(
            f"{name} is defined {len(sources)} times in the package, so no "
            "chapter can teach it"
        )
    return sources[0]


def difference(name: str, taught: str, package: str, chapter: str) -> str:
    """A unified diff from package to chapter; empty where they agree."""
    lines = difflib.unified_diff(
        package.splitlines(),
        shortened(taught).splitlines(),
        f"vitedu: {name}",
        f"{chapter}: {name}",
        lineterm="",
    )
    return "\n".join(lines)
