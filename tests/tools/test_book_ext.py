"""The Sphinx extension of the book, on a small site."""

import json
import os
import re
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

import vitedu

ROOT = Path(__file__).parents[2]
for package in ("sphinx_book_theme", "myst_nb", "fontTools"):
    pytest.importorskip(package, reason="the book's tools are not installed")
icons = pytest.importorskip("icons")
pytestmark = pytest.mark.slow  # a site is built

PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk"
    "+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
CONF = """
extensions = ["myst_nb", "sphinxcontrib.bibtex", "book_ext"]
bibtex_bibfiles = ["papers.bib"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
myst_heading_slug_func = "book_ext.place_of"
html_theme = "sphinx_book_theme"
html_theme_options = {"footer_content_items": ["extra-footer.html"]}
mathjax_path = "mathjax/tex-svg-full.js"
nb_execution_mode = "off"
project = "vitedu"
"""
PAPERS = """@misc{xiong,
  author = {Xiong, A.},
  title = {On {LayerNorm} in G{\\"o}del Numbers},
  year = {2020},
  url = {https://example.org/xiong}
}
"""
INDEX = """# A book

```{toctree}
glossary
figures
words
```

```{toctree}
:numbered:
01_first
6. Sixth <unwritten://6>
07_seventh
```
"""
GLOSSARY = """# Words

```{glossary}
class token
클래스 토큰
类别词元
  A row of width $D^2$ {cite}`xiong`, before the {term}`tokens <token>`. \
It is learned.

key
키
键
  An everyday word.

MAC
곱셈
乘加
  One product and one sum, e.g. "a < b".

query
쿼리
查询
  Everyday too.

Robot
로봇
机器人
  A worker in a play, not any robots.

token
토큰
词元
  One row: a patch.

weight entropy
엔트로피
熵
  How spread out.
```

```{bibliography}
:all:
```
"""
WORDS = """# Words of the tokens

Class tokens, then a Token, another token, `MAC`, a Mac, macro, robots, \
[a token](#Some-Place).

| a weight entropy |
|---|
| a weight entropy |

> *Two weight entropies* and one MAC, and the key query.

See [Xiong 2020](https://example.org/xiong), [others](https://example.org) and
[there](figures.ipynb#What-it-shows).

## Some Place

<details><summary>Solution 1</summary>

**Bold** and $x^2$.

</details>
"""


def picture(alt, last):
    """An output with a picture of its own bytes, and with or without words."""
    data = {"image/png": b64encode(PIXEL + last).decode()}
    metadata = {"image/png": {"alt": alt}} if alt else {}
    return {"output_type": "display_data", "data": data, "metadata": metadata}


@pytest.fixture(scope="module")
def small_site(tmp_path_factory):
    """A book of four pages, built with the extension."""
    source = tmp_path_factory.mktemp("book")
    for name, text in {
        "conf.py": CONF,
        "index.md": INDEX,
        "glossary.md": GLOSSARY,
        "words.md": WORDS,
        "01_first.md": "# First\n\n## A part\n",
        "07_seventh.md": "# Seventh\n\n## Another part\n",
        "papers.bib": PAPERS,
    }.items():
        (source / name).write_text(text)
    outputs = [picture('Two "dots", 3 < 4.', b"1"), picture("A line.", b"2")]
    code = {
        "cell_type": "code",
        "id": "a",
        "metadata": {},
        "source": "1",
        "execution_count": 1,
        "outputs": [*outputs, picture(None, b"3")],
    }
    title = {
        "cell_type": "markdown",
        "id": "b",
        "metadata": {},
        "source": "# Figures\n\n$x^2$\n\n## What it shows",
    }
    margin = {
        **code,
        "id": "c",
        "metadata": {"tags": ["margin", "hide-input"]},
        "source": "'code of the margin'",
        "outputs": [picture("A small one.", b"4")],
    }
    silent = {**code, "outputs": [], "source": "'above the picture'"}
    silent |= {"id": "d", "metadata": {"tags": ["hide-input"]}}
    fold = "<details><summary>First</summary>\n\nWords.\n\n</details>"
    solutions = {**title, "id": "e", "source": f"## Solutions\n\n{fold}"}
    solution = {**code, "id": "f", "metadata": {"tags": ["hide-cell"]}}
    solution |= {
        "source": "'code of the first'",
        "outputs": code["outputs"][:1],
    }
    notebook = {
        "cells": [title, silent, code, margin, solutions, solution],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (source / "figures.ipynb").write_text(json.dumps(notebook))
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W"]
    fixed = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tools")]),
        "SOURCE_DATE_EPOCH": str(86_400 * 365),
    }
    folders = [str(source), str(source / "out")]
    subprocess.run([*sphinx, *folders], env=os.environ | fixed, check=True)
    icons.lighten(source / "out")
    return source / "out"


def test_a_chapter_has_the_number_of_its_file_though_others_are_missing(
    small_site,
):
    page = (small_site / "07_seventh.html").read_text()
    assert "<title>7. Seventh" in page
    assert 'section-number">7.1. </span>Another part' in page
    start = (small_site / "index.html").read_text()
    assert ">1. First<" in start and ">7. Seventh<" in start


def test_a_chapter_that_is_not_written_is_named_without_a_link(small_site):
    for name in ("index", "07_seventh", "search"):
        page = (small_site / f"{name}.html").read_text()
        sidebar = page[page.index("bd-docs-nav") :]
        assert '<span class="unwritten">6. Sixth</span>' in sidebar


