"""Leave out of a built site's style sheets what none of its pages can show.

The theme and the extensions bring all of Bootstrap, of Font Awesome's 2,000
icons and of their own: 440 kB on every page, of which the book uses a third. A
rule goes if it is for a class that no page and no script of the site names.
"""

import re
from pathlib import Path

COMMENT = re.compile(r"/\*(?!!).*?\*/", re.S)  # not a licence: /*! ... */
RULE = re.compile(r"([^{}]*)\{[^{}]*\}")
BEFORE = re.compile(r"((?:.*(?:\*/|;))?)(.*)", re.S)  # a licence, @import ...;
EMPTY = re.compile(r"@(?:media|supports)[^{}]*\{\s*\}")
COMMA = re.compile(r",(?![^()]*\))")  # between selectors
ASIDE = re.compile(r"\([^()]*\)|\[[^]]*\]")  # :not(.open), [class*=sd-]
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
COMPOSED = ("bs-",)  # Bootstrap's script puts these names together


def named(site: Path) -> set[str]:
    """All words of a site's pages and scripts, its classes among them."""
    found: set[str] = set()
    for path in [*site.rglob("*.html"), *site.rglob("*.js")]:
        found.update(re.findall(r"[\w-]+", path.read_text()))
    return found


def is_shown(selector: str, words: set[str]) -> bool:
    """Whether a page of these words may have what a selector selects."""
    names = CLASS.findall(ASIDE.sub("", selector))
    is_plain = "\\" not in selector  # .w-25\%
    return not is_plain or all(
        name in words or name.startswith(COMPOSED) for name in names
    )


def without_unused(style: str, words: set[str]) -> str:
    """A style sheet without the selectors that no page of these words has."""

    def shorter(rule: re.Match) -> str:
        before, selectors = BEFORE.fullmatch(rule[1]).groups()
        each = COMMA.split(selectors)
        kept = [x for x in each if is_shown(x, words)]
        rest = rule[0][len(rule[1]) :] if kept else ""
        return before + ",".join(kept) + rest

    return EMPTY.sub("", RULE.sub(shorter, COMMENT.sub("", style)))


def lighten(site: Path) -> None:
    """Shorten all style sheets of a built site."""
    words = named(site)
    for path in site.glob("_static/**/*.css"):
        path.write_text(without_unused(path.read_text(), words))
