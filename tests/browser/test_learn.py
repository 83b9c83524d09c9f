"""The station "Learn": its gradients are PyTorch's, and it learns."""

import json
import math
import re

import pytest
import torch
import torch.nn.functional as F
from visits import DESKTOP, PHONE

import vitedu
from vitedu.data import glyphs
from vitedu.plain import ViT, train_step, warmup_cosine

pytestmark = pytest.mark.browser

PAGE = "book/try.html"
# The station without the rest of the page, which takes far longer to open.
SCRIPTS = "vit networks kernels pictures try train teach tasks".split()
SCRIPTS += ["learner", "learn"]
BARE = (
    '<!DOCTYPE html><title>Learn</title><div class="try" %s></div>'
    + "".join(
        f'<script src="_static/try/{name}.js"></script>' for name in SCRIPTS
    )
)
# A new worker, a network in it with these weights; then what `code` asks for.
WORKER = """async (told) => {
  const [settings, weights, given] = JSON.parse(told);
  const { employ, teacher, trainable, kernels, tasks } = vitedu;
  const worker = employ(teacher, trainable, kernels, tasks);
  const ask = (call, given) => worker({ call, given });
  const { isFast } = await ask("start", settings);
  if (weights) await ask("put", { weights });
  const listed = async (how) => (await ask("weights", how)).map(
    ([name, , numbers]) => [name, [...numbers]]);
  const code = async () => { %s };
  return JSON.stringify(await code());
}"""
STEPS = """
  const losses = [];
  let gradients;
  for (const rate of given.rates) {
    losses.push(await ask("step", { ...given, rate }));
    gradients ??= await listed({ gradients: true });
  }
  return [isFast, losses, Object.fromEntries(gradients),
    Object.fromEntries(await listed())];
"""
SIZES = [(7, 16, 2, 2), (14, 32, 1, 4), (4, 16, 3, 1)]


def asked(opened, code, *given):
    """What a new worker answers; in JSON, as playwright takes its time."""
    return json.loads(opened.page.evaluate(WORKER % code, json.dumps(given)))


def listed(model):
    arrays = model.state_dict().items()
    return [[k, list(x.shape), x.flatten().tolist()] for k, x in arrays]


@pytest.fixture
def bare(server, visit):
    """Open a page with the station, or its scripts alone."""

    def open_(part="learn", where="", size=DESKTOP, **headers):
        opened = visit("about:blank", size=size)
        body = BARE % f"data-part={part}"
        opened.page.route(
            "**/bare.html*",
            lambda route: route.fulfill(
                body=body, headers={"content-type": "text/html", **headers}
            ),
        )
        opened.go(f"{server}bare.html{where}")
        return opened

    return open_


def station(opened):
    place = opened.page.locator(".try[data-part=learn]")
    place.scroll_into_view_if_needed()
    place.get_by_text("weights, all at random").wait_for()
    return place


def selection(place, name):
    return place.get_by_role("combobox", name=re.compile(f"^{name}"))


def told(place):
    """Steps so far, and the percentage that is right."""
    words = place.locator(".try-head").first.inner_text()
    steps, _, rest = words.removeprefix("Step ").partition(": ")
    return int(steps.replace(",", "")), float(rest.partition("%")[0])


