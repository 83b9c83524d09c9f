"""The report of a run in a real browser: readable by all, and asking nobody."""

import pytest
import torch

import vitedu
from vitedu.evaluate.confusion import Predictions
from vitedu.figures.report import explanation
from vitedu.figures.report.examples import Example, Measured
from vitedu.figures.report.page import Contents, render

pytestmark = pytest.mark.browser

HISTORY = [
    {"step": 10, "loss": 2.25, "train_accuracy": 20.0, "lr": 0.01},
    {"step": 20, "loss": 0.5, "train_accuracy": 90.0, "lr": 0.001},
    {"step": 20, "test_accuracy": 87.5},
]
LONG = "a_folder_with_a_name_that_no_phone_is_wide_enough_for" * 3


def example(number, label, predicted):
    generator = torch.Generator().manual_seed(number)
    return Example(
        name=f"{LONG}/{number}.jpg",
        picture=torch.rand(3, 64, 64, generator=generator),
        label=label,
        predicted=predicted,
        probability=0.9,
        shares=torch.rand(4, 4, generator=generator),
    )


def contents(num_classes):
    names = [f"class {index}" for index in range(num_classes - 1)] + [LONG]
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(num_classes, (600,), generator=generator)
    wrong = torch.rand(600, generator=generator) < 0.4
    classes = torch.where(wrong, labels.roll(1), labels)
    answers = Predictions(labels, classes, torch.rand(600), num_classes)
    return Contents(
        run=f"runs/{LONG}",
        model="ViT-Ti/16 of 224x224 images; 5,524,802 weights",
        result={
            "command": f"vitedu train finetune data={LONG} --out runs/{LONG}",
            "commit": "0123456789abcdef",
            "config": {
                "recipe": "finetune",
                "model": {"image_size": [224, 224], "in_channels": 3},
            },
            "dataset": {
                "name": LONG,
                "num_test": 600,
                "num_train": 2400,
                "skipped": [f"cannot read {LONG}/x.jpg: it is no picture"],
            },
            "date": "2026-02-03",
            "facts": {"data": f"{LONG}: 2,400 images to train", "plan": LONG},
            "hardware": "a CPU, 1 thread",
            "metrics": {"test_accuracy": {"value": 60.0}},
            "notes": f"{LONG} doesn't have train/ and val/",
            "versions": {"torch": "2.13.0"},
            "wall_seconds": 4000.0,
        },
        history=HISTORY,
        class_names=names,
        settings={"dataset": LONG, "lr": "0.01"},
        changed={"lr": "0.01 (recipe: 0.1)"},
        measured=Measured(
            answers,
            right=(example(0, "ants", "ants"),),
            wrong=(example(1, "ants", LONG), example(2, "ants", "bees")),
        ),
    )


@pytest.fixture(
    scope="module", params=[20, 200, None], ids=["matrix", "list", "explained"]
)
def path(request, tmp_path_factory):
    """A report of as many classes and long names; or what `explain` writes."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    text = render(contents(request.param)) if request.param else explained()
    path.write_text(text, encoding="utf-8")
    return path


def explained():
    """The page of one photograph."""
    model = vitedu.load("ViT-Ti/16")
    found = vitedu.explain(model, vitedu.data.photo("cat"))
    return explanation.render(found, model, f"{LONG}.jpg", "ViT-Ti/16")


def test_a_report_is_whole_on_every_screen(visit, path):
    opened = visit(path.as_uri())
    images = "[...document.images].every(x => x.complete && x.naturalWidth > 9)"
    assert opened.page.evaluate(images)
    opened.is_easy_to_read()
    own = ("file:", "data:")
    assert [url for url in opened.asked if not url.startswith(own)] == []
    assert opened.wrong == []


def test_maps_grow_and_giants_go_dark_without_a_script(visit, tmp_path):
    path = tmp_path / "cat.html"
    path.write_text(explained(), encoding="utf-8")
    page = visit(path.as_uri()).page
    maps = page.locator(".blocks figure")
    assert maps.count() == 12
    small = maps.nth(10).bounding_box()["width"]
    page.get_by_label("11", exact=True).check()
    assert maps.nth(10).bounding_box()["width"] > 1.5 * small
    assert page.locator(".bright:visible").count() == 12
    page.get_by_label("giants").check()
    assert page.locator(".bright:visible").count() == 0
    assert page.locator(".dark:visible").count() == 12


def test_a_dark_page_is_printed_in_dark_ink_and_with_all_rows(visit, path):
    page = visit(path.as_uri(), scheme="dark").page
    ground = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('.charts use')).fill"
    assert page.evaluate(ground) == "rgb(21, 23, 26)"
    assert page.evaluate(ink) == "rgb(230, 232, 235)"
    page.emulate_media(media="print")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert page.evaluate(ink) == "rgb(28, 30, 33)"
    cut = (
        "[...document.querySelectorAll('.scroll')]"
        ".filter(x => x.scrollHeight > x.clientHeight + 1).length"
    )
    assert page.evaluate(cut) == 0
