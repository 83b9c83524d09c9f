"""From a chapter's text to its executed notebook, and back.

    python tools/notebooks.py execute [05 ...]   text -> notebook, executed where its
                                                 code differs from what was executed
    python tools/notebooks.py text 05            notebook -> text
    python tools/notebooks.py sync               package -> taught cells of both

`book/text/NN_name.py` (py:percent) and `book/NN_name.ipynb` hold the same cells. What
the outputs came from stands in the notebook's metadata, `vitedu.executed`.

A notebook says in full what its text says in short (`dress`, and back: `undress`):

* the cell tagged `links` has the words COLAB and SITE for addresses; the notebook has
  those of the repository that `_config.yml` names;
* the cell tagged `setup` is `import vitedu`; the notebook installs it where it is
  missing, or stops with a sentence;
* it and the cells tagged `hide-input` or `hide-cell` are folded in Jupyter and Colab.
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

import jupytext
import lock
import nbformat
import set_repository
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
# what stands in a text, and between the parentheses of a link in the cell `links`
LINKS = {"Open in Colab": "COLAB", "this page on the site": "SITE"}
SETUP = "import vitedu"
# `_render_traceback_`: Jupyter and Colab show the sentence, and no frames; Colab shows
# the title where the cell is folded
SETUP_IN_FULL = """\
# @title Install vitedu where it is missing
import importlib.util

if importlib.util.find_spec("vitedu") is None:
    source = "vitedu @ git+%(address)s@main"
    if "/%(nobody)s/" not in source:
        %%pip install -q "{source}"
        importlib.invalidate_caches()

if importlib.util.find_spec("vitedu") is None:

    class Stop(Exception):
        def _render_traceback_(self):
            return [str(self)]

    raise Stop(
        "vitedu is not installed: clone the repository that this notebook comes "
        "from, run `pip install .` there (Python 3.11 or newer), and restart."
    )

import vitedu"""
# where a code cell's folding is kept: JupyterLab (`jupyter`), Colab (`cellView`), and
# nbformat's own `collapsed`, which both know for outputs
FOLDED = {
    "setup": {"cellView": "form", "jupyter": {"source_hidden": True}},
    "hide-input": {"cellView": "form", "jupyter": {"source_hidden": True}},
    "hide-cell": {
        "cellView": "form",
        "collapsed": True,
        "jupyter": {"outputs_hidden": True, "source_hidden": True},
    },
}


def text_paths() -> list[Path]:
    """The texts of all chapters and executed pages, in order."""
    return sorted((BOOK / "text").glob("*.py"))


def notebook_path(text: Path) -> Path:
    """The notebook that belongs to a text."""
    return BOOK / f"{text.stem}.ipynb"


def written(text: Path) -> NotebookNode | None:
    """The notebook of a text as it is on disk; None if there is none yet."""
    path = notebook_path(text)
    return nbformat.read(path, as_version=4) if path.exists() else None


def executed(notebook: NotebookNode) -> str:
    """The digest of the code that a notebook's outputs came from; may be empty."""
    return notebook.metadata.get("vitedu", {}).get("executed", "")


def read_text(text: Path) -> NotebookNode:
    """A text as a notebook without outputs; a cell's id comes from name and place."""
    notebook = jupytext.read(text, fmt="py:percent")
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = metadata("")
    for number, cell in enumerate(notebook.cells):
        place = f"{text.stem}/{number}".encode()
        cell["id"] = hashlib.sha256(place).hexdigest()[:8]
        cell.metadata.pop("lines_to_next_cell", None)
    return dress(notebook, text.stem)


def addresses(stem: str) -> dict[str, str]:
    """Where the words of `LINKS` lead for one page."""
    slug = set_repository.configured(ROOT)
    owner, name = slug.split("/")
    return {
        "COLAB": "https://colab.research.google.com/github/"
        f"{slug}/blob/main/book/{stem}.ipynb",
        "SITE": f"https://{owner}.github.io/{name}/book/{stem}.html",
    }


def with_links(source: str, targets: dict[str, str]) -> str:
    """The line of links with other addresses: label to address."""
    for label, target in targets.items():
        link = re.compile(rf"\[{label}\]\([^)]*\)")
        source = link.sub(f"[{label}]({target})", source)
    return source


