"""What the site's search knows: every paragraph, under its heading.

Written to `_static/passages.js`, which only the search loads: a script, since a
page from disk may not read a file. `tools/static/search.js` looks through it
while the reader types. A glossary's entry and a function of the API count as
headings too; code and what it prints are left out.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

FILE = "_static/passages.js"
NOT_READ = (addnodes.toctree, nodes.raw, nodes.comment)
# replaced in this order
TEX = {
    r"\ln": "ln ",
    r"\times": "\u00d7",
    r"\Phi": "\u03a6",
    r"\,": " ",
    "^2": "\u00b2",
    "{": "",
    "}": "",
    "\\": "",
}


def plain(node):
    """The words of a paragraph on one line, without citations and most TeX."""
    node = node.deepcopy()
    for each in list(node.findall(addnodes.pending_xref)):
        if each.get("refdomain") == "cite":
            each.parent.remove(each)
    for each in list(node.findall(nodes.raw)):
        each.parent.remove(each)
    for each in list(node.findall(nodes.math)):
        words = each.astext()
        for before, after in TEX.items():
            words = words.replace(before, after)
        each.parent.replace(each, nodes.Text(words))
    words = re.sub(r"\s+", " ", node.astext()).strip()
    return re.sub(r" +([.,;:)])", r"\1", words)


def heading(node):
    """Place and words of what a paragraph stands under; None: ask further."""
    if isinstance(node, nodes.section):
        return node["ids"][0], node.next_node(nodes.title).astext()
    if isinstance(node, nodes.definition_list_item):
        terms = list(node.findall(nodes.term))
        if ids := terms[0]["ids"]:
            return ids[0], " · ".join(term.astext() for term in terms)
    if isinstance(node, addnodes.desc):
        signature = node.next_node(addnodes.desc_signature)
        if signature["ids"]:
            return signature["ids"][0], signature["ids"][0]
    return None


def passages(doctree):
    """All paragraphs of a page: [[place, heading, [text, ...]], ...]."""
    found = {}
    for section in doctree.findall(nodes.section):
        found[heading(section)] = []  # one may have none, and is still found
    for paragraph in doctree.findall(nodes.paragraph):
        parent, name = paragraph.parent, None
        while parent is not None and name is None:
            name = heading(parent)
            parent = parent.parent
        words = plain(paragraph)
        if name and words:
            found.setdefault(name, []).append(words)
    return [[*name, texts] for name, texts in found.items()]


def collect(app, doctree, docname):
    """Keep what a page says, as it is written."""
    title = app.env.titles[docname].astext()
    if number := re.search(r"/(\d\d)_", docname):
        title = f"{int(number[1])}. {title}"
    page = app.builder.get_target_uri(docname)
    app.book_passages.append([page, title, passages(doctree)])


def write(app, exception):
    """Write the script, with the pages in their order."""
    if exception is None and app.builder.format == "html":
        pages = sorted(app.book_passages)
        text = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
        path = Path(app.outdir, FILE)
        path.write_text(f"const PASSAGES = {text};\n", encoding="utf-8")


def setup(app):
    """Of book_ext.setup: listen before anything is added to a page."""
    app.book_passages = []
    app.connect("doctree-resolved", collect, priority=100)
    app.connect("build-finished", write)
