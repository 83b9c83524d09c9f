"""What more than one test file measures with."""

import gc
import os
from pathlib import Path

import pytest
import torch

# What is imported and collected stays to the end. To look through it for
# garbage again and again was a third of collecting the tests.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


def bytes_saved(model, images):
    """Images, and what autograd keeps of one forward pass: parameters not."""
    storages = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    keep(images)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = model(images)
    # alive until here, so that no address is used twice
    assert len(logits) == len(images)
    for weight in model.parameters():
        storages.pop(weight.untyped_storage().data_ptr(), None)
    return sum(storages.values())


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in, on a computer that has and finds no data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VITEDU_DATA", raising=False)
    monkeypatch.delenv("VITEDU_TIER", raising=False)
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    return tmp_path


@pytest.fixture
def bytes_saved_for_backward():
    """The function of (model, images)."""
    return bytes_saved


@pytest.fixture(scope="session")
def golden():
    """The folder of the authors' outputs; without it the test is skipped."""
    folder = os.environ.get("VITEDU_GOLDEN")
    if not folder:
        pytest.skip(
            "VITEDU_GOLDEN, the folder of the authors' outputs, is not set"
        )
    return Path(folder)


class Fork:
    """A process that does one thing: its rights and limits die with it."""

    def __init__(self, action):
        read, write = os.pipe()
        self.pid, self.output = os.fork(), read
        if self.pid == 0:
            try:
                text = action() or "no error"
            except BaseException as error:
                text = f"{type(error).__name__}: {error}"
            os.write(write, text.encode())
            os._exit(0)
        os.close(write)

    def answer(self):
        """What `action` returned or raised, as text; "" if it was killed."""
        with os.fdopen(self.output) as output:
            text = output.read()
        os.waitpid(self.pid, 0)
        return text


@pytest.fixture
def fork():
    """Do something in a process of its own: `fork(action).answer()`."""
    if not hasattr(os, "fork"):
        pytest.skip("this platform has no fork")
    return Fork


def pytest_collection_modifyitems(items):
    """Skip what is marked `gpu` where there is no CUDA device.

    Files of short tests come last, so that all workers of `make test`, which
    get whole files, are done at about the same time.
    """
    long = {x.path for x in items if {"slow", "browser"} & {*x.keywords}}
    items.sort(key=lambda item: item.path not in long)
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
