"""The page "Try it": its network is the package's, and its stations work."""

import io
import json
import re

import pytest
import torch
from PIL import Image

import vitedu
from tests.photographs import photographed
from vitedu.data import load_dataset, normalise, photo
from vitedu.data.readers.photos import PHOTOS

pytestmark = pytest.mark.browser

PAGE = "book/try.html"
TINY, REAL = "mnist-tiny", "ViT-Ti/16"
EMBEDDED = {
    "book/index.html": "hopper",
    "book/02_attention.html": "hopper",
    "book/04_vit.html": "astronaut",
}
# What a page computes of an array, with a change of the network; the map of one
# block, as there are millions of numbers in all. They go there and back in
# JSON: playwright takes seconds for so many by themselves.
CLASSIFY = """async ([pixels, changes, block]) => {
  const array = new Float32Array(JSON.parse(pixels));
  const { logits, top, maps } = await vitedu.classify(array, changes);
  const given = maps.map((map) => map !== null);
  return JSON.stringify(
    [[...logits], top, block === null ? given : [...maps[block]]]);
}"""


def load(opened, name):
    """Load a network by the console's call; what it answers."""
    return opened.page.evaluate(
        """async (name) => {
          const { config, classNames } = await vitedu.load(name);
          return [config, classNames];
        }""",
        name,
    )


def classify(opened, pixels, changes=None, block=None):
    """Logits, the five best, and a block's map or which blocks have one."""
    given = [json.dumps(pixels.flatten().tolist()), changes or {}, block]
    logits, top, maps = json.loads(opened.page.evaluate(CLASSIFY, given))
    return torch.tensor(logits), top, maps


def said(opened, code):
    """The error that a piece of JavaScript ends with."""
    return opened.page.evaluate(
        f"(async () => {{ {code} }})().then(() => '', (e) => e.message)"
    )


@pytest.fixture(scope="module")
def address(site, server):
    """Where the page is, over http and on disk."""
    return {"server": server + PAGE, "disk": (site / PAGE).as_uri()}


@pytest.fixture
def opened(visit, address):
    return visit(address["server"])


@pytest.fixture(scope="module")
def console(long_visit, address):
    """A page for questions of its console alone."""
    return long_visit(address["disk"])


@pytest.fixture(scope="module")
def named(long_visit, address):
    """A page that has its large network, whatever photograph it shows."""
    opened = long_visit(address["server"])
    with_network(opened)
    return opened


@pytest.fixture(scope="module")
def tiny():
    return vitedu.load(TINY)


@pytest.fixture(scope="module")
def real():
    return vitedu.load(REAL)


@pytest.fixture(scope="module")
def digits(tiny):
    """Fifty test digits: (50, 1, 28, 28)."""
    images = load_dataset("digits").test.images[::20][:50]
    return normalise(images.float(), tiny.preprocess)


@torch.no_grad()
def logits_and_maps(model, images):
    with vitedu.record_attention(model) as maps:
        return model(images), maps


# ------------------------------------------------- the network and its numbers


@pytest.mark.parametrize("where", ["server", "disk"])
def test_logits_of_fifty_digits_are_pytorchs(
    visit, address, where, tiny, digits
):
    opened = visit(address[where])
    config, names = load(opened, TINY)
    assert names == list(tiny.class_names)
    assert config["embed_dim"] == tiny.config.embed_dim
    want, _ = logits_and_maps(tiny, digits)
    found = torch.stack([classify(opened, image)[0] for image in digits])
    # its weights are rounded to 16 bits
    assert (found - want).abs().max() < 1e-3 * want.abs().max()
    assert torch.equal(found.argmax(dim=1), want.argmax(dim=1))
    assert opened.wrong == []


@pytest.mark.slow
def test_logits_and_maps_of_five_photographs_are_pytorchs(console, real):
    load(console, REAL)
    for block, name in enumerate(PHOTOS, start=7):
        image = vitedu.preprocess(real, photo(name))
        want, maps = logits_and_maps(real, image)
        logits, top, found = classify(console, image, block=block)
        assert (logits - want[0]).abs().max() < 1e-5 * want.abs().max()
        best = want[0].softmax(dim=0).topk(5)
        assert [each["index"] for each in top] == best.indices.tolist()
        assert [each["share"] for each in top] == pytest.approx(
            best.values.tolist(), abs=1e-4
        )
        assert top[0]["name"] == real.class_names[best.indices[0]]
        found = torch.tensor(found).view_as(maps[block])
        assert (found - maps[block]).abs().max() < 1e-4
    assert console.wrong == []


