"""The lock between the book and the package, and what every chapter must have."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
nbformat = pytest.importorskip(
    "nbformat", reason="the book's tools are not installed"
)
lock = pytest.importorskip("lock")
notebooks = pytest.importorskip("notebooks")

TEXTS = notebooks.text_paths()
CHAPTERS = [text for text in TEXTS if text.stem[:2].isdigit()]
TEACHES = {
    "01": {"patchify", "unpatchify", "PatchEmbedding"},
    "02": {"attention", "MultiHeadAttention"},
    "03": {"MLP", "EncoderBlock", "Encoder"},
    "04": {"ViTConfig", "ViT", "initialise"},
    "05": {"train_step", "warmup_cosine", "accuracy"},
}
MOST_CELLS, FEWEST_CELLS, MOST_LINES, MOST_COLUMNS = 45, 20, 25, 80
LEAST_FIGURES = 6


def named(paths):
    return pytest.mark.parametrize("text", paths, ids=lambda path: path.stem)


def written(text):
    """The committed notebook of a text."""
    return nbformat.read(notebooks.notebook_path(text), as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell):
    return cell.metadata.get("tags", [])


def taught_cells(notebook):
    return [cell for cell in code(notebook) if "teaches" in tags(cell)]


def chapter(text):
    return text.stem[:2]


def test_every_chapter_of_the_plan_so_far_has_a_text():
    assert sorted(TEACHES) == [chapter(text) for text in CHAPTERS]


def test_every_notebook_has_a_text():
    with_text = {notebooks.notebook_path(text) for text in TEXTS}
    assert set((ROOT / "book").glob("*.ipynb")) == with_text


@named(TEXTS)
def test_text_and_notebook_hold_the_same_cells(text):
    """Kind, source and all metadata, tags and alt text included."""
    ours = notebooks.cells_of(notebooks.read_text(text))
    theirs = notebooks.cells_of(written(text))
    number = chapter(text)
    assert ours == theirs, (
        f"make execute CHAPTER={number}, or make text CHAPTER={number}"
    )


@named(TEXTS)
def test_a_text_survives_the_way_to_a_notebook_and_back(text):
    assert notebooks.write_text(notebooks.read_text(text)) == text.read_text()


@named(TEXTS)
def test_taught_code_is_the_package_code(text):
    definitions = lock.package_definitions()
    differences = []
    for cell in taught_cells(written(text)):
        name = lock.taught_name(cell.source)
        package = lock.package_source(name, definitions)
        differences.append(
            lock.difference(name, cell.source, package, text.stem)
        )
    found = "\n".join(difference for difference in differences if difference)
    assert not found, f"{found}\nthe package is the source: make sync"


@named(CHAPTERS)
def test_a_chapter_teaches_its_names(text):
    taught = {
        lock.taught_name(cell.source) for cell in taught_cells(written(text))
    }
    assert TEACHES[chapter(text)] - taught == set()


@named(CHAPTERS)
def test_taught_code_reads_only_what_a_reader_has_seen(text, tmp_path):
    """ruff's F821 over the chapter's imports and its taught cells alone."""
    lines = []
    for cell in code(written(text)):
        if "setup" in tags(cell) or "failure" in tags(cell):
            continue
        if "teaches" in tags(cell):
            lines.append(cell.source)
            continue
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                lines.append(ast.unparse(node))
    path = tmp_path / "taught.py"
    path.write_text("\n\n\n".join(lines))
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--isolated"]
    done = subprocess.run(
        [*ruff, "--select", "F821", str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@named(TEXTS)
def test_outputs_come_from_this_code(text):
    notebook = written(text)
    executed = notebook.metadata.vitedu.executed
    now = notebooks.digest(notebook)
    assert executed == now, (
        f"the code changed: make execute CHAPTER={chapter(text)}"
    )


@named(TEXTS)
def test_every_cell_was_executed_in_order(text):
    counts = [cell.execution_count for cell in code(written(text))]
    assert counts == list(range(1, len(counts) + 1))


@named(TEXTS)
def test_errors_stand_in_failure_cells_alone(text):
    for cell in code(written(text)):
        failed = any(output.output_type == "error" for output in cell.outputs)
        assert failed == ("raises-exception" in tags(cell)), cell.source
        if failed:
            assert "failure" in tags(cell), cell.source


@named(TEXTS)
def test_nothing_of_a_machine_is_committed(text):
    assert notebooks.complaints(written(text)) == []


@named(TEXTS)
def test_check_cells_show_what_they_checked(text):
    checks = [c for c in code(written(text)) if "nbval-check-output" in tags(c)]
    assert len(checks) >= (3 if text in CHAPTERS else 1)
    for cell in checks:
        assert "assert" in cell.source, cell.source
        shown = "".join(output.get("text", "") for output in cell.outputs)
        assert len(shown.strip().splitlines()) == 1, cell.source


@named(CHAPTERS)
def test_a_chapter_has_its_size(text):
    notebook = written(text)
    cells = code(notebook)
    assert FEWEST_CELLS <= len(cells) <= MOST_CELLS
    for cell in cells:
        lines = cell.source.splitlines()
        if "teaches" not in tags(cell):
            assert len(lines) <= MOST_LINES, cell.source
        assert all(len(line) <= MOST_COLUMNS for line in lines), cell.source


@named(CHAPTERS)
def test_a_chapter_shows_a_failure(text):
    assert any("failure" in tags(cell) for cell in code(written(text)))


@named(CHAPTERS)
def test_figures_are_many_and_have_alt_text(text):
    pictures = [
        output
        for cell in code(written(text))
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) >= LEAST_FIGURES
    for output in pictures:
        alt = output.metadata.get("image/png", {}).get("alt", "")
        assert len(alt) > 20, (
            "show figures through vitedu.figures.show(figure, alt)"
        )
        assert not re.search(r"\.(png|jpe?g|svg)$", alt.lower()), alt
        # `show` writes both; nbval compares the text, nobody else the metadata
        assert alt == output.data["text/plain"], "make execute writes alt text"


@named(CHAPTERS)
def test_a_chapter_begins_with_setup_and_versions(text):
    first, second = code(written(text))[:2]
    assert {"setup", "remove-cell"} <= set(tags(first)) and first.outputs == []
    assert "nbval-ignore-output" in tags(second) and second.outputs


@named(CHAPTERS)
def test_a_chapter_has_exercises_and_solutions(text):
    source = text.read_text()
    exercises = re.findall(r"\{exercise\}", source)
    solutions = re.findall(r"\{solution(?:-start)?\}", source)
    assert 4 <= len(exercises) <= 8
    assert len(solutions) == len(exercises)


@named(CHAPTERS)
def test_no_number_is_typed_where_a_result_is_read(text):
    """Recorded numbers come through vitedu.results, not as json beside the text."""
    assert "json.load" not in text.read_text()


def test_a_changed_token_is_found_and_mended(tmp_path):
    package = "def double(x):\n    return 2 * x"
    taught = "def double(x):\n    return 3 * x"
    found = lock.difference("double", taught, package, "01")
    assert "-    return 2 * x" in found and "+    return 3 * x" in found
    assert lock.difference("double", package, package, "01") == ""


def test_docstrings_are_cut_on_both_sides():
    long = 'def f(x):\n    """One.\n\n    Two.\n    """\n    return x  # why'
    short = 'def f(x):\n    """One."""\n    return x  # why'
    assert lock.shortened(long) == short == lock.shortened(short)


def test_comments_count_and_decorators_belong_to_a_definition():
    with_comment = "@cache\ndef f(x):\n    return x  # why"
    without = "@cache\ndef f(x):\n    return x"
    assert lock.difference("f", without, with_comment, "01")
    assert lock.taught_name(with_comment) == "f"


def test_a_taught_cell_with_anything_else_is_refused():
    with pytest.raises(ValueError, match="one definition and nothing else"):
        lock.taught_name("import math\n\n\ndef f(x):\n    return x")


def test_the_digest_ignores_layout_and_setup_but_no_code():
    def book(*sources):
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        cells[0].metadata["tags"] = ["setup"]
        return nbformat.v4.new_notebook(cells=cells)

    one = notebooks.digest(
        book("%pip install x", "def f():\n    '''a'''\n    return 1")
    )
    two = notebooks.digest(book("pass", "def f():\n    # b\n    return (1)"))
    assert one == two
    assert one != notebooks.digest(book("pass", "def f():\n    return 2"))


def test_the_wheel_carries_what_the_notebooks_import():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["setuptools"]["packages"]["find"]["include"] == [
        "vitedu",
        "vitedu.*",
    ]


@named(TEXTS)
def test_metadata_of_a_notebook_is_what_the_tool_writes(text):
    notebook = json.loads(notebooks.notebook_path(text).read_text())
    assert set(notebook["metadata"]) == {
        "kernelspec",
        "language_info",
        "vitedu",
    }