def test_gradients_and_steps_are_pytorchs(bare):
    opened = bare("none")
    images = torch.rand(6, 1, 28, 28, dtype=torch.float64) * 2 - 1
    truth = torch.tensor([1, 2, 3, 9, 0, 5])
    for patch, width, depth, heads in SIZES:
        torch.manual_seed(0)
        sizes = {"embed_dim": width, "depth": depth, "num_heads": heads}
        model = ViT(28, patch, 1, 10, **sizes, mlp_dim=4 * width).double()
        for weight in model.parameters():  # the head begins at zero
            weight.data += 0.1 * torch.randn_like(weight)
        weights = listed(model)
        loss = F.cross_entropy(model(images), truth)
        loss.backward()
        gradients = {k: x.grad.clone() for k, x in model.named_parameters()}
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
        losses = [train_step(model, optimizer, images, truth) for _ in "ab"]
        settings = {"patch": patch, "width": width, "depth": depth}
        settings |= {"heads": heads, "batch": 8, "seed": 0, "positions": True}
        given = {
            "images": images.flatten(1).tolist(),
            "truth": truth.tolist(),
            "rates": [0.003, 0.003],
        }
        for kind, most in {"float64": 1e-6, "float32": 1e-3}.items():
            isFast, found, slopes, after = asked(
                opened, STEPS, settings | {"kind": kind}, weights, given
            )
            assert isFast == (kind == "float32")
            assert found == pytest.approx([x.item() for x in losses], rel=most)
            for name, gradient in gradients.items():
                slope = torch.tensor(slopes[name]).double()
                slope = slope.view_as(gradient)
                error = (slope - gradient).norm() / gradient.norm()
                assert error < most, name
            if kind == "float64":  # Adam divides 0 by 0, nearly
                for name, weight in model.named_parameters():
                    new = torch.tensor(after[name]).double().view_as(weight)
                    assert torch.allclose(new, weight, rtol=0, atol=1e-6)
    assert opened.wrong == []


def test_first_values_are_drawn_as_in_chapter_4(bare):
    opened = bare("none")
    settings = {"patch": 7, "width": 64, "depth": 1, "heads": 2, "batch": 1}
    settings |= {"seed": 3, "positions": True}
    code = "return await listed();"
    found = dict(asked(opened, code, settings, None, None))
    torch.manual_seed(0)
    model = ViT(28, 7, 1, 10, embed_dim=64, depth=1, num_heads=2, mlp_dim=256)
    for name, want in model.state_dict().items():
        weight = torch.tensor(found[name])
        assert weight.numel() == want.numel()
        if want.numel() < 1000 or want.abs().max() in (0, 1):
            assert weight.abs().max() < 1e-5 or want.abs().max() > 0
            continue
        # standard deviations of a thousand draws or more
        assert weight.std() == pytest.approx(want.std().item(), rel=0.1)
        assert weight.mean().abs() < 0.1 * weight.std()
        assert weight.abs().max() == pytest.approx(
            want.abs().max().item(), rel=0.4
        )


def test_the_console_trains_and_answers(bare):
    opened = bare("none")
    accuracy, steps, losses, rates, again = opened.page.evaluate(
        """async () => {
          const { accuracy, steps, losses } =
            await vitedu.learn({ steps: 300, seed: 1 });
          const ask = await vitedu.learning.learner();
          await ask("start", { ...vitedu.learning.checked({ steps: 300,
            seed: 1 }), batch: vitedu.learning.BATCH });
          const rates = [], again = [];
          for (let step = 0; step < 40; step++) {
            const told = await ask("train", { most: 1 });
            rates.push(told.rate);
            again.push(...told.losses);
          }
          return [accuracy, steps, losses, rates, again];
        }"""
    )
    assert steps == len(losses) == 300
    assert losses[0] == pytest.approx(math.log(10), rel=1e-4)
    assert sum(losses[-20:]) / 20 < 1 and accuracy > 65
    assert (5 * accuracy) % 1 == pytest.approx(0)  # of 500
    assert again == losses[:40]  # it follows from the seed
    want = [warmup_cosine(step, 0.01, 300, 30) for step in range(1, 41)]
    assert rates == pytest.approx(want)


def test_a_mistake_in_the_console_gets_a_sentence(bare):
    opened = bare("none")
    for code, words in {
        "{ depth: 9 }": "depth is one of 1, 2, 3, 4, not 9",
        "{ seed: -1 }": "seed is a whole number from 0 on, not -1",
        "{ blocks: 2 }": 'no setting "blocks"; there are task, patch, width, '
        "depth, heads, positions, positionStd, shuffled, rate, steps, seed",
        "{ seconds: 0 }": "seconds is a number above 0, not 0",
    }.items():
        assert words == opened.page.evaluate(
            f"vitedu.learn({code}).catch((error) => error.message)"
        )