@pytest.mark.slow
def test_the_pages_own_resizing_is_pillows(console, real):
    load(console, REAL)
    console.page.evaluate("vitedu.run('photos.js')")
    for name in PHOTOS:
        found = console.page.evaluate(
            """async (name) => {
              const { preprocess } = await vitedu.load("ViT-Ti/16");
              const { read, cutOut, normalise } = vitedu.pictures;
              const cut = cutOut(await read(vitedu.photos[name]), preprocess);
              const pixels = normalise(cut, preprocess);
              const { top } = await vitedu.classify(pixels);
              return JSON.stringify([[...pixels], top]);
            }""",
            name,
        )
        pixels, top = json.loads(found)
        pixels = torch.tensor(pixels).view(1, 3, 224, 224)
        image = vitedu.preprocess(real, photo(name))
        # browsers decode JPEG by themselves: a level of 255 here and there
        assert (pixels - image).abs().mean() * 127.5 < 0.01
        assert (pixels - image).abs().max() * 127.5 < 4.5
        want, _ = logits_and_maps(real, image)
        assert [each["index"] for each in top] == want[0].topk(
            5
        ).indices.tolist()


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(31, 17), (9, 20), (200, 3)])
def test_any_picture_is_resized_as_by_pillow(console, size, interpolation):
    width, height = size
    generator = torch.Generator().manual_seed(0)
    bytes_ = torch.randint(0, 256, (height, width, 3), generator=generator)
    picture = Image.fromarray(bytes_.byte().numpy())
    how = Image.Resampling[interpolation.upper()]
    want = torch.tensor(list(picture.resize((20, 24), how).tobytes()))
    found = console.page.evaluate(
        """([data, width, height, how]) => [...vitedu.pictures.resize(
          { data, width, height, channels: 3 }, 20, 24, how).data]""",
        [bytes_.flatten().tolist(), width, height, interpolation],
    )
    assert (torch.tensor(found) - want).abs().max() <= 1


@pytest.mark.parametrize("tag", [1, 3, 6])
def test_a_photograph_is_turned_upright(console, tag):
    picture = photo("coffee").resize((60, 40))
    content = photographed(picture, tag, "JPEG", quality=95, subsampling=0)
    width, height, found = console.page.evaluate(
        """async (bytes) => {
          const file = new File([new Uint8Array(bytes)], "own.jpg");
          const { width, height, data } = await vitedu.pictures.read(file);
          return [width, height, [...data]];
        }""",
        list(content),
    )
    want = torch.tensor(list(picture.tobytes()))
    assert (width, height) == picture.size
    assert (torch.tensor(found) - want).abs().float().mean() < 4  # a JPEG's


def broken(changes):
    """The small network in 16 bits, changed as the page's switches do."""
    model = vitedu.load(TINY).half().float()
    if changes.get("positions") is False:
        model.pos_embed.data.zero_()
    for block in changes.get("drop", ()):
        model.blocks[block] = torch.nn.Identity()
    if "head" in changes:
        for block in model.blocks:
            if isinstance(block, torch.nn.Identity):
                continue
            weight = block.attn.proj.weight.data
            kept = slice(8 * changes["head"], 8 * (changes["head"] + 1))
            only = torch.zeros_like(weight)
            only[:, kept] = weight[:, kept]
            block.attn.proj.weight.data = only
    return model


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": False},
        {"drop": [0]},
        {"drop": [1]},
        {"drop": [0, 1]},
        {"head": 0},
        {"head": 1, "drop": [1], "positions": False},
    ],
    ids=str,
)
def test_a_broken_network_is_the_same_broken_network(console, digits, changes):
    load(console, TINY)
    image = digits[:1]
    with torch.no_grad():
        want = broken(changes)(image)
    logits, _, maps = classify(console, image, changes)
    assert (logits - want[0]).abs().max() < 1e-5 * want.abs().max()
    dropped = changes.get("drop", ())
    assert maps == [block not in dropped for block in range(2)]


