"""Switches and sliders in chapters, in a browser, against what pages print."""

import math
import re

import nbformat
import pytest
import torch
from visits import DESKTOP, ROOT

import vitedu
from vitedu import results

pytestmark = pytest.mark.browser
KEYS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
DEGREES = dict(zip(KEYS, (4, 10, 22, 14), strict=True))


def outputs(page):
    notebook = nbformat.read(ROOT / f"book/{page}.ipynb", as_version=4)
    for cell in notebook.cells:
        yield from cell.get("outputs", [])


def printed(page, start):
    """The lines that a chapter prints, below the one that starts so."""
    for output in outputs(page):
        if output.get("text", "").startswith(start):
            return output.text.splitlines()
    raise LookupError(start)


def unfold(opened, *, is_read=False):
    """Show what waits for a guess: the switches of some pages are there."""
    boxes = opened.page.locator(".predict-box")
    while (button := boxes.get_by_role("button", name="Show me")).count():
        button.first.click()
    station = ".try-switch, .try-three"
    opened.page.locator(station).first.wait_for(state="attached")
    if is_read:  # here, as the page is open
        opened.is_easy_to_read()
        opened.look("light", DESKTOP)


def loaded(opened, words):
    unfold(opened)
    opened.page.get_by_role("button", name=words).click()
    guesses = opened.page.locator(".try-switch .guesses li")
    guesses.first.wait_for()
    return guesses


def test_the_compass_turns_and_answers_as_the_chapter(server, visit):
    opened = visit(f"{server}book/02_attention.html")
    unfold(opened, is_read=True)
    for degrees, length in ((26.565, 1), (90, 5), (200, 50)):
        found = opened.page.evaluate(f"vitedu.askWinds({degrees}, {length})")
        turn = math.radians(degrees)
        powers = [
            math.exp(length * (x * math.sin(turn) + y * math.cos(turn)))
            for x, y in KEYS.values()
        ]
        shares = [power / sum(powers) for power in powers]
        assert found["shares"] == pytest.approx(shares)
        warm = sum(map(math.prod, zip(shares, DEGREES.values(), strict=True)))
        assert found["answer"] == pytest.approx(warm)
    box = opened.page.locator(".try-switch")
    said, sliders = box.locator(".try-head"), box.locator("input")
    # the chapter's query, north-north-east, of length 1
    line = printed("02_attention", "query of length  1")[0]
    warm = float(re.search(r"([\d.]+) °C", line)[1])
    assert said.inner_text() == f"The answer: {warm:.2f} °C"
    sliders.first.fill("180")
    sliders.last.fill("4")
    assert said.inner_text() == "The answer: 22.00 °C"  # the south wind's
    assert opened.wrong == []


PARTS = ("nothing", "the plus signs", "the norms", "attention", "the MLPs")


def test_a_part_taken_out_gives_what_the_chapter_prints(server, visit):
    opened = visit(f"{server}book/03_encoder.html")
    guesses = loaded(opened, "Take the parts out yourself")
    photographs, taken = opened.page.locator(".try-switch select").all()
    told = " ".join(str(each) for each in outputs("03_encoder"))
    for part in PARTS:
        row = "whole" if part == "nothing" else part.removeprefix("the ")
        taken.select_option(label=part)
        _, *columns = re.search(rf"{row}: (.*?%)[;.]", told)[1].split(", ")
        for photograph, column in zip(("cat", "coffee"), columns, strict=True):
            photographs.select_option(photograph)
            name, percent = column.removesuffix("%").rsplit(" ", 1)
            first = guesses.first
            first.get_by_text(name).wait_for()
            opened.page.wait_for_function(
                "!document.querySelector('.try-switch [aria-busy]')"
            )
            share = float(first.get_attribute("style").partition(":")[2])
            # the page reads 16-bit weights
            assert abs(share - float(percent)) < 2
    assert opened.wrong == []


def test_mixing_goes_from_one_photograph_to_the_other(server, visit):
    opened = visit(f"{server}book/06_recipe.html")
    guesses = loaded(opened, "Mix them yourself")
    share = opened.page.locator(".try-switch input")
    share.fill("100")
    guesses.first.get_by_text("cat").wait_for()
    share.fill("0")
    guesses.first.get_by_text("espresso").wait_for()
    label = "under 0.1% a cat, and the rest a cup of coffee"
    opened.page.locator(f".try-switch canvas[aria-label='{label}']").wait_for()
    assert opened.wrong == []


def test_a_click_on_a_patch_shows_its_kin(server, visit):
    opened = visit(f"{server}book/20_beyond.html")
    unfold(opened, is_read=True)
    box = opened.page.locator(".try-kin")
    canvas, words = box.locator("canvas"), box.locator(".try-said")
    # the chapter frames row 18, column 8 of the astronaut: a patch of her suit
    where = canvas.bounding_box()
    side = where["width"] / 32
    canvas.click(position={"x": 8.5 * side, "y": 18.5 * side})
    words.get_by_text("Row 18, column 8").wait_for()
    alt = next(
        output.metadata["image/png"]["alt"]
        for output in outputs("20_beyond")
        if "outlines of what is like"
        in output.get("data", {}).get("text/plain", "")
    )
    share = int(re.search(r"suit (\d+)%", alt)[1])
    near = int(re.search(r": (\d+) of 1024", words.inner_text())[1])
    # the page has 24 of a token's 192 numbers
    assert abs(100 * near / 1024 - share) < 4
    canvas.press("ArrowUp")
    words.get_by_text("Row 17, column 8").wait_for()
    box.locator("select").select_option("rocket")
    # once the picture is decoded
    box.locator("[aria-label='rocket. Row 17, column 8']").wait_for()
    assert opened.wrong == []