@pytest.mark.parametrize("where", ["bare", "disk"])
def test_it_learns_while_you_watch(bare, site, visit, where):
    opened = bare() if where == "bare" else visit((site / PAGE).as_uri())
    place, page = station(opened), opened.page
    assert told(place)[0] == 0
    play = place.get_by_role("button", name="Play", exact=True)
    play.click()
    page.wait_for_function("+document.querySelector('.try[data-part=learn] "
      ".try-head').textContent.match(/\\d+/)[0] > 20")  # fmt: skip
    place.get_by_role("button", name="Pause").click()
    place.get_by_text("Paused.").wait_for()
    page.wait_for_timeout(300)
    steps, _ = told(place)
    fold = place.locator("details:has(.try-sizes)")
    fold.evaluate("fold => { fold.open = true }")
    place.locator(".try-sizes li").first.wait_for()
    sizes = place.locator(".try-sizes li").all_inner_texts()
    grown = [re.findall(r"0\.\d{3}", each) for each in sizes]
    assert len(grown) == 3 + 2 * 4 + 1  # class token, positions, E; head
    assert any(now != before for now, before in grown)
    place.get_by_role("button", name="One step").click()
    place.get_by_text(f"Step {steps + 1}:").wait_for()
    # another patch size begins anew, with maps of its own
    selection(place, "Patch size").select_option(label="14")
    place.get_by_text("Step 0:").wait_for()
    place.get_by_label("shuffled labels").check()
    page.wait_for_function("location.hash === '#learn=patch-14_shuffled-true'")
    look = place.locator(".try-look canvas")
    look.focus()
    look.press("ArrowLeft")
    place.get_by_text("The patch in row 2, column 1 takes").wait_for()
    place.get_by_role("button", name="A 7, taken for").click()
    place.get_by_role("button", name="Ten others").click()
    assert place.locator(".try-ten canvas").count() == 10
    assert opened.wrong == []


def test_saved_weights_are_the_packages_and_come_back(bare, tmp_path):
    opened = bare()
    place, page = station(opened), opened.page
    selection(place, "Blocks").select_option(label="1")
    place.get_by_role("button", name="One step").click()
    place.get_by_text("Step 1:").wait_for()
    place.get_by_role("button", name="One step").click()
    place.get_by_text("Step 2:").wait_for()
    _, accuracy = told(place)
    with page.expect_download() as download:
        place.get_by_role("button", name="Save its weights").click()
    path = tmp_path / "mine.safetensors"
    download.value.save_as(path)
    model = vitedu.load(path)
    assert model.config.depth == 1 and model.class_names[3] == "3"
    digits = vitedu.data.load_dataset("digits").test
    images = vitedu.data.normalise(digits.images.float(), model.preprocess)
    right = (model(images).argmax(dim=1) == digits.labels).float().mean()
    assert 100 * right.item() == pytest.approx(accuracy, abs=0.21)
    place.get_by_role("button", name="Start over").click()
    place.get_by_text("Step 0: 10.0%").wait_for()
    picker = place.locator("input[type=file]")
    picker.set_input_files(path)
    place.get_by_text("as you saved them").wait_for()
    assert told(place) == (0, accuracy)
    picker.set_input_files({"name": "no.safetensors",
      "mimeType": "text/plain", "buffer": b"nothing"})  # fmt: skip
    place.get_by_text("this file holds no network that was saved").wait_for()


def test_a_link_sets_it_and_says_what_it_cannot(bare):
    link = "#learn=depth-4_rate-0.03_positions-false_heads-9_x-<b>"
    opened = bare(where=link, size=PHONE)
    place = opened.page.locator(".try[data-part=learn]")
    place.get_by_text("The link: heads is one of 1, 2, 4, not").wait_for()
    assert 'no setting "x"' in place.inner_text()
    value = {"Blocks": "v4", "Learning rate": "v0.03", "Heads": "v2"}
    for name, want in value.items():
        assert selection(place, name).input_value() == want
    assert not place.get_by_role("checkbox", name="positions").is_checked()
    assert opened.overhang() <= 0 and opened.wrong == []
    # nobody looks: it waits, and goes on by itself
    opened.page.evaluate(
        """() => {
          let isHidden = true;
          Object.defineProperty(document, "hidden", { get: () => isHidden });
          window.comeBack = () => {
            isHidden = false;
            document.dispatchEvent(new Event("visibilitychange"));
          };
        }"""
    )
    place.get_by_role("button", name="Play", exact=True).click()
    place.get_by_text("Paused while you look at another tab.").wait_for()
    opened.page.evaluate("comeBack()")
    place.get_by_text("Learning ...").wait_for()


