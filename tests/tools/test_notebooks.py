"""From text to notebook and back: what the tool fills in, folds and keeps."""

import json
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # reads and writes notebooks

ROOT = Path(__file__).parents[2]
nbformat = pytest.importorskip(
    "nbformat", reason="the book's tools are not installed"
)
notebooks = pytest.importorskip("notebooks")
dress = pytest.importorskip("dress")
lock = pytest.importorskip("lock")
set_repository = pytest.importorskip("set_repository")

TEXT = """\
# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # A chapter
#
# Words and $x^2$.

# %% tags=["hide-input", "nbval-ignore-output"]
print("hidden")

# %% tags=["hide-cell"]
print("a solution")

# %% mystnb={"image": {"alt": "x"}} tags=["teaches"]
def double(x):
    return 2 * x
"""


@pytest.fixture
def text(tmp_path):
    """A text of six cells, in its settled form."""
    path = tmp_path / "07_words.py"
    path.write_text(TEXT)
    path.write_text(notebooks.write_text(notebooks.read_text(path)))
    return path


@pytest.fixture
def notebook(text):
    return notebooks.read_text(text)


def test_a_text_keeps_its_short_form(text, notebook):
    settled = text.read_text()
    assert "(COLAB) · [this page on the site](SITE) · about an" in settled
    assert '# %% tags=["setup", "remove-cell"]\nimport vitedu\n\n' in settled
    for word in ("OWNER", "cellView", "source_hidden", "pip"):
        assert word not in settled
    assert notebooks.write_text(notebook) == settled


def test_a_notebook_names_the_addresses_and_keeps_the_rest_of_the_line(
    notebook,
):
    slug = set_repository.configured(ROOT)
    owner, name = slug.split("/")
    assert notebook.cells[0].source == (
        "[Open in Colab](https://colab.research.google.com/github/"
        f"{slug}/blob/main/book/07_words.ipynb) · "
        f"[this page on the site](https://{owner}.github.io/{name}/book/"
        "07_words.html) · about an hour"
    )


def test_hidden_cells_are_folded_in_jupyter_and_colab(notebook):
    hidden, solution, taught = notebook.cells[3:]
    assert notebook.cells[1].metadata.jupyter == {"source_hidden": True}
    assert hidden.metadata.cellView == "form"
    assert hidden.metadata.jupyter == {"source_hidden": True}
    assert "collapsed" not in hidden.metadata
    assert solution.metadata.jupyter == {
        "outputs_hidden": True,
        "source_hidden": True,
    }
    assert solution.metadata.collapsed is True
    assert taught.metadata == {
        "mystnb": {"image": {"alt": "x"}},
        "tags": ["teaches"],
    }
    nbformat.validate(notebook)


# --------------------------------------------------------------- the setup cell


def outcome(source, tmp_path, before="pass"):
    """What a fresh kernel shows for a cell: its outputs without `before`'s."""
    cells = [nbformat.v4.new_code_cell(each) for each in (before, source)]
    client = notebooks.NotebookClient(
        nbformat.v4.new_notebook(cells=cells),
        kernel_name="python3",
        allow_errors=True,
        extra_arguments=["--IPKernelApp.log_level=40"],
        resources={"metadata": {"path": str(tmp_path)}},
    )
    return client.execute().cells[1].outputs


MISSING = "import sys; sys.modules['vitedu'] = None"


@pytest.mark.slow  # a kernel takes seconds to start
@pytest.mark.parametrize("address", ["OWNER/" + "vitedu", "nothing-here"])
def test_setup_that_cannot_install_stops_with_one_sentence(
    notebook, tmp_path, address
):
    configured = set_repository.configured(ROOT)
    source = notebook.cells[1].source
    if address == "nothing-here":
        path = f'source = "{tmp_path}/{address}"'
        source = re.sub('source = ".*"', path, source)
    else:
        source = set_repository.rewritten(source, configured, address)
    *pip, stopped = outcome(source, tmp_path, MISSING)
    assert any("nothing-here" in x.text for x in pip) == bool(pip)
    assert bool(pip) == (address == "nothing-here")
    assert stopped.output_type == "error"
    (line,) = stopped.traceback
    assert line.startswith("vitedu is not installed: clone the")
    assert "\n" not in line and line.count(". ") == 0 and line.endswith(".")


# --------------------------------------------------------------------- the lock


def test_chapters_1_to_5_are_compared_with_plain_alone():
    plain = lock.chapter_definitions("03_encoder")
    assert plain == lock.plain_definitions()
    assert {"patchify", "attention", "EncoderBlock", "ViT"} <= plain.keys()
    later = lock.chapter_definitions("10_resolution")
    assert later["patchify"] != plain["patchify"]
    assert "warmup_cosine" in later


