"""A page in the browser: where the site is, and how a test visits it.

The site is `_build/html` or $VITEDU_SITE, the browser a Chromium in PATH or
$CHROMIUM.
"""

import functools
import os
import re
import shutil
from http.server import SimpleHTTPRequestHandler
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("VITEDU_SITE", ROOT / "_build/html")).resolve()
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, NAMES)), None
)
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if "_static" not in path.parts
    and 'http-equiv="refresh"' not in path.read_text()  # only forwards
)
CHAPTERS = [page for page in PAGES if re.match(r"book/\d\d_", page)]
PHONE, DESKTOP = {"width": 375, "height": 812}, {"width": 1280, "height": 900}
# of axe's rules the slowest, and never serious
RULES = {"region": {"enabled": False}}
# those whose answer depends on colours and width
OF_A_LOOK = ["color-contrast", "link-in-text-block", "target-size"]
OF_A_LOOK += ["scrollable-region-focusable"]


def missing(reason):
    """Skip, or fail where the caller said that nothing may be missing."""
    if os.environ.get("VITEDU_BROWSER") == "required":
        pytest.fail(f"VITEDU_BROWSER=required, but {reason}")
    pytest.skip(reason)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@functools.cache
def axe():
    carrier = distribution("axe-playwright-python")
    (script,) = [file for file in carrier.files if file.name == "axe.min.js"]
    return Path(carrier.locate_file(script)).read_text()


# What has just been unfolded fades in, and is pale until then.
AT_REST = """() => {
  for (const each of document.getAnimations())
    if (each.effect.getComputedTiming().endTime < Infinity) each.finish();
}"""


# Which elements axe judges by their contrast: two of each look, as the others
# have the same colours. It takes most of its time for these.
TWO_OF_EACH_LOOK = """() => {
  axe.configure({
    rules: [{ id: "color-contrast", selector: "[data-look], input, select" }],
  });
  for (const each of document.querySelectorAll("[data-look]"))
    delete each.dataset.look;
  const looks = new Map(), grounds = new Map();
  const ground = (element) => {
    if (!element) return "";
    if (!grounds.has(element)) {
      const style = getComputedStyle(element);
      const { backgroundColor, backgroundImage, opacity } = style;
      const own = [backgroundColor, backgroundImage, opacity].join();
      const hides = backgroundColor.startsWith("rgb(") && opacity === "1";
      grounds.set(
        element, own + (hides ? "" : ground(element.parentElement)));
    }
    return grounds.get(element);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const seen = { opacityProperty: true, visibilityProperty: true };
    if (!texts.currentNode.data.trim() || !element.checkVisibility(seen))
      continue;
    const { color, fontSize, fontWeight, textShadow } =
      getComputedStyle(element);
    const look = [
      color, fontSize, fontWeight, textShadow, ground(element)].join();
    const number = looks.get(look) ?? 0;
    looks.set(look, number + 1);
    if (number < 2) element.dataset.look = number;
  }
}"""
# While axe looks, code is without the spans that no rule then asks for: a
# look's third and later, which were most elements of a page; and so are tables
# without the paragraph in each of the ledger's thousands of cells.
WITHOUT_PLAIN_SPANS = """async (options) => {
  const plain = ":is(span[class], td > p):not(:has([data-look], [id], a))";
  const dense = document.querySelectorAll("pre, dt.sig, table");
  const pairs = [...dense].map((each) => {
    const fewer = each.cloneNode(true);
    for (const one of fewer.querySelectorAll(plain))
      if (one.attributes.length === (one.tagName === "SPAN" ? 1 : 0))
        one.replaceWith(...one.childNodes);
    fewer.normalize();
    each.replaceWith(fewer);
    return [each, fewer];
  });
  const found = await axe.run(document, options);
  for (const [each, fewer] of pairs) fewer.replaceWith(each);
  return found;
}"""


class Visit:
    """A page in the browser, and what went wrong since it was opened."""

    def __init__(self, context):
        self.page = context.new_page()
        self.asked, self.wrong = [], []
        self.page.on("request", self.see_request)
        self.page.on("response", self.see_response)
        self.page.on("pageerror", lambda error: self.wrong.append(f"{error}"))
        self.page.on("console", self.see_console)

    def see_request(self, request):
        self.asked.append(request.url)
        own = r"http://127\.0\.0\.1:|file:|data:|blob:"
        if not re.match(own, request.url):
            self.wrong.append(f"request to {request.url}")

    def see_response(self, response):
        if response.status >= 400:
            self.wrong.append(f"{response.status} for {response.url}")

    def see_console(self, message):
        if message.type == "error":
            self.wrong.append(f"console: {message.text}")

    def leave(self):
        """Away from the page, which a next reader finds as new."""
        self.page.unroute_all()
        if self.page.url != "about:blank":
            self.page.evaluate("localStorage.clear()")
            self.page.goto("about:blank")

    def go(self, url, *, scheme="light", size=DESKTOP):
        self.asked.clear()
        self.wrong.clear()
        self.page.emulate_media(color_scheme=scheme, media="screen")
        self.page.set_viewport_size(size)
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
        theme = f"document.documentElement.dataset.theme ?? '{scheme}'"
        self.page.wait_for_function(f"({theme}) === '{scheme}'")
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

    def begins_with_a_picture(self):
        """Whether one begins well above the window's end, before any fold."""
        picture, fold = self.page.evaluate(
            """["img", "details"].map((name) => document.querySelector(
              `article ${name}`).getBoundingClientRect().top + scrollY)"""
        )
        return picture < min(fold, self.page.viewport_size["height"] - 172)

    def findings(self, only=None):
        """What axe finds serious or critical, colours too; by some rules."""
        self.page.evaluate(AT_REST)
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(axe())
        self.page.evaluate(TWO_OF_EACH_LOOK)
        asked = {"resultTypes": ["violations"], "preload": False}
        found = self.page.evaluate(
            WITHOUT_PLAIN_SPANS,
            asked | ({"runOnly": only} if only else {"rules": RULES}),
        )
        return [
            (rule["id"], [node["target"] for node in rule["nodes"]][:5])
            for rule in found["violations"]
            if rule["impact"] in ("serious", "critical")
        ]

    def is_easy_to_read(self):
        """By day at a desk and by night on a phone."""
        looks = ("light", DESKTOP, None), ("dark", PHONE, OF_A_LOOK)
        for scheme, size, rules in looks:
            self.look(scheme, size)
            found = self.findings(rules)
            assert found == [], found
            assert self.overhang() <= 0

    @staticmethod
    def answer(box, guess):
        """Give an answer to a question that waits."""
        if box.locator("input").count():
            box.locator("input").fill(str(guess))
            box.get_by_role("button", name="Check").click()
        else:
            box.get_by_role("button").nth(guess - 1).click()
