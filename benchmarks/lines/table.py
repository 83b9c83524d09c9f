"""Count the lines of the programs beside this file into the table of README.md.

`python benchmarks/lines/table.py`
"""

import ast
import io
import re
import tokenize
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
LIBRARIES = ("vitedu", "timm", "transformers")
TASKS = {
    "label": "name what a photograph shows",
    "probe": "features of a folder, and a linear probe on them",
    "finetune": "fine-tune on a folder, save, print the accuracy",
    "attention": "attention maps of the last block",
    "blocks": "feature maps of the last four blocks",
    "resolution": "name what a photograph shows, read at 384 pixels",
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


def counts(task: str) -> tuple[int, ...]:
    """The lines of a task's programs, in the order of LIBRARIES."""
    return tuple(
        count(path(task, library).read_text()) for library in LIBRARIES
    )


def rows() -> str:
    """The table in Markdown; the fewest of a row are bold, ties too."""
    lines = ["| task | " + " | ".join(LIBRARIES) + " |", "|---|---|---|---|"]
    for task, words in TASKS.items():
        found = counts(task)
        cells = [
            f"[**{number}**]" if number == min(found) else f"[{number}]"
            for number in found
        ]
        links = [f"({path(task, library).name})" for library in LIBRARIES]
        linked = [cell + link for cell, link in zip(cells, links, strict=True)]
        lines.append(f"| {words} | " + " | ".join(linked) + " |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the table of today in place of the one it holds."""
    return re.sub(r"^\| task .*?(?=\n\n)", rows(), text, flags=re.M | re.S)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(rows())
