"""What Try it makes of patches, and of things that the reader teaches it."""

import json

import pytest
import torch
from test_try import PAGE, REAL, load, said, with_network

import vitedu
from vitedu.data import folder_of, load_folder, photo
from vitedu.interpret import components, removal, similar_to
from vitedu.interpret.tokens import patch_tokens

pytestmark = pytest.mark.browser

ASK = """async ([pixels, changes, code]) => {
  const array = new Float32Array(JSON.parse(pixels));
  const found = await vitedu.classify(array, changes);
  return JSON.stringify([...eval(code)(found)]);
}"""


def ask(opened, image, changes, code="(found) => found.logits"):
    given = [json.dumps(image.flatten().tolist()), changes, code]
    return torch.tensor(json.loads(opened.page.evaluate(ASK, given)))


@pytest.fixture(scope="module")
def seen(long_visit, server):
    opened = long_visit(server + PAGE)
    with_network(opened)
    return opened


@pytest.fixture(scope="module")
def real():
    return vitedu.load(REAL)


def taught(seen):
    """The station of five shots, with its network."""
    place = seen.page.locator(".try[data-part=shots]")
    begin = place.get_by_role("button", name="Teach it two things")
    if begin.is_visible():
        begin.click()
    return place


@pytest.mark.slow
def test_tokens_and_what_is_made_of_them_are_the_packages(seen, real):
    image = vitedu.preprocess(real, photo("cat"))
    block, patch = 6, (5, 6)
    want = patch_tokens(real, image, block)[0]
    tokens = ask(seen, image, {"tokens": block}, "(found) => found.tokens")
    assert torch.allclose(tokens.view_as(want), want, atol=2e-3)
    want = vitedu.evaluate.features(real, [(image, torch.zeros(1).long())])
    want = want.features[0]
    features = ask(seen, image, {}, "(found) => found.features")
    assert torch.allclose(features, want, atol=2e-3)
    colours = "(found) => vitedu.colours(found.tokens, 196).flat()"
    found = ask(seen, image, {"tokens": block}, colours).view(14, 14, 3)
    want = components(real, image, block)[0]
    for one, other in zip(found.unbind(-1), want.unbind(-1), strict=True):
        turned = min((one - x).abs().max() for x in (other, 1 - other))
        assert turned < 0.02  # the sign says nothing
    kin = f"(found) => vitedu.similar(found.tokens, 196, {5 * 14 + 6})"
    found = ask(seen, image, {"tokens": block}, kin)
    want = similar_to(real, image, patch, block)[0].flatten()
    assert torch.allclose(found, want, atol=1e-3)


def moved_out(model, image, patches):
    """Chapter 15's, for any patches: copies as registers, patches inwards."""
    tokens, positions = model.embed(image), model.pos_embed[0, 1:]
    rows = torch.tensor(patches) + 1
    copies = tokens[:, rows]
    row, column = rows.sub(1) // 14, rows.sub(1) % 14
    near = (row + (6.5 - row).trunc().sign()) * 14
    near = (near + column + (6.5 - column).trunc().sign()).long()
    tokens[:, rows] += positions[near] - positions[patches]
    tokens = torch.cat([tokens[:, :1], copies, tokens[:, 1:]], dim=1)
    return model.forward_head(model.norm(model.blocks(tokens)))


@pytest.mark.slow
def test_patches_that_are_left_out_or_moved_are_pythons(seen, real):
    image = vitedu.preprocess(real, photo("rocket"))
    corners = [0, 13, 182, 195]
    removed = torch.zeros(1, 196, dtype=torch.bool)
    removed[0, corners] = True
    want = removal.without(real, image, removed)[0]
    found = ask(seen, image, {"hide": corners})
    assert (found - want).abs().max() < 1e-5 * want.abs().max()
    load(seen, "mnist-tiny")
    with torch.no_grad():  # those four are the giants, in all five photographs
        want = removal.test_time_registers(real, image)(image)[0]
        found = ask(seen, image, {"move": corners, "grey": True})
        assert (found - want).abs().max() < 1e-5 * want.abs().max()
        for four in (corners, [60, 65, 130, 135]):
            want = moved_out(real, image, four)[0]
            found = ask(seen, image, {"move": four})
            assert (found - want).abs().max() < 1e-5 * want.abs().max()
    for move in ("[0], positions: false", "Array(17).fill(0)", "[196]"):
        pixels, change = "new Float32Array(150528)", f"{{ move: {move} }}"
        assert "move is a list of up to 16 patches" in said(
            seen, f"await vitedu.classify({pixels}, {change})"
        )
    for hide in ("[16]", "3", "[...Array(16).keys()]"):
        assert "hide is a list of patches, from 0 on, but not of all" in said(
            seen,
            f"await vitedu.classify(new Float32Array(784), {{ hide: {hide} }})",
        )
    assert "tokens is a block" in said(
        seen, "await vitedu.classify(new Float32Array(784), { tokens: 2 })"
    )


