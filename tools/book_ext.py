"""Sphinx extension of the book: what Jupyter Book 1.0.4 leaves out or gets wrong.

* Version and date stand at the foot of every page.
* A figure's alt text comes from its output's metadata, where `vitedu.figures.show`
  writes it; myst-nb 1.4 reads only the cell's.
* Korean and Chinese terms are marked as such, for their fonts and for screen readers.
* sphinx-thebe 0.3.1 declares a constant twice on every page, an error, and names
  another host; the book has no live cells and leaves its scripts out.
* MathJax is loaded on pages with equations alone.
* A default that a dataclass makes anew reads `...`, not `<factory>`.
* docutils gives the bibliography roles that its children do not have, and myst-nb
  labels the summary of a hidden cell with words other than the visible ones.
"""

import os
import re
import time

from docutils import nodes
from myst_nb.core.render import NbElementRenderer

HANGUL = "\uac00-\ud7a3"
HAN = "\u3400-\u4dbf\u4e00-\u9fff"
FOOTER = (
    "{project} {release} · {date} · text and figures CC BY 4.0, code Apache-2.0"
)
REPAIRS = [
    (re.compile(r'(class="[^"]*citation-list"[^>]*) role="list"'), r"\1"),
    (re.compile(r' role="list"( class="[^"]*citation-list")'), r"\1"),
    (re.compile(r' role="doc-biblioentry"'), ""),
    (
        re.compile(r'<summary aria-label="Toggle hidden content">'),
        "<summary>",
    ),
    (
        re.compile(
            r'<script type="text/x-thebe-config">.*?</script>', re.DOTALL
        ),
        "",
    ),
    (re.compile(r"<script>kernelName = .*?</script>"), ""),
]


def set_version(app, config):
    """Version from the package, date from SOURCE_DATE_EPOCH (today without it)."""
    from vitedu import __version__

    config.version = config.release = __version__
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    date = time.strftime("%Y-%m-%d", time.gmtime(seconds))
    config.html_theme_options["extra_footer"] = FOOTER.format(
        project=config.project, release=__version__, date=date
    )


def carry_alt(render_image):
    """`render_image` of myst-nb, with the alt text of the output's metadata."""

    def render(self, data):
        images = render_image(self, data)
        alt = data.output_metadata.get(data.mime_type, {}).get("alt")
        if alt:
            for image in images:
                image["alt"] = alt
        return images

    return render


def mark_languages(app, doctree):
    """Give Korean and Chinese glossary terms their language."""
    for term in doctree.findall(nodes.term):
        words = term.astext()
        if re.search(f"[{HANGUL}]", words):
            term["classes"].append("lang-ko")
        elif re.search(f"[{HAN}]", words):
            term["classes"].append("lang-zh")


def shorten_defaults(app, what, name, each, options, signature, returns):
    """Of autodoc: signature and annotation as the page shows them."""
    return signature and signature.replace("<factory>", "..."), returns


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
    app.connect("doctree-read", mark_languages)
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-signature", shorten_defaults)
    app.connect("html-page-context", clean_page, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
