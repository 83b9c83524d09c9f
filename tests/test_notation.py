"""Every symbol of the chapters' equations is on the page of notation."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
pytest.importorskip("nbformat", reason="the book's tools are not installed")
cells = pytest.importorskip("cells")
chapter_form = pytest.importorskip("chapter_form")
notebooks = pytest.importorskip("notebooks")

CHAPTERS = [x for x in notebooks.text_paths() if chapter_form.number(x)]
PAGE = (ROOT / "book/notation.md").read_text()
MATH = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$", re.DOTALL)
# what stands around symbols: words, subscripts, styles, operators
WORDS = re.compile(r"\\(?:text|mathrm|mathbb|begin|end|tag)\s*\{[^{}]*\}")
SUBSCRIPT = re.compile(r"_(?:\{[^{}]*\}|\\?[A-Za-z0-9]+)")
SYMBOL = re.compile(r"\\[A-Za-z]+|[A-Za-z]")
NO_SYMBOLS = set(
    r"""
    \approx \bigl \bigr \boldsymbol \cdot \cos \dfrac \dots \frac \hat \in
    \ldots \left \leftarrow \ln \lVert \mathbf \max \min \nabla \partial \pi \pm
    \qquad \quad \right \rVert \sqrt \sum \tanh \tfrac \tilde \times \top \Vert
    """.split()
)


def symbols(markdown):
    found = set()
    for display, inline in MATH.findall(markdown):
        plain = SUBSCRIPT.sub(" ", WORDS.sub(" ", display or inline))
        found |= {*SYMBOL.findall(plain)}
    return found - NO_SYMBOLS


def listed():
    """The symbols of the whole book, and those of each chapter."""
    everywhere, of_chapter = set(), {}
    for line in PAGE.splitlines():
        columns = [each.strip() for each in line.strip("|").split("|")]
        first, last = columns[0], columns[-1]
        if re.fullmatch(r"\d+(, \d+)*", last):
            for number in map(int, last.split(", ")):
                of_chapter.setdefault(number, set()).update(symbols(first))
        else:  # axes are code: `gh`
            axes = re.findall(r"`(\w)\w*`", first) if len(columns) > 1 else []
            everywhere |= {*axes, *symbols(first)}
    return everywhere, of_chapter


EVERYWHERE, OF_CHAPTER = listed()


@pytest.mark.parametrize("text", CHAPTERS, ids=lambda path: path.stem)
def test_symbols_of_a_chapter_are_on_the_page_of_notation(text):
    notebook = notebooks.read_text(text)
    used = symbols("\n\n".join(x.source for x in cells.markdown(notebook)))
    own = OF_CHAPTER.get(chapter_form.number(text), set())
    assert used - EVERYWHERE - own == set(), "add them to book/notation.md"
    assert own - used == set(), "the chapter doesn't use them any more"


def test_a_symbol_is_a_letter_whatever_its_style_and_index():
    equation = r"$\mathbf{z}_\ell = \frac{\hat v^{2}}{\text{LN}(x_{ij})}$"
    assert symbols(equation) == {"z", "v", "x"}
    assert "D" in EVERYWHERE and "w" in EVERYWHERE
