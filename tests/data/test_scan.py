"""Which pictures can be read: found once, by several threads, remembered."""

import os
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from vitedu.data import find_images, scan
from vitedu.errors import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "unreadable"


@pytest.fixture
def folder(tmp_path):
    """More pictures than a thread takes at a time, two of them damaged."""
    (tmp_path / "zoo/ant").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(tmp_path / "zoo/ant/000.png")
    for i in range(1, scan.WORTH_KEEPING):
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
    kept.write_text(kept.read_text().replace("7, 90", "7"))
    assert skipped(folder) == want[:1]


def test_what_there_is_no_time_for_is_trusted_and_not_remembered(folder, cache):
    with scan.checking_for(0):
        assert skipped(folder) == []
    assert not cache.exists()
    assert len(skipped(folder)) == 2


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


def test_a_picture_that_was_mended_in_place_is_looked_at_again(folder, cache):
    find_images(folder)
    path = folder / "ant/007.png"
    status = path.stat()
    good = (folder / "ant/000.png").read_bytes()
    (folder / "ant/000.png").write_bytes(good[:40] + bytes(len(good) - 40))
    os.utime(folder / "ant/000.png", (1, 1))
    assert len(find_images(folder).skipped) == 3
    (folder / "ant/000.png").write_bytes(good)
    os.utime(folder / "ant/000.png", (1, 1))
    assert path.stat() == status
    assert len(find_images(folder).skipped) == 2


@pytest.mark.skipif(
    not os.path.exists("/proc/self/mem"), reason="Linux fails on demand"
)
# pillow leaves such a file to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_fault_of_the_system_leaves_nothing_out_and_nothing_behind(
    folder, cache
):
    # a file that is there and whose first byte cannot be read
    (folder / "ant/fault.png").symlink_to("/proc/self/mem")
    with pytest.raises(
        UserError, match=r"cannot read .*fault\.png: Input/output error"
    ):
        find_images(folder)
    assert not cache.exists()
    (folder / "ant/fault.png").unlink()
    assert len(find_images(folder).skipped) == 2


def test_a_cache_that_cannot_be_written_is_done_without(folder, monkeypatch):
    monkeypatch.setenv("VITEDU_CACHE", str(folder / "ant/000.png"))
    assert len(find_images(folder).skipped) == 2


def test_folders_opened_side_by_side_leave_the_warning_filters_alone(folder):
    (folder / "ant/000.png").unlink()  # too few for the cache
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(find_images, [folder] * 12))
    assert {len(pictures.skipped) for pictures in found} == {2}
    assert warnings.filters == before
