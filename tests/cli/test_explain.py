"""`vitedu explain`: a page for each photograph."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

import vitedu
from tests.tiny import random_model, tiny
from vitedu.cli import main
from vitedu.model import ViT

NAME = "<b>my cat.png"


@pytest.fixture
def pictures(here):
    """Two photographs, and a tiny model without class names."""
    Image.radial_gradient("L").convert("RGB").save(NAME)
    Image.new("RGB", (1, 1), (9, 99, 199)).save("dot.png")
    vitedu.save(random_model().float(), "tiny.safetensors")
    return here


def page(name):
    return Path(name).read_text(encoding="utf-8")


def test_a_page_shows_every_part_and_runs_nothing(pictures, capsys):
    assert main(["explain", "tiny.safetensors", NAME, "--out", "pages"]) == 0
    out = capsys.readouterr().out
    written = "pages/<b>my cat-explained.html"
    best = vitedu.classify("tiny.safetensors", NAME)[0]
    first = f"{best.name} {100 * best.probability:.1f}%"
    assert out == f"{NAME}, {first}: {Path(written)}\n"
    text = page(written)
    headings = re.findall("<h2>(.*?)</h2>", text)
    assert headings == [
        "The answers",
        "What reaches the answer",
        "What the class token looks at, block by block",
        "How far the heads look",
        "What the patches have become",
        "Is the map true?",
    ]
    # the picture, the rollout, two blocks, the components
    assert text.count("data:image/jpeg") == 5
    assert text.count("<svg") == 2 == text.count('role="img"')
    assert "&lt;b&gt;my cat.png" in text and "<b>" not in text
    assert "script" not in text and "default-src 'none'" in text
    assert all(re.findall('<img [^>]*alt="([^"]*)"', text))


@pytest.mark.slow
def test_without_weights_the_real_model_looks(pictures, capsys):
    assert main(["explain", "dot.png", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["weights"] == "ViT-Ti/16"
    (found,) = answer["pages"]
    assert found["page"] == "dot-explained.html"
    assert len(found["top"]) == 5
    best = vitedu.classify("ViT-Ti/16", "dot.png")[0]
    assert found["top"][0]["class"] == best.name
    text = page("dot-explained.html")
    assert f"<h1>{best.name}, " in text
    assert "block 12" in text


def test_what_is_missing_is_said(pictures, capsys):
    fields = {"class_token": False, "pool": "map", "num_classes": 0}
    vitedu.save(ViT(tiny(**fields)), "bare.safetensors")
    assert main(["explain", "bare.safetensors", "dot.png"]) == 0
    text = page("dot-explained.html")
    assert "It gives no answers." in text
    assert "no class token to look with." in text and "pool=map" in text
    assert "What reaches the answer" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "explain needs at least one PHOTO"),
        (["gone.png"], "gone.png does not exist"),
        (["tiny.safetensors", "tiny.safetensors"], "not a picture"),
        (["dot.png", "pages/dot.png"], "would have the page dot-explained"),
    ],
)
def test_a_mistake_is_one_sentence_and_no_page(pictures, capsys, words, said):
    assert main(["explain", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not list(Path().glob("*.html"))
