"""Sphinx extension of the book: what only a site can do, and what needs repair.

Notebooks are portable Markdown; the site adds to them:

* The first mention of a glossary's term on a page, in a paragraph, is a link to
  its entry that shows the first sentence of the definition (`Glossary`).
* A link to a paper of the bibliography bears the paper's title (`name_papers`).
* A chapter bears its file's number (`number_as_named`), and one that isn't
  written yet is in the sidebar without a link (`name_unwritten`).
* Headings are called as in Jupyter, blanks as dashes (`place_of`), so that a
  link to a place leads there in both.
* A question tagged `predict` waits for an answer (`predictions.py`).
* What folded code draws stands above the code, the code of a solution in its
  fold, and the line that says what a page ran on at its end (`order_cells`).
* Search shows the passages that were found while one types (`passages.py`).
* A cell tagged `margin` moves into the text where the margin is missing, and
  `<details>` have a frame: `tools/static/`.

What Jupyter Book 1.0.4 leaves out or gets wrong:

* Version and date are at the foot of every page.
* A figure's alt text comes from its output's metadata, where
  `vitedu.figures.show` writes it; myst-nb 1.4 reads only the cell's.
* Korean and Chinese terms are marked as such, for their fonts and for screen
  readers.
* sphinx-thebe 0.3.1 declares a constant twice on every page, an error, and
  names another host; the book doesn't have live cells and leaves its scripts
  out.
* MathJax is loaded on pages with equations alone.
* A default that a dataclass makes anew reads `...`, not `<factory>`.
* docutils gives the bibliography roles that its children do not have, and
  myst-nb labels the summary of a hidden cell with words other than the visible
  ones.
"""

import functools
import operator
import os
import re
import textwrap
import time
import types
import typing
from base64 import b64decode
from functools import cached_property
from html import escape, unescape
from pathlib import Path

import passages
import predictions
import set_repository
from docutils import nodes
from myst_nb.core.render import NbElementRenderer
from myst_nb.sphinx_ import HideCodeCellNode
from pybtex.database import parse_file
from pybtex.richtext import Text
from sphinx import addnodes

HANGUL = "\uac00-\ud7a3"
HAN = "\u3400-\u4dbf\u4e00-\u9fff"
FOOTER = (
    "{project} {release} · {date} · text and figures CC BY 4.0, code Apache-2.0"
)
UNWRITTEN = re.compile(r'<a [^>]*href="unwritten:[^>]*>(.*?)</a>')
STATIC = Path(__file__).with_name("static")
DESCRIPTION = 200  # characters of a page's description
# Their first mention on a page is rarely the one that the glossary explains.
EVERYDAY = {
    *("head", "hybrid", "key", "query"),
    *("shortcut", "step", "transfer", "value"),
}
# Pages of lists, where words aren't explained.
LISTS = ("glossary", "api", "bibliography", "ledger")
# Where a word means itself, or is a link already.
NOT_IN = (
    nodes.literal,
    nodes.math,
    nodes.reference,
    nodes.title,
    nodes.entry,
    nodes.caption,
    nodes.term,
    nodes.raw,
    addnodes.pending_xref,
)
REPAIRS = [
    (re.compile(r'(class="[^"]*citation-list"[^>]*) role="list"'), r"\1"),
    (re.compile(r' role="list"( class="[^"]*citation-list")'), r"\1"),
    (re.compile(r' role="doc-biblioentry"'), ""),
    (re.compile(r'<summary aria-label="Toggle hidden content">'), "<summary>"),
    (re.compile(r'<script type="text/x-thebe-config">.*?</script>', re.S), ""),
    (re.compile(r"<script>kernelName = .*?</script>"), ""),
]


def set_version(app, config):
    """Version of the package, date by SOURCE_DATE_EPOCH (today without it)."""
    from vitedu import __version__

    config.version = config.release = __version__
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    date = time.strftime("%Y-%m-%d", time.gmtime(seconds))
    config.html_theme_options["extra_footer"] = FOOTER.format(
        project=config.project, release=__version__, date=date
    )


def carry_alt(render_image):
    """`render_image` of myst-nb, with what the output's metadata say of it."""

    def render(self, data):
        images = render_image(self, data)
        about = data.output_metadata.get(data.mime_type, {})
        for image in images:
            if about.get("alt"):
                image["alt"] = about["alt"]
            if data.mime_type != "image/png":
                continue
            if is_see_through(data.string):
                image["classes"].append("see-through")
            elif about.get("chart"):
                image["classes"].append("chart")
        return images

    return render


def is_see_through(png):
    """Whether a PNG, in base64, has transparency: its colour type is 4 or 6."""
    return b64decode(png[:44])[25] in (4, 6)