def test_a_browser_without_webassembly_or_workers_is_told(bare):
    policy = "script-src 'self' 'unsafe-inline'; worker-src blob:"
    opened = bare(**{"content-security-policy": policy})
    place = opened.page.locator(".try[data-part=learn]")
    place.get_by_text("runs no WebAssembly with SIMD here").wait_for()
    opened.page.add_init_script("delete window.Worker")  # in this page alone
    opened.page.reload()
    place.get_by_text("this browser has no web workers").first.wait_for()


# ------------------------------------------------- puzzles beside the digits


def drawn(opened, task, count, held=False):
    """Pictures (n, c, h, w) of a puzzle, and the answers (n, answers)."""
    found = opened.page.evaluate(
        """([task, count, held]) => {
          const { draw, held: other } = vitedu.tasks()[task];
          let seed = 7;
          const random = () => {
            seed = (seed * 16807) % 2147483647;
            return seed / 2147483647;
          };
          const found = [...Array(count)].map(() =>
            (held ? other : draw)(random));
          return JSON.stringify(
            [found.map((x) => [...x.picture]), found.map((x) => x.truth)]);
        }""",
        [task, count, held],
    )
    pictures, truth = json.loads(found)
    side, channels = {"twin": (32, 3), "left": (24, 1)}.get(
        task.partition("-")[0], (16, 1)
    )
    pictures = torch.tensor(pictures, dtype=torch.uint8)
    return pictures.view(count, channels, side, side), torch.tensor(truth)


def seen_in(picture):
    """The glyphs of a grey picture: {(row, column): its number}."""
    found = {}
    lit = (picture[0].int() - 128).abs() > 30
    known = torch.from_numpy(glyphs.kinds()).bool()
    places = lit.unfold(0, 4, 1).unfold(1, 4, 1).all(-1).all(-1).nonzero()
    for row, column in places.tolist():
        bright = picture[0, row : row + 4, column : column + 4] > 128
        number = (known == bright).all(-1).all(-1).nonzero()[:, 0].tolist()
        if number:  # else half of each of two that touch
            (found[row, column],) = number
    return found


