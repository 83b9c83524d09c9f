"""The built site: what its files hold, and what a browser makes of them.

Needs `_build/html` (or the site in $VITEDU_SITE) and, for most, a Chromium in
PATH or $CHROMIUM. Tests skip where one is missing; with VITEDU_BROWSER=required
they fail.
"""

import functools
import json
import os
import re
import sys
import zipfile
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from visits import CHAPTERS, DESKTOP, OF_A_LOOK, PAGES, PHONE, ROOT, SITE

import vitedu

sys.path.insert(0, str(ROOT / "tools"))
from predictions import predictions

pytestmark = pytest.mark.browser

# ---------------------------------------------------------- what the files hold


class Elements(HTMLParser):
    """The elements of a page: their names and attributes, in order."""

    def __init__(self, path):
        super().__init__()
        self.found = []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def all(self, *tags):
        return [attributes for tag, attributes in self.found if tag in tags]


@functools.cache
def elements(name):
    return Elements(SITE / name)


@functools.cache
def ids(path):
    found = Elements(path).found
    return {attributes["id"] for _, attributes in found if "id" in attributes}


def test_every_page_bears_version_and_date(site):
    foot = re.compile(
        rf"vitedu {re.escape(vitedu.__version__)} · \d\d\d\d-\d\d-\d\d · "
    )
    without = [
        name for name in PAGES if not foot.search((site / name).read_text())
    ]
    assert without == []


def test_every_link_within_the_site_leads_somewhere(site):
    broken = []
    for name in PAGES:
        for attributes in elements(name).all("a", "link", "img", "script"):
            target = attributes.get("href") or attributes.get("src")
            if not target or re.match(r"[a-z]+:|//", target):
                continue
            parts = urlsplit(target)
            path = (site / name).parent / unquote(parts.path)
            path = path.resolve() if parts.path else site / name
            if not path.is_file():
                broken.append((name, target))
            elif parts.fragment and path.suffix == ".html":
                if unquote(parts.fragment) not in ids(path):
                    broken.append((name, target))
    assert broken == []


def test_nothing_in_the_markup_is_loaded_from_elsewhere(site):
    foreign = []
    for name in PAGES:
        for tag, attributes in elements(name).found:
            loads = tag != "a" and attributes.get("rel") != "canonical"
            for target in (attributes.get("src"), attributes.get("href")):
                if loads and target and re.match(r"(https?:)?//", target):
                    foreign.append((name, tag, target))
    for style in site.rglob("*.css"):
        for target in re.findall(
            r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)",
            style.read_text(),
        ):
            foreign.append((style.name, target))
    assert foreign == []


def test_every_picture_has_words(site):
    wordless = []
    for name in PAGES:
        for attributes in elements(name).all("img"):
            alt = attributes.get("alt") or ""
            if not alt.strip() or re.search(
                r"^\S*\.(png|jpe?g|svg|gif)$", alt.lower()
            ):
                wordless.append((name, attributes))
    assert wordless == []


def test_a_chapter_shows_before_it_folds(site):
    for page in CHAPTERS:
        article = (site / page).read_text().partition("<article")[2]
        text, _, rest = article.rpartition("What this page ran on")
        machine = re.compile(r"seed 0, .*torch \d")
        assert machine.search(rest) and not machine.search(text), page
        assert not re.search(r'</details>\s*<div class="cell_output', text)
        solutions = text.partition('id="solutions"')[2]
        assert "Show code cell content" not in solutions, page


