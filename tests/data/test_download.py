"""What a mirror may send, and that no more than the file is taken from it."""

import hashlib
import time

import pytest

from vitedu.data.catalogue import File
from vitedu.data.download import MirrorError, download
from vitedu.errors import UserError

CONTENT = b"pixels" * 50_000
FILE = File("set.npz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def server(file_server):
    file_server.files = {FILE.name: CONTENT}
    return file_server


def test_a_file_of_the_right_digest_is_there_under_its_name(server, tmp_path):
    download(FILE, tmp_path / "a" / "b", (f"{server.address}/good/",))
    [path] = (tmp_path / "a" / "b").iterdir()
    assert (path.name, path.read_bytes()) == (FILE.name, CONTENT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("cut", "ended after 150,000 of 300,000 bytes"),
        ("wrong", f"sha256 is [0-9a-f]{{64}}, should be {FILE.sha256}"),
        ("endless", "sent more than the file's 300,000 bytes"),
        ("lying", "sent more than the file's 300,000 bytes"),
        ("drip", r"only \d+ bytes of 300.0 kB came in 0 seconds"),
    ],
)
def test_a_body_that_is_not_the_file_leaves_nothing(
    server, tmp_path, fault, sentence
):
    start = time.monotonic()
    with pytest.raises(MirrorError, match=f"/{fault}/set.npz: {sentence}"):
        download(FILE, tmp_path, (f"{server.address}/{fault}/",), seconds=0.3)
    assert time.monotonic() - start < 10
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*cache: Not a dir"):
        download(FILE, tmp_path / "file" / "cache", ("http://127.0.0.1:9/",))