def test_a_name_that_is_defined_twice_cannot_be_taught(tmp_path):
    (tmp_path / "one.py").write_text("def f(x):\n    return 1\n")
    (tmp_path / "two.py").write_text("def f(x):\n    return 2\n")
    (tmp_path / "plain.py").write_text("def f(x):\n    return 3\n")
    definitions = lock.package_definitions(tmp_path)
    assert len(definitions["f"]) == 2
    with pytest.raises(ValueError, match="f is defined 2 times in the package"):
        lock.package_source("f", definitions)
    with pytest.raises(ValueError, match="g is defined 0 times in the package"):
        lock.package_source("g", definitions)


def test_sync_takes_plain_for_a_chapter_that_writes_it(tmp_path, monkeypatch):
    book = tmp_path / "book"
    (book / "text").mkdir(parents=True)
    monkeypatch.setattr(notebooks, "BOOK", book)
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    (book / "text/01_words.py").write_text(
        '# %% tags=["teaches"]\ndef patchify(x):\n    return x\n'
    )
    notebooks.sync_command()
    assert (
        lock.plain_definitions()["patchify"][0]
        in (book / "text/01_words.py").read_text()
    )


def test_a_changed_token_is_found_and_docstrings_are_cut_on_both_sides():
    package = "def double(x):\n    return 2 * x"
    taught = "def double(x):\n    return 3 * x"
    found = lock.difference("double", taught, package, "01")
    assert "-    return 2 * x" in found and "+    return 3 * x" in found
    assert lock.difference("double", package, package, "01") == ""
    long = 'def f(x):\n    """One.\n\n    Two.\n    """\n    return x  # why'
    short = 'def f(x):\n    """One."""\n    return x  # why'
    assert lock.shortened(long) == short == lock.shortened(short)


def test_comments_count_and_decorators_belong_to_a_definition():
    with_comment = "@cache\ndef f(x):\n    return x  # why"
    without = "@cache\ndef f(x):\n    return x"
    assert lock.difference("f", without, with_comment, "01")
    assert lock.taught_name(with_comment) == "f"
    assert lock.definitions_of(f"x = 1\n{with_comment}\ny = 2") == {
        "f": with_comment
    }


def test_a_taught_cell_with_anything_else_is_refused():
    with pytest.raises(
        ValueError, match="must be one definition and nothing else"
    ):
        lock.taught_name("import math\n\n\ndef f(x):\n    return x")


def test_a_chapter_writes_what_stands_below_its_comment(tmp_path):
    path = tmp_path / "plain.py"
    path.write_text(
        "# Chapter 1: a\ndef f(x):\n    return x\n\n\n"
        "# Chapter 2: b\nclass A:\n    x = 1\n\n\ndef g():\n    return 2\n"
    )
    assert lock.written_in(1, path) == {"f"}
    assert lock.written_in(2, path) == {"A", "g"}
    assert lock.written_in(3, path) == set()


# ----------------------------------------------------------------- executing it


def digest(*sources):
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["setup"]
    return notebooks.digest(nbformat.v4.new_notebook(cells=cells))


def test_the_digest_ignores_layout_and_setup_but_no_code():
    one = digest("%pip install x", "def f():\n    '''a'''\n    return 1")
    assert one == digest("pass", "def f():\n    # b\n    return (1)")
    assert one != digest("pass", "def f():\n    return 2")


def test_the_digest_ignores_where_in_the_package_a_name_lives():
    one = digest("pass", "from vitedu.a import f, g as h\nf(h)")
    moved = "from vitedu.b.c import g as h\nfrom vitedu import f\nf(h)"
    assert one == digest("pass", moved)
    assert digest("pass", "from vitedu.a import f, g", "f") == digest(
        "pass", "from vitedu.a import f", "from vitedu import g\nf"
    )
    for other in ("f, g", "f, f as h", "f", "f, g as h, i"):
        assert one != digest("pass", f"from vitedu.a import {other}\nf(h)")
    assert one != digest("pass", "from torch.a import f, g as h\nf(h)")


@pytest.mark.slow  # a kernel takes seconds to start
def test_executing_twice_gives_the_same_bytes_and_a_silent_setup(tmp_path):
    text, path = tmp_path / "07_words.py", tmp_path / "07_words.ipynb"
    text.write_text(TEXT)
    executed = []
    for _ in range(2):
        notebooks.save(notebooks.execute(notebooks.read_text(text)), path)
        executed.append(path.read_bytes())
    assert executed[0] == executed[1]
    cells = json.loads(executed[0])["cells"]
    assert cells[3]["outputs"][0]["text"] == ["hidden\n"]
    assert "import vitedu" in cells[1]["source"][-1]
    assert cells[1]["outputs"] == []
