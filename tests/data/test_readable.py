"""Which pictures can be read: found out once, by several threads, and remembered."""

import os
import shutil

import pytest
from PIL import Image

from vitedu.data import find_images, readable
from vitedu.data.sources import cache_folder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "unreadable"


@pytest.fixture
def folder(tmp_path):
    """More pictures than a thread takes at a time, two of them damaged."""
    (tmp_path / "zoo/ant").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(tmp_path / "zoo/ant/000.png")
    for i in range(1, readable.WORTH_KEEPING):
        path = tmp_path / f"zoo/ant/{i:03}.png"
        shutil.copy(tmp_path / "zoo/ant/000.png", path)
    for i in (7, 90):
        path = tmp_path / f"zoo/ant/{i:03}.png"
        path.write_bytes(path.read_bytes()[:40])
    return tmp_path / "zoo"


def skipped(folder):
    return [sentence.split(":")[0] for sentence in find_images(folder).skipped]


def test_the_answer_for_many_pictures_is_remembered(folder, cache):
    want = ["cannot read ant/007.png", "cannot read ant/090.png"]
    assert skipped(folder) == want
    (kept,) = cache.iterdir()
    kept.write_text(kept.read_text().replace("cannot", "could not"))
    assert skipped(folder) == [
        sentence.replace("cannot", "could not") for sentence in want
    ]


def test_another_date_or_size_is_looked_at_again(folder, cache):
    find_images(folder)
    os.utime(folder / "ant/001.png", (1, 1))
    find_images(folder)
    (folder / "ant/002.png").write_bytes(b"")
    assert len(find_images(folder).skipped) == 3
    assert len(list(cache.iterdir())) == 3


def test_a_folder_that_has_moved_is_known(folder, cache, tmp_path):
    before = find_images(folder).skipped
    assert find_images(folder.rename(tmp_path / "moved")).skipped == before
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("rubbish", [b"", b"[1]", b"\xff", b"[" * 100_000])
def test_a_damaged_cache_is_looked_past(folder, cache, rubbish):
    find_images(folder)
    (kept,) = cache.iterdir()
    kept.write_bytes(rubbish)
    assert len(find_images(folder).skipped) == 2


def test_a_cache_that_cannot_be_written_is_done_without(folder, monkeypatch):
    monkeypatch.setenv("VITEDU_CACHE", str(folder / "ant/000.png"))
    assert len(find_images(folder).skipped) == 2


def test_a_few_pictures_leave_nothing_in_the_cache(folder, cache):
    (folder / "ant/000.png").unlink()
    assert len(find_images(folder).skipped) == 2
    assert not cache_folder().exists() and not cache.exists()
