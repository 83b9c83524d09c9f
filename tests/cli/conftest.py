"""What tests of the command share: a folder to work in, ways to run it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import vitedu
from tests.cli.small import SMOKE
from vitedu.cli import main


@pytest.fixture
def sentence(capsys):
    """Run a command that has a mistake; the one sentence that it answers."""

    def run(*words):
        capsys.readouterr()
        assert main([str(word) for word in words]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        *before, line = err.splitlines()
        assert line.startswith("vitedu: ") and not line.startswith(
            "vitedu: warning"
        )
        talk = [x for x in before if not x.startswith("vitedu: warning")]
        assert not any(each.startswith("vitedu: ") for each in talk)
        return line

    return run


@pytest.fixture
def answer(capsys):
    """Run a command with --json; the object that it prints."""

    def run(*words):
        capsys.readouterr()
        assert main([*map(str, words), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory):
    """The run folder of the digits at tier smoke."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("VITEDU_OFFLINE", "1")
        assert main([*SMOKE, "--out", "run"]) == 0
    return folder / "run"


@pytest.fixture
def run(here, trained_once):
    """A copy of that run folder, as `run` in the folder to work in."""
    return shutil.copytree(trained_once, here / "run")


class Finished(NamedTuple):
    """What is left of a command that ran in a process of its own."""

    code: int
    out: str
    err: str


class Process:
    """Commands in processes of their own, one after the other."""

    def __init__(self, folder):
        self.folder = folder
        root = Path(vitedu.__file__).parents[1]
        self.server = subprocess.Popen(
            [sys.executable, Path(__file__).parent / "fork_server.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
            text=True,
        )

    def start(self, *words, **changes):
        """Start a command; its process id.

        `changes`: environment variables in capitals, and paths for stdin,
        stdout and stderr in place of empty files.
        """
        paths = {"stdin": os.devnull}
        for name in ("stdout", "stderr"):
            (self.folder / name).write_text("")
            paths[name] = str(self.folder / name)
        environment = {k: v for k, v in changes.items() if k.isupper()}
        paths |= {k: changes[k] for k in paths if k in changes}
        order = {
            "words": [str(word) for word in words],
            "folder": os.getcwd(),
            "environment": dict(os.environ) | environment,
            "streams": list(paths.values()),
        }
        print(json.dumps(order), file=self.server.stdin, flush=True)
        return int(self.server.stdout.readline())

    def wait(self):
        """Wait for the command to end."""
        code = int(self.server.stdout.readline())
        out, err = (
            (self.folder / name).read_text(errors="surrogateescape")
            for name in ("stdout", "stderr")
        )
        return Finished(code, out, err)

    def run(self, *words, **changes):
        """Start a command and wait for it."""
        self.start(*words, **changes)
        return self.wait()


@pytest.fixture(scope="session")
def processes(tmp_path_factory):
    """The one that forks them."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    process = Process(tmp_path_factory.mktemp("streams"))
    yield process
    process.server.stdin.close()
    process.server.send_signal(signal.SIGTERM)
    process.server.wait()
    process.server.stdout.close()


@pytest.fixture
def process(processes, here):
    """Commands in processes of their own, in the folder to work in."""
    return processes
