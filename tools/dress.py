"""What a notebook says in full and its text in short.

* The cell tagged `links` has the words COLAB and SITE for addresses in a text;
  the notebook has those of the repository that `_config.yml` names.
* The cell tagged `setup` is `import vitedu`; the notebook installs it where it
  is missing, or stops with a sentence.
* That cell and those tagged `hide-input` or `hide-cell` are folded in Jupyter
  and Colab.
"""

import json
import re

import cells
import nbformat
import set_repository
from nbformat import NotebookNode

# the words in the cell `links`, and what a text has for their addresses
LINKS = {"Open in Colab": "COLAB", "this page on the site": "SITE"}
SETUP = "import vitedu"
# `_render_traceback_`: Jupyter and Colab show the sentence, and no frames;
# Colab shows the title where the cell is folded
SETUP_IN_FULL = """\
# @title Install vitedu where it is missing
import importlib.util

if importlib.util.find_spec("vitedu") is None:
    source = "vitedu @ git+%(address)s@main"
    if "/%(nobody)s/" not in source:
        %%pip install -q "{source}"
        importlib.invalidate_caches()

if importlib.util.find_spec("vitedu") is None:

    class Stop(Exception):
        def _render_traceback_(self):
            return [str(self)]

    raise Stop(
        "vitedu is not installed: clone the repository \
that this notebook comes "
        "from, run `pip install .` there (Python 3.11 or newer), and restart."
    )

import vitedu"""
# where a code cell's folding is kept: JupyterLab (`jupyter`), Colab
# (`cellView`), and nbformat's own `collapsed`, which both know for outputs
FOLDED = {
    "setup": {"cellView": "form", "jupyter": {"source_hidden": True}},
    "hide-input": {"cellView": "form", "jupyter": {"source_hidden": True}},
    "hide-cell": {
        "cellView": "form",
        "collapsed": True,
        "jupyter": {"outputs_hidden": True, "source_hidden": True},
    },
}


def addresses(stem: str) -> dict[str, str]:
    """Where the words of `LINKS` lead for one page."""
    slug = set_repository.configured()
    owner, name = slug.split("/")
    return {
        "COLAB": "https://colab.research.google.com/github/"
        f"{slug}/blob/main/book/{stem}.ipynb",
        "SITE": f"https://{owner}.github.io/{name}/book/{stem}.html",
    }


def with_links(source: str, targets: dict[str, str]) -> str:
    """The line of links with other addresses: label to address."""
    for label, target in targets.items():
        link = re.compile(rf"\[{label}\]\([^)]*\)")
        source = link.sub(f"[{label}]({target})", source)
    return source


def dress(notebook: NotebookNode, stem: str) -> NotebookNode:
    """Say in full, in place, what a text says in short."""
    where = addresses(stem)
    targets = {label: where[word] for label, word in LINKS.items()}
    slug = set_repository.configured()
    setup = SETUP_IN_FULL % {
        "address": set_repository.HUB + slug,
        "nobody": set_repository.NOBODY,
    }
    for cell in notebook.cells:
        tags = cells.tags(cell)
        unfold(cell)
        if "links" in tags:
            cell.source = with_links(cell.source, targets)
        if cell.cell_type != "code":
            continue
        if "setup" in tags:
            cell.source = setup
        for tag, folded in FOLDED.items():
            if tag in tags:
                fresh = json.loads(json.dumps(folded))
                cell.metadata.update(nbformat.from_dict(fresh))
    return notebook


def undress(notebook: NotebookNode) -> NotebookNode:
    """Shorten, in place, what `dress` filled in."""
    for cell in notebook.cells:
        tags = cells.tags(cell)
        unfold(cell)
        if "links" in tags:
            cell.source = with_links(cell.source, LINKS)
        if "setup" in tags:
            cell.source = SETUP
    return notebook


def unfold(cell: NotebookNode) -> None:
    """Take out of a cell's metadata whether a client folds it."""
    for key in ("cellView", "collapsed"):
        cell.metadata.pop(key, None)
    jupyter = cell.metadata.get("jupyter", {})
    for key in ("outputs_hidden", "source_hidden"):
        jupyter.pop(key, None)
    if not jupyter:
        cell.metadata.pop("jupyter", None)
