"""Chapters on a GPU that isn't there: what they choose, and that they run.

`python -m pytest tests/test_tiers.py -k choose` takes a second. The others run
whole notebooks, small, on a stand-in for a GPU (`tests/stand_in.py`).
"""

import ast
import functools
import importlib
import json
import linecache
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
import pytest
import torch

from tests.stand_in import META, Mixed, WithNumbers
from vitedu import figures, results, train
from vitedu.figures.chapters import recipe as recipe_figures
from vitedu.figures.chapters import speed as speed_figures

ROOT = Path(__file__).parents[1]
jupytext = pytest.importorskip("jupytext", reason="the book isn't installed")
sys.path.insert(0, str(ROOT / "tools"))
notebooks = importlib.import_module("notebooks")
# it keeps the real `find_device`: a chapter's command runs on the CPU
importlib.import_module("vitedu.cli.train")

CHAPTERS = {
    path.stem[:2]: path
    for path in notebooks.text_paths()
    if "tier_of" in path.read_text()
}
# Steps of training at tier gpu times the encoder blocks that each goes through.
BLOCK_STEPS = {
    # 137 epochs of 50,000 digits
    "05": 137 * 782 * 2,
    # three whole runs and two of two epochs
    "06": (3 * 40 + 2 * 2) * 391 * 4,
    # nine runs of two epochs, three of one, and a thousand steps beside them
    "07": (9 * 2 * 313 + 3 * 200 + 1_000) * 2,
    # the runs at the top, the omissions with three seeds, and the undisturbed
    "08": (240 + 3 * (3 * 60 + 6 * 60) + 120) * 2,
    # sixty photographs twice, in Python and by the command; all of TrashNet
    "11": (60 + 60 + 5 * 56) * 12,
    # eight networks, a convolution's block counted like an encoder's, and one;
    # two shallow and two deep ones for three epochs
    "14": 8 * 5_000 * 4 + 1_875 * 4 + 939 * 2 * (2 + 17),
}
# of the CPU's part: a chapter's own minutes without its training
REST = {"05": 1, "06": 2, "07": 1.5, "08": 2, "11": 2, "14": 1}


@pytest.fixture(autouse=True)
def as_before():
    """What a chapter's first cells set for the whole process."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.set_grad_enabled(True)


@functools.cache
def code(path):
    """The sources of a chapter's code cells."""
    cells = jupytext.read(path, fmt="py:percent").cells
    return [each.source for each in cells if each.cell_type == "code"]


@functools.cache
def choosing(path):
    """The cell of tier and device, then the statements that choose sizes."""
    _, first, *others = code(path)  # without the setup
    kept = []
    for line in ast.parse("\n".join(others)).body:
        names = {x.id for x in ast.walk(line) if isinstance(x, ast.Name)}
        if isinstance(line, ast.Assign) and names & {"TIER", "SMOKE", "SIZES"}:
            kept.append(ast.unparse(line))
    return first, kept


def test_the_chapters_that_ask_for_a_gpu():
    assert [*CHAPTERS] == ["05", "06", "07", "08", "11", "14"]


@pytest.mark.parametrize("number", CHAPTERS)
@pytest.mark.parametrize("tier", [None, "smoke", "cpu", "gpu"])
@pytest.mark.parametrize("has_gpu", [True, False])
def test_a_chapter_chooses_device_and_sizes_by_its_tier(
    number, tier, has_gpu, monkeypatch, capsys
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(has_gpu))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.delenv("VITEDU_TIER", raising=False)
    if tier:
        monkeypatch.setenv("VITEDU_TIER", tier)
    first, sizes = choosing(CHAPTERS[number])
    found = {}
    exec(first, found)
    chosen = tier or ("gpu" if has_gpu else "cpu")
    device = "cuda" if has_gpu and chosen == "gpu" else "cpu"
    assert found["TIER"] == chosen and found["device"].type == device
    assert f"tier {chosen}, seed 0, {device}" in capsys.readouterr().out
    found["Path"] = Path  # for the statements between
    for line in sizes:
        exec(line, found)
    if number == "05":  # the recipe of tier cpu is whole
        short, long, seeds = (found[x] for x in ("SHORT", "LONG", "SEEDS"))
        wanted = (1, 8, (0, 1)) if chosen == "smoke" else (2, 15, (0, 1, 2))
        assert (short, long, seeds) == wanted
        return
    assert [*found["SIZES"]] == ["smoke", "cpu", "gpu"]
    (unpacked,) = (x for x in sizes if x.endswith("SIZES[TIER]"))
    names = unpacked.removesuffix(" = SIZES[TIER]").strip("()").split(", ")
    assert tuple(found[x] for x in names) == found["SIZES"][chosen]


@pytest.mark.parametrize("number", BLOCK_STEPS)
def test_minutes_on_a_t4_follow_from_the_recorded_lots(number):
    """So small a network waits for Python, on a T4 as on the card measured."""
    metrics = results.read("gpu-ladder")["metrics"]
    speed = metrics["ViT-Ti-16/float32/speed"]["value"]
    seconds = 64 / speed / 12  # a step of one block
    minutes = BLOCK_STEPS[number] * seconds / 60 + REST[number]
    line = CHAPTERS[number].read_text().splitlines()[1]
    said = re.search(r"about (\d+) minutes on a T4 \(predicted\)", line)
    assert 0.8 < minutes / int(said[1]) < 1.25


# --- whole notebooks


