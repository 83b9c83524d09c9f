"""The rules of a chapter, each on a small notebook that breaks it."""

import pytest

nbformat = pytest.importorskip(
    "nbformat", reason="the book's tools are not installed"
)
form = pytest.importorskip("chapter_form")
cells = pytest.importorskip("cells")
notebooks = pytest.importorskip("notebooks")

TEXT = """\
# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # A chapter
#
# A photograph. **What did the network read?** See \
[what differs](#What-differs),
# [chapter 3](03_encoder.ipynb#Second-reading) and
# [Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929).
#
# > **Remember.** $x_{p}$ and `{code}` in `f"{x}"` are no roles.

# %% tags=["hide-input", "nbval-ignore-output"]
import torch

print("versions")

# %% tags=["teaches"]
def double(x):
    return torch.add(x, x)

# %% tags=["failure", "raises-exception"]
1 / 0

# %% tags=["hide-input", "nbval-check-output"]
assert double(2) == 4
print("twice two")

# %% tags=["hide-input"]
import base64

# %% [markdown]
# ## Exercises
#
# **1.** ★ Read.
#
# **2.** ★ Read.
#
# **3.** ★★ Change.
#
# **4.** ★★ Change.
#
# **5.** ★★★ Open.
#
# ## Second reading
#
# ## Where this is in the paper
#
# ### What differs
#
# ## Three readings
#
# ## Solutions
#
# SOLUTIONS
"""
SOLVED = """# <details><summary>Solution {}</summary>
#
# {}.
#
# </details>
#"""
SOLUTIONS = enumerate(["One", "Two: $x^2$", "Three", "Four", "Five"], start=1)
TEXT = TEXT.replace(
    "# SOLUTIONS", "\n".join(SOLVED.format(*each) for each in SOLUTIONS)
)
ALT = "A line that rises from 1 to 2."


def stream(text):
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def picture(alt, shown=None):
    return nbformat.v4.new_output(
        "display_data",
        data={"image/png": "", "text/plain": shown or alt},
        metadata={"image/png": {"alt": alt}},
    )


@pytest.fixture
def chapter(tmp_path):
    """A notebook that keeps every rule, with the outputs it would have."""
    text = tmp_path / "07_words.py"
    text.write_text(TEXT)
    notebook = notebooks.read_text(text)
    setup, versions, teaches, failure, check, figure = cells.code(notebook)
    versions.outputs = [stream("versions\n")]
    error = {"ename": "ZeroDivisionError", "evalue": "", "traceback": []}
    failure.outputs = [nbformat.v4.new_output("error", **error)]
    check.outputs = [stream("twice two\n")]
    figure.outputs = [picture(ALT)]
    assert setup.outputs == teaches.outputs == []
    return notebook


@pytest.mark.parametrize(
    "rule", form.EVERYWHERE + form.CHAPTERS, ids=lambda rule: rule.__name__
)
def test_a_chapter_that_keeps_the_rules(rule, chapter):
    assert rule(chapter) == []


def with_words(chapter, words):
    """The chapter with other words in its third cell."""
    chapter.cells[2].source = words
    return chapter


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("See {ref}`ch-vit`.", "a role"),
        ("{cite:t}`xiao2021early`, and `code`", "a role"),
        ("(ch-vit)=\n# Title", "a label"),
        ("```{note}\nWords.\n```", "a directive"),
        ("> ```{note}\n> Words.\n> ```", "a directive"),
        ("````{exercise}\n:label: x\n````", "a directive"),
        (":::{note}\nWords.\n:::", "a colon fence"),
        ("{{ name }}", "a substitution"),
        ("[words](there.md){.class}", "attributes"),
        ("% a comment", "a MyST comment"),
    ],
)
def test_raw_myst_is_found(chapter, words, what):
    found = form.has_no_raw_myst(with_words(chapter, words))
    assert found and found[0].startswith(what)


@pytest.mark.parametrize(
    "words", ["It is {value:.2f}%.", "Chapter NN.", "TODO", "took {seconds} s"]
)
def test_placeholders_are_found(chapter, words):
    assert form.has_no_placeholders(with_words(chapter, words)) != []


def test_placeholders_are_found_in_outputs_and_alt_text(chapter):
    cells.code(chapter)[1].outputs = [stream("{x:.1f}%")]
    cells.code(chapter)[5].outputs = [picture("A line up to {top} percent.")]
    assert len(form.has_no_placeholders(chapter)) == 2