def mark_languages(app, doctree):
    """Give Korean and Chinese glossary terms their language."""
    for term in doctree.findall(nodes.term):
        words = term.astext()
        if re.search(f"[{HANGUL}]", words):
            term["classes"].append("lang-ko")
        elif re.search(f"[{HAN}]", words):
            term["classes"].append("lang-zh")


def place_of(heading):
    """What Jupyter calls a heading in an address: `myst_heading_slug_func`."""
    return heading.strip().replace(" ", "-")


class defined_term(nodes.Inline, nodes.TextElement):
    """A term and its definition: attributes `address`, `name`, `definition`."""


def visit_defined_term(translator, node):
    """Open the link to the glossary, whose description is the definition."""
    address, name = escape(node["address"]), escape(node["name"])
    translator.body.append(
        f'<span class="glossary-tip"><a href="{address}" '
        f'aria-describedby="{name}">'
    )


def depart_defined_term(translator, node):
    """Close the link; the definition follows it, shown by the style sheet."""
    name, words = escape(node["name"]), escape(node["definition"])
    translator.body.append(
        f'</a><span role="tooltip" id="{name}">{words}</span></span>'
    )


class Glossary:
    """The terms of the book's glossary, and what marks their first mention."""

    def __init__(self, app):
        self.app = app

    @cached_property
    def page(self):
        """The name of the glossary's page; None if there isn't one."""
        objects = self.app.env.get_domain("std").objects
        pages = {
            page for (kind, _), (page, _) in objects.items() if kind == "term"
        }
        return min(pages, default=None)

    @cached_property
    def entries(self):
        """The (term, place, definition) of each, by the term in lower case."""
        found = {}
        if self.page is None:
            return found
        doctree = self.app.env.get_doctree(self.page)
        for item in doctree.findall(nodes.definition_list_item):
            term = next(item.findall(nodes.term))
            words = term.astext()
            if words.lower() not in EVERYDAY and term["ids"]:
                (definition,) = item.findall(nodes.definition)
                sentence = first_sentence(definition)
                found[words.lower()] = (words, term["ids"][0], sentence)
        return found

    @cached_property
    def pattern(self):
        """Any term, alone or in the plural; the longest that fits."""
        terms = sorted(self.entries, key=len, reverse=True)
        forms = [
            rf"{re.escape(term[:-1])}(?:y|ies)"
            if term.endswith("y")
            else rf"{re.escape(term)}(?:e?s)?"
            for term in terms
        ]
        either = "|".join(f"({form})" for form in forms)
        return terms, re.compile(
            rf"(?<![\w-])(?:{either})(?![\w-])", re.IGNORECASE
        )

    def list_letters(self, app, doctree, docname):
        """Put A to Z above the glossary, each a link to its first term."""
        if docname != self.page:
            return
        firsts = {}
        for item in doctree.findall(nodes.definition_list_item):
            term = next(item.findall(nodes.term))
            letter = term.astext()[0].upper()
            firsts.setdefault(letter, term["ids"][0])
        line = nodes.paragraph(classes=["letters"])
        for letter, place in firsts.items():
            link = nodes.reference("", letter, refid=place, internal=True)
            line += [link, nodes.Text(" ")]
        (terms, *_) = doctree.findall(addnodes.glossary)
        terms.insert(0, line)

    def mark(self, app, doctree, docname):
        """Make the first mention of each term a `defined_term`."""
        if docname.endswith(LISTS) or not self.entries:
            return
        seen = set()
        for paragraph in list(doctree.findall(nodes.paragraph)):
            if inside(paragraph, nodes.entry):
                continue
            for text in list(paragraph.findall(nodes.Text)):
                if not inside(text, *NOT_IN):
                    self.mark_text(text, docname, seen)

    def mark_text(self, text, docname, seen):
        """Replace a text by its parts, and the terms in it that are new."""
        terms, pattern = self.pattern
        words, parts, end = text.astext(), [], 0
        for found in pattern.finditer(words):
            term = terms[found.lastindex - 1]
            spelled, place, definition = self.entries[term]
            # MAC is a term, a Mac isn't; nor are `transformers`, the library
            exact = spelled != spelled.lower()
            if term in seen or (exact and not found[0].startswith(spelled)):
                continue
            seen.add(term)
            uri = self.app.builder.get_relative_uri(docname, self.page)
            parts.append(nodes.Text(words[end : found.start()]))
            attributes = {"name": f"tip-{place}", "definition": definition}
            address = f"{uri}#{place}"
            parts.append(
                defined_term("", found[0], address=address, **attributes)
            )
            end = found.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(words[end:])])