def test_shuffled_patches_are_the_patches_of_a_shuffled_picture(
    console, tiny, digits
):
    load(console, TINY)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
    patches = digits[0].unfold(1, 7, 7).unfold(2, 7, 7).reshape(16, 7, 7)
    rows = patches[order].view(4, 4, 7, 7).permute(0, 2, 1, 3)
    want, _ = logits_and_maps(tiny, rows.reshape(1, 1, 28, 28))
    logits, _, _ = classify(console, digits[0], {"order": order.tolist()})
    assert (logits - want[0]).abs().max() < 1e-3 * want.abs().max()
    without = {"positions": False}
    usual, _, _ = classify(console, digits[0], without)
    other, _, _ = classify(
        console, digits[0], {"order": order.tolist(), **without}
    )
    assert torch.allclose(usual, other, atol=1e-4)  # a bag of patches


@pytest.mark.parametrize(
    "name", [TINY, pytest.param(REAL, marks=pytest.mark.slow)]
)
def test_the_rollout_is_the_packages(console, name, digits):
    model = vitedu.load(name)
    load(console, name)
    small = name == TINY
    image = digits[:1] if small else vitedu.preprocess(model, photo("cat"))
    found = console.page.evaluate(
        """async ([name, pixels]) => {
          const model = await vitedu.load(name);
          const array = new Float32Array(JSON.parse(pixels));
          const answer = await model.classify(array);
          return [...vitedu.rollout(answer, model)];
        }""",
        [name, json.dumps(image.flatten().tolist())],
    )
    want = vitedu.interpret.attention_map(model, image)[0].flatten()
    assert torch.allclose(torch.tensor(found[1:]), want, atol=1e-4)


# ------------------------------------------------------------------- mistakes


def test_a_mistake_in_the_console_gets_a_sentence(opened):
    assert said(opened, "await vitedu.load('ViT-B/16')") == (
        'there is no network "ViT-B/16"; '
        "there are mnist-tiny, mae-mnist, ViT-Ti/16"
    )
    assert "Float32Array" in said(opened, "await vitedu.classify([1, 2])")
    few = "await vitedu.classify(new Float32Array(5))"
    assert "no loaded network reads 5 numbers" in said(opened, few)
    load(opened, TINY)
    assert "(mnist-tiny loaded)" in said(opened, few)
    nan = "await vitedu.classify(new Float32Array(784).fill(NaN))"
    assert said(opened, nan) == "mnist-tiny wants 1 x 28 x 28 finite numbers"
    other = "await vitedu.classify(new Float32Array(784), { block: 3 })"
    assert said(opened, other) == (
        'no change "block"; there are order, positions, drop, hide, move, '
        "grey, head, tokens, without"
    )
    for change, words in {
        "{ drop: 1 }": "drop is a list of blocks, from 0 on, for mnist-tiny",
        "{ drop: [2] }": "drop is a list of blocks, from 0 on, for mnist-tiny",
        "{ head: 2 }": "head is a head, from 0 on, for mnist-tiny",
        "{ head: '0' }": "head is a head, from 0 on, for mnist-tiny",
        "{ without: 'legs' }": "without is one of plus signs, norms, "
        "attention, MLPs, for mnist-tiny",
        "{ positions: 0 }": "positions is true or false, for mnist-tiny",
        "{ order: [1, 0] }": "order is the patches' numbers in another order, "
        "for mnist-tiny",
        "{ order: Array(16).fill(3) }": "order is the patches' numbers in "
        "another order, for mnist-tiny",
    }.items():
        code = f"await vitedu.classify(new Float32Array(784), {change})"
        assert said(opened, code) == words
    assert opened.wrong == []


def test_weights_that_do_not_arrive_can_be_asked_for_again(opened):
    page = opened.page
    page.route("**/vit-ti-16-3.js", lambda route: route.abort())
    button = page.get_by_role("button", name="Load the network")
    button.click()
    page.get_by_text("could not be loaded; try again").wait_for()
    page.unroute("**/vit-ti-16-3.js")
    assert button.is_enabled()
    button.click()
    page.locator(".try-found .guesses").first.wait_for()