@pytest.mark.parametrize(
    ("link", "what"),
    [
        ("[Xiong](https://arxiv.org/abs/0000.00000)", "no entry"),
        ("[Nobody et al. 2020](https://example.org/x)", "no entry"),
        ("[chapter 99](99_nothing.ipynb)", "book/99_nothing.ipynb"),
        ("[below](#second-reading)", "no heading here"),
    ],
)
def test_links_that_lead_nowhere_are_found(chapter, link, what):
    (found,) = form.links_lead_somewhere(with_words(chapter, link))
    assert found.startswith(what)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("assert x > 0", "assert"),
        ("import matplotlib as plt", "matplotlib, plt"),
        ('figures.show(figure, alt="A line.")', "alt"),
        ("show(f, " + repr("words " * 13) + ")", "a long string"),
        ("show(f, f" + repr("words {x} " * 13) + ")", "a long string"),
        ("model.register_forward_hook(f)", "register_forward_hook"),
    ],
)
def test_plumbing_in_a_visible_cell_is_found(chapter, source, what):
    cell = cells.code(chapter)[2]
    cell.source, cell.metadata = source, {}
    (found,) = form.hides_its_plumbing(chapter)
    assert found.startswith(f"{what} in a visible cell")
    cell.metadata = {"tags": ["hide-input"]}
    assert form.hides_its_plumbing(chapter) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("**5.** ★★★", "**6.** ★★★"),
        ("**1.** ★ Read.", "1. Read."),
        ("Solution 3<", "Solution 7<"),
        ("</summary>\n\nOne.", "</summary>\nOne."),
        ("One.\n\n</details>", "One.\n</details>"),
        ("## Three readings\n\n", ""),
    ],
)
def test_exercises_and_sections(chapter, before, after):
    last = chapter.cells[-1]
    assert before in last.source
    last.source = last.source.replace(before, after)
    section = not after
    assert (form.has_its_sections(chapter) != []) == section
    assert (form.has_exercises_with_solutions(chapter) != []) != section


def printing(text):
    return lambda cell: cell.update(outputs=[stream(text)])


def showing(*words):
    return lambda cell: cell.update(outputs=[picture(*words)])


def writing(source):
    return lambda cell: cell.update(source=source)


def without(tag):
    return lambda cell: cell.metadata.tags.remove(tag)


def unfolded(cell):
    del cell.metadata["cellView"]


TWICE = printing("a\nb\n")
BREAKS = [  # a rule, the tag of a cell, what is done to that cell
    ("begins_with_links_and_setup", "setup", printing("x")),
    ("begins_with_links_and_setup", "nbval-ignore-output", TWICE),
    ("checks_print_one_line", "nbval-check-output", TWICE),
    ("checks_print_one_line", "nbval-check-output", writing("print(1)")),
    (
        "shows_errors_in_failure_cells_alone",
        "failure",
        lambda cell: cell.update(outputs=[]),
    ),
    ("shows_errors_in_failure_cells_alone", "failure", without("failure")),
    ("shows_a_failure", "failure", without("failure")),
    ("folds_what_is_hidden", "hide-input", unfolded),
    (
        "folds_what_is_hidden",
        "teaches",
        lambda cell: cell.metadata.update(collapsed=True),
    ),
    ("keeps_its_columns", "teaches", writing("x = 1" + "1" * 80)),
    ("prints_narrow_lines", "hide-input", printing("x" * 73)),
    ("has_small_cells", "failure", writing("x = 1\n" * 26)),
    ("has_alt_text", "hide-input", showing("short")),
    ("has_alt_text", "hide-input", showing("a file, which ends in.png")),
    ("has_alt_text", "hide-input", showing(ALT, "other words")),
    ("taught_code_is_self_contained", "teaches", writing("def f():\n    a()")),
    ("pastes_nothing_again", "hide-input", writing("def patchify(x):\n    x")),
    ("asks_a_question_early", "nbval-ignore-output", without("hide-input")),
]


@pytest.mark.parametrize(("rule", "tag", "change"), BREAKS)
def test_a_cell_that_breaks_a_rule_is_found(chapter, rule, tag, change):
    change(next(c for c in cells.code(chapter) if tag in cells.tags(c)))
    assert getattr(form, rule)(chapter) != []


def test_the_first_cells_are_asked_for_by_their_tags(chapter):
    chapter.cells[0].metadata["tags"] = ["links"]
    chapter.cells[0].source += "\nand a second line"
    chapter.cells[2].source = "No title"
    assert len(form.begins_with_links_and_setup(chapter)) == 3
    chapter.cells = chapter.cells[:2]
    assert form.begins_with_links_and_setup(chapter) == [
        "fewer than four cells"
    ]


def test_a_question_stands_before_the_first_section(chapter):
    with_words(chapter, "# Title\n\nNone.\n\n## One\n\n**Why?**")
    assert form.asks_a_question_early(chapter) == [
        "no bold question before the first section"
    ]


@pytest.mark.parametrize(
    ("words", "items"),
    [
        ("1. One. 2. Two.\n3. Three. 4. Four.", [". 2. Two", ". 4. Four"]),
        ("* One\nline,   two. * [Two](there.md)", [",   two. * [Two"]),
        ("1. In 2017 there were 2. Then 3.\n2. `a * b`, $a   * b$.", []),
    ],
)
def test_a_list_that_lost_its_breaks_is_found(chapter, words, items):
    found = form.breaks_its_lists(with_words(chapter, words))
    assert len(found) == len(items)
    assert all(item in each for each, item in zip(found, items, strict=True))
