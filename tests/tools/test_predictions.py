"""Questions that wait for an answer: what pages ask, and what the site says."""

import re

import nbformat
import pytest
from cells import markdown
from notebooks import BOOK
from predictions import END, end_of, is_question, predictions, with_predictions

PAGES = sorted(predictions())
CHAPTERS = [f"0{n}" for n in range(1, 9)]
BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)


def questions(page):
    notebook = nbformat.read(BOOK / f"{page}.ipynb", as_version=4)
    return [cell.source for cell in markdown(notebook) if is_question(cell)]


def choices(source):
    """The items of the list that a cell ends on."""
    last = source.rstrip().rpartition("\n\n")[2]
    items = re.findall(r"^\* (.+)$", last, re.MULTILINE)
    return items if len(items) == len(last.splitlines()) else []


@pytest.mark.parametrize("page", PAGES)
def test_what_the_site_asks_is_what_the_page_asks(page):
    asked = predictions()[page]
    cells = questions(page)
    assert len(asked) == len(cells)
    for question, source in zip(asked, cells, strict=True):
        bold = [" ".join(words.split()) for words in BOLD.findall(source)]
        plain = [words.replace("`", "").lower() for words in bold]
        assert question["ask"].lower() in plain or any(
            question["ask"].lower().endswith(words) for words in plain
        )


@pytest.mark.parametrize("page", PAGES)
def test_every_answer_is_one_that_can_be_given(page):
    for question, source in zip(
        predictions()[page], questions(page), strict=True
    ):
        items, says = choices(source), question.get("says", [])
        known = "ask why says through paragraphs right number within"
        assert set(question) <= set(known.split())
        if "right" in question:
            assert 2 <= len(items) <= 5
            wrong = set(range(1, len(items) + 1)) - {question["right"]}
            # every wrong answer is told what went wrong
            assert {place for place, _ in says} == wrong
        else:
            assert not items
            assert says and all(
                abs(value - question["number"]) > question["within"]
                for value, _ in says
            )


def test_two_to_four_questions_a_chapter():
    asked = {page[:2]: len(each) for page, each in predictions().items()}
    assert [n for n in CHAPTERS if not 2 <= asked[n] <= 4] == []


def cell(kind, source, *tags):
    return {
        "cell_type": kind,
        "source": source,
        "metadata": {"tags": list(tags)},
    }


@pytest.fixture
def asked(monkeypatch):
    """A page with one question, and the sources of its cells on the site."""
    content = {"ask": 'Is it "2"?', "number": 2, "within": 0}

    def marked(*cells, **more):
        monkeypatch.setattr(
            "predictions.predictions", lambda: {"page": [content | more]}
        )
        with_predictions("page", list(cells))
        return [each["source"] for each in cells]

    return marked


def test_an_answer_ends_with_the_first_paragraph(asked):
    question, code, answer, after = asked(
        cell("markdown", "**Is it 2?**", "predict"),
        cell("code", "1 + 1"),
        cell("markdown", "It is.\nYes.\n\nNow the next thing."),
        cell("markdown", "And so on."),
    )
    assert question.startswith("**Is it 2?**\n\n<div")
    assert "&quot;Is it \\&quot;2\\&quot;?&quot;" in question
    assert (code, after) == ("1 + 1", "And so on.")
    assert answer == f"It is.\nYes.{END}\n\nNow the next thing."


@pytest.mark.parametrize(
    ("text", "paragraphs", "shown"),
    [
        ("| a |\n|---|\n\nNext.", 2, f"| a |\n|---|{END}\n\nNext."),
        ("## Next\n\ntext", 3, f"{END}## Next\n\ntext"),  # not past a heading
    ],
)
def test_an_answer_may_take_more_paragraphs(asked, text, paragraphs, shown):
    _, answer = asked(
        cell("markdown", "**Is it 2?**", "predict"),
        cell("markdown", f"It is.\n\n{text}"),
        paragraphs=paragraphs,
    )
    assert answer == f"It is.\n\n{shown}"


def test_a_late_answer_goes_through_several_texts(asked):
    _, first, second = asked(
        cell("markdown", "**Is it 2?**", "predict"),
        cell("markdown", "Wait."),
        cell("markdown", "It is.\n\nNext."),
        through=2,
    )
    assert first == "Wait."
    assert second == f"It is.{END}\n\nNext."


def test_a_short_text_is_the_answer_as_a_whole():
    assert end_of("It is.", 1) == len("It is.")
    assert end_of("It is.\n\nYes.", 5) == len("It is.\n\nYes.")


def test_a_text_that_asks_nothing_stays_as_it_is(asked):
    assert asked(cell("markdown", "text"), cell("code", "1")) == ["text", "1"]


def test_where_nothing_waits_no_end_is_marked(asked):
    question, code, after = asked(
        cell("markdown", "**Is it 2?**", "predict"),
        cell("code", "1 + 1"),
        cell("markdown", "Next."),
        paragraphs=0,
    )
    assert 'class="predict"' in question
    assert (code, after) == ("1 + 1", "Next.")
