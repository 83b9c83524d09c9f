"""From a chapter's text to its executed notebook, and back.

    python tools/notebooks.py execute [05 ...]   text -> notebook, executed
                                                 where its code differs from
                                                 what was executed
    python tools/notebooks.py text 05            notebook -> text
    python tools/notebooks.py sync               package -> taught cells of both

`book/text/NN_name.py` (py:percent) and `book/NN_name.ipynb` have the same
cells; a notebook says in full what its text says in short (`dress.py`). The
digest of the code that the outputs came from is in the notebook's metadata,
`vitedu.executed`.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import cells
import jupytext
import lock
import nbformat
from dress import dress, undress
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "CUDA_VISIBLE_DEVICES": "",
    "VITEDU_OFFLINE": "1",
    "VITEDU_TIER": "cpu",
    "COLUMNS": "80",
}
TEXT_METADATA = {
    "notebook_metadata_filter": "-all",
    "cell_metadata_filter": "all",
}
RUFF = str(Path(sys.executable).with_name("ruff"))
MACHINE_PATH = re.compile(r"/(home|root|tmp|Users|work)/|site-packages")
MOST_OUTPUT = 300_000  # characters of one output
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def text_paths() -> list[Path]:
    """The texts of all chapters and executed pages, in order."""
    return sorted((BOOK / "text").glob("*.py"))


def notebook_path(text: Path) -> Path:
    """The notebook that belongs to a text."""
    return BOOK / f"{text.stem}.ipynb"


def written(text: Path) -> NotebookNode | None:
    """The notebook of a text as it is on disk; None if it isn't there yet."""
    path = notebook_path(text)
    return nbformat.read(path, as_version=4) if path.exists() else None


def executed(notebook: NotebookNode) -> str:
    """The digest of the code that made a notebook's outputs; may be empty."""
    return notebook.metadata.get("vitedu", {}).get("executed", "")


def read_text(text: Path) -> NotebookNode:
    """A text as a notebook without outputs; cell ids from name and place."""
    notebook = jupytext.read(text, fmt="py:percent")
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = metadata("")
    for number, cell in enumerate(notebook.cells):
        place = f"{text.stem}/{number}".encode()
        cell["id"] = hashlib.sha256(place).hexdigest()[:8]
        cell.metadata.pop("lines_to_next_cell", None)
    return dress(notebook, text.stem)


def write_text(notebook: NotebookNode) -> str:
    """The py:percent text of a notebook; `read_text` is its inverse."""
    notebook = undress(nbformat.from_dict(json.loads(json.dumps(notebook))))
    notebook.metadata["jupytext"] = TEXT_METADATA
    text = jupytext.writes(notebook, fmt="py:percent")
    # blank lines around a cell are ruff's to decide, not jupytext's
    name = str(BOOK / "text/chapter.py")
    command = [RUFF, "format", "-q", "--stdin-filename", name, "-"]
    return subprocess.run(
        command,
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def metadata(executed_digest: str) -> NotebookNode:
    """A notebook's own metadata, all of it."""
    return nbformat.from_dict(
        {
            "kernelspec": KERNEL,
            "language_info": {"name": "python"},
            "vitedu": {"executed": executed_digest},
        }
    )


def cells_of(notebook: NotebookNode) -> list[tuple]:
    """What a text and its notebook must share: kind, source, metadata."""
    return [
        (cell.cell_type, cell.source, json.dumps(cell.metadata, sort_keys=True))
        for cell in notebook.cells
    ]


class _Compared(ast.NodeTransformer):
    """Drop what outputs don't depend on; note what comes from the package."""

    def __init__(self) -> None:
        self.imported: set[tuple[str, str]] = set()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        if (node.module or "").split(".")[0] != "vitedu":
            return node
        self.imported |= {(it.name, it.asname or it.name) for it in node.names}
        return None

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, lock.DEFINITIONS) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
        return super().generic_visit(node)


def digest(notebook: NotebookNode) -> str:
    """Of the code that outputs come from: syntax trees without docstrings.

    The cell tagged `setup` is left out; comments and layout do not count, nor
    does where a name of the package is imported, and from which module: a
    definition that moves is the same one.
    """
    compared, trees = _Compared(), []
    for cell in cells.code(notebook):
        if "setup" not in cells.tags(cell):
            trees.append(ast.dump(compared.visit(ast.parse(cell.source))))
    code = "\n".join([repr(sorted(compared.imported)), *trees])
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def with_outputs(fresh: NotebookNode, old: NotebookNode) -> NotebookNode:
    """`fresh` with the outputs and counts of `old`'s code cells, in order."""
    pairs = zip(cells.code(fresh), cells.code(old), strict=False)
    for cell, source in pairs:
        cell.outputs = source.outputs
        cell.execution_count = source.execution_count
    fresh.metadata = metadata(executed(old))
    return fresh


