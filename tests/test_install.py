"""What the setup cell of a notebook would install into an environment.

Colab brings its own torch: that stays, and nothing is installed twice.
"""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
DECLARED = [
    Requirement(each)
    for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "dependencies"
    ]
]
OLDEST = {each.name: next(iter(each.specifier)).version for each in DECLARED}
# torch as another system's build names it
THEIRS = {"torch": "2.11.0+cu128", "torchvision": "0.26.0+cu128"}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Wheels of the package and of dependencies newer than anyone has."""
    folder = tmp_path_factory.mktemp("index")
    write_wheel(folder, "vitedu", DECLARED)
    for each in DECLARED:
        write_wheel(folder, each.name)
    return folder


def write_wheel(folder, name, requires=()):
    """A wheel with nothing in it but what pip decides by."""
    stem = f"{name}-99.0"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as file:
        info = f"{stem}.dist-info"
        file.writestr(f"{info}/METADATA", metadata(name, "99.0", requires))
        file.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: a test\n"
            "Root-Is-Purelib: true\nTag: py3-none-any\n",
        )
        file.writestr(f"{info}/RECORD", "")


def metadata(name, version, requires=()):
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    lines += [f"Requires-Dist: {each}" for each in requires]
    return "\n".join(lines) + "\n"


def environment(folder, installed):
    """A Python that believes these versions to be installed."""
    venv = [sys.executable, "-m", "venv", "--without-pip", folder]
    subprocess.run(venv, check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name, version in installed.items():
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(metadata(name, version))
    return folder / "bin" / "python"


def installs(python, index):
    """Names that `pip install vitedu` would install there."""
    report = python.parent / "report.json"
    asked = ["--dry-run", "--no-index", "--find-links", index]
    install = ["--python", python, "install", *asked, "--report", report]
    # whatever this machine tells pip about places to look in
    own = {x: y for x, y in os.environ.items() if not x.startswith("PIP_")}
    own["PIP_CONFIG_FILE"] = os.devnull
    subprocess.run([*PIP, *install, "vitedu"], check=True, env=own)
    listed = json.loads(report.read_text())["install"]
    return {each["metadata"]["name"] for each in listed}


@pytest.mark.slow
def test_where_all_is_there_only_vitedu_is_installed(tmp_path, index):
    python = environment(tmp_path, OLDEST | THEIRS)
    assert installs(python, index) == {"vitedu"}


@pytest.mark.slow
def test_a_torch_that_is_there_is_kept(tmp_path, index):
    python = environment(tmp_path, THEIRS)
    missing = OLDEST.keys() - THEIRS.keys()
    assert installs(python, index) == {"vitedu"} | missing


@pytest.mark.slow
def test_a_torch_that_is_too_old_is_replaced(tmp_path, index):
    python = environment(tmp_path, OLDEST | {"torch": "2.9.1"})
    assert installs(python, index) == {"vitedu", "torch"}
