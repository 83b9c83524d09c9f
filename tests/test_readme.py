"""What README.md says: every command and line in it runs, or is held here."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import vitedu
from vitedu import budget, results
from vitedu.cli import main
from vitedu.train import RECIPES, recipe

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
FLAT = " ".join(TEXT.split())
ROWS = re.findall(
    r"^\| `vitedu train ([a-z0-9-]+)` \|(.*)\|$", TEXT, flags=re.MULTILINE
)
INSTALL = (
    r"python -m venv venv",
    r"source venv/bin/activate",
    r'pip install "vitedu @ git\+https://github\.com/[\w-]+/[\w-]+"',
    r"pip install torch torchvision --index-url "
    r"https://download\.pytorch\.org/whl/cpu",
    r"git clone https://github\.com/[\w-]+/[\w-]+",
    r"cd [\w-]+",
    r"source \.venv/bin/activate",
)


def blocks(language):
    """The blocks of code in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)


def commands():
    """The lines of shell, without what is said about them."""
    lines = "".join(blocks("sh")).splitlines()
    return [line.split(" #")[0].strip() for line in lines if line.strip()]


OURS = [line.split()[1:] for line in commands() if line.startswith("vitedu ")]


@pytest.fixture
def here(here):
    """A folder with the photograph, and one with photographs of two classes."""
    photos = Path(vitedu.__path__[0]) / "data/photos"
    shutil.copy(photos / "hopper.jpg", "photo.jpg")
    for name, color in (("ants", "black"), ("bees", "gold")):
        folder = Path("photos", name)
        folder.mkdir(parents=True)
        for index in range(5):
            picture = Image.new("RGB", (80, 60 + index), color)
            picture.save(folder / f"{index}.jpg")
    return here


def printed(program):
    """What a program of the page prints, run alone and without a network."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"VITEDU_OFFLINE": "1"},
    )
    return done.stdout


@pytest.mark.slow
def test_its_first_lines_of_python_print_what_it_says(here):
    assert printed(blocks("python")[0]) == blocks("text")[0]


@pytest.mark.slow
def test_its_line_of_fine_tuning_names_the_photograph(here):
    program = blocks("python")[1]
    quick = program.replace("epochs=5", 'tier="smoke", steps=2')
    assert quick != program
    shutil.copytree(here / "photos/ants", here / "album")
    run, guesses, *album = printed(quick).splitlines()
    accuracy, report = run.split()
    assert 0 <= float(accuracy) <= 100
    assert os.path.isfile(report)
    assert "ants" in guesses and "bees" in guesses
    assert len(album) == 5 and album[0].startswith("album/0.jpg ('")


@pytest.mark.slow
def test_its_lines_for_a_program_of_ones_own_give_the_shapes_that_it_says(here):
    program = blocks("python")[2]
    shown = printed(program + SHAPES).splitlines()
    said = re.findall(r"# (?:.*: )?(?:(\d+) of )?(\(.*\))$", program, re.M)
    assert shown == [
        f"{count} of {shape}".removeprefix(" of ") for count, shape in said
    ]
    with pytest.warns(UserWarning, match="its head is all zeros"):
        saved = vitedu.load("mine.safetensors")
    assert saved.config.image_size == (384, 384)


# Appended to the page's program, prints what its comments say.
SHAPES = """
for x in (images, logits, maps, attention):
    if isinstance(x, list):
        print(f"{len(x)} of {tuple(x[0].shape)}")
    else:
        print(tuple(x.shape))
