"""Questions that wait for the reader, in a browser; all of them: test_site."""

import sys

import pytest
from visits import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from predictions import predictions

pytestmark = pytest.mark.browser


def first_field(opened):
    return opened.page.locator(".predict-box:has(input)").first


def test_a_field_takes_numbers_alone(server, visit):
    opened = visit(f"{server}book/02_attention.html")
    box = first_field(opened)
    field, word = box.locator("input"), box.get_by_role("status")
    for words in ("many", "", "1,5", "6 6"):
        field.fill(words)
        field.press("Enter")
        assert "needs to be a number" in word.inner_text()
        assert field.is_enabled()
    field.fill("66 %")
    field.press("Enter")
    assert word.inner_text().startswith("Right.")
    box.get_by_role("button", name="Ask me again").click()
    field.fill("80")
    field.press("Enter")
    assert word.inner_text() == "Close."


def test_a_guess_is_remembered_here_alone_and_can_be_taken_back(server, visit):
    opened = visit(f"{server}book/04_vit.html")
    box = opened.page.locator(".predict-box").first
    opened.answer(box, 2)
    opened.page.reload()
    box = opened.page.locator(".predict-box").first
    assert box.get_by_role("button").nth(1).get_attribute("aria-pressed")
    first, *_ = predictions()["04_vit"]
    ((_, said), *_) = first["says"]  # of the second choice
    assert said in box.get_by_role("status").inner_text()
    box.get_by_role("button", name="Ask me again").click()
    opened.page.reload()
    assert opened.page.locator(".predict-word").first.inner_text() == ""
    assert opened.wrong == []  # nobody was asked, either


def test_show_me_opens_without_a_guess(server, visit):
    opened = visit(f"{server}book/03_encoder.html")
    box = opened.page.locator(".predict-box").first
    after = box.locator("xpath=following-sibling::*[1]")
    assert not after.is_visible()
    box.get_by_role("button", name="Show me").click()
    assert after.is_visible()
    assert box.get_by_role("status").inner_text() == ""


def test_the_keyboard_is_enough(server, visit):
    opened = visit(f"{server}book/04_vit.html")
    box = opened.page.locator(".predict-box").first
    box.get_by_role("button").first.focus()
    opened.page.keyboard.press("Tab")
    opened.page.keyboard.press("Enter")
    pressed = box.get_by_role("button").nth(1)
    assert pressed.get_attribute("aria-pressed") == "true"


def test_without_javascript_and_in_print_everything_is_there(
    browser, server, visit
):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{server}book/04_vit.html")
    assert page.locator("li", has_text="football helmet").is_visible()
    assert page.locator("text=loss 0.7966").is_visible()
    assert page.locator(".predict-box").count() == 0
    assert page.locator("text=four heads silent silent ALARM").is_visible()
    context.close()
    opened = visit(f"{server}book/04_vit.html")
    opened.page.emulate_media(media="print")
    assert opened.page.locator("li", has_text="football helmet").is_visible()
    assert opened.page.locator("text=loss 0.7966").is_visible()
    assert not opened.page.locator(".predict-box").first.is_visible()


def test_an_answered_question_is_easy_to_read(server, visit):
    opened = visit(f"{server}book/02_attention.html")
    boxes = opened.page.locator(".predict-box")
    opened.answer(boxes.nth(0), 2)
    opened.answer(boxes.nth(1), 66)
    opened.is_easy_to_read()


def test_a_link_into_an_answer_opens_it(server, visit):
    opened = visit(f"{server}book/04_vit.html")
    box = opened.page.locator(".predict-box").first
    after = box.locator("xpath=following-sibling::*[1]")
    after.evaluate("each => { each.id = 'inside' }")
    opened.page.evaluate("location.hash = 'inside'")
    opened.settle()
    assert after.is_visible()