def test_memory_that_is_refused_gets_a_sentence(opened):
    opened.page.evaluate(
        """() => { vitedu.faster = () => {
          throw new RangeError("Array buffer allocation failed");
        }; }"""
    )
    button = opened.page.get_by_role("button", name="Load the network")
    button.click()
    opened.page.get_by_text("not enough memory for the network").wait_for()
    assert button.is_enabled() and opened.wrong == []


@pytest.mark.parametrize(
    ("size", "kind"),
    [((10_000, 10_000), "PNG"), ((3000, 1), "PNG"), ((60, 40), "GIF")],
)
def test_a_picture_of_any_size_gets_an_answer(named, size, kind):
    content = io.BytesIO()
    more = [Image.new("L", size, 200)] * 2 if kind == "GIF" else []
    how = {"save_all": True, "append_images": more} if more else {}
    Image.new("L", size, 90).save(content, kind, **how)  # or it moves
    named.page.locator("input[accept='image/*']").set_input_files(
        {
            "name": f"any.{kind}",
            "mimeType": f"image/{kind.lower()}",
            "buffer": content.getvalue(),
        }
    )
    place = station(named, "photograph")
    place.locator(".try-found:not([aria-busy])").wait_for()
    assert "cannot" not in place.locator("> .try-said").inner_text()
    assert place.locator(".guesses").first.locator("li").count() == 5
    place.get_by_text("even the best of a thousand names").wait_for()


def test_a_file_that_is_no_picture_gets_a_sentence(named):
    notes = {
        "name": "notes.txt",
        "mimeType": "text/plain",
        "buffer": b"no picture",
    }
    named.page.locator("input[accept='image/*']").set_input_files(notes)
    named.page.get_by_text("cannot read notes.txt as").wait_for()
    # the photograph before it is still there
    assert named.page.locator(".try-found .guesses").first.is_visible()


# ------------------------------------------------------------- a click-through


def with_network(opened):
    """Load the large network by its button; the best class."""
    opened.page.get_by_role("button", name="Load the network").click()
    best = opened.page.locator(".try-found .guesses").first.locator("li").first
    best.wait_for()
    return best


def station(opened, name):
    return opened.page.locator(f".try[data-part={name}]")


def selection(place, name):
    return place.get_by_role("combobox", name=re.compile(f"^{name}"))


@pytest.mark.parametrize("where", ["server", "disk"])
def test_a_digit_is_read_while_it_is_drawn(visit, address, where):
    opened = visit(address[where])
    place = station(opened, "draw")
    words, status = place.locator(".try-said"), place.get_by_role("status")
    words.get_by_text("It reads a 3").wait_for()  # the example
    place.get_by_role("button", name="An example of 8").click()
    words.get_by_text("It reads an 8").wait_for()
    place.get_by_role("button", name="Clear").click()
    words.get_by_text("An empty sheet, it says, is a").wait_for()
    pad = place.locator(".try-pad")
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    x, mouse = box["x"] + 140, opened.page.mouse
    mouse.move(x, box["y"] + 40)
    mouse.down()
    mouse.move(x - 2, box["y"] + 140, steps=5)
    mouse.move(x - 4, box["y"] + 240, steps=5)
    words.get_by_text("It reads a 1").wait_for()  # still drawing
    assert place.locator(".try-meters .most").inner_text().strip() == "1"
    mouse.up()
    status.get_by_text("It reads a 1").wait_for(state="attached")
    assert opened.wrong == []


def test_a_patch_says_what_it_takes_from_others(opened):
    place = station(opened, "look")
    words = place.locator(".try-said")
    place.get_by_text("The patch in row 3, column 3 takes").wait_for()
    canvas = place.locator("canvas")
    canvas.focus()
    for key in ("ArrowLeft", "ArrowUp", "ArrowUp", "ArrowUp"):
        canvas.press(key)  # the last one would leave the picture
    assert "The patch in row 1, column 2 takes most" in words.inner_text()
    canvas.hover(position={"x": 5, "y": 5})
    assert "row 1, column 1 takes most" in words.inner_text()
    before = words.inner_text()
    block = place.get_by_role("slider", name="Block")
    block.press("ArrowLeft")
    assert "1 of 2" in place.inner_text()
    assert words.inner_text() != before
    selection(place, "Head").select_option("1")
    selection(place, "Ask").select_option("answer")
    assert "largest shares of the answer" in words.inner_text()
    assert "Equal shares would be 6.3%." in words.inner_text()
    assert block.is_disabled()
    # the head reads the patches' mean, so that is the question to ask
    assert place.locator("option[value=token]").is_hidden()


