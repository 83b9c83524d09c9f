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
# These depend on the colours, and take most of axe's time.
COLOUR_RULES = ["color-contrast", "link-in-text-block"]
CODE_AND_EQUATIONS = [["pre"], ["mjx-container"]]


def missing(reason):
    """Skip, or fail where the caller said that nothing may be missing."""
    if os.environ.get("VITEDU_BROWSER") == "required":
        pytest.fail(f"VITEDU_BROWSER=required, but {reason}")
    pytest.skip(reason)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


COLOURS = {"runOnly": {"type": "rule", "values": COLOUR_RULES}}
ALL_ELSE = {"rules": {rule: {"enabled": False} for rule in COLOUR_RULES}}


@functools.cache
def axe():
    carrier = distribution("axe-playwright-python")
    (script,) = [file for file in carrier.files if file.name == "axe.min.js"]
    return Path(carrier.locate_file(script)).read_text()


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
