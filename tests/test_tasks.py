"""The tasks of book/api.md: every block of Python runs, as it stands there."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

import vitedu

PAGE = Path(__file__).parents[1] / "book/api.md"
TASKS, REFERENCE = PAGE.read_text().split("\n(reference)=\n")
# a heading, a block of Python, and what it prints where the page says it
SECTIONS = [part.partition("\n") for part in TASKS.split("\n## ")[1:]]
BLOCKS = [
    (f"{title} {number}", code, text)
    for title, _, body in SECTIONS
    for number, (code, text) in enumerate(
        re.findall(
            r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?",
            body,
            re.M | re.S,
        )
    )
]
LINES = 25  # of a block


@pytest.fixture
def here(here):
    """The photograph, the album and two classes that the page speaks of."""
    photos = Path(vitedu.__path__[0]) / "data/photos"
    shutil.copy(photos / "hopper.jpg", "photo.jpg")
    Path("album").mkdir()
    shutil.copy(photos / "cat.jpg", "album")
    Path("album/torn.jpg").write_bytes(b"no picture")
    for name, color in (("ants", "black"), ("bees", "gold")):
        folder = Path("photos", name)
        folder.mkdir(parents=True)
        for index in range(5):
            picture = Image.new("RGB", (80, 60 + index), color)
            picture.save(folder / f"{index}.jpg")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "text"),
    [block[1:] for block in BLOCKS],
    ids=[block[0] for block in BLOCKS],
)
def test_a_block_runs_and_prints_what_the_page_says(here, capsys, code, text):
    for library in ("timm", "tensorboard", "onnxruntime"):
        if library in code and not importlib.util.find_spec(library):
            pytest.skip(f"{library} is not installed")
    quick = code.replace("epochs=5", 'epochs=2, tier="smoke"')
    exec(compile(quick, "block", "exec"), {"__name__": "__main__"})
    assert not text or capsys.readouterr().out == text


def test_every_task_has_a_block_and_a_place_in_the_list():
    titles = [title for title, *_ in SECTIONS]
    assert len(titles) >= 9
    for title, _, body in SECTIONS[:-1]:
        assert "```python" in body, title
    links = re.findall(r"\]\(#([a-z-]+)\)", TASKS.partition("## ")[0])
    places = re.findall(r"^\(([a-z-]+)\)=$", PAGE.read_text(), re.M)
    assert ["api", *links] == places


@pytest.mark.parametrize(("title", "code"), [x[:2] for x in BLOCKS])
def test_a_block_is_short(title, code):
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= LINES, title