def inside(node, *kinds):
    """Whether one of the nodes around a node is of these kinds."""
    while (node := node.parent) is not None:
        if isinstance(node, kinds):
            return True
    return False


def first_sentence(definition):
    """A definition's first sentence as text, without citations and most TeX."""
    return re.split(r"(?<=[.!?]) (?=[A-Z])", passages.plain(definition))[0]


def papers(app):
    """Address to title and year of every entry of the bibliography."""
    found = {}
    for name in app.config.bibtex_bibfiles:
        path = Path(app.srcdir, name)
        for entry in parse_file(str(path)).entries.values():
            fields = entry.fields
            if "url" in fields and "title" in fields:
                title = str(Text.from_latex(fields["title"]))
                year = f" ({fields['year']})" if "year" in fields else ""
                found[fields["url"]] = title + year
    return found


def name_papers(app, doctree, docname):
    """Give links to papers their titles."""
    known = app.book_papers
    for link in doctree.findall(nodes.reference):
        if title := known.get(link.get("refuri")):
            link["reftitle"] = title


def read_papers(app):
    """Read the bibliography once."""
    app.book_papers = papers(app) if "bibtex_bibfiles" in app.config else {}


def add_static(app, config):
    """Serve `tools/static` beside the book's own."""
    config.html_static_path.append(str(STATIC))


def strip_margins(app, doctree):
    """Show what a cell tagged `margin` draws; the notebook has its code."""
    for cell in list(doctree.findall(nodes.container)):
        if "tag_margin" in cell["classes"]:
            cell.attributes.pop("hide_mode", None)
            for part in list(cell.children):
                if part.get("nb_element") == "cell_code_source":
                    cell.remove(part)


def order_cells(app, doctree, docname):
    """Show a picture before the folded code behind it, and the machine last.

    A chapter's first cell with an output that is nobody's to compare says the
    tier, the device and the versions. Code that belongs to a folded solution
    unfolds with it, and imports don't come before the first picture.
    """
    for cell in list(doctree.findall(nodes.container)):
        into_solution(cell)
    cells = [
        cell
        for cell in doctree.findall(nodes.container)
        if "tag_hide-input" in cell["classes"]
    ]
    picture_first(doctree)
    for cell in cells:
        first = cell[0]
        if isinstance(first, HideCodeCellNode):
            cell.remove(first)
            cell.append(first)
    about = [x for x in cells if "tag_nbval-ignore-output" in x["classes"]]
    if about and re.search(r"/\d\d_", docname):
        chapter = doctree.next_node(nodes.section)
        about[0].parent.remove(about[0])
        chapter += nodes.rubric("", "What this page ran on")
        chapter += about[0]


def is_plain(cell):
    """Whether a node is a hidden cell that draws nothing."""
    kinds = cell.get("classes", ()) if isinstance(cell, nodes.Element) else ()
    is_hidden = {"tag_hide-input", "tag_hide-cell"} & {*kinds}
    return bool(is_hidden) and not any(cell.findall(nodes.image))


def picture_first(doctree):
    """Put the hidden cells that stand above a page's first picture below it."""
    for image in doctree.findall(nodes.image):
        cell = image
        while cell is not None and "cell" not in cell.get("classes", ()):
            cell = cell.parent
        if cell is None or "tag_margin" in cell["classes"]:
            continue
        section = cell.parent
        above = section[: section.index(cell)]
        for plain in reversed([each for each in above if is_plain(each)]):
            section.remove(plain)
            section.insert(section.index(cell) + 1, plain)
        return


def into_solution(cell):
    """Put a hidden cell that follows a folded solution into its fold."""
    section = cell.parent
    is_theirs = "solutions" in section.get("names", ())
    if not is_theirs or "tag_hide-cell" not in cell["classes"]:
        return
    place = section.index(cell)
    if section[place - 1].astext().strip() != "</details>":
        return
    for fold in list(cell.findall(HideCodeCellNode)):
        at = cell.index(fold)
        cell[at : at + 1] = fold.children
    section.remove(cell)
    section.insert(place - 1, cell)


def number_as_named(app, env):
    """Give a chapter the number that its file `NN_name` begins with.

    Sphinx counts the pages that are there, and some chapters aren't written.
    """
    for page, numbers in env.toc_secnumbers.items():
        named = re.match(r"(\d\d)_", page.rpartition("/")[2])
        if named is None:
            continue
        for place, number in numbers.items():
            numbers[place] = (int(named[1]), *number[1:])
        titles = [env.titles[page], *env.tocs[page].findall(nodes.reference)]
        for title in titles:
            if title.get("secnumber"):
                title["secnumber"] = [int(named[1]), *title["secnumber"][1:]]
    return []  # no page has to be written again for that


