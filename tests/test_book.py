"""The lock between the book and the package, and what every chapter must have.

What a single notebook must have is a rule of `tools/chapter_form.py`; all are
asked here, of the notebooks as they are committed.
"""

import ast
import functools
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
pytest.importorskip("nbformat", reason="the book's tools are not installed")
lock = pytest.importorskip("lock")
notebooks = pytest.importorskip("notebooks")
cells = pytest.importorskip("cells")
dress = pytest.importorskip("dress")
chapter_form = pytest.importorskip("chapter_form")
measure_chapters = pytest.importorskip("measure_chapters")

TEXTS = notebooks.text_paths()
CHAPTERS = [text for text in TEXTS if chapter_form.number(text)]
TEXT_OF = {text.stem: text for text in TEXTS}
FIVE = [text for text in CHAPTERS if chapter_form.number(text) in range(1, 6)]


def named(paths):
    return pytest.mark.parametrize("text", paths, ids=lambda path: path.stem)


@functools.cache
def written(text):
    """A chapter's notebook as it is committed, which no test changes."""
    return notebooks.written(text)


@functools.cache
def read(text):
    """A chapter's text as a notebook, which no test changes either."""
    return notebooks.read_text(text)


def taught(text):
    """The names that a chapter's notebook teaches, in order."""
    return [lock.taught_name(c.source) for c in cells.taught(written(text))]


# ------------------------------------------------------------ text and notebook


def test_every_notebook_has_a_text_and_every_text_a_notebook():
    with_text = {notebooks.notebook_path(text) for text in TEXTS}
    assert set((ROOT / "book").glob("*.ipynb")) == with_text


@named(TEXTS)
def test_text_and_notebook_hold_the_same_cells(text):
    """Kind, source and all metadata: tags, folding, what the tool fills in."""
    ours = notebooks.cells_of(read(text))
    theirs = notebooks.cells_of(written(text))
    number = text.stem[:2]
    assert ours == theirs, (
        f"make execute CHAPTER={number}, or make text CHAPTER={number}"
    )


@named(TEXTS)
def test_a_text_survives_the_way_to_a_notebook_and_back(text):
    assert notebooks.write_text(read(text)) == text.read_text()


@named(TEXTS)
def test_outputs_come_from_this_code(text):
    notebook = written(text)
    assert notebooks.executed(notebook) == notebooks.digest(notebook), (
        f"the code changed: make execute CHAPTER={text.stem[:2]}"
    )


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("05_mnist", "MNIST: 50,000 to learn from"),
        ("06_recipe", "cifar10: 5,000 to learn from"),
        ("07_speed", "MNIST: 20,000 to learn from"),
    ],
)
def test_stored_outputs_are_of_real_data(name, line):
    """Not of what stands in where the data aren't found."""
    outputs = str([c.outputs for c in cells.code(written(TEXT_OF[name]))])
    assert line in outputs, (
        f"set VITEDU_DATA to a folder with the data: make execute "
        f"CHAPTER={name[:2]}"
    )


@named(TEXTS)
def test_every_cell_was_executed_in_order(text):
    code = cells.code(written(text))
    counts = [cell.execution_count for cell in code]
    assert counts == list(range(1, len(counts) + 1))


@named(TEXTS)
def test_nothing_but_what_the_tool_writes_is_committed(text):
    notebook = written(text)
    assert notebooks.complaints(notebook) == []
    digest = notebooks.executed(notebook)
    assert notebook.metadata == notebooks.metadata(digest)


# --------------------------------------------------------------------- the lock


@named(TEXTS)
def test_taught_code_is_the_package_code(text):
    definitions = lock.chapter_definitions(text.stem)
    differences = []
    for cell in cells.taught(written(text)):
        name = lock.taught_name(cell.source)
        package = lock.package_source(name, definitions)
        differences.append(
            lock.difference(name, cell.source, package, text.stem)
        )
    found = "\n".join(difference for difference in differences if difference)
    assert not found, f"{found}\nthe package is the source: make sync"