# What a chapter says at tier smoke, and what it does here: what has run on the
# device for some hundred steps need not run for thousands.
SMALLER = {
    "05": {
        "(1, 8, (0, 1)) if SMOKE": "(1, 3, (0, 1)) if SMOKE",
        "2_500": "1_500",
        "in range(201)": "in range(41)",
        "for t in range(2_000)": "for t in range(200)",
    },
    "06": {
        "torch.cat([borrowed(part) for part in pixels.split(250)])": "borrowed("
        "pixels[:32]).repeat(16, 1)",
    },
    # processes of their own, on the CPU, and a sum: nbval's
    "08": {
        '"smoke": (24, (0,))': '"smoke": (12, (0,))',
        'for name in ("ViT-B/16", "ViT-H/14"):': 'for name in ("ViT-B/16",):',
        "for step in moments if": "for step in moments[:1] if",
        "(two, share) = race(1), race(2)": "(two, share) = (1, 0), (1, 0)",
    },
    "11": {
        "mine epochs=12": "mine epochs=1",
        "unseen = features(real, waste.test)": "unseen = known",
        "[real(x) for x in x_test.split(20)]": "3 * [real(x_test[:20])]",
        "[tuned(x) for x in x_test.split(20)]": "3 * [tuned(x_test[:20])]",
        "in views.batches(batch_size=batch_size, epoch=epoch)": "in islice("
        "views.batches(batch_size=batch_size, epoch=epoch), 2)",
        "KINDS = waste.class_names": "KINDS = waste.class_names\n"
        "few = x_test[:4], y_test[:4]",
        "next(views.batches(batch_size=12))": "few",
        "in views.batches(batch_size=BATCH)": "in [few]",
        "accuracy(model, x_test, y_test,": "accuracy(model, *few,",
        "accuracy(tuned, x_test, y_test,": "accuracy(tuned, *few,",
        "views.batches(batch_size=12, epoch=0)": "[few]",
    },
    # the package's ResNet-50 and the reader's, both on the CPU
    "14": {
        '("digits", 64, 20, 7)': '("digits", 32, 20, 7)',
        'randomise(vitedu.resnet("R50x1"))': "randomise("
        'vitedu.resnet("R50x1", layers=(1, 1, 1, 1)))',
        "64, [3, 4, 6, 3], [1, 2, 2, 2], num": "64, 4 * [1], [1, 2, 2, 2], num",
    },
}


def with_records(folder, monkeypatch, made_up=()):
    """The package's results, but CIFAR-10's from a GPU only if made up."""
    for path in results.FOLDER.glob("*.json"):
        if path.name != "gpu-cifar.json":
            (folder / path.name).write_bytes(path.read_bytes())
    for name, values in dict(made_up).items():
        record = results.read(name)
        for metric, value in values.items():
            record["metrics"][metric]["value"] = value
        text = json.dumps(record | {"hardware": "A card of ours"})
        (folder / f"{name}.json").write_text(text)
    monkeypatch.setattr(results, "FOLDER", folder)


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """Every chapter's device is the stand-in; no GPU has learned CIFAR-10."""
    (tmp_path / "results").mkdir()
    with_records(tmp_path / "results", monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VITEDU_TIER", "smoke")
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    monkeypatch.setenv("VITEDU_CACHE", f"{tmp_path}")
    monkeypatch.delenv("VITEDU_DATA", raising=False)
    monkeypatch.setattr(train, "find_device", lambda name: META)
    matplotlib.use("agg")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("number", CHAPTERS)
def test_a_chapter_runs_on_a_gpu_and_has_a_place_for_its_record(
    number, gpu, capsys, monkeypatch
):
    text = "\0".join(code(CHAPTERS[number]))
    for said, done in SMALLER.get(number, {}).items():
        assert text.count(said) == 1
        text = text.replace(said, done)
    found = {"__name__": "__main__"}
    with WithNumbers() as stand_in:
        for place, cell in enumerate(text.split("\0")):
            name = f"chapter {number}, cell {place}"
            lines = cell.splitlines(keepends=True)
            # where `inspect.getsource` looks
            monkeypatch.setitem(linecache.cache, name, (1, None, lines, name))
            exec(compile(cell, name, "exec"), found)
    for each in found.values():
        if isinstance(each, TemporaryDirectory):
            each.cleanup()
    assert stand_in.operations > 1_000
    said = capsys.readouterr().out
    if number == "06":
        assert "gpu_day.py --lot 5" in said and "NVIDIA" not in said


def test_chapters_show_the_gpu_records_that_are_there(tmp_path, monkeypatch):
    """Made up: a number that no card has reached appears in both figures."""
    speed = {"ViT-B-16/float32/speed": 10.0, "ViT-B-16/TF32/speed": 410.0}
    made_up = {"gpu-ladder": speed, "gpu-cifar": {"recipe-0": 12.34}}
    with_records(tmp_path, monkeypatch, made_up)
    seen = []
    monkeypatch.setattr(figures, "show", lambda figure, alt: seen.append(alt))
    (cell,) = (x for x in code(CHAPTERS["07"]) if "speed.ladder" in x)
    values = {"results": results, "figures": figures, "speed": speed_figures}
    exec(cell, values | {"partial": functools.partial})
    assert "1.0 float32, 41.0 TF32" in seen[0]
    (cell,) = (x for x in code(CHAPTERS["06"]) if '"gpu-cifar"' in x)
    values = {"results": results, "figures": figures, "recipe": recipe_figures}
    exec(cell, values | {"moves": []})
    assert "12.3%, a larger ViT" in seen[1] and "A card of ours" in seen[0]


def test_a_stray_tensor_and_numpy_are_caught():
    with WithNumbers():
        there = torch.arange(3.0).to(META)
        assert (there + 1).sum().item() == 6 and f"{there[1]:.1f}" == "1.0"
        assert there[torch.tensor([2])].tolist() == [2.0]
        with pytest.raises(Mixed):
            there + torch.ones(3)
        with pytest.raises(RuntimeError):
            there.numpy()
