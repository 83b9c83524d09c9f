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
    table = [line for line in TEXT.splitlines() if line.startswith("|")]
    places = re.findall(r"`((?:vitedu|benchmarks)/[^`]*)`", "\n".join(table))
    assert len(places) >= 8
    assert [place for place in places if not (ROOT / place).exists()] == []


@pytest.mark.slow
def test_the_worked_example_runs_as_it_is_written(tmp_path):
    package = tmp_path / "vitedu"
    shutil.copytree(vitedu.__path__[0], package)
    module, entry = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    recipes = package / "train/recipes"
    (recipes / "digits_wide.py").write_text(module)
    init = recipes / "__init__.py"
    text = init.read_text()
    first = "from vitedu.train.recipes.mnist"
    new_import = "from vitedu.train.recipes.digits_wide import digits_wide\n"
    text = text.replace(first, new_import + first)
    text = re.sub(r"^RECIPES\b.* = \{\n", r"\g<0>" + entry, text, flags=re.M)
    init.write_text(text)
    command = re.search(r"`vitedu (train digits-wide --tier smoke)`", TEXT)[1]
    done = subprocess.run(
        [sys.executable, "-m", "vitedu", *command.split()],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "test accuracy" in done.stdout
