"""Run every notebook like a newcomer: in an empty folder, against the wheel.

    python tools/nbval.py [01 05 ...]

Chapters 1 to 4 are compared output by output, the others where a cell is tagged
`nbval-check-output`, at tier smoke and without real data.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from notebooks import BOOK, ENVIRONMENT, ROOT

STRICT = ("01", "02", "03", "04")
OPTIONS = [
    # relative, and the folder named as root: else all cells would have one name
    "--rootdir=.",
    "--nbval-sanitize-with=nbval_sanitise.cfg",
    "--nbval-kernel-name=python3",
    "--nbval-cell-timeout=600",
    "--nbval-kernel-startup-timeout=120",
    # the cells of one notebook must go to one kernel
    "--numprocesses=2",
    "--dist=loadfile",
    "-pno:cacheprovider",
    "-q",
    "-Werror",
]


def install_wheel(folder: Path) -> Path:
    """Build the package's wheel and unpack it; the folder for PYTHONPATH."""
    pip = [sys.executable, "-m", "pip", "-q"]
    # a stale build/ would put removed modules into the wheel
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    build = ["--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run([*pip, "wheel", *build], check=True)
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    (wheel,) = folder.glob("vitedu-*.whl")
    target = folder / "site"
    install = ["--no-deps", "--target", str(target), str(wheel)]
    subprocess.run([*pip, "install", *install], check=True)
    return target


def environment(site: Path, cache: Path) -> dict[str, str]:
    """Variables of the kernels: the wheel first, no real data, empty cache."""
    variables = os.environ | ENVIRONMENT | {"VITEDU_TIER": "smoke"}
    variables |= {"PYTHONPATH": str(site), "VITEDU_CACHE": str(cache)}
    variables.pop("VITEDU_DATA", None)
    return variables


def main() -> int:
    """Compare the notebooks; the exit code is pytest's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*")
    options = parser.parse_args()
    notebooks = sorted(BOOK.glob("*.ipynb"))
    if options.numbers:
        wanted = tuple(options.numbers)
        notebooks = [path for path in notebooks if path.name.startswith(wanted)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = install_wheel(folder)
        variables = environment(site, folder / "cache")
        empty = folder / "empty"
        empty.mkdir()
        shutil.copy(ROOT / "tests/nbval_sanitise.cfg", empty)
        where = "import vitedu; print(vitedu.__file__)"
        found = subprocess.check_output(
            [sys.executable, "-c", where], cwd=empty, env=variables, text=True
        )
        if not found.startswith(str(site)):
            print(f"nbval: the wheel is hidden by {found}", file=sys.stderr)
            return 1
        strict = [path for path in notebooks if path.name.startswith(STRICT)]
        lax = [path for path in notebooks if path not in strict]
        worst = 0
        for mode, paths in (("--nbval", strict), ("--nbval-lax", lax)):
            copies = [Path(shutil.copy(path, empty)).name for path in paths]
            if copies:
                pytest = [sys.executable, "-m", "pytest", mode]
                command = [*pytest, *OPTIONS, *copies]
                done = subprocess.run(command, cwd=empty, env=variables)
                worst = max(worst, done.returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
