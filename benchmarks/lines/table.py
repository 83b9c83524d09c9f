"""Count the lines of the programs beside this file into the table of README.md.

`python benchmarks/lines/table.py`
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
LIBRARIES = (
    "vitedu",
    "timm",
    "transformers",
    "fastai",
    "ultralytics",
    "keras_hub",
)
TASKS = {
    "label": "name what a photograph shows",
    "folder": "name every photograph of a folder",
    "probe": "features of a folder, and a linear probe on them",
    "finetune": "fine-tune on a folder, save, print the accuracy",
    "attention": "attention maps of the last block",
    "blocks": "feature maps of the last four blocks",
    "resolution": "name what a photograph shows, read at 384 pixels",
    "onnx": "a file for onnxruntime, for any number of photographs",
}
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def count(program: str) -> int:
    """Lines of a program that hold code: no blanks, comments or docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(program).readline)
    lines: set[int] = set()
    for token in tokens:
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(program)):
        if is_docstring(node):
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def is_docstring(node: ast.AST) -> bool:
    """Whether a node is a text that stands alone."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def path(task: str, library: str) -> Path:
    """Where the program is."""
    return HERE / f"{task}_{library}.py"


def counts(task: str) -> dict[str, int]:
    """The lines of a task's programs by library, where there is one."""
    paths = {library: path(task, library) for library in LIBRARIES}
    return {
        library: count(path.read_text())
        for library, path in paths.items()
        if path.exists()
    }


def rows() -> str:
    """The table in Markdown; the fewest of a row are bold, ties too."""
    header = ("task", *(name.replace("_", "-") for name in LIBRARIES))
    lines = [row(header), row(["---"] * len(header))]
    for task, words in TASKS.items():
        found = counts(task)
        cells = [words]
        for library in LIBRARIES:
            number = found.get(library)
            mark = "**" if number == min(found.values()) else ""
            link = f"[{mark}{number}{mark}]({path(task, library).name})"
            cells.append(link if number else "")
        lines.append(row(cells))
    return "\n".join(lines)


def row(cells: Iterable[str]) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def page(text: str) -> str:
    """The page with the table of today in place of the one it holds."""
    return re.sub(r"^\| task .*?(?=\n\n)", rows(), text, flags=re.M | re.S)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(rows())
