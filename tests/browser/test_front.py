"""The first screen of the front page: a sentence, two doors, and Hopper."""

import re

import pytest
from visits import PHONE

pytestmark = pytest.mark.browser

PAGE = "book/index.html"
LAPTOP = {"width": 1280, "height": 800}


def bottom(opened, selector):
    return opened.page.evaluate(
        "x => document.querySelector(x).getBoundingClientRect().bottom",
        selector,
    )


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["1280", "375"])
def test_all_of_it_is_on_the_first_screen(server, visit, size):
    opened = visit(server + PAGE, size=size)
    canvas = opened.page.locator(".hero canvas")
    canvas.wait_for()
    assert opened.page.locator(".hero .door").all_inner_texts() == [
        "Start chapter 1",
        "Try it",
    ]
    for selector in (".hero .door:last-child", ".hero canvas"):
        assert bottom(opened, selector) < size["height"]
    assert opened.overhang() <= 0
    # a patch under the finger, or one further by the keyboard
    box = canvas.bounding_box()
    point = opened.page.mouse
    point.move(box["x"] + 5, box["y"] + 5)
    assert "in row 1, column 1 listens" in canvas.get_attribute("aria-label")
    canvas.press("ArrowDown")
    canvas.press("ArrowLeft")  # the edge
    assert "in row 2, column 1 listens" in canvas.get_attribute("aria-label")
    point.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "in row 8, column 8 listens" in canvas.get_attribute("aria-label")
    assert opened.wrong == []  # axe then asks for what isn't there
    for scheme in ("light", "dark"):
        opened.look(scheme, size)
        assert opened.findings() == []


def test_it_is_light_and_says_what_it_is(server, site, visit):
    opened = visit(server + PAGE)
    page = opened.page
    page.locator(".hero canvas").wait_for()
    sizes = page.evaluate(
        """Object.fromEntries(["navigation", "resource"].flatMap((kind) =>
          performance.getEntriesByType(kind)).map(
            ({ name, decodedBodySize }) => [name, decodedBodySize]))"""
    )
    own = [sizes[x] for x in sizes if re.search("listen|hopper.js", x)]
    assert len(own) == 2 and sum(own) < 150_000
    assert len(sizes) > 30 and sum(sizes.values()) < 1_000_000
    assert page.title().count("16x16") == 1
    about = page.locator("meta[name=description]").get_attribute("content")
    assert about.startswith("Cut a photograph into squares")
    image = page.locator("meta[property='og:image']").get_attribute("content")
    assert (site / "_images" / image.rpartition("/")[2]).is_file()
