"""Build the book's site from clean, and a zip of it to take along.

    python tools/site_build.py

Warnings are errors. Equal sources give equal bytes: the date on the pages is
that of the last commit, or SOURCE_DATE_EPOCH.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import icons
import mathjax
import styles
import try_files

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "_build"
SITE = BUILD / "html"
TITLE = "An Image is Worth 16x16 Words, step by step"
ZIP = "book/vitedu-site.zip"  # where book/index.md links to, below the site
# Sphinx's own search, which finds pages and can't quote them from disk
SEARCH_SCRIPT = re.compile(
    r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js">'
    r"</script>"
)
OUR_SEARCH = "".join(
    f'<script src="_static/{name}.js"></script>\n'
    for name in ("passages", "search")
)
# addresses that forward to a page: the site's own, and those of moved chapters
FORWARDED = {
    "index.html": "book/index.html",
    "book/12_few_shot.html": "book/13_few_shot.html",
    "book/13_resnets.html": "book/14_resnets.html",
}
# the script takes a place on the page along; without it the second line does
FORWARD = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={page}">
<title>{title}</title>
<link rel="icon" href="{icon}">
<script>location.replace("{page}" + location.hash)</script>
<p><a href="{page}">{title}</a></p>
</html>
"""


def source_date() -> int:
    """Seconds since 1970: SOURCE_DATE_EPOCH, else the last commit, else now."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return int(done.stdout) if done.returncode == 0 else int(time.time())


def forward(site: Path, address: str, target: str) -> None:
    """Let a small page at `address` lead to `target`, from disk too."""
    folder = os.path.dirname(address)
    page = os.path.relpath(target, folder)
    icon = os.path.relpath("_static/favicon.svg", folder)
    text = FORWARD.format(page=page, title=TITLE, icon=icon)
    (site / address).write_text(text)


def search_while_typing(site: Path) -> None:
    """Put the book's own search in the place of Sphinx's.

    The theme loads Sphinx's index on every page; only the search needs ours.
    """
    for path in site.rglob("*.html"):
        text = SEARCH_SCRIPT.sub("", path.read_text())
        if path.name == "search.html":
            text = text.replace("</head>", f"{OUR_SEARCH}</head>", 1)
        path.write_text(text)
    (site / "searchindex.js").unlink()


def take_along(site: Path, seconds: int) -> None:
    """Zip all of `site`, every file dated `seconds`, into its own `ZIP`."""
    target = site / ZIP
    target.unlink(missing_ok=True)
    paths = sorted(path for path in site.rglob("*") if path.is_file())
    date = time.gmtime(seconds)[:6]
    with zipfile.ZipFile(target, "w") as archive:
        for path in paths:
            name = f"vitedu-site/{path.relative_to(site).as_posix()}"
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = 0o644 << 16
            content = path.read_bytes()
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)


def build() -> Path:
    """Build the site into `_build/html`; the path of its index.html.

    SystemExit: it warned or failed; its output is above.
    """
    mathjax.copy()
    shutil.rmtree(BUILD, ignore_errors=True)
    seconds = source_date()
    program = Path(sys.executable).with_name("jupyter-book")
    options = ["-n", "-W", "--keep-going", "--quiet"]
    fixed = {"SOURCE_DATE_EPOCH": str(seconds), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [program, "build", ROOT, *options], env=os.environ | fixed
    )
    if done.returncode:
        sys.exit("site: the build warned or failed, see above")
    icons.lighten(SITE)
    search_while_typing(SITE)
    try_files.write(SITE / "_static/try")
    for address, target in FORWARDED.items():
        forward(SITE, address, target)
    styles.lighten(SITE)
    take_along(SITE, seconds)
    return SITE / "index.html"


if __name__ == "__main__":
    print(build())