def test_puzzles_are_those_of_the_chapters(bare):
    opened = bare("none")
    for task in ("same", "same-off"):
        pictures, truth = drawn(opened, task, 60)
        corners = []
        for picture, (answer,) in zip(pictures, truth.tolist(), strict=True):
            seen = seen_in(picture)
            assert len(seen) == 2 and answer == (len({*seen.values()}) == 1)
            corners += [x for corner in seen for x in corner]
        assert any(x % 4 for x in corners) == (task == "same-off")
        assert 0.3 < truth.float().mean() < 0.7
    for task, held in (("left", 0), ("left-above", 0), ("left-above", 1)):
        pictures, truth = drawn(opened, task, 60, bool(held))
        rows = set()
        for picture, (answer,) in zip(pictures, truth.tolist(), strict=True):
            at = {glyph: corner for corner, glyph in seen_in(picture).items()}
            assert answer == (at[0][1] < at[1][1])
            rows |= {at[0][0] // 4, at[1][0] // 4}
        first, end = (0, 6) if task == "left" else (3 * held, 3 * held + 3)
        assert rows == {*range(first, end)}
    pictures, truth = drawn(opened, "twin", 20)
    patches = pictures.unfold(2, 8, 8).unfold(3, 8, 8).permute(0, 2, 3, 1, 4, 5)
    patches = patches.reshape(20, 16, 3, 64)
    shapes = patches.amax(dim=2) > 0
    eight = torch.from_numpy(glyphs.drawn()).flatten(1).bool()
    which = (shapes[:, :, None] == eight).all(-1).int().argmax(dim=-1)
    colours = torch.from_numpy(glyphs.COLOURS).int()
    shade = patches.amax(dim=-1).int()
    shade = (shade[:, :, None] == colours).all(-1).int().argmax(dim=-1)
    for glyph, colour, answers in zip(which, shade, truth, strict=True):
        for patch in range(16):
            mates = (glyph == glyph[patch]).nonzero()[:, 0].tolist()
            mates.remove(patch)
            assert [answers[patch]] == colour[mates].tolist()


@pytest.mark.parametrize("task", ["same", "twin"])
def test_gradients_of_puzzles_are_pytorchs(bare, task):
    opened = bare("none")
    pictures, truth = drawn(opened, task, 6)
    images = pictures.double() / 127.5 - 1
    patch, classes = (8, 6) if task == "twin" else (4, 2)
    torch.manual_seed(0)
    sizes = {"embed_dim": 16, "depth": 2, "num_heads": 2, "mlp_dim": 64}
    model = ViT(*images.shape[-1:], patch, images.shape[1], classes, **sizes)
    model = model.double()
    for weight in model.parameters():
        weight.data += 0.1 * torch.randn_like(weight)
    weights = listed(model)
    tokens = model.patch_embed(images)
    tokens = torch.cat([model.cls_token.expand(6, -1, -1), tokens], dim=1)
    tokens = model.norm(model.blocks(tokens + model.pos_embed))
    read = tokens[:, 1:] if task == "twin" else tokens[:, :1]
    loss = F.cross_entropy(model.head(read).flatten(0, 1), truth.flatten())
    loss.backward()
    settings = {"task": task, "patch": patch, "width": 16, "depth": 2}
    settings |= {"heads": 2, "batch": 8, "seed": 0, "positions": True}
    given = {
        "images": images.flatten(1).tolist(),
        "truth": truth.flatten().tolist(),
        "rates": [0.003],
    }
    for kind, most in {"float64": 1e-6, "float32": 1e-3}.items():
        _, found, slopes, _ = asked(
            opened, STEPS, settings | {"kind": kind}, weights, given
        )
        assert found == pytest.approx([loss.item()], rel=most)
        for name, parameter in model.named_parameters():
            slope = torch.tensor(slopes[name]).double()
            error = (slope.view_as(parameter) - parameter.grad).norm()
            assert error < most * parameter.grad.norm(), name
    assert opened.wrong == []


def test_a_puzzle_is_learned_and_a_link_keeps_it(bare):
    opened = bare()
    place, page = station(opened), opened.page
    selection(place, "Learn$").select_option("same")
    place.get_by_text("weights, all at random").wait_for()
    place.get_by_text("Ten pictures that it doesn't learn from").wait_for()
    page.wait_for_function("location.hash === '#learn=task-same'")
    assert selection(place, "Patch size").input_value() == "v4"
    assert place.get_by_text("Draw on your network").is_hidden()
    place.get_by_role("button", name="One step").click()
    place.get_by_text("Step 1:").wait_for()
    place.get_by_role("button", name="A picture, ").first.click()
    place.get_by_text("The patch in row 3, column 3 takes").wait_for()
    again = bare(where="#learn=task-twin_patch-7")
    other = again.page.locator(".try[data-part=learn]")
    other.scroll_into_view_if_needed()
    other.get_by_text("patch is one of 8 where the task is twin").wait_for()
    other.get_by_text("of 8,000 held-out answers").wait_for()
    other.get_by_role("button", name="Save its weights").click()
    other.get_by_text("this network answers for each patch").wait_for()
    selection(other, "Learn$").select_option("digits")
    other.get_by_text("of 500 held-out digits").wait_for()
    other.get_by_text("Draw on your network").wait_for()
    accuracy = page.evaluate(
        "async () => (await vitedu.learn({ task: 'same' })).accuracy"
    )
    assert accuracy > 95
    assert opened.wrong == again.wrong == []