CORNERS = {
    "as they are": "as it is",
    "dropped": "corners dropped",
    "painted grey": "corners emptied",
    "swapped with the middle": "positions swapped",
    "moved inwards": "corners moved inwards",
    "moved inwards, grey registers": "moved inwards, four empty tokens",
    "moved inwards, copies as registers": "moved inwards, four copies",
}


def test_corners_changed_by_hand_cost_what_the_table_prints(server, visit):
    opened = visit(f"{server}book/15_inside.html")
    unfold(opened, is_read=True)
    box = opened.page.locator(".try-corners")
    change, photograph = box.locator("select").all()
    photograph.select_option("cat")
    rows = printed("15_inside", " " * 34 + "loss")
    for words, start in CORNERS.items():
        change.select_option(label=words)
        line = next(row for row in rows if row.startswith(f"{start}  "))
        loss, _, more, _, error, _ = line.removeprefix(start).split()
        head = box.locator(".try-head").inner_text()
        assert head.startswith(f"Loss on a thousand photographs: {loss}")
        if start != "as it is":
            assert head.endswith(f"({more} ± {error})")
        giants = re.findall(r"\d+ in|\d+ among", box.inner_text())
        gone = words == "dropped" or words.startswith("moved")
        assert (giants[0] == "0 in") == gone
    assert giants == ["0 in", "4 among"]  # as the chapter's figure
    photograph.select_option("rocket")
    alt = "rocket and how long its tokens are, corners moved inwards, copies"
    box.locator(f"[aria-label^='{alt}']").wait_for()
    assert opened.wrong == []


def test_six_networks_are_asked_about_two_places(server, visit):
    opened = visit(f"{server}book/16_ablations.html")
    unfold(opened, is_read=True)
    box = opened.page.locator(".try-switch")
    canvas, said = box.locator("canvas"), box.locator(".try-said")
    everybody = "Right: 1-D, relative, mended, 2-D, sin-cos, RoPE."
    said.get_by_text(everybody).wait_for()
    box.get_by_role("button", name="Both to the other half").click()
    said.get_by_text("A in row 6, column 1; B in row 6, column 6").wait_for()
    said.get_by_text("Right: mended, 2-D, sin-cos, RoPE.").wait_for()
    canvas.press("ArrowUp")
    said.get_by_text("A in row 5, column 1").wait_for()
    # B is dragged into A's column
    where = canvas.bounding_box()
    cell = where["width"] / 6
    canvas.drag_to(
        canvas,
        source_position={"x": 5.5 * cell, "y": 5.5 * cell},
        target_position={"x": 0.5 * cell, "y": 1.5 * cell},
    )
    said.get_by_text("B in row 2, column 1").wait_for()
    box.get_by_text("Neither is further left.").wait_for()
    # of every pair, the page reads what a network says
    metrics = results.read("ablations-halves")["metrics"]
    tenths = metrics["relation/1-D/0.5/upper/upper"]["pairs_of_seed_0"]
    pairs = [(a, b) for a in range(36) for b in range(36) if a % 6 != b % 6]
    found = opened.page.evaluate(
        "([tenths, pairs]) =>"
        " pairs.map(([a, b]) => vitedu.tenthsOf(tenths, a, b)).join('')",
        [tenths, pairs],
    )
    assert found == tenths
    assert opened.wrong == []


def test_a_digit_is_completed_as_by_the_package(server, visit):
    opened = visit(f"{server}book/19_unlabelled.html")
    unfold(opened, is_read=True)
    place = opened.page.locator("[data-part=mask]")
    canvas = place.locator("canvas").first
    kept = [i in range(42) and i % 7 in (2, 3) for i in range(49)]
    told = "".join("01"[not each] for each in kept)
    opened.page.locator(f"[data-completed='{told}']").wait_for()
    place.get_by_text("It sees 12 of 49 patches.").wait_for()
    assert place.locator(".guesses li").count() == 3
    canvas.press(" ")  # the cursor is on a patch that it sees
    place.get_by_text("It sees 11 of 49 patches.").wait_for()
    # a digit of the reader's own: the first stroke clears the sample
    pad = place.locator(".try-pad")
    side = pad.bounding_box()["width"]
    pad.drag_to(
        pad,
        source_position={"x": side / 2, "y": 0.1 * side},
        target_position={"x": side / 2, "y": 0.9 * side},
    )
    read = ".guesses li:first-child span:first-child"
    place.locator(read, has_text=re.compile("^1$")).wait_for()
    # the numbers: those of an image of noise
    pixels = torch.rand(1, 1, 28, 28, generator=torch.Generator()) * 2 - 1
    mask = ~torch.tensor([kept])
    found = opened.page.evaluate(
        """async ([pixels, hidden]) => {
        const model = await vitedu.load("mae-mnist");
        const { patches } = await model.complete(
          Float32Array.from(pixels), hidden);
        return [...patches];
        }""",
        [pixels.flatten().tolist(), mask[0].tolist()],
    )
    model = vitedu.load("mae-mnist")
    with torch.no_grad():
        want = model.decode(model.encode(pixels, mask), mask).flatten()
    assert torch.allclose(torch.tensor(found), want, atol=2e-2)
    assert opened.wrong == []


def test_the_slider_of_sizes_says_what_the_chapter_printed(server, visit):
    opened = visit(f"{server}book/10_resolution.html")
    unfold(opened)
    box = opened.page.locator("[data-part=sizes]")
    head, words = box.locator(".try-head"), box.locator(".try-said")
    for line in printed("10_resolution", "224 pixels: "):
        side, best = re.match(r"(\d+) pixels: ([^,]+),", line).groups()
        box.locator("input").fill(side)
        assert head.inner_text() == best
        assert f"{(int(side) // 16) ** 2} patches" in words.inner_text()
    assert opened.wrong == []