def describe(app, pagename, templatename, context, doctree):
    """Say what a page is about to those that link to it, and show Hopper."""
    if doctree is None:
        return
    owner, name = set_repository.configured().split("/")
    paragraphs = doctree.findall(nodes.paragraph)
    words = " ".join(next(paragraphs, nodes.paragraph()).astext().split())
    short = textwrap.shorten(words, DESCRIPTION, placeholder=" …")
    picture = f"https://{owner}.github.io/{name}/_images/hopper.png"
    content = {
        "description": short,
        "og:title": unescape(re.sub("<[^>]*>", "", context["title"])),
        "og:description": short,
        "og:image": picture,
    }
    context["metatags"] = context.get("metatags", "") + "".join(
        f'<meta {"property" if ":" in key else "name"}="{key}" '
        f'content="{escape(value)}">\n'
        for key, value in content.items()
    )
    if context["title"] == context["docstitle"]:
        context["docstitle"] = ""  # once is enough


def name_unwritten(app, pagename, templatename, context, doctree):
    """Put words where a list of pages has a chapter that isn't written yet.

    `_toc.yml` calls its address `unwritten://`.
    """
    toctree = context["toctree"]
    context["toctree"] = lambda **options: UNWRITTEN.sub(
        r'<span class="unwritten">\1</span>', toctree(**options)
    )


def shorten_defaults(app, what, name, each, options, signature, returns):
    """Of autodoc: signature and annotation as the page shows them."""
    return signature and signature.replace("<factory>", "..."), returns


def hide_ranges(app, each, bound_method):
    """Show a field's plain type; `Attributes` says which values it may have."""
    function = getattr(each, "__func__", each)
    hints = getattr(function, "__annotations__", {})
    if function.__module__.startswith("vitedu"):
        for name, hint in hints.items():
            hints[name] = without_ranges(hint)


def without_ranges(hint):
    """A type without the `Annotated` in and around it."""
    if typing.get_origin(hint) is typing.Annotated:
        return without_ranges(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        parts = map(without_ranges, typing.get_args(hint))
        return functools.reduce(operator.or_, parts)
    if typing.get_origin(hint) is tuple:
        return tuple[tuple(map(without_ranges, typing.get_args(hint)))]
    return hint


def is_equation(node):
    """Whether MathJax has something to do here."""
    return isinstance(node, nodes.math | nodes.math_block)


def clean_page(app, pagename, templatename, context, doctree):
    """Leave scripts out and repair roles before a page is written."""
    equations = doctree is not None and any(doctree.findall(is_equation))
    dropped = ("thebe",) if equations else ("thebe", "mathjax")
    seen, scripts = set(), []
    for script in context.get("script_files", []):
        body = getattr(script, "attributes", {}).get("body")
        name = str(getattr(script, "filename", None) or body or script)
        if name in seen or any(word in name.lower() for word in dropped):
            continue
        seen.add(name)
        scripts.append(script)
    context["script_files"] = scripts
    context["css_files"] = [
        style
        for style in context.get("css_files", [])
        if "thebe" not in str(getattr(style, "filename", style))
    ]
    if body := context.get("body"):
        for pattern, replacement in REPAIRS:
            body = pattern.sub(replacement, body)
        body = re.sub(r'<dt class="lang-(ko|zh)"', r'<dt lang="\1"', body)
        context["body"] = body


def setup(app):
    """Register the extension."""
    NbElementRenderer.render_image = carry_alt(NbElementRenderer.render_image)
    app.connect("config-inited", set_version)
    app.connect("config-inited", add_static)
    app.add_css_file("book_ext.css", priority=900)
    app.add_js_file("book_ext.js")
    app.add_js_file("predict.js")
    app.connect("source-read", predictions.mark)
    passages.setup(app)
    app.add_node(defined_term, html=(visit_defined_term, depart_defined_term))
    app.connect("builder-inited", read_papers)
    glossary = Glossary(app)
    app.connect("doctree-resolved", glossary.mark)
    app.connect("doctree-resolved", glossary.list_letters)
    app.connect("doctree-resolved", name_papers)
    app.connect("doctree-read", strip_margins)
    app.connect("doctree-resolved", order_cells)
    app.connect("doctree-read", mark_languages)
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-before-process-signature", hide_ranges)
    app.connect("autodoc-process-signature", shorten_defaults)
    app.connect("html-page-context", clean_page, priority=900)
    app.connect("html-page-context", describe)
    # before the theme keeps the sidebar
    app.connect("html-page-context", name_unwritten, priority=100)
    # after Sphinx has counted
    app.connect("env-get-updated", number_as_named, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