def test_a_patch_shows_what_is_like_it(seen):
    place = seen.page.locator(".try[data-part=photograph]")
    words = place.locator(".try-kinds .try-said")
    words.get_by_text("Patches of one colour are alike").wait_for()
    canvas = place.locator(".try-kinds canvas")
    canvas.focus()
    canvas.press("ArrowUp")
    words.get_by_text("cosine above 0.5 with the one in row 7").wait_for()
    before = words.inner_text()
    place.locator(".try-kinds input[type=range]").fill("2")
    seen.page.wait_for_function(
        "(was) => document.querySelector('.try-kinds .try-said')"
        ".innerText !== was",
        arg=before,
    )
    place.locator(".try-kinds").get_by_text("2 of 12").wait_for()
    assert seen.wrong == []


def test_it_leaves_out_any_blocks_and_patches(seen):
    place = seen.page.locator(".try[data-part=photograph]")
    before, after = (
        place.locator(".try-break .guesses").nth(i) for i in range(2)
    )
    after.wait_for()
    blocks = place.get_by_role("group", name="leave out blocks")
    for block in ("3", "7"):
        blocks.get_by_role("checkbox", name=block, exact=True).check()
    choose = {
        name: place.get_by_role("combobox", name=name, exact=True)
        for name in ("take", "and")
    }
    said = set()
    for which in ("corners", "middle"):
        choose["take"].select_option(which)
        for how in ("hide", "move", "grey"):
            choose["and"].select_option(how)
            place.locator(".try-break [aria-busy]").wait_for(state="detached")
            said.add(after.inner_text())
    assert len(said) > 4 and before.inner_text() not in said
    place.get_by_label("take the positions away").check()
    assert choose["and"].input_value() == "hide"
    place.get_by_label("take the positions away").uncheck()
    assert seen.wrong == []


def test_two_things_are_taught_from_photographs(seen):
    place = taught(seen)
    place.get_by_text("So far 0 of first thing, 0 of second").wait_for()
    rubbish = load_folder(folder_of("trashnet-small")).train
    chosen = {"glass": [], "paper": []}
    for path, label in rubbish:
        chosen.get(rubbish.class_names[label], []).append(path)
    fields = place.get_by_role("textbox", name="What it is")
    for at, (name, files) in enumerate(chosen.items()):
        fields.nth(at).fill(name)
        place.get_by_label("Photographs").nth(at).set_input_files(files[:5])
        place.get_by_text(f"5 of {name}").first.wait_for()
    for name, files in chosen.items():
        assert len(files) > 5
        place.get_by_label("A new photograph").set_input_files(files[5])
        place.locator(".guesses li").first.get_by_text(name).wait_for()
    assert "times as far" in place.locator(".guesses li").last.inner_text()
    text = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"no"}
    place.get_by_label("A new photograph").set_input_files(text)
    place.get_by_text("cannot read a.txt as a picture").wait_for()
    place.get_by_role("button", name="Another thing").click()
    assert fields.count() == 3
    seen.is_easy_to_read()


def test_the_camera_is_asked_for_and_may_be_refused(seen):
    place = taught(seen)
    shoot = place.get_by_role("button", name="Take one with").last
    seen.page.evaluate(
        "() => { navigator.mediaDevices.getUserMedia = "
        "() => Promise.reject(Error()); }"
    )
    shoot.click()
    place.get_by_text("the camera cannot be used here").wait_for()
    seen.page.evaluate(
        """() => { navigator.mediaDevices.getUserMedia = async () => {
          const canvas = document.createElement("canvas");
          canvas.getContext("2d").fillRect(0, 0, 300, 150);
          return canvas.captureStream(10);
        }; }"""
    )
    shoot.click()
    place.get_by_text("The camera is on.").wait_for()
    shoot.click()
    place.get_by_role("img", name="the photograph in question").wait_for()
    place.get_by_role("button", name="Switch the camera off").click()
    assert place.locator("video").is_hidden()
    assert seen.wrong == []


def test_a_patch_is_followed_in_true_numbers(server, visit):
    opened = visit(server + PAGE)
    place = opened.page.locator(".try[data-part=walk]")
    place.scroll_into_view_if_needed()
    words = place.get_by_text("A photograph, as the network reads it")
    words.wait_for()
    # who wants no motion steps, or drags
    assert place.get_by_role("button", name="Play").count() == 0
    for _ in range(3):
        place.get_by_role("button", name="Next").click()
    place.get_by_text("E turns them into a word").wait_for()
    slider = place.get_by_role("slider")
    slider.fill("6")
    share = opened.page.evaluate(
        "Math.max(...vitedu.walk.shares.slice(1)) * 100"
    )
    place.get_by_text(f"That patch gets {share:.1f}%").wait_for()
    slider.press("ArrowLeft")
    assert float(slider.input_value()) == pytest.approx(5.99)
    opened.is_easy_to_read()
    assert opened.wrong == []
