"""The built site: what its files hold, and what a browser makes of them.

Needs `_build/html` (or the site in $VITEDU_SITE) and, for most, a Chromium in
PATH or $CHROMIUM. Tests skip where one is missing; with VITEDU_BROWSER=required
they fail.
"""

import functools
import json
import os
import re
import shutil
import threading
import zipfile
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import vitedu

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[1]
SITE = Path(os.environ.get("VITEDU_SITE", ROOT / "_build/html")).resolve()
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, NAMES)), None
)
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if "_static" not in path.parts and path != SITE / "index.html"
)
CHAPTERS = [page for page in PAGES if re.match(r"book/\d\d_", page)]
PHONE, DESKTOP = {"width": 375, "height": 812}, {"width": 1280, "height": 900}
# These depend on the colours, and take most of axe's time.
COLOUR_RULES = ["color-contrast", "link-in-text-block"]
CODE_AND_EQUATIONS = [["pre"], ["mjx-container"]]


def missing(reason):
    """Skip, or fail where the caller said that nothing may be missing."""
    if os.environ.get("VITEDU_BROWSER") == "required":
        pytest.fail(f"VITEDU_BROWSER=required, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def site():
    if not (SITE / "index.html").is_file():
        missing(f"{SITE} holds no site; python tools/site_build.py makes one")
    return SITE


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


def test_the_search_alone_loads_the_index(site):
    for page in site.rglob("*.html"):
        loads = "searchindex.js" in page.read_text()
        assert loads == (page.name == "search.html"), page


def test_the_first_page_weighs_less_than_a_megabyte_without_mathjax(site):
    paths = {site / "book/index.html"}
    for attributes in elements("book/index.html").all("link", "script", "img"):
        target = attributes.get("src") or attributes.get("href")
        path = (site / "book" / urlsplit(target or "").path).resolve()
        if path.suffix in (".css", ".js", ".png", ".svg", ".jpg"):
            paths.add(path)
    weights = {path.name: path.stat().st_size for path in paths}
    weights.pop("tex-svg-full.js", None)
    assert sum(weights.values()) < 1_000_000, weights


def test_search_knows_every_term_of_the_glossary_in_all_three_languages(site):
    text = (site / "searchindex.js").read_text()
    entries = json.loads(text[text.index("{") : text.rindex("}") + 1])[
        "indexentries"
    ]
    page = (site / "book/glossary.html").read_text()
    terms = re.findall(
        r'<dt[^>]*id="term-[^>]*>(.*?)<a class="headerlink"', page
    )
    plain = [re.sub("<[^>]*>", "", term).lower() for term in terms]
    assert len(plain) >= 3
    assert [term for term in plain if term not in entries] == []


# --------------------------------------------------- what a browser makes of it


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="session")
def server(site):
    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/"
        http.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def browser(site):
    if CHROMIUM is None or shutil.which(CHROMIUM) is None:
        missing(f"there is no Chromium in PATH or $CHROMIUM ({CHROMIUM})")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--no-sandbox",  # as root, in a container
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ],
        )
        yield chromium
        chromium.close()


class Visit:
    """A page in the browser, and what went wrong while it was open."""

    def __init__(self, browser, url, *, scheme="light", size=DESKTOP):
        self.context = browser.new_context(
            viewport=size, color_scheme=scheme, reduced_motion="reduce"
        )
        # colours change at once: axe would measure the middle of a transition
        self.context.add_init_script(
            "document.addEventListener('DOMContentLoaded', () => {"
            "document.head.appendChild(document.createElement('style'))"
            ".textContent = '* { transition: none !important }' })"
        )
        self.page = self.context.new_page()
        self.wrong = []
        self.page.on("request", self.see_request)
        self.page.on("response", self.see_response)
        self.page.on("pageerror", lambda error: self.wrong.append(f"{error}"))
        self.page.on("console", self.see_console)
        self.go(url)

    def see_request(self, request):
        own = r"http://127\.0\.0\.1:|file:|data:|blob:"
        if not re.match(own, request.url):
            self.wrong.append(f"request to {request.url}")

    def see_response(self, response):
        if response.status >= 400:
            self.wrong.append(f"{response.status} for {response.url}")

    def see_console(self, message):
        if message.type == "error":
            self.wrong.append(f"console: {message.text}")

    def go(self, url):
        self.page.goto(url, wait_until="load")
        if self.page.locator("script[src*=mathjax]").count():
            self.page.wait_for_function("window.MathJax?.startup?.promise")
            self.page.evaluate("MathJax.startup.promise.then(() => true)")
        # what is folded is looked at too
        self.page.evaluate(
            "document.querySelectorAll('details').forEach(d => d.open = true);"
            "document.querySelectorAll('.toggle-hidden').forEach("
            "e => e.classList.remove('toggle-hidden'))"
        )
        self.settle()

    def settle(self):
        """Wait two frames: the page's own answer to a change of size."""
        self.page.evaluate(
            "new Promise(done => requestAnimationFrame("
            "() => requestAnimationFrame(done)))"
        )

    def look(self, scheme, size):
        """Change colours or width, as a reader may at any time."""
        self.page.emulate_media(color_scheme=scheme)
        self.page.set_viewport_size(size)
        theme = "document.documentElement.dataset.theme"
        self.page.wait_for_function(f"{theme} === '{scheme}'")
        self.settle()

    def equations(self):
        """How many stand on the page, are typeset, and are wrong."""
        count = self.page.evaluate(
            "['span.math, div.math', 'mjx-container', '[data-mml-node=merror]']"
            ".map(x => document.querySelectorAll(x).length)"
        )
        return tuple(count)

    def overhang(self):
        """How many pixels the page is wider than the window."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth - window.innerWidth"
        )

    def findings(self, rules, exclude=()):
        """What axe finds serious or critical, by COLOURS or by ALL_ELSE."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(axe())
        options = {"resultTypes": ["violations"], **rules}
        found = self.page.evaluate(
            "([where, options]) => axe.run(where, options)",
            [{"include": [["html"]], "exclude": list(exclude)}, options],
        )
        return [
            (rule["id"], [node["target"] for node in rule["nodes"]][:5])
            for rule in found["violations"]
            if rule["impact"] in ("serious", "critical")
        ]


