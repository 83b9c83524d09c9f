"""The tools that build the site: extension, icons, MathJax, zip, repository address."""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

import vitedu

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
yaml = pytest.importorskip("yaml", reason="the book's tools are not installed")
for package in ("sphinx_book_theme", "myst_nb", "fontTools"):
    pytest.importorskip(package, reason="the book's tools are not installed")
icons = pytest.importorskip("icons")
mathjax = pytest.importorskip("mathjax")
set_repository = pytest.importorskip("set_repository")
site_build = pytest.importorskip("site_build")

# not written out, or set-repository would take the examples for links
HUB, IO = "https://github" + ".com/", ".github" + ".io"
OLD, NEW = "OWNER/" + "vitedu", "jane/" + "pictures.of-words"


# ----------------------------------------------------------------- what Sphinx writes

PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAA"
    "SUVORK5CYII="
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
"""
GLOSSARY = """# Words

```{glossary}
class token
클래스 토큰
类别词元
  A row of width $D^2$ {cite}`xiong`, before the {term}`tokens <token>`. It is learned.

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

Class tokens, then a Token, another token, `MAC`, a Mac, macro, [a token](#Some-Place).

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
    (source / "conf.py").write_text(CONF)
    (source / "index.md").write_text(INDEX)
    (source / "glossary.md").write_text(GLOSSARY)
    (source / "words.md").write_text(WORDS)
    (source / "papers.bib").write_text(PAPERS)
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
    notebook = {
        "cells": [title, code, margin],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (source / "figures.ipynb").write_text(json.dumps(notebook))
    subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            str(source),
            str(source / "out"),
        ],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tools")]),
            "SOURCE_DATE_EPOCH": str(86_400 * 365),
        },
        check=True,
    )
    icons.lighten(source / "out")
    return source / "out"


def test_each_figure_has_the_words_of_its_own_output(small_site):
    page = (small_site / "figures.html").read_text()
    alts = re.findall(
        r'<img alt="([^"]*)" (?:class="[^"]*" )?src="_images', page
    )
    assert alts[:2] == ["Two &quot;dots&quot;, 3 &lt; 4.", "A line."]
    assert alts[3] == "A small one."
    assert alts[2].startswith(
        "_images/"
    )  # myst-nb's own, which test_site refuses


def tips(page):
    """(what is marked, where it leads, what it says) of a built page."""
    return re.findall(
        r'<span class="glossary-tip"><a href="([^"]*)" aria-describedby="([^"]*)">'
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


def test_what_the_glossary_itself_says_is_not_marked(small_site):
    assert tips((small_site / "glossary.html").read_text()) == []


def test_a_definition_is_not_found_by_searching_for_its_words(small_site):
    index = (small_site / "searchindex.js").read_text()
    terms = json.loads(index[index.index("{") : index.rindex("}") + 1])
    names, pages = terms["terms"], terms["docnames"]
    in_words = names["spread"]
    assert in_words == pages.index("glossary")


def test_a_link_to_a_paper_bears_its_title(small_site):
    page = (small_site / "words.html").read_text()
    found = re.search(r'<a [^>]*href="https://example.org/xiong"[^>]*>', page)
    title = "On LayerNorm in G\u00f6del Numbers (2020)"
    assert f'title="{title}"' in found[0]
    assert '<a class="reference external" href="https://example.org">' in page


def test_a_place_is_called_as_in_jupyter(small_site):
    page = (small_site / "words.html").read_text()
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


def test_words_within_details_are_typeset(small_site):
    page = (small_site / "words.html").read_text()
    (block,) = re.findall(r"<details><summary>Sol.*?</details>", page, re.S)
    assert "<strong>Bold</strong>" in block
    assert '<span class="math notranslate nohighlight">' in block


def test_every_page_has_the_style_of_what_is_added(small_site):
    for name in ("index", "words", "search"):
        page = (small_site / f"{name}.html").read_text()
        assert "_static/book_ext.css" in page and "_static/book_ext.js" in page
    assert (small_site / "_static/book_ext.css").is_file()


def test_a_page_bears_version_and_date(small_site):
    for name in ("index", "glossary", "figures", "genindex", "search"):
        page = (small_site / f"{name}.html").read_text()
        assert f"vitedu {vitedu.__version__} · 1971-01-01 · " in page


def test_terms_are_marked_with_their_language(small_site):
    page = (small_site / "glossary.html").read_text()
    assert re.search(r'<dt lang="ko" id="[^"]*">클래스 토큰<', page)
    assert re.search(r'<dt lang="zh" id="[^"]*">类别词元<', page)
    assert re.search(r'<dt id="term-class-token">class token<', page)


def test_mathjax_is_loaded_where_there_is_an_equation(small_site):
    with_it = [
        path.stem
        for path in sorted(small_site.glob("*.html"))
        if "tex-svg-full.js" in path.read_text()
    ]
    assert with_it == ["figures", "glossary", "words"]


def test_pages_load_the_small_style_sheet_of_icons_alone(small_site):
    for path in small_site.glob("*.html"):
        page = path.read_text()
        assert 'href="_static/icons.css"' in page
        assert "fontawesome" not in page
    assert not list(small_site.rglob("fontawesome*"))
    assert not list(small_site.rglob("*.map"))


# ------------------------------------------------------------ icons, MathJax, the zip


def test_the_fonts_hold_the_icons_and_nothing_else():
    from fontTools.ttLib import TTFont

    solid, brands = re.findall(r"base64,([^)]*)", icons.style_sheet())
    names = {
        data: set(TTFont(io.BytesIO(b64decode(data))).getBestCmap())
        for data in (solid, brands)
    }
    style = (icons.theme() / "styles/pydata-sphinx-theme.css").read_text()
    assert names[brands] == set(icons.codepoints(icons.BRANDS, style))
    assert names[solid] >= set(icons.codepoints(icons.SOLID, style))
    assert len(names[solid]) < 40


def test_an_icon_that_the_theme_does_not_have_is_refused():
    with pytest.raises(ValueError, match="no icon 'no-such-icon'"):
        icons.codepoints(("no-such-icon",), ".fa-sun:before{content:'x'}")


def test_mathjax_is_the_file_that_was_tested(tmp_path):
    mathjax.copy(tmp_path / "new/mathjax.js")
    data = (tmp_path / "new/mathjax.js").read_bytes()
    assert hashlib.sha256(data).hexdigest() == mathjax.SHA256


def test_another_mathjax_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(mathjax, "SHA256", "0" * 64)
    with pytest.raises(ValueError, match="install requirements"):
        mathjax.copy(tmp_path / "mathjax.js")
    assert list(tmp_path.iterdir()) == []
    assert mathjax.main() == 2
    assert capsys.readouterr().err.startswith("mathjax: ")


@pytest.fixture
def site(tmp_path):
    """A built site of two files."""
    (tmp_path / "book").mkdir()
    (tmp_path / "book/index.html").write_text("<p>words</p>")
    (tmp_path / "style.css").write_text("p {}")
    return tmp_path


def test_the_zip_holds_every_file_but_itself(site):
    site_build.take_along(site, 86_400 * 365 * 20)
    with zipfile.ZipFile(site / site_build.ZIP) as archive:
        assert archive.namelist() == [
            "vitedu-site/book/index.html",
            "vitedu-site/style.css",
        ]
        assert archive.read("vitedu-site/style.css") == b"p {}"
        assert archive.infolist()[0].date_time[0] == 1989


def test_equal_sites_give_equal_zips(site):
    zips = []
    for _ in range(2):
        site_build.take_along(site, 10**9)
        zips.append((site / site_build.ZIP).read_bytes())
        os.utime(site / "style.css", (0, time.time()))
    assert zips[0] == zips[1]


def test_the_front_door_is_a_whole_page(site):
    site_build.open_door(site, "book/index.html", "A title")
    page = (site / "index.html").read_text()
    assert '<html lang="en">' in page
    assert 'url=book/index.html"' in page
    assert '<a href="book/index.html">A title</a>' in page


def test_the_date_is_the_last_commit_unless_it_is_given(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12345")
    assert site_build.source_date() == 12345
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert 1.7e9 < site_build.source_date() <= time.time() + 1


# ------------------------------------------------------------ the repository's address


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{HUB}{OLD}", f"{HUB}{NEW}"),
        (f"see {HUB}{OLD}.", f"see {HUB}{NEW}."),
        (f"{HUB}{OLD}/issues", f"{HUB}{NEW}/issues"),
        (f"{HUB}{OLD}.git", f"{HUB}{NEW}"),
        (f"vitedu @ git+{HUB}{OLD}@main", f"vitedu @ git+{HUB}{NEW}@main"),
        (f"vitedu @ git+{HUB}x/y@main", f"vitedu @ git+{HUB}{NEW}@main"),
        (f"git@github.com:{OLD}.git", f"git@github.com:{NEW}"),
        (f"google.com/github/{OLD}/blob", f"google.com/github/{NEW}/blob"),
        (f"{HUB}joe/vitedu", f"{HUB}{NEW}"),
        (f"OWNER{IO}/vitedu/", f"jane{IO}/pictures.of-words/"),
        (f"joe{IO}/vitedu", f"jane{IO}/pictures.of-words"),
        *(
            (text, text)
            for text in (
                f"{HUB}joe/vitedu-fork",
                f"{HUB}google-research/vision_transformer",
                f"{HUB}<you>/<name>",
                "OWNER of a vitedu",
                f"joe{IO}/other",
            )
        ),
    ],
)
def test_what_leads_to_the_repository_is_rewritten(before, after):
    assert set_repository.rewritten(before, OLD, NEW) == after


@pytest.mark.parametrize(
    "url",
    ["", "vitedu", "https://example.org/a/b", f"{HUB}a", f"{HUB}a/b/c", "a b"],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValueError, match="address is"):
        set_repository.parse(url)


def test_an_address_may_end_as_people_copy_it():
    for end in ("", "/", ".git", "\n"):
        assert set_repository.parse(f"{HUB}{NEW}{end}") == NEW


@pytest.fixture
def checkout(tmp_path):
    """A git checkout with a configuration, a notebook, a picture and a text."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "_config.yml").write_text(
        f"title: x\n\nrepository:\n  url: {HUB}{OLD}\n  branch: main\n"
    )
    cells = [
        f"[Open in Colab](https://colab.research.google.com/github/{OLD}/blob/"
        f"main/book/a.ipynb) · [here](https://OWNER{IO}/vitedu/book/a.html)",
        f'    source = "vitedu @ git+{HUB}{OLD}@main"\n',
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"source": cells}))
    (tmp_path / "a.png").write_bytes(PIXEL + f"{HUB}{OLD}".encode())
    (tmp_path / "README.md").write_bytes(f"{HUB}{OLD}\r\n".encode())
    (tmp_path / "CITATION.cff").write_text(
        f"repository-code: {HUB}{OLD}\nurl: https://OWNER{IO}/vitedu\n"
    )
    (tmp_path / "badges.md").write_text(
        f"[![tests]({HUB}{OLD}/actions/workflows/tests.yml/badge.svg)]"
        f"({HUB}{OLD}/actions)"
    )
    (tmp_path / ".gitignore").write_text("_build\n")
    (tmp_path / "_build").mkdir()
    (tmp_path / "_build/page.html").write_text(f"{HUB}{OLD}")
    return tmp_path


def held(root):
    paths = (path for path in root.rglob("*") if ".git" not in path.parts)
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def test_setting_an_address_changes_texts_alone(checkout):
    before = held(checkout)
    changed = set_repository.set_address(f"{HUB}{NEW}", checkout)
    names = {path.name for path in changed}
    texts = {"a.ipynb", "README.md", "CITATION.cff", "badges.md"}
    assert names == {"_config.yml", *texts}
    after = held(checkout)
    assert {name for name in before if before[name] != after[name]} == names
    assert after["README.md"] == f"{HUB}{NEW}\r\n".encode()
    for name in texts:
        assert OLD.encode() not in after[name]
        assert f"OWNER{IO}".encode() not in after[name]
    assert f"/github/{NEW}/blob/".encode() in after["a.ipynb"]
    assert set_repository.configured(checkout) == NEW
    assert set_repository.astray(checkout) == []


def test_setting_it_back_gives_the_same_bytes(checkout):
    before = held(checkout)
    set_repository.set_address(f"{HUB}{NEW}", checkout)
    set_repository.set_address(f"{HUB}{OLD}", checkout)
    assert held(checkout) == before


def test_publishing_without_an_address_is_refused(checkout, capsys):
    assert set_repository.main(["--check"], checkout) == 2
    said = capsys.readouterr().err
    assert said.startswith("set-repository: nobody has set the repository's")
    assert said.count("\n") == 1 and "make set-repository URL=" in said


def test_publishing_from_another_repository_is_refused(checkout, capsys):
    assert set_repository.main([f"{HUB}{NEW}"], checkout) == 0
    assert set_repository.main(["--check", f"{HUB}{NEW}"], checkout) == 0
    assert (
        set_repository.main(
            ["--check", f"{HUB}{NEW}".upper().replace(HUB.upper(), HUB)],
            checkout,
        )
        == 0
    )
    assert set_repository.main(["--check", f"{HUB}joe/fork"], checkout) == 2
    assert f"{HUB}joe/fork publishes, but" in capsys.readouterr().err


def test_publishing_with_a_link_left_behind_is_refused(checkout, capsys):
    set_repository.set_address(f"{HUB}{NEW}", checkout)
    (checkout / "late.md").write_text(f"{HUB}{OLD}")
    assert set_repository.main(["--check"], checkout) == 2
    assert "1 files lead to another" in capsys.readouterr().err


def test_no_address_is_one_sentence(checkout, capsys):
    assert set_repository.main([], checkout) == 2
    assert capsys.readouterr().err.startswith("set-repository: which address?")


@pytest.fixture(scope="module")
def repository():
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    return ROOT


def test_every_link_of_this_repository_follows_the_configuration(repository):
    assert set_repository.astray(repository) == [], (
        "one place decides, _config.yml: make set-repository URL=<what it says>"
    )


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("book/*.ipynb")), ids=lambda path: path.name
)
def test_every_notebook_installs_from_the_configured_address(path):
    slug = set_repository.configured(ROOT)
    found = re.findall(r"vitedu @ ([^\\\"]*)", path.read_text())
    assert found == [f"git+{HUB}{slug}@main"]


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("book/text/*.py")), ids=lambda path: path.name
)
def test_a_text_names_no_address_of_the_repository(path):
    """The tool puts it into the notebook."""
    slug = set_repository.configured(ROOT)
    assert "vitedu @" not in path.read_text()
    assert slug not in path.read_text()


# ------------------------------------------------------------------------- publishing


def workflow(name):
    return yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())


def test_tests_run_on_three_versions_of_python():
    job = workflow("tests")["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]


def test_publishing_asks_for_the_address_before_anything_is_built():
    jobs = workflow("publish")["jobs"]
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert "set_repository.py --check" in commands[0]
    assert jobs["publish"]["needs"] == "build"


@pytest.mark.parametrize("name", ["tests", "publish"])
def test_browser_tests_may_not_be_skipped_in_a_workflow(name):
    text = (ROOT / f".github/workflows/{name}.yml").read_text()
    assert "VITEDU_BROWSER: required" in text