def test_chapters_1_to_5_teach_every_definition_of_plain_exactly_once():
    count = Counter(name for text in FIVE for name in taught(text))
    wanted = dict.fromkeys(lock.plain_definitions(), 1)
    assert count == wanted, "each definition of vitedu/plain.py is taught once"


@named(FIVE)
def test_a_chapter_teaches_what_plain_says_that_it_writes(text):
    names = lock.written_in(chapter_form.number(text))
    assert names and set(taught(text)) == names


# ------------------------------------------------------------ what a page holds


@named(TEXTS)
def test_a_page_keeps_to_the_rules_of_its_form(text):
    rules = chapter_form.EVERYWHERE + chapter_form.CHAPTERS * (text in CHAPTERS)
    found = {rule.__name__: rule(written(text)) for rule in rules}
    assert {name: said for name, said in found.items() if said} == {}


@named(CHAPTERS)
def test_a_chapter_keeps_to_its_length_and_talks_to_the_reader(text):
    found = measure_chapters.measure_text(text)
    assert measure_chapters.beyond(found) == [], (
        "python tools/measure_chapters.py\n" + measure_chapters.table([found])
    )


@named(TEXTS)
def test_links_and_setup_lead_to_this_page(text):
    """Not to another chapter's: what the tool writes into this notebook."""
    notebook = written(text)
    dressed = dress.dress(notebooks.written(text), text.stem)
    assert notebook.cells[:2] == dressed.cells[:2]
    assert f"/book/{text.stem}.ipynb)" in notebook.cells[0].source
    assert f"/book/{text.stem}.html)" in notebook.cells[0].source


@named(CHAPTERS)
def test_a_chapter_draws_with_its_own_module_and_what_all_share(text):
    """`figures/chapters/NAME.py` is named after the chapter `NN_NAME`."""
    own = text.stem[3:]
    drawn_with = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(text.read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module.startswith("vitedu.figures")
        for alias in node.names
    }
    assert drawn_with - {"vitedu.figures.photos"} == {
        f"vitedu.figures.chapters.{own}"
    }


@named(CHAPTERS)
def test_no_number_is_typed_where_a_result_is_read(text):
    """Recorded numbers come by vitedu.results, not as json beside the text."""
    code = text.read_text().replace("map(json.loads, lines)", "")  # a run's log
    assert "json.load" not in code


def test_no_two_entries_of_the_bibliography_have_one_address():
    text = (ROOT / "book/references.bib").read_text(encoding="utf-8")
    addresses = re.findall(r"^\s*url\s*=\s*\{([^}]*)\}", text, re.MULTILINE)
    assert len(set(addresses)) == len(addresses) > 20
    assert len(chapter_form.bibliography()) == len(addresses)


def test_the_wheel_carries_what_the_notebooks_import():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["setuptools"]["packages"]["find"]["include"] == [
        "vitedu",
        "vitedu.*",
    ]


# ------------------------------------------------------------ tiers and devices


@pytest.mark.parametrize("stem", ["06_recipe"])
@pytest.mark.parametrize(
    ("asked", "tier", "kind"),
    [("", "gpu", "cuda"), ("cpu", "cpu", "cpu"), ("smoke", "smoke", "cpu")],
)
def test_a_chapter_uses_the_gpu_that_is_there(
    stem, asked, tier, kind, monkeypatch, capsys
):
    """As asked for, or all of it: what is run is the same, but for sizes."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("VITEDU_TIER", asked)
    _, *code = cells.code(read(TEXT_OF[stem]))
    sources = [cell.source for cell in code]
    number = next(i for i, source in enumerate(sources) if "TIER =" in source)
    values = {}
    exec("\n".join(sources[: number + 1]), values)
    assert (values["TIER"], values["device"].type) == (tier, kind)
    assert f"tier {tier}, seed 0, {kind}, torch" in capsys.readouterr().out