def test_the_glossary_begins_with_its_letters(small_site):
    page = (small_site / "glossary.html").read_text()
    (line,) = re.findall(r'<p class="letters">(.*?)</p>', page, re.DOTALL)
    links = re.findall(r'href="#term-([\w-]+)">(\w)</a>', line)
    assert [letter for _, letter in links] == list("CKMQRTW")
    assert links[0][0] == "class-token"


def test_a_page_says_what_it_is_about_and_its_title_once(small_site):
    page = (small_site / "words.html").read_text()
    (about,) = re.findall(r'<meta name="description" content="([^"]*)"', page)
    assert about.startswith("Class tokens, then a Token, another token")
    assert '<meta property="og:image" content="https://' in page
    start = (small_site / "index.html").read_text()
    assert start.count('property="og:title" content="A book"') == 1


def test_each_figure_has_the_words_of_its_own_output(small_site):
    page = (small_site / "figures.html").read_text()
    alts = re.findall(
        r'<img alt="([^"]*)" (?:class="[^"]*" )?src="_images', page
    )
    assert alts[:2] == ["Two &quot;dots&quot;, 3 &lt; 4.", "A line."]
    assert alts[3] == "A small one."
    # myst-nb's own, which test_site refuses
    assert alts[2].startswith("_images/")


def tips(page):
    """(what is marked, where it leads, what it says) of a built page."""
    return re.findall(
        r'<span class="glossary-tip"><a href="([^"]*)" '
        r'aria-describedby="([^"]*)">'
        r'([^<]*)</a><span role="tooltip" id="([^"]*)">([^<]*)</span></span>',
        page,
    )


def test_the_first_mention_of_a_term_shows_its_definition(small_site):
    page = (small_site / "words.html").read_text()
    found = {term: (href, words) for href, _, term, _, words in tips(page)}
    assert found == {
        # no citation, no TeX, the first sentence alone
        "Class tokens": (
            "glossary.html#term-class-token",
            "A row of width D\u00b2, before the tokens.",
        ),
        "Token": ("glossary.html#term-token", "One row: a patch."),
        "weight entropies": (
            "glossary.html#term-weight-entropy",
            "How spread out.",
        ),
        "MAC": (
            "glossary.html#term-MAC",
            "One product and one sum, e.g. “a &lt; b”.",
        ),
    }
    names = [name for _, name, _, _, _ in tips(page)]
    assert names == [name for _, _, _, name, _ in tips(page)]
    assert all(page.count(f'id="{name}"') == 1 for name in names)
    # what the glossary itself says is not marked
    assert tips((small_site / "glossary.html").read_text()) == []


def test_links_bear_titles_of_papers_and_lead_to_places(small_site):
    page = (small_site / "words.html").read_text()
    found = re.search(r'<a [^>]*href="https://example.org/xiong"[^>]*>', page)
    title = "On LayerNorm in G\u00f6del Numbers (2020)"
    assert f'title="{title}"' in found[0]
    assert '<a class="reference external" href="https://example.org">' in page
    assert (
        '<a class="reference internal" href="#some-place">a token</a>' in page
    )
    assert 'href="figures.html#what-it-shows"' in page


def test_a_margin_cell_shows_what_it_draws_and_no_code(small_site):
    page = (small_site / "figures.html").read_text()
    (cell,) = re.findall(
        r'<div class="cell tag_margin.*?</div>\s*</div>', page, re.S
    )
    assert 'alt="A small one."' in cell
    assert "code of the margin" not in page and "<details" not in cell


def test_a_picture_comes_before_imports_and_a_solution_holds_its_code(
    small_site,
):
    page = (small_site / "figures.html").read_text()
    assert page.index("<img") < page.index("above the picture")
    (fold,) = re.findall(r"<details><summary>First.*?</details>", page, re.S)
    assert "Words." in fold and "code of the first" in fold and "<img" in fold


def test_words_within_details_are_typeset(small_site):
    page = (small_site / "words.html").read_text()
    (block,) = re.findall(r"<details><summary>Sol.*?</details>", page, re.S)
    assert "<strong>Bold</strong>" in block
    assert '<span class="math notranslate nohighlight">' in block


def test_a_page_bears_version_date_and_the_style_of_what_is_added(small_site):
    assert (small_site / "_static/book_ext.css").is_file()
    for name in ("index", "glossary", "figures", "genindex", "search"):
        page = (small_site / f"{name}.html").read_text()
        assert "_static/book_ext.css" in page and "_static/book_ext.js" in page
        assert f"vitedu {vitedu.__version__} · 1971-01-01 · " in page


def test_terms_are_marked_with_their_language(small_site):
    page = (small_site / "glossary.html").read_text()
    assert re.search(r'<dt lang="ko" id="[^"]*">클래스 토큰<', page)
    assert re.search(r'<dt lang="zh" id="[^"]*">类别词元<', page)
    assert re.search(r'<dt id="term-class-token">class token<', page)


def test_pages_load_the_small_style_sheet_of_icons_alone(small_site):
    for path in small_site.glob("*.html"):
        page = path.read_text()
        assert 'href="_static/icons.css"' in page
        assert "fontawesome" not in page
    assert not list(small_site.rglob("fontawesome*"))
    assert not list(small_site.rglob("*.map"))