n, d = features.shape
print(f"(n, {d}) and (n,)" if labels.shape == (n,) else "unlike")
"""


def test_every_line_of_shell_is_known():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    makes = [rf"(?:VITEDU_DATA=\S+ )?make {name}" for name in targets]
    known = [*INSTALL, r"vitedu .*", *makes]
    unknown = [
        line
        for line in commands()
        if not any(re.fullmatch(pattern, line) for pattern in known)
    ]
    assert unknown == []


@pytest.mark.parametrize(
    ("words", "exported", "option"),
    [
        ([], {}, ""),
        (["DATA=download"], {}, " --download"),
        ([], {"DATA": "/any/folder"}, ""),
        ([], {"DATA": "download"}, ""),
        (["DATA=download"], {"DATA": "/any/folder"}, " --download"),
    ],
)
def test_only_the_word_download_after_make_book_fetches(
    words, exported, option
):
    assert {"make book", "make test"} <= set(commands())
    assert "DATA=download" in TEXT
    # nor what a make around the tests was told
    own = ("DATA", "MAKEFLAGS", "MAKEOVERRIDES")
    kept = {name: x for name, x in os.environ.items() if name not in own}
    done = subprocess.run(
        ["make", "--dry-run", "book", *words],
        cwd=ROOT,
        env=kept | exported,
        check=True,
        capture_output=True,
        text=True,
    )
    assert re.search(r"tools/book\.py(.*)", done.stdout)[1].rstrip() == option


def test_its_first_command_names_the_photograph(here, capsys):
    first = OURS[0]
    assert first == ["predict", "ViT-Ti/16", "photo.jpg"]
    assert main(first) == 0
    assert "military uniform 82.8%" in capsys.readouterr().out


@pytest.mark.slow
def test_a_folder_of_photographs_trains_and_predicts(here, capsys):
    (train,) = [words for words in OURS if "data=photos" in words]
    assert main([*train, "steps=2", "--tier", "smoke"]) == 0
    one, album, page = [words for words in OURS if "runs/" in words[1]]
    (run,) = here.glob("runs/finetune-*")
    assert re.fullmatch(one[1].replace("…", ".*"), f"runs/{run.name}")
    assert (run / "report.html").is_file()
    capsys.readouterr()
    assert main(["predict", str(run), *one[2:]]) == 0
    assert re.search(r"(ants|bees) \d", capsys.readouterr().out)
    shutil.copytree(here / "photos", here / "album")
    assert main(["predict", str(run), *album[2:]]) == 0
    assert len((here / "album.csv").read_text().splitlines()) > 1
    assert main([page[0], str(run), *page[2:]]) == 0
    assert (here / "photo-explained.html").is_file()


def test_recipes_and_fields_that_it_names_are_there():
    trained = [words[1] for words in OURS if words[0] == "train"]
    assert set(trained) <= set(RECIPES)
    config = recipe("mnist-tiny", "cpu")
    for name, value in re.findall(r"`([a-z.]+)=([\de-]+)`", TEXT):
        first, *more = name.split(".")
        holder = getattr(config, first) if more else config
        assert isinstance(getattr(holder, name.split(".")[-1]), int | float)
        assert float(value) > 0


def test_the_table_has_a_row_for_every_recorded_recipe():
    recorded = [
        name
        for name in results.names()
        if name in RECIPES and "test_accuracy" in results.read(name)["metrics"]
    ]
    assert sorted(name for name, _ in ROWS) == sorted(recorded)


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_a_row_says_what_was_recorded(name, row):
    result = results.read(name)
    weights = budget.parameters(recipe(name, "cpu").model).total
    accuracy = result["metrics"]["test_accuracy"]["value"]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[:3] == [
        f"{weights:,}",
        f"{accuracy:.2f}%",
        str(len(result["seeds"])),
    ]


def test_the_ratio_is_the_recorded_one():
    ratio = results.read("mnist-time-to-96")["metrics"]["ratio"]
    low, high = min(ratio["per_seed"]), max(ratio["per_seed"])
    said = f"{ratio['value']:.1f} times ({low:.1f} to {high:.1f})"
    assert said in FLAT


def test_its_picture_and_links_are_there():
    links = re.findall(r"\]\(([^)#\s]+)\)", TEXT.replace("\n", " "))
    local = [link for link in links if "://" not in link]
    assert "book/pictures/hopper.png" in local
    assert [link for link in local if not (ROOT / link).exists()] == []


def test_nothing_in_it_is_loaded_from_anybody_but_github():
    pictures = re.findall(r"!\[[^\]]*\]\((\w+://[^/)]+)", TEXT)
    assert set(pictures) <= {"https://github.com"}


def test_the_chapters_that_it_calls_written_are():
    (row,) = re.findall(r"^\| (1 .*) \| written \|$", TEXT, re.M)
    said = [chapter.split(" ", 1) for chapter in row.split(" · ")]
    for number, title in said:
        (path,) = (ROOT / "book/text").glob(f"{number:>02}_*.py")
        assert f"\n# # {title}\n" in path.read_text()
    written = list((ROOT / "book/text").glob("[0-9][0-9]_*.py"))
    assert len(written) == len(said)
