"""The page of a run: whole, harmless whatever names it gets, and small."""

from html.parser import HTMLParser
from itertools import pairwise

import pytest
import torch

from vitedu.evaluate.confusion import Predictions
from vitedu.figures.report.charts import charts, curves, svg
from vitedu.figures.report.examples import SHADE, Example, Measured, lit
from vitedu.figures.report.page import Contents, render

pytestmark = pytest.mark.slow  # draws

HISTORY = [
    {"step": 10, "loss": 2.25, "train_accuracy": 20.0, "lr": 0.01},
    {"step": 20, "loss": 0.02, "train_accuracy": 90.0, "lr": 0.001},
    {"step": 20, "validation_accuracy": 60.0, "validation_loss": 1.25},
    {"step": 20, "test_accuracy": 87.5},
]
RESULT = {
    "command": "vitedu train finetune data=photos",
    "commit": None,
    "config": {
        "recipe": "finetune",
        "model": {"image_size": [16, 16], "in_channels": 3},
    },
    "dataset": {"name": "photos", "num_test": 6, "num_train": 24},
    "date": "2026-02-03",
    "hardware": "a CPU, 1 thread",
    "metrics": {"test_accuracy": {"value": 66.67}},
    "versions": {"torch": "2.13.0"},
    "wall_seconds": 4000.0,
}
NASTY = "<script>alert(1)</script>\"' onload=x \x1b[31m\u202e&amp;"


def answers(labels, classes, num_classes):
    return Predictions(
        torch.tensor(labels),
        torch.tensor(classes),
        torch.full((len(labels),), 0.75),
        num_classes,
    )


def example(name, side=16, probability=0.75, shares=True):
    return Example(
        name=name,
        picture=torch.rand(3, side, side, generator=torch.manual_seed(0)),
        label="ants",
        predicted="bees",
        probability=probability,
        shares=torch.rand(2, 2) if shares else None,
    )


def contents(names=("ants", "bees"), **changes):
    measured = Measured(
        answers([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0], len(names)),
        right=(example("ants/1.jpg"),),
        wrong=(example("ants/2.jpg"), example("bees/3.jpg")),
    )
    whole = Contents(
        run="runs/photos",
        model="a small one",
        result=RESULT,
        history=[],  # drawing takes longer than all else
        class_names=names,
        settings={"lr": "0.01", "epochs": "5"},
        changed={"lr": "0.01 (recipe: 0.1)"},
        measured=measured,
    )
    return whole._replace(**changes)


def with_data(**changes):
    return {"result": RESULT | {"dataset": RESULT["dataset"] | changes}}


class Page(HTMLParser):
    """The elements of a page, and the words in each kind of them."""

    def __init__(self, text):
        super().__init__()
        self.found, self.words, self.open = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open):
            self.words[tag] = self.words.get(tag, "") + data

    def all(self, tag):
        return [attributes for each, attributes in self.found if each == tag]


@pytest.fixture(scope="module")
def page():
    """A report with curves, which take longest to draw."""
    return Page(render(contents(history=HISTORY)))


def test_the_picture_of_a_run_has_its_loss_and_its_accuracy():
    figure, alt = curves(HISTORY)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["training loss (nats)", "accuracy (%)"]
    assert alt.startswith("Training loss goes") and "test 87.5%" in alt


def chart_words(page):
    return [x["aria-label"] for x in page.all("div") if x.get("role") == "img"]


def test_every_element_is_closed_and_headings_skip_no_level(page):
    assert page.open == []
    levels = [int(tag[1]) for tag, _ in page.found if tag in ("h1", "h2", "h3")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_notes_are_listed_each_for_itself():
    history = [{"step": 0, "note": x} for x in ("one; of two", "another")]
    kept = "the weights are those of step 3"
    result = RESULT | {"notes": f"one; of two; another; {kept}"}
    page = Page(render(contents(result=result, history=history)))
    assert "".join(("one; of two", "another", kept)) in page.words["li"]
    without = Page(render(contents(result=RESULT | {"notes": ""})))
    assert "Notes" not in without.words["h2"]


def test_facts_and_speed_stand_in_a_table_and_may_be_missing():
    result = RESULT | {"facts": {"device": "cpu, 2 threads"}, "data_wait": 0.25}
    history = [{"step": x, "images_per_second": 10.0 * x} for x in (1, 2, 9)]
    page = Page(render(contents(result=result, history=history)))
    for words in (
        "cpu, 2 threads",
        "20 images/s, 25% of the time waiting for data",
    ):
        assert words in page.words["td"]
    old = Page(render(contents()))  # a run from before
    assert "images/s" not in old.words["td"]


def test_nothing_is_asked_from_elsewhere(page):
    for _, attributes in page.found:
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "data:").startswith(("data:", "#"))
    (policy,) = [x for x in page.all("meta") if "http-equiv" in x]
    assert "default-src 'none'" in policy["content"]


