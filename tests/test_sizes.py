"""No large file slips into the repository, and the house stays small."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tests.tiny import tiny
from vitedu.train import fit, recipe

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vitedu"
MOST = 5_000_000
MOST_IN_ALL = 60_000_000
# of a folder beside its __init__: `model` has one for each part of the network,
# two have one for each chapter
MOST_MODULES = 14
MORE_MODULES = {"model": 20, "figures/chapters": 20, "check": 20}
# the real model, in 16 bits
LARGER = {"vitedu/weights/vit-ti-16.safetensors": 12_000_000}


@pytest.fixture(scope="module")
def sizes():
    """Bytes of every file that git keeps, or would keep."""
    listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *listed],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no checkout of git")
    files = [name for name in done.stdout.split("\0") if name]
    return {
        name: (ROOT / name).stat().st_size
        for name in files
        if (ROOT / name).is_file()
    }


def test_no_file_is_larger_than_5_megabytes_but_the_real_model(sizes):
    assert LARGER.keys() <= sizes.keys()
    large = {
        name: size
        for name, size in sizes.items()
        if size > LARGER.get(name, MOST)
    }
    assert large == {}


def test_all_files_are_at_most_60_megabytes(sizes):
    assert sum(sizes.values()) <= MOST_IN_ALL


def test_a_folder_can_be_read_in_one_sitting():
    modules = Counter(
        path.parent.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    )
    most = dict.fromkeys(modules, MOST_MODULES) | MORE_MODULES
    assert {x: n for x, n in modules.items() if n > most[x]} == {}


def test_a_photograph_passes_ten_files_on_its_way_to_its_loss(tmp_path):
    for name in ("a/1", "a/2", "b/1", "b/2"):
        path = tmp_path / f"{name}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (20, 16)).save(path)
    seen, is_asked = set(), False

    def see(frame, event, _):
        nonlocal is_asked
        code = frame.f_code
        is_asked |= code.co_qualname in ("Processes.batches", "DataWait.timed")
        path = Path(code.co_filename)
        if event == "call" and is_asked and path.is_relative_to(PACKAGE):
            seen.add(path.relative_to(PACKAGE).as_posix())
        is_asked &= code.co_qualname != "Precision.backward"

    model = tiny(num_classes=2)
    config = replace(recipe("finetune", "cpu"), model=model, weights=None)
    config = replace(config, epochs=None, steps=2, batch_size=2)
    before = sys.getprofile()
    try:
        fit(
            config,
            train=tmp_path,
            test=tmp_path,
            on_start=lambda _: sys.setprofile(see),
            on_progress=lambda x: x.step and sys.setprofile(before),
        )
    finally:
        sys.setprofile(before)
    beside = {x for x in seen if not x.startswith("model/")}
    assert {"train/fit.py", "pictures.py", "evaluate/losses.py"} <= beside
    assert len(beside) <= 10, beside
