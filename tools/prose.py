"""Markdown as a reader sees it: words, numbers, links, headings, sections."""

import re
from collections.abc import Iterator

FENCED = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)\s*$", re.M | re.S)
# taken out in this order
NO_WORDS = (
    FENCED,
    re.compile(r"<!--.*?-->", re.S),
    re.compile(r"\$\$.*?\$\$", re.S),
    re.compile(r"\\begin\{(?P<name>[a-z]+\*?)\}.*?\\end\{(?P=name)\}", re.S),
)
INLINE_MATH = re.compile(r"(?<![\\$\w])\$(?!\s)(?:\\.|[^$\\])+?\$(?![\w$])")
TAG = re.compile(r"</?[A-Za-z][^<>]*>")
WORDS_OF_LINK = r"\[((?:[^\[\]]|\[[^\]]*\])*)\]"
LINK_OR_PICTURE = re.compile(
    rf"!?{WORDS_OF_LINK}\([^()]*(?:\([^()]*\))?[^()]*\)"
)
LINK = re.compile(
    rf"(?<!!){WORDS_OF_LINK}\(\s*"
    r"<?([^()\s<>]*(?:\([^()\s]*\))?[^()\s<>]*)>?[^()]*\)"
)
CODE = re.compile(r"(?P<ticks>`+)(?!`)(.+?)(?<!`)(?P=ticks)(?!`)", re.S)
# one or two ticks: three are the fence of a block
CODE_IN_LINE = re.compile(r"(?<!`)(?P<ticks>``?)(?!`)[^`]+?(?P=ticks)(?!`)")
TABLE = re.compile(r"^\s*(?:>\s*)?\|.*$", re.MULTILINE)
ITEM = re.compile(
    r"^(\s*(?:>\s*)*(?:#+\s+)?)(?:\*\*)?\d+[.)](?:\*\*)?(?=\s)", re.M
)
NUMERAL = re.compile(r"^[^\w]*\d")


def readable(markdown: str) -> str:
    """Markdown without equations, fenced code, tags and addresses of links."""
    for pattern in NO_WORDS:
        markdown = pattern.sub(" ", markdown)
    kept = []

    def keep(found: re.Match[str]) -> str:
        # a dollar or a bracket in code is just a character
        kept.append(found[2])
        return f"\0{len(kept) - 1}\0"

    markdown = CODE.sub(keep, markdown)
    for pattern in (INLINE_MATH, TAG):
        markdown = pattern.sub(" ", markdown)
    # \1 and \2 mark a link's words, which `numerals` leaves out
    markdown = LINK_OR_PICTURE.sub("\1\\1\2", markdown)
    return re.sub(r"\0(\d+)\0", lambda i: f"`{kept[int(i[1])]}`", markdown)


def spoken(markdown: str) -> str:
    """The prose of `readable`: no tables."""
    return TABLE.sub("", readable(markdown))


def pieces(text: str) -> list[str]:
    """What is between white space and has a letter or a digit."""
    return [each for each in text.split() if re.search(r"\w", each)]


def numerals(prose: str) -> list[str]:
    """The pieces of prose that are numbers to a reader."""
    prose = re.sub("`[^`]*`|\1[^\2]*\2", " ", ITEM.sub(r"\1", prose))
    return [each for each in pieces(prose) if NUMERAL.match(each)]


def links(markdown: str) -> Iterator[tuple[str, str]]:
    """(text, address) of every link outside of code."""
    plain = CODE_IN_LINE.sub("`code`", FENCED.sub("", markdown))
    for found in LINK.finditer(plain):
        yield found[1], found[2]


def headings(markdown: str) -> list[str]:
    """The words of every heading, without code ticks, asterisks and dollars."""
    plain = FENCED.sub("", markdown)
    found = re.findall(r"^#{1,6} +(.+?)\s*$", plain, re.MULTILINE)
    return [re.sub(r"[`*$]", "", each) for each in found]


def section(markdown: str, heading: str) -> str:
    """What is below a heading of the second level; empty without it."""
    parts = re.split(r"^(## .+?)\s*$", markdown, flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    return texts.get(heading, "")