def test_every_picture_has_words(page):
    images = [image["alt"] for image in page.all("img")]
    assert len(images) == 2 * 3 and all(len(words) > 15 for words in images)
    assert len(page.all("svg")) == len(chart_words(page)) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"names": (NASTY, "bees")},
        {"run": NASTY},
        {"model": NASTY},
        {"settings": {NASTY: NASTY}, "changed": {NASTY: NASTY}},
        {"measured": None, "missing": NASTY},
        {"result": RESULT | {"command": NASTY, "hardware": NASTY}},
        with_data(name=NASTY, skipped=[NASTY]),
        {
            "measured": Measured(
                answers([0], [1], 2), (), (example(NASTY, shares=False),)
            )
        },
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_name_is_never_taken_for_markup(changes):
    text = render(contents(**changes))
    page = Page(text)
    assert page.open == [] and not page.all("script")
    assert not any("onload" in attributes for _, attributes in page.found)
    assert "\x1b" not in text and "\u202e" not in text
    assert "<script>alert(1)</script>" in page.words["body"]


def test_the_loss_the_accuracies_and_the_learning_rate_are_drawn(page):
    loss, accuracy, rate = chart_words(page)
    assert "from 2.25 to 0.02 nats over 20 steps" in loss
    assert "train 90.0%, validation 60.0%, test 87.5%" in accuracy
    assert "highest 0.01 at step 10, 0.001 at the end" in rate


def test_what_was_not_measured_is_not_drawn():
    assert charts([]) == []
    (loss,) = charts([{"step": 1, "loss": 0.0}])
    drawing = svg(loss)
    assert loss.title == "Loss" and drawing.startswith("<svg")
    # the ink is that of the page
    assert "currentColor" in drawing and "#010203" not in drawing
    assert "stroke: #000000" not in drawing
    page = Page(render(contents()))
    assert "Nothing was measured" in page.words["p"]


def test_equal_runs_have_equal_pages():
    one, other = (render(contents(history=HISTORY)) for _ in range(2))
    assert one == other


def part(text, title):
    """The section under this title."""
    return text.partition(f"<h2>{title}</h2>")[2].partition("</section>")[0]


def rendered(labels, said, names):
    """A page about these answers, without pictures."""
    measured = Measured(answers(labels, said, len(names)), (), ())
    return render(contents(names, measured=measured))


def test_a_matrix_of_twenty_classes_is_shown_and_of_more_the_mistakes():
    names = [f"class {index}" for index in range(21)]
    labels, said = [0, 0, 3, 19], [0, 2, 2, 19]
    title = "Which classes it confuses"
    shown = Page(part(rendered(labels, said, names[:20]), title))
    assert len(shown.all("td")) == 400
    assert len(shown.all("th")) == 41  # with that of the corner
    listed = Page(part(rendered(labels, said, names), title))
    assert len(listed.all("tr")) == 3
    assert "1 of 2" in listed.words["td"]
    right = part(rendered(labels, labels, names), title)
    assert "No class was taken for another" in right


def test_a_thousand_classes_are_listed_the_worst_first():
    names = [f"n{index:05}" for index in range(1200)]
    labels = [*range(1200)]
    said = [*labels]
    said[1111] = 7
    body = part(rendered(labels, said, names), "Class by class")
    assert body.count("<tr>") == 1001
    first = body.partition("<tbody>")[2].partition("</tr>")[0]
    assert "n01111" in first and "0.0%" in first
    assert "1,000 of 1,200 classes are shown" in body


def test_a_report_is_below_three_megabytes_with_the_worst_of_pictures():
    noise = tuple(example(f"{index}.jpg", side=256) for index in range(6))
    measured = Measured(answers([0], [1], 2), noise, noise)
    assert len(render(contents(measured=measured)).encode()) < 3_000_000


def with_answer(probability):
    shown = (example("1.jpg", probability=probability),)
    return {"measured": Measured(answers([0], [1], 2), (), shown)}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            with_data(num_test=50_000),
            "about 6 of the 50,000 test pictures, evenly spread",
        ),
        (with_answer(0.5), "<b>bees</b>, 50.0% sure; it's <b>ants</b>"),
        (with_answer(0.9994), "<b>bees</b>, 99.9% sure"),
        (with_answer(1.0), "<b>bees</b>, over 99.9% sure"),
        ({"result": RESULT | {"wall_seconds": 59.4}}, "<dd>59 s</dd>"),
        ({"result": RESULT | {"wall_seconds": 700}}, "<dd>12 min</dd>"),
        ({"result": RESULT | {"wall_seconds": 4000}}, "<dd>1 h 7 min</dd>"),
        ({"result": RESULT | {"wall_seconds": 7190}}, "<dd>2 h 0 min</dd>"),
        (
            {"result": RESULT | {"metrics": {}}},
            "<h1>photos: stopped before the end</h1>",
        ),
        ({"changed": None}, "is not a recipe of this version"),
        ({"changed": {}}, "All as in the recipe finetune"),
        ({"measured": None, "missing": "gone"}, "are missing here: gone."),
    ],
)
def test_the_page_says(changes, words):
    assert words in render(contents(**changes))


# --- pictures


def test_the_patch_that_counts_most_stays_bright_the_least_is_dark():
    shares = torch.arange(16.0).reshape(4, 4)
    shown = lit(torch.ones(3, 64, 64), shares)
    assert shown[:, -1, -1].tolist() == [1.0] * 3
    assert shown[0, 0, 0].item() == pytest.approx(SHADE)
    row = shown[0, 0]
    assert (row[1:] >= row[:-1]).all()
