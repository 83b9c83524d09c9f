"""What a mirror may send, and that only the file is taken from it."""

import hashlib

import pytest

from vitedu.data.catalogue import File
from vitedu.data.download import MirrorError, download
from vitedu.errors import UserError

CONTENT = b"pixels" * 50_000
FILE = File("set.npz", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def server(file_server):
    file_server.files = {FILE.name: CONTENT}
    return file_server


def test_a_file_of_the_right_digest_is_there_under_its_name(server, tmp_path):
    download(FILE, tmp_path / "a" / "b", (f"{server.address}/good/",))
    [path] = (tmp_path / "a" / "b").iterdir()
    assert (path.name, path.read_bytes()) == (FILE.name, CONTENT)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("absent", "HTTP Error 404"),
        ("cut", f'invalid hash value .expected "{FILE.sha256}"'),
        ("wrong", "invalid hash value"),
        ("stuck", "timed out"),
    ],
)
def test_a_body_that_is_not_the_file_leaves_nothing(
    server, tmp_path, monkeypatch, fault, sentence
):
    monkeypatch.setattr("vitedu.data.download.SILENT_SECONDS", 0.3)
    with pytest.raises(MirrorError, match=f"/{fault}/set.npz: {sentence}"):
        download(FILE, tmp_path, (f"{server.address}/{fault}/",))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UserError, match=r"cannot write .*cache/set.npz: Not a dir"
    ):
        download(FILE, tmp_path / "file" / "cache", ("http://127.0.0.1:9/",))
