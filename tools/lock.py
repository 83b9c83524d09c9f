"""The lock between the book and the package: a chapter's code is the package's code.

A cell tagged `teaches` holds one top-level definition. It must be, to the letter, the
definition of that name in `vitedu/`, with docstrings cut to their first line on both
sides. The package is the source; nothing here writes to it.
"""

import ast
import difflib
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def shortened(source: str) -> str:
    """A definition's text, dedented, with every docstring cut to its first line."""
    source = textwrap.dedent(source).strip("\n")
    lines = source.splitlines()
    for node in reversed(list(ast.walk(ast.parse(source)))):
        if not isinstance(node, DEFINITIONS) or not ast.get_docstring(node):
            continue
        text = node.body[0]
        if text.lineno == text.end_lineno:
            continue
        first = ast.get_docstring(node).splitlines()[0]
        cut = " " * text.col_offset + f'"""{first}"""'
        lines[text.lineno - 1 : text.end_lineno] = [cut]
        return shortened("\n".join(lines))
    return "\n".join(lines)


def package_definitions(
    package: Path = ROOT / "vitedu",
) -> dict[str, list[str]]:
    """Name to the shortened text of each top-level definition of that name."""
    found: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        source = path.read_text()
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, DEFINITIONS):
                first = min(
                    [node.lineno, *(d.lineno for d in node.decorator_list)]
                )
                text = "\n".join(lines[first - 1 : node.end_lineno])
                found.setdefault(node.name, []).append(shortened(text))
    return found


def taught_name(cell_source: str) -> str:
    """The name that a `teaches` cell defines. ValueError: it is not one definition."""
    body = ast.parse(cell_source).body
    if len(body) != 1 or not isinstance(body[0], DEFINITIONS):
        raise ValueError(
            "a cell tagged `teaches` holds one definition and nothing else"
        )
    return body[0].name


def package_source(name: str, definitions: dict[str, list[str]]) -> str:
    """What the package says for `name`. ValueError: nothing, or two things."""
    sources = definitions.get(name, [])
    if len(sources) != 1:
        where = "is not" if not sources else f"stands {len(sources)} times"
        raise ValueError(
            f"{name} {where} in the package, so no chapter can teach it"
        )
    return sources[0]


def difference(name: str, taught: str, package: str, chapter: str) -> str:
    """A unified diff from the package to the chapter; empty where they agree."""
    lines = difflib.unified_diff(
        package.splitlines(),
        shortened(taught).splitlines(),
        f"vitedu: {name}",
        f"{chapter}: {name}",
        lineterm="",
    )
    return "\n".join(lines)
