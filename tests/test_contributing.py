"""What CONTRIBUTING.md says is true: its places exist, and its example runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vitedu

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def test_contributing_fits_on_a_page():
    assert len(TEXT.splitlines()) <= 60


def test_every_place_it_names_exists():
    places = re.findall(r"`((?:vitedu|book|benchmarks|tools)/[^`]*)`", TEXT)
    placeholders = {
        "book/text/NN_name.py",
        "vitedu/figures/chapters/name.py",
        "vitedu/train/muon.py",
    }
    assert placeholders <= set(places)
    missing = [x for x in places if not (ROOT / x).exists()]
    assert sorted(missing) == sorted(placeholders)
    assert len(places) >= 20


def test_every_name_it_points_at_is_in_its_file():
    pairs = re.findall(r"`(\w+)`\s(?:of|in)\s`((?:vitedu|book)/[^`]*)`", TEXT)
    assert len(pairs) >= 6
    for name, place in pairs:
        path = ROOT / place
        path = path / "__init__.py" if path.is_dir() else path
        assert re.search(rf"^(def |class )?{name}\b", path.read_text(), re.M), (
            f"{name} in {place}"
        )


# half of the run of the worked example, and its command, which goes on
PROGRAM = """
import sys
from dataclasses import replace
from vitedu.cli import main
from vitedu.train import fit
from vitedu.train.recipes import recipe
config = replace(recipe("digits", "smoke"), optimizer="muon", log_every=1)
steps = iter(range(1, 100))
run = fit(config, "run", should_stop=lambda: next(steps) == 10)
assert run.result["status"] == "interrupted", run.result
sys.exit(main(sys.argv[1:]))
"""


def replaced(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1, f"{path.name}: {old}"
    path.write_text(text.replace(old, new))


@pytest.mark.slow
def test_the_worked_example_trains_as_it_is_written(tmp_path):
    package = tmp_path / "vitedu"
    shutil.copytree(vitedu.__path__[0], package)
    module = re.search(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)[1]
    (package / "train/muon.py").write_text(module)
    optimizer = package / "train/optimizer.py"
    replaced(optimizer, '"adamw": torch', '"muon": Muon, "adamw": torch')
    first = "from vitedu.train.config import"
    new = "from vitedu.train.muon import Muon"
    replaced(optimizer, first, f"{new}\n{first}")
    config = package / "train/config.py"
    replaced(config, "Optimizer = Literal[", 'Optimizer = Literal["muon", ')
    command = re.search(r"`vitedu (train .* --tier smoke)`", TEXT)[1]
    words = [*command.split(), "log_every=1", "--out", "run"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "run/log.jsonl").read_text().splitlines()
    losses = [x["loss"] for x in map(json.loads, log) if "loss" in x]
    # from 2.30, which knows nothing, to 2.16 in 20 steps
    assert losses[-1] < losses[0] - 0.1
