import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from vitedu.data import catalogue, load_dataset
from vitedu.data.catalogue import (
    ARRAYS,
    CATALOGUE,
    File,
    MissingDataError,
    sets_of,
)
from vitedu.data.locate import locate, where
from vitedu.errors import UserError

FILES = {
    file.name: file.name.encode() * 999 for file in CATALOGUE["mnist"].files
}
# MNIST, were its files these few bytes
SMALL = replace(
    CATALOGUE["mnist"],
    files=tuple(
        File(name, hashlib.sha256(content).hexdigest())
        for name, content in FILES.items()
    ),
)
FIRST = next(iter(FILES))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no data elsewhere, and no proxy before localhost."""
    for name in ("VITEDU_DATA", "VITEDU_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setitem(CATALOGUE, "mnist", SMALL)
    return tmp_path / "cache" / "mnist"


@pytest.fixture
def server(file_server):
    file_server.files = FILES
    return file_server


def fill(folder, names=FILES):
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"")
    return folder


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Looking


def test_the_steps_are_tried_in_their_order(tmp_path, monkeypatch, cache):
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    monkeypatch.setenv("VITEDU_DATA", str(tmp_path / "data"))
    with pytest.raises(MissingDataError):
        locate("mnist")
    fill(cache)
    assert locate("mnist") == (cache, "cache")
    fill(tmp_path / "data" / "mnist")
    assert locate("mnist") == (tmp_path / "data/mnist", "$VITEDU_DATA")
    given = fill(tmp_path / "given")
    assert locate("mnist", data=given) == (given, f"data={given}")


def test_a_set_found_nowhere_names_every_place_and_every_file(
    tmp_path, monkeypatch, cache
):
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    monkeypatch.setenv("VITEDU_DATA", str(tmp_path / "data"))
    with pytest.raises(MissingDataError) as error:
        locate("mnist")
    assert str(error.value) == (
        f"MNIST is not in $VITEDU_DATA/mnist ({tmp_path}/data/mnist) or the "
        f"cache ({cache}), and VITEDU_OFFLINE=1 forbids the download; unset "
        "it, or put train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
        "t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz into "
        f"{cache}, or pass fallback=digits"
    )


@pytest.mark.parametrize(
    ("name", "files", "words"),
    [
        ("mnist", ["a/", "b/"], "has 2 folders without pictures (a, b); give"),
        ("mnist", list(FILES)[:3], "has 3 files "),
        ("mnist", None, "does not exist; give the folder of MNIST's files ("),
        ("mnist", "", "is a file; give the folder of MNIST's files ("),
        (
            "digits",
            ["notes"],
            "has 1 file (notes) and no folders; digits comes",
        ),
        ("shapes-1k", ["notes"], "; shapes-1k is drawn, not read, so leave it"),
    ],
)
def test_data_that_does_not_hold_the_set_is_never_passed_over(
    tmp_path, cache, name, files, words
):
    fill(cache)
    given = tmp_path / "given"
    if files == "":
        given.write_bytes(b"")
    elif files is not None:
        given.mkdir()
        for file in files:
            path = given / file
            path.mkdir() if file.endswith("/") else path.write_bytes(b"")
    # else `fallback` would put another set in its place
    with pytest.raises(UserError) as error:
        load_dataset(name, data=given, fallback="digits")
    assert str(error.value).startswith(f"data={given} ")
    assert words in str(error.value)
    assert str(error.value).endswith(
        "class folders, in train/ and val/ or alone"
    )


@pytest.mark.parametrize("inner", [".", "MNIST/raw"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files_may_be_plain_and_in_torchvisions_place(
    tmp_path, inner, suffix
):
    names = [name.removesuffix(".gz") + suffix for name in FILES]
    folder = fill(tmp_path / "given" / inner, names)
    assert locate("mnist", data=tmp_path / "given").path == folder


def test_where_lists_every_set_without_a_download(cache):
    assert set(where()) == {"digits", *sets_of(*ARRAYS)}
    assert where()["mnist"] is None and where()["digits"].origin == "package"
    fill(cache)
    assert where()["mnist"] == (cache, "cache")


@pytest.mark.parametrize(
    ("platform", "variables", "want"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/vitedu"),
        ("linux", {}, "/home/ada/.cache/vitedu"),
        ("darwin", {}, "/home/ada/Library/Caches/vitedu"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/vitedu/Cache"),
        ("linux", {"VITEDU_CACHE": "~/mine"}, "/home/ada/mine"),
    ],
)
def test_each_platform_has_its_cache(platform, variables, want, monkeypatch):
    for name in ("VITEDU_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"HOME": "/home/ada"} | variables).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert catalogue.cache_folder() == Path(want)


# Downloading


def test_a_download_fills_the_cache_and_is_not_repeated(server, cache):
    found = locate("mnist", mirrors=(f"{server.address}/good/",))
    assert found == (cache, "cache")
    assert files_in(cache) == FILES
    assert locate("mnist", mirrors=("http://127.0.0.1:9/",)) == found


def test_only_what_the_cache_lacks_is_fetched(server, cache):
    cache.mkdir(parents=True)
    (cache / FIRST).write_bytes(b"kept")
    locate("mnist", mirrors=(f"{server.address}/good/",))
    assert files_in(cache) == FILES | {FIRST: b"kept"}


@pytest.mark.parametrize("fault", ["absent", "cut", "wrong", "stuck"])
def test_a_mirror_that_fails_gives_way_to_the_next(
    server, cache, monkeypatch, fault
):
    module = sys.modules["vitedu.data.locate"]
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.3)
    mirrors = (f"{server.address}/{fault}/", f"{server.address}/good/")
    locate("mnist", mirrors=mirrors)
    assert files_in(cache) == FILES


def test_when_all_mirrors_fail_each_reason_is_given_and_nothing_is_left(
    server, cache
):
    first, second, third, last = FILES
    mirrors = [
        f"{server.address}/{fault}/" for fault in ("absent", "cut", "wrong")
    ]
    with pytest.raises(MissingDataError) as error:
        locate("mnist", mirrors=(*mirrors, "http://127.0.0.1:9/"))
    for part in (
        f"MNIST could not be downloaded ({mirrors[0]}{FIRST}: HTTP Error 404",
        f"{mirrors[1]}{FIRST}: invalid hash value (expected ",
        f"{mirrors[2]}{FIRST}: invalid hash value (expected ",
        f"; http://127.0.0.1:9/{FIRST}: urlopen",
        f"put {first}, {second}, {third}, {last} into {cache}, or "
        "pass fallback=digits",
    ):
        assert part in str(error.value)
    assert files_in(cache) == {}


def locating(mirror):
    """A process that looks for MNIST there; a fork would inherit threads."""
    program = (
        "from tests.data.test_locate import CATALOGUE, SMALL, locate\n"
        "CATALOGUE['mnist'] = SMALL\n"
        f"print(locate('mnist', mirrors=['{mirror}']).origin)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_two_processes_fill_one_cache(server, cache):
    both = [locating(f"{server.address}/slow/") for _ in range(2)]
    for process in both:
        assert process.communicate()[0] == "cache\n"
    assert files_in(cache) == FILES


@pytest.mark.slow
def test_a_download_that_was_killed_leaves_nothing_to_trust(server, cache):
    killed = locating(f"{server.address}/stuck/")
    assert server.asked.wait(60)
    killed.kill()
    assert killed.communicate()[0] == ""
    assert where()["mnist"] is None
    locate("mnist", mirrors=(f"{server.address}/good/",))
    left = {path.name for path in cache.iterdir()}
    assert left >= set(FILES)
    assert all(name.endswith(".partial") for name in left - set(FILES))


def test_a_cache_that_may_not_be_written_is_one_sentence(tmp_path, cache, fork):
    tmp_path.chmod(0o500)

    def locate_without_rights():
        if os.geteuid() == 0:  # root may write anywhere
            os.seteuid(65534)
        locate("mnist", mirrors=("http://127.0.0.1:9/",))

    sentence = fork(locate_without_rights).answer()
    tmp_path.chmod(0o700)
    assert sentence == (
        f"UserError: cannot write {cache}: Permission denied; make "
        "room there, or set VITEDU_CACHE to a folder that can be written"
    )


def test_a_full_disk_is_one_sentence_and_leaves_nothing(server, cache):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (999, hard))
    try:
        with pytest.raises(UserError) as error:
            locate("mnist", mirrors=(f"{server.address}/good/",))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    start = f"cannot write {cache}: File too large; make"
    assert str(error.value).startswith(start)
    assert files_in(cache) == {}