def dress(notebook: NotebookNode, stem: str) -> NotebookNode:
    """Say in full, in place, what a text says in short."""
    where = addresses(stem)
    targets = {label: where[word] for label, word in LINKS.items()}
    slug = set_repository.configured(ROOT)
    setup = SETUP_IN_FULL % {
        "address": set_repository.HUB + slug,
        "nobody": set_repository.NOBODY,
    }
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        unfold(cell)
        if "links" in tags:
            cell.source = with_links(cell.source, targets)
        if cell.cell_type != "code":
            continue
        if "setup" in tags:
            cell.source = setup
        for tag, folded in FOLDED.items():
            if tag in tags:
                fresh = json.loads(json.dumps(folded))
                cell.metadata.update(nbformat.from_dict(fresh))
    return notebook


def undress(notebook: NotebookNode) -> NotebookNode:
    """Say in short, in place, what `dress` said in full."""
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        unfold(cell)
        if "links" in tags:
            cell.source = with_links(cell.source, LINKS)
        if "setup" in tags:
            cell.source = SETUP
    return notebook


def unfold(cell: NotebookNode) -> None:
    """Take out of a cell's metadata whether a client folds it."""
    for key in ("cellView", "collapsed"):
        cell.metadata.pop(key, None)
    jupyter = cell.metadata.get("jupyter", {})
    for key in ("outputs_hidden", "source_hidden"):
        jupyter.pop(key, None)
    if not jupyter:
        cell.metadata.pop("jupyter", None)


def write_text(notebook: NotebookNode) -> str:
    """The py:percent text of a notebook; `read_text` is its inverse."""
    notebook = undress(nbformat.from_dict(json.loads(json.dumps(notebook))))
    notebook.metadata["jupytext"] = TEXT_METADATA
    text = jupytext.writes(notebook, fmt="py:percent")
    # blank lines around a cell are ruff's to decide, not jupytext's
    done = subprocess.run(
        [
            RUFF,
            "format",
            "-q",
            "--stdin-filename",
            str(BOOK / "text/chapter.py"),
            "-",
        ],
        input=text,
        **{"capture_output": True, "text": True, "check": True, "cwd": ROOT},
    )
    return done.stdout


def metadata(executed_digest: str) -> NotebookNode:
    """All that stands in a notebook's own metadata."""
    return nbformat.from_dict(
        {
            "kernelspec": KERNEL,
            "language_info": {"name": "python"},
            "vitedu": {"executed": executed_digest},
        }
    )


def cells_of(notebook: NotebookNode) -> list[tuple]:
    """What must agree between a text and its notebook: kind, source, metadata."""
    return [
        (cell.cell_type, cell.source, json.dumps(cell.metadata, sort_keys=True))
        for cell in notebook.cells
    ]


def digest(notebook: NotebookNode) -> str:
    """Of the code that outputs come from: syntax trees without docstrings.

    The cell tagged `setup` is left out; comments and layout do not count.
    """
    trees = []
    for cell in notebook.cells:
        if cell.cell_type != "code" or "setup" in cell.metadata.get("tags", []):
            continue
        tree = ast.parse(cell.source)
        for node in ast.walk(tree):
            if isinstance(node, lock.DEFINITIONS) and ast.get_docstring(node):
                node.body = node.body[1:] or [ast.Pass()]
        trees.append(ast.dump(tree))
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()[:16]


def with_outputs(fresh: NotebookNode, old: NotebookNode) -> NotebookNode:
    """`fresh` with the outputs and counts of `old`'s code cells, in order."""
    before = [cell for cell in old.cells if cell.cell_type == "code"]
    after = [cell for cell in fresh.cells if cell.cell_type == "code"]
    for cell, source in zip(after, before, strict=False):
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
            # ipykernel 7 warns on stderr about an unencrypted loopback connection
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
    """Streams that were split by chance as one; errors without frames of a machine."""
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
    """What must not be committed: warnings, paths of a machine, heavy outputs."""
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
    """The texts whose name begins with one of `numbers`; all, if there are none."""
    paths = text_paths()
    if numbers:
        paths = [path for path in paths if path.stem.startswith(tuple(numbers))]
    if not paths:
        sys.exit(
            f"notebooks: no text in book/text begins with {' or '.join(numbers)}"
        )
    return paths


def execute_command(numbers: list[str]) -> None:
    """Bring notebooks up to their texts; run only what has other code than before."""
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
    """Put the package's definitions into the taught cells of texts and notebooks."""
    for text in text_paths():
        definitions = lock.chapter_definitions(text.stem)
        for path in (text, notebook_path(text)):
            if not path.exists():
                continue
            is_text = path.suffix == ".py"
            notebook = read_text(path) if is_text else nbformat.read(path, 4)
            before = cells_of(notebook)
            for cell in notebook.cells:
                if "teaches" in cell.metadata.get("tags", []):
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