@pytest.mark.parametrize(
    "path", sorted((ROOT / "book").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_alt_text_of_outputs_is_carried_to_the_page(site, path):
    written = [
        output["metadata"].get("image/png", {}).get("alt")
        for cell in json.loads(path.read_text())["cells"]
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
        and "remove-cell" not in cell["metadata"].get("tags", [])
    ]
    page = elements(f"book/{path.stem}.html").all("img")
    shown = [image["alt"] for image in page if "_images" in image["src"]]
    assert sorted(set(written) - set(shown)) == []


def test_every_chapter_opens_on_colab(site):
    config = (ROOT / "_config.yml").read_text()
    slug = re.search(r"url: https://github\.com/(\S+)", config)[1]
    for page in CHAPTERS:
        notebook = Path(page).with_suffix(".ipynb")
        colab = (
            "https://colab.research.google.com/github/"
            f"{slug}/blob/main/{notebook}"
        )
        assert colab in [link.get("href") for link in elements(page).all("a")]


def test_the_zip_holds_the_whole_site_and_the_index_links_to_it(site):
    (path,) = site.rglob("vitedu-site.zip")
    with zipfile.ZipFile(path) as archive:
        inside = {
            name.removeprefix("vitedu-site/") for name in archive.namelist()
        }
    files = {
        file.relative_to(site).as_posix()
        for file in site.rglob("*")
        if file.is_file()
    }
    assert inside == files - {path.relative_to(site).as_posix()}
    links = [link.get("href") for link in elements("book/index.html").all("a")]
    assert os.path.relpath(path, site / "book") in links


def test_the_search_alone_loads_the_passages(site):
    for page in site.rglob("*.html"):
        loads = re.search(r"passages\.js|searchindex\.js", page.read_text())
        assert bool(loads) == (page.name == "search.html"), page


def test_search_knows_every_page_and_its_places(site):
    text = (site / "_static/passages.js").read_text()
    pages = json.loads(text[text.index("[") : text.rindex("]") + 1])
    known = {page: sections for page, _, sections in pages}
    assert known.keys() == {x for x in PAGES if x.startswith("book/")}
    for page, sections in known.items():
        places = {place for place, _, _ in sections}
        assert places <= ids(site / page), page
    page = (site / "book/glossary.html").read_text()
    terms = re.findall(
        r'<dt[^>]*id="term-[^>]*>(.*?)<a class="headerlink"', page
    )
    plain = {unescape(re.sub("<[^>]*>", "", term)) for term in terms}
    assert len(plain) >= 3
    names = [x.split(" · ") for _, x, _ in known["book/glossary.html"]]
    assert plain <= {each for some in names for each in some}


# --------------------------------------------------- what a browser makes of it


@pytest.fixture(scope="module")
def tour(long_visit):
    """One window, which goes from page to page."""
    return long_visit("about:blank")


@pytest.fixture(params=["server", "disk"])
def base(request, site, server):
    """Where the pages are, over http and on disk."""
    return server if request.param == "server" else f"{site.as_uri()}/"


# Every page by day at a desk and, from disk, by night on a phone; two by night
# at the desk for what stands beside a page, which is much the same on all.
AT = {"server": ("light", DESKTOP), "disk": ("dark", PHONE)}
BY_NIGHT = [*CHAPTERS[:1], "book/api.html"]
TOUR = [(page, where, *AT[where]) for where in AT for page in PAGES]
TOUR += [(page, "server", "dark", DESKTOP) for page in BY_NIGHT]
# the same places, first in both lists, so that a page is opened once for both
ASK = [(f"book/{x}.html", *TOUR[0][1:]) for x in sorted(predictions())]


@pytest.fixture(scope="module")
def shown(request, tour, site, server):
    """A page, its look, and whether it is the first look at it."""
    name, where, scheme, size = request.param
    base = server if where == "server" else f"{site.as_uri()}/"
    tour.go(base + name, scheme=scheme, size=size)
    yield name, request.param in TOUR[: len(PAGES)]
    tour.page.evaluate("localStorage.clear()")


@pytest.mark.parametrize("shown", TOUR, ids=str, indirect=True)
def test_a_page_is_whole(tour, shown):
    name, is_first = shown
    written, typeset, misspelt = tour.equations()
    assert tour.wrong == []
    assert (typeset, misspelt) == (written, 0)
    assert tour.overhang() <= 0
    assert name not in CHAPTERS or tour.begins_with_a_picture()
    # what doesn't depend on the look is the same as in the first
    assert tour.findings(None if is_first else OF_A_LOOK) == []


@pytest.mark.parametrize("shown", ASK, ids=str, indirect=True)
def test_every_question_waits_and_answers(tour, shown):
    boxes = tour.page.locator(".predict-box")
    asked = predictions()[Path(shown[0]).stem]
    assert boxes.count() == len(asked)
    for place, question in enumerate(asked):
        box = boxes.nth(place)
        word = box.get_by_role("status")
        after = box.locator("xpath=following-sibling::*[1]")
        waits = question.get("paragraphs", 1) > 0
        for wrong, words in question["says"]:
            assert after.is_visible() is not waits
            tour.answer(box, wrong)
            assert word.inner_text() == f"Not this time. {words}"
            assert after.is_visible()
            box.get_by_role("button", name="Ask me again").click()
        assert word.inner_text() == ""
        tour.answer(box, question.get("right", question.get("number")))
        assert word.inner_text().startswith("Right.")
    assert tour.wrong == []


@pytest.mark.parametrize(
    ("words", "term"),
    [
        ("class token", "class token"),
        ("클래스 토큰", "class token"),
        ("类别词元", "class token"),
        ("Positional encoding", "positional encoding"),
    ],
)
def test_search_finds_a_term_first_while_it_is_typed(base, visit, words, term):
    opened = visit(f"{base}search.html")
    field = opened.page.locator(".bd-search-container [name=q]")
    hits = opened.page.locator("#search-results li")
    status = opened.page.locator("#search-results [role=status]")
    field.press_sequentially(words[:3])
    assert "Found in" in status.inner_text() and hits.count() > 0
    field.press_sequentially(words[3:])
    best = hits.first
    assert f"Glossary > {term} · " in best.inner_text()
    field.press("Enter")  # there's nothing left to do
    assert f"Glossary > {term} · " in best.inner_text()
    field.press_sequentially(" qqq")
    assert "Nothing found" in status.inner_text() and hits.count() == 0
    assert opened.wrong == []
    again = visit(f"{base}search.html?q={words}")
    again.page.locator("#search-results a").first.click()
    again.page.wait_for_url("**/book/glossary.html*")
    assert again.page.locator(":target").is_visible()
    assert again.wrong == []


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("index.html", "book/index.html"),
        ("book/12_few_shot.html#Exercises", "book/13_few_shot.html#Exercises"),
        ("book/13_resnets.html", "book/14_resnets.html"),
    ],
)
def test_an_address_that_forwards_leads_to_its_page(base, visit, address, page):
    opened = visit(f"{base}book/about.html")
    opened.page.goto(f"{base}{address}")
    opened.page.wait_for_url(f"**/{page}")
    assert opened.page.locator("article h1").count() == 1
    assert opened.wrong == []


