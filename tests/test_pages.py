"""The book's reference pages: whole, and in the order a reader expects."""

import re
from pathlib import Path
from types import ModuleType

import vitedu

BOOK = Path(__file__).parents[1] / "book"
HANGUL, HAN = re.compile("[\uac00-\ud7a3]"), re.compile("[\u4e00-\u9fff]")


def glossary():
    """Entries as lists of terms, in their order."""
    text = (BOOK / "glossary.md").read_text(encoding="utf-8")
    body = text.split("```{glossary}\n")[1].split("\n```")[0]
    entries = body.split("\n\n")
    return [
        [line for line in entry.splitlines() if not line.startswith(" ")]
        for entry in entries
    ]


def test_a_glossary_entry_is_one_term_in_three_languages():
    for terms in glossary():
        assert len(terms) == 3, terms
        english, korean, chinese = terms
        assert english.isascii()
        assert HANGUL.search(korean) or korean.startswith(english), terms
        assert HAN.search(chinese) or chinese.startswith(english), terms
        assert not HAN.search(korean) and not HANGUL.search(chinese), terms


def test_no_term_has_two_entries():
    terms = [term.casefold() for entry in glossary() for term in entry]
    assert len(set(terms)) == len(terms)


def test_the_glossary_is_in_alphabetical_order():
    english = [entry[0].casefold() for entry in glossary()]
    assert english == sorted(english, key=lambda term: term.replace("-", " "))


def public():
    """Names and objects that vitedu and its packages export; opens modules."""
    for name in vitedu.__all__:
        each = getattr(vitedu, name)
        if isinstance(each, ModuleType):
            for inner in getattr(each, "__all__", []):
                yield f"{name}.{inner}", getattr(each, inner)
        else:
            yield name, each


def test_what_is_public_stands_in_the_api_page_where_it_is_defined():
    page, missing = (BOOK / "api.md").read_text(encoding="utf-8"), []
    for name, each in public():
        # a constant has no module
        module = getattr(each, "__module__", r"vitedu[\w.]*")
        where = rf"{module}\.{name.rpartition('.')[2]}"
        if not re.search(rf"^\.\. (auto\w+|py:data):: {where}$", page, re.M):
            missing.append(where)
    assert missing == [], "add them to book/api.md, where their modules stand"


def test_the_bibliography_has_no_key_twice():
    text = (BOOK / "references.bib").read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{([^,]+),", text, re.M)
    assert len(keys) > 20 and len(set(keys)) == len(keys)