def test_breaking_changes_the_answer_and_mending_brings_it_back(opened):
    place = station(opened, "break")
    before, after = (place.locator(".guesses").nth(i) for i in range(2))
    assert before.inner_text() == after.inner_text()
    shuffle = place.get_by_label("shuffle the patches")
    shuffle.check()
    changed = place.locator(".guesses").nth(1)
    differ = """() => {
      const [one, two] = document.querySelectorAll(
        ".try[data-part=break] .guesses");
      return one.innerText !== two.innerText;
    }"""
    opened.page.wait_for_function(differ)
    picture = place.get_by_role("img")
    assert "random order" in picture.get_attribute("aria-label")
    place.get_by_label("take the positions away").check()
    place.get_by_role("button", name="Shuffle again").click()
    opened.settle()
    drop, head = (
        place.get_by_label("2", exact=True),
        selection(place, "in each"),
    )
    drop.check()
    head.select_option("0")
    for box in ("shuffle the patches", "take the positions away"):
        place.get_by_label(box).uncheck()
    drop.uncheck()
    head.select_option("")
    opened.page.wait_for_function(f"() => !({differ})()")
    assert before.inner_text() == changed.inner_text()


@pytest.mark.parametrize("where", ["server", "disk"])
def test_a_photograph_is_named_and_a_link_remembers_it(visit, address, where):
    opened = visit(address[where] + "#photo=cat&layer=9&head=2&patch=30")
    best = with_network(opened)
    assert "Egyptian cat" in best.inner_text()
    place = station(opened, "photograph")
    assert "9 of 12" in place.inner_text()
    assert selection(place, "Head").input_value() == "1"
    assert "row 3, column 3 takes" in place.inner_text()
    rows = place.locator(".try-after tbody tr")
    assert rows.count() == 12
    assert "Egyptian cat" in rows.last.inner_text()
    place.get_by_role("radio", name="a cup of coffee").check()
    place.get_by_text("espresso").first.wait_for()
    selection(place, "Ask").select_option("answer")
    opened.page.wait_for_function("location.hash.includes('view=answer')")
    again = visit(opened.page.url)
    assert "espresso" in with_network(again).inner_text()
    other = station(again, "photograph")
    assert "largest shares of the answer" in other.inner_text()
    # a heading's link changes nothing, another link to a photograph does
    again.page.evaluate("location.hash = '#break'")
    again.page.evaluate("location.hash = '#photo=rocket&layer=2&view=patch'")
    other.get_by_text("drilling platform").first.wait_for()
    assert "2 of 12" in other.inner_text()
    assert opened.wrong == again.wrong == []


def test_a_link_says_what_it_is_to_before_the_click(visit, address):
    opened = visit(address["server"] + "#photo=cat")
    place = station(opened, "photograph")
    assert "The link is to a cat; load" in place.inner_text()
    opened.settle()  # and what is above it has grown
    top = place.bounding_box()["y"]
    assert 0 <= top < 200
    opened = visit(address["server"] + "#photo=dog&layer=99")
    place = station(opened, "photograph")
    assert 'no photograph "dog"; there are hopper, cat' in place.inner_text()
    assert "military uniform" in with_network(opened).inner_text()


def test_many_changes_at_once_end_on_the_last(named):
    place = station(named, "photograph")
    for name in ("a cat", "a cup of coffee", "an astronaut", "a rocket on"):
        place.get_by_role("radio", name=name).check()
    place.get_by_text("drilling platform").first.wait_for()
    place.locator(".try-said").get_by_text("Looking").wait_for(state="detached")
    best = place.locator(".guesses").first.locator("li").first
    assert "drilling platform" in best.inner_text()


