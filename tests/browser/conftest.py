"""The built site, served and opened in a browser."""

import functools
import shutil
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from visits import CHROMIUM, SITE, Quiet, Visit, missing


@pytest.fixture(scope="session")
def site():
    if not (SITE / "index.html").is_file():
        missing(f"{SITE} holds no site; python tools/site_build.py makes one")
    return SITE


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
def browser():
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


@pytest.fixture(scope="session")
def context(browser):
    """One for all pages of a worker, which share what was loaded."""
    context = browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(120_000)  # a busy machine takes its time
    # colours change at once: axe would measure the middle of a transition
    context.add_init_script(
        "document.addEventListener('DOMContentLoaded', () => {"
        "document.head.appendChild(document.createElement('style'))"
        ".textContent = '* { transition: none !important }' })"
    )
    return context


def visiting(context):
    """A function that opens an address as if for the first time."""
    used = []

    def open_(url, **how):
        used.append(Visit(context))
        used[-1].go(url, **how)
        return used[-1]

    yield open_
    for each in used:
        each.leave()
        each.page.close()  # with all that its networks have filled


# a page is a test's, or serves all tests of a module
visit = pytest.fixture(visiting, name="visit")
long_visit = pytest.fixture(visiting, scope="module", name="long_visit")