COLOURS = {"runOnly": {"type": "rule", "values": COLOUR_RULES}}
ALL_ELSE = {"rules": {rule: {"enabled": False} for rule in COLOUR_RULES}}


@functools.cache
def axe():
    carrier = distribution("axe-playwright-python")
    (script,) = [file for file in carrier.files if file.name == "axe.min.js"]
    return Path(carrier.locate_file(script)).read_text()


@pytest.fixture
def visit(browser):
    visits = []

    def open_(url, **how):
        visits.append(Visit(browser, url, **how))
        return visits[-1]

    yield open_
    for each in visits:
        each.context.close()


# one page's tests on one worker (--dist loadgroup), which opens it once
each_page = pytest.mark.parametrize(
    "opened",
    [
        pytest.param(page, marks=pytest.mark.xdist_group(page))
        for page in PAGES or ["none"]
    ],
    indirect=True,
    scope="module",
)


@pytest.fixture(scope="module")
def opened(browser, server, request):
    """A page from the server, wide and light."""
    page = Visit(browser, server + request.param)
    yield page
    page.context.close()


@each_page
def test_a_page_asks_nobody_else_and_reports_no_error(opened):
    assert opened.wrong == []


@each_page
def test_every_equation_is_typeset(opened):
    written, typeset, wrong = opened.equations()
    assert (typeset, wrong) == (written, 0)


@each_page
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["1280", "375"])
def test_axe_finds_nothing_serious(opened, size):
    opened.look("light", size)
    assert opened.findings(ALL_ELSE) == []


@each_page
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(opened, scheme):
    opened.look(scheme, DESKTOP)
    assert opened.findings(COLOURS, CODE_AND_EQUATIONS) == []


@each_page
def test_no_page_scrolls_sideways_on_a_phone(opened):
    opened.look("light", PHONE)
    assert opened.overhang() <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_code_and_equations_stand_out_from_their_ground(visit, server, scheme):
    page = next(iter(CHAPTERS), "no chapter")
    found = visit(server + page, scheme=scheme).findings(COLOURS)
    assert found == []


@pytest.mark.parametrize("name", PAGES or ["none"])
def test_a_page_works_from_disk_on_a_dark_phone(site, visit, name):
    page = visit((site / name).as_uri(), scheme="dark", size=PHONE)
    written, typeset, wrong = page.equations()
    assert page.wrong == []
    assert (typeset, wrong) == (written, 0)
    assert page.overhang() <= 0


@pytest.mark.parametrize("where", ["server", "disk"])
@pytest.mark.parametrize("words", ["class token", "클래스 토큰", "类别词元"])
def test_search_finds_a_term_in_the_glossary(site, server, visit, where, words):
    base = server if where == "server" else f"{site.as_uri()}/"
    opened = visit(f"{base}search.html?q={words}")
    hits = opened.page.locator("#search-results li a")
    opened.page.wait_for_selector("#search-results li a", timeout=10_000)
    glossary = hits.and_(opened.page.locator("[href*='glossary.html']"))
    assert glossary.count() > 0
    if (
        where == "server"
    ):  # a page from disk may not read another for an excerpt
        assert opened.wrong == []
    glossary.first.click()
    opened.page.wait_for_url("**/book/glossary.html*")
    assert words in opened.page.locator("article").inner_text()


@pytest.mark.parametrize("where", ["server", "disk"])
def test_the_front_door_leads_to_the_first_page(site, server, visit, where):
    base = server if where == "server" else f"{site.as_uri()}/"
    opened = visit(f"{base}book/about.html")
    opened.page.goto(f"{base}index.html")
    opened.page.wait_for_url("**/book/index.html")
    assert opened.page.locator("article h1").count() == 1
    assert opened.wrong == []


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        ("class token", "class token: "),  # the term and what it means
        ("类别词元", "类别词元: "),
        ("patches", "patches"),
    ],
)
def test_search_quotes_the_passage_and_no_buttons(server, visit, words, quoted):
    opened = visit(f"{server}search.html?q={words}")
    opened.page.wait_for_selector("#search-results p.context", timeout=10_000)
    opened.page.wait_for_load_state("networkidle")
    passages = opened.page.locator(
        "#search-results p.context"
    ).all_inner_texts()
    assert any(quoted in passage.lower() for passage in passages)
    junk = ("Show code cell", "Contents", "Open issue", "Repository", "#")
    assert [
        passage
        for passage in passages
        if len(passage) > 260
        or not passage.strip()
        or passage.strip().startswith(junk)
    ] == []
    assert opened.wrong == []


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
    assert opened.findings(ALL_ELSE) == []
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


def test_a_figure_for_the_margin_stands_there_or_in_the_text(server, visit):
    for page in CHAPTERS:
        if "tag_margin" not in (SITE / page).read_text():
            continue
        opened = visit(server + page)
        cell = opened.page.locator(".cell.tag_margin").first
        text = opened.page.locator("article p").first
        beside, words = cell.bounding_box(), text.bounding_box()
        assert beside["x"] > words["x"] + words["width"]
        opened.look("light", PHONE)
        beside = cell.bounding_box()
        assert beside["x"] + beside["width"] <= PHONE["width"]
        assert beside["width"] > 300
