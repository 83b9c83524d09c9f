"""What counts into a chapter's length, and what does not."""

import json

import pytest

nbformat = pytest.importorskip(
    "nbformat", reason="the book's tools are not installed"
)
measure_chapters = pytest.importorskip("measure_chapters")
prose = pytest.importorskip("prose")


def chapter(*cells):
    """A notebook: a str is Markdown, a tuple is code and its tags."""
    made = []
    for cell in cells:
        if isinstance(cell, str):
            made.append(nbformat.v4.new_markdown_cell(cell))
        else:
            source, *tags = cell
            made.append(nbformat.v4.new_code_cell(source))
            made[-1].metadata["tags"] = tags
    return nbformat.v4.new_notebook(cells=made)


def measured(*cells):
    return measure_chapters.measure(chapter(*cells))


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        ("# One two\n\nthree *four*, **five** \u2013 six.", 6),
        ("> **Remember.** Two.", 2),
        ("one $x + y = z$ two $$\na + b\n$$ three", 3),
        ("one \\begin{align}a &= b\\end{align} two", 2),
        ("one $5 of it", 4),
        ("costs `a$b` and `c$d`", 4),
        ("[two words](https://arxiv.org/abs/1 'title')", 2),
        ("```python\nx = 1\n```\none", 1),
        ("<details><summary>one</summary>\n\ntwo\n\n</details>", 2),
        ("`one two` three", 3),
        ("| a | b c |\n|---|---|\n| d | |", 4),
        ("<!-- none --> one", 1),
        ("a < b and c > d", 5),
    ],
)
def test_words(markdown, words):
    assert measured(markdown)["words"] == words


@pytest.mark.parametrize(
    ("markdown", "found"),
    [
        ("It is 224 wide, 2,500 long, 86% and (3).", 4),
        ("16\u00d716 patches; ~5 s; -1..1", 3),
        ("ViT-Ti/16, ImageNet-21k, float32 and GPT-2", 0),
        ("three hundred", 0),
        ("$224$ and `224`", 0),
        (
            "[chapter 3](03_encoder.ipynb), [Xiong et al. "
            "2020](https://x.org/1)",
            0,
        ),
        ("1. one\n2. two\n\n**3.** three", 0),
        ("## 4. four", 0),
        ("| 1 | 2 |", 0),
        ("two [links](a1) and 7 [more](b2) words", 1),
    ],
)
def test_numerals(markdown, found):
    assert len(prose.numerals(prose.spoken(markdown))) == found


def test_you_is_counted_in_a_thousand_words():
    words = "You see your cap. You're sure you\u2019ll guess. Youth is yours. "
    assert measured(words + "word " * 89)["you"] == 50.0
    assert measured("| you |\n\n" + "word " * 10)["you"] == 0


def test_the_main_path_ends_at_the_exercises():
    found = measured(
        "one two",
        ("x = 1",),
        "three\n\n## Exercises\n\nfour",
        ("y = 1",),
        "## Second reading\n\nfive",
    )
    assert (found["words"], found["code_lines"]) == (3, 1)


def test_only_visible_code_counts():
    found = measured(
        ("import vitedu", "setup", "remove-cell"),
        ("a = 1\nb = 2", "hide-input"),
        ("a = 1\n\n# why\nb = 2",),
        ("def f():\n" + "    x = 1\n" * 30, "teaches"),
        ("c = 1",),
    )
    assert found["code_lines"] == 3 + 31 + 1
    assert found["longest"] == 4
    assert found["median"] == 4


@pytest.mark.slow
def test_json_holds_every_chapter(capsys):
    measure_chapters.main(["--json"])
    rows = json.loads(capsys.readouterr().out)
    numbers = [row["chapter"][:2] for row in rows]
    assert numbers[:5] == ["01", "02", "03", "04", "05"]
    assert set(rows[0]) == set(measure_chapters.HEADINGS)
