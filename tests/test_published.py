"""Chapter 9 fetches the authors' own file: a server on localhost has one."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

TEXT = Path(__file__).parents[1] / "book/text/09_weights.py"


@pytest.fixture
def fetched(tmp_path, monkeypatch):
    """The chapter's function, in an empty folder and online."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("VITEDU_OFFLINE", raising=False)
    (cell,) = (x for x in TEXT.read_text().split("# %%") if "def fetched" in x)
    found = {"np": np, "torch": torch}
    exec(cell.partition("\n")[2], found)
    yield found["fetched"]
    found["socket"].setdefaulttimeout(None)


def test_a_file_is_fetched_array_for_array(fetched, tmp_path, monkeypatch):
    arrays = {"cls": np.ones((1, 1, 4)), "head/bias": np.arange(3.0)}
    np.savez(tmp_path / "Ti_16.npz", **arrays)
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    monkeypatch.setattr(
        SimpleHTTPRequestHandler, "log_message", lambda *args: None
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{http.server_port}/Ti_16.npz"
        found = fetched(address)
        assert fetched(address.replace("Ti", "B")) == {}  # a 404
        http.shutdown()
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in arrays.items()
    }


def test_without_a_network_it_says_so(fetched, monkeypatch, capsys):
    assert fetched("http://127.0.0.1:9/Ti_16.npz") == {}
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    assert fetched("http://127.0.0.1:9/Ti_16.npz") == {}
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("not fetched: <urlopen error")
    assert second == "not fetched: VITEDU_OFFLINE=1 forbids it"