@pytest.mark.parametrize(
    ("words", "first", "quoted"),
    [
        ("patches", "Glossary > patch · ", "patch"),  # a shorter form too
        ("rollout", "Glossary > attention rollout · ", "attention maps"),
        ("attention_map", "vitedu.interpret.rollout.attention_map", "patch"),
        ("recipe", "6. The recipe", "recipe"),
    ],
)
def test_search_quotes_the_passage_it_found(base, visit, words, first, quoted):
    opened = visit(f"{base}search.html?q={words}")
    passages = opened.page.locator("#search-results p.context")
    assert first in opened.page.locator("#search-results a").first.inner_text()
    texts = passages.all_inner_texts()
    assert quoted in texts[0].lower()
    assert max(map(len, texts)) < 260
    opened.is_easy_to_read()
    assert opened.wrong == []


@pytest.mark.parametrize(
    ("page", "words", "entry"),
    [("ledger", "corners", "#inside-photographs"), ("api", "rollout", "dl.py")],
)
def test_a_long_page_is_folded_and_can_be_filtered(
    server, visit, page, words, entry
):
    opened = visit(f"{server}book/{page}.html")
    status = opened.page.locator(".list-filter [role=status]")
    opened.page.get_by_label("Show only").fill(words)
    count, _, total = status.inner_text().partition(" of ")
    assert 0 < int(count) < int(total) / 3
    shown = opened.page.locator(f"article {entry}").filter(visible=True)
    assert words in shown.first.inner_text().lower()
    opened.page.get_by_label("Show only").fill("nothing has these words")
    assert status.inner_text() == f"0 of {total}"
    assert opened.overhang() <= 0 and opened.wrong == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["1280", "375"])
def test_a_term_shows_its_definition_until_escape(server, visit, size):
    chapter = next(iter(CHAPTERS), "no chapter")
    opened = visit(server + chapter, size=size)
    links = opened.page.locator(".glossary-tip > a")
    tips = opened.page.locator(".glossary-tip > [role=tooltip]")
    assert links.count() > 3
    assert not tips.first.is_visible()
    links.first.focus()
    opened.settle()
    assert tips.first.is_visible()
    box = tips.first.bounding_box()
    assert 0 <= box["x"] and box["x"] + box["width"] <= size["width"]
    assert opened.overhang() <= 0
    assert opened.findings() == []
    opened.page.keyboard.press("Escape")
    assert not tips.first.is_visible()
    links.nth(1).focus()
    assert tips.nth(1).is_visible()
    links.nth(2).hover()
    assert tips.nth(2).is_visible()
    href = links.first.get_attribute("href")
    place = href.partition("#")[2]
    glossary = visit(f"{server}book/{href}")
    assert glossary.page.locator(f"[id='{place}']").count() == 1


def test_a_term_is_explained_once_on_a_page(site):
    for page in CHAPTERS:
        names = [
            link["aria-describedby"]
            for link in elements(page).all("a")
            if "aria-describedby" in link
        ]
        assert len(set(names)) == len(names) > 3, page


def test_links_to_papers_bear_their_titles(site):
    for page in CHAPTERS:
        links = [
            link
            for link in elements(page).all("a")
            if (link.get("href") or "").startswith("https://arxiv.org/")
        ]
        assert links and all(link.get("title") for link in links), page


@pytest.mark.parametrize("shown", ASK, ids=str, indirect=True)
def test_a_figure_for_the_margin_stands_there_or_in_the_text(tour, shown):
    cell = tour.page.locator(".cell.tag_margin").first
    assert cell.count() == ("tag_margin" in (SITE / shown[0]).read_text())
    if cell.count():
        text = tour.page.locator("article p").first
        beside, words = cell.bounding_box(), text.bounding_box()
        assert beside["x"] > words["x"] + words["width"]
        tour.look("light", PHONE)
        beside = cell.bounding_box()
        assert beside["x"] + beside["width"] <= PHONE["width"]
        assert beside["width"] > 300
