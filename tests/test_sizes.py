"""No large file slips into the repository."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST = 5_000_000
MOST_IN_ALL = 60_000_000
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