def execute(notebook: NotebookNode) -> NotebookNode:
    """Run all cells in a fresh kernel, in an empty folder.

    ValueError: an output must not be committed (see `complaints`).
    """
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=1800,
            kernel_name="python3",
            # ipykernel 7 warns on stderr about an unencrypted loopback
            # connection
            extra_arguments=["--IPKernelApp.log_level=40"],
            resources={"metadata": {"path": folder}},
            record_timing=False,
        )
        client.execute(env=os.environ | ENVIRONMENT)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
    notebook.metadata = metadata(digest(notebook))
    if bad := complaints(notebook):
        raise ValueError("; ".join(bad))
    nbformat.validate(notebook)
    return notebook


def joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Streams split by chance as one; errors without a machine's frames."""
    result: list[NotebookNode] = []
    for output in outputs:
        last = result[-1] if result else None
        if output.output_type == "error":
            lines = [ANSI.sub("", line).rstrip() for line in output.traceback]
            output.traceback = [x for x in lines if not x.startswith("File ")]
        is_stream = output.output_type == "stream"
        if is_stream and last and last.output_type == "stream":
            if last.name == output.name:
                last.text += output.text
                continue
        result.append(output)
    return result


def complaints(notebook: NotebookNode) -> list[str]:
    """What must not be committed: warnings, a machine's paths, big outputs."""
    bad = []
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            text = json.dumps(output)
            if output.output_type == "stream" and output.name == "stderr":
                bad.append(
                    f"cell {number} writes to stderr: {output.text[:120]!r}"
                )
            if MACHINE_PATH.search(text):
                bad.append(f"cell {number} names a path of this machine")
            if len(text) > MOST_OUTPUT:
                bad.append(
                    f"cell {number} has {len(text) / 1000:.0f} kB of output"
                )
    return bad


def save(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook so that equal content gives equal bytes."""
    path.write_text(nbformat.writes(notebook).rstrip("\n") + "\n")


def chosen(numbers: list[str]) -> list[Path]:
    """The texts whose name begins with one of `numbers`; without any, all."""
    paths = text_paths()
    if numbers:
        paths = [path for path in paths if path.stem.startswith(tuple(numbers))]
    if not paths:
        sys.exit(
            "notebooks: no text in book/text begins with "
            f"{' or '.join(numbers)}"
        )
    return paths


def execute_command(numbers: list[str]) -> None:
    """Bring notebooks up to their texts; run only those whose code changed."""
    for text in chosen(numbers):
        text.write_text(write_text(read_text(text)))  # in its settled form
        fresh, path = read_text(text), notebook_path(text)
        old = written(text)
        if old and executed(old) == digest(fresh):
            save(with_outputs(fresh, old), path)
            print(f"{path.relative_to(ROOT)}: outputs kept")
            continue
        try:
            save(execute(fresh), path)
        except ValueError as error:
            sys.exit(f"notebooks: {text.name}: {error}")
        size = path.stat().st_size / 1000
        print(f"{path.relative_to(ROOT)}: executed, {size:.0f} kB")


def text_command(numbers: list[str]) -> None:
    """Write the texts of notebooks that were edited in Jupyter."""
    for text in chosen(numbers):
        notebook = nbformat.read(notebook_path(text), as_version=4)
        text.write_text(write_text(notebook))
        print(text.relative_to(ROOT))


def sync_command() -> None:
    """Put the package's definitions into taught cells, texts and notebooks."""
    for text in text_paths():
        definitions = lock.chapter_definitions(text.stem)
        for path in (text, notebook_path(text)):
            if not path.exists():
                continue
            is_text = path.suffix == ".py"
            notebook = read_text(path) if is_text else nbformat.read(path, 4)
            before = cells_of(notebook)
            for cell in cells.taught(notebook):
                name = lock.taught_name(cell.source)
                cell.source = lock.package_source(name, definitions)
            if cells_of(notebook) == before:
                continue
            if is_text:
                path.write_text(write_text(notebook))
            else:
                save(notebook, path)
            print(f"{path.relative_to(ROOT)}: synced")


def main() -> None:
    """One of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["execute", "text", "sync"])
    parser.add_argument("numbers", nargs="*")
    options = parser.parse_args()
    if options.command == "execute":
        execute_command(options.numbers)
    elif options.command == "text":
        text_command(options.numbers)
    else:
        sync_command()


if __name__ == "__main__":
    main()