def test_a_photograph_may_be_dropped_anywhere_in_its_station(named):
    content = io.BytesIO()
    photo("coffee").save(content, "PNG")
    named.page.evaluate(
        """(bytes) => {
          const files = new DataTransfer();
          const content = new Uint8Array(JSON.parse(bytes));
          files.items.add(new File([content], "own.png"));
          const target = document.querySelector(".try-found canvas");
          const how = { dataTransfer: files, bubbles: true, cancelable: true };
          for (const name of ["dragover", "drop"]) {
            const event = new DragEvent(name, how);
            target.dispatchEvent(event);
            if (!event.defaultPrevented) throw new Error(`${name} got away`);
          }
        }""",
        json.dumps(list(content.getvalue())),
    )
    station(named, "photograph").get_by_text("espresso").first.wait_for()
    assert named.page.locator(".try-photos :checked").count() == 0


def test_a_photograph_of_the_readers_own_is_not_sent_anywhere(named):
    content = io.BytesIO()
    photo("coffee").rotate(90, expand=True).save(content, "PNG")
    own = {"name": "own.png", "mimeType": "image/png"}
    station(named, "photograph").get_by_role("radio", name="a cat").check()
    named.page.wait_for_function("location.hash.includes('photo=cat')")
    named.asked.clear()
    picker = named.page.locator("input[accept='image/*']")
    picker.set_input_files({**own, "buffer": content.getvalue()})
    named.page.wait_for_function(
        "!document.querySelector('.try-photos :checked')"
    )
    named.page.wait_for_function("!location.hash.includes('photo')")
    # a new address in the bar asks for the site's icon again
    own = ("blob:", f"{named.page.url.partition('/book')[0]}/_static/favicon")
    assert [url for url in named.asked if not url.startswith(own)] == []
    assert named.wrong == []


@pytest.mark.parametrize("page", EMBEDDED)
def test_look_is_in_chapters_and_on_the_first_page(server, visit, page):
    opened = visit(server + page)
    scripts = opened.page.locator("script[src*='vit-ti-16']")
    assert scripts.count() == 0  # nothing large without a click
    button = opened.page.get_by_role("button", name="Point at the patches")
    assert "15 MB" in button.inner_text()
    button.click()
    words = opened.page.locator(".try .try-said")
    either = re.compile("takes most|shares of the answer")
    words.get_by_text(either).wait_for()
    assert opened.wrong == []
    assert opened.overhang() <= 0


# ---------------------------------------------------------------- the page


def test_the_page_is_light_until_somebody_clicks(visit, address):
    opened = visit(address["server"])
    sizes = opened.page.evaluate(
        """performance.getEntriesByType("resource")
          .filter(({ name }) => name.includes("/_static/try/"))
          .map(({ name, decodedBodySize }) => [name, decodedBodySize])"""
    )
    names = {name.rpartition("/")[2] for name, _ in sizes}
    assert {"vit.js", "mnist-tiny.js"} < names
    assert not {"vit-ti-16-1.js", "photos.js", "digit-set.js"} & names
    assert sum(size for _, size in sizes) < 300_000


def test_the_engine_has_at_most_four_hundred_lines(site):
    text = (site / "_static/try/vit.js").read_text()
    assert text.count("\n") <= 400
    for each in ("eval(", "Function(", "import", "require"):
        assert each not in text


@pytest.mark.parametrize("more", ["", "'wasm-unsafe-eval'"])
def test_no_script_is_made_from_text(visit, address, more):
    """A policy without eval, as strict hosts send it, and WebAssembly's."""
    policy = (
        f"default-src 'self'; script-src 'self' 'unsafe-inline' {more}; "
        "style-src 'self' 'unsafe-inline'; worker-src blob:; "
        "img-src 'self' data: blob:; font-src 'self' data:"
    )
    opened = visit("about:blank")

    def serve(route):
        answer = route.fetch()
        headers = {**answer.headers, "content-security-policy": policy}
        route.fulfill(response=answer, headers=headers)

    opened.page.route("**/try.html*", serve)
    opened.go(address["server"])
    words = station(opened, "draw").locator(".try-said")
    words.get_by_text("It reads a 3").wait_for()
    assert "military uniform" in with_network(opened).inner_text()
    assert opened.wrong == []


def test_axe_finds_nothing_in_any_station(named):
    for each in named.page.locator(".try details").all():
        each.evaluate("details => { details.open = true }")
    named.is_easy_to_read()


def test_without_scripts_the_page_shows_a_picture(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address["server"])
    picture = page.locator("article img").first
    assert picture.is_visible() and picture.get_attribute("alt")
    assert page.locator("noscript p").is_visible()
    context.close()
