"""A folder to run in."""

import pytest

from tests.train.runs import write_set


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working folder, with a set of 30 + 11 images in three classes."""
    monkeypatch.chdir(tmp_path)
    write_set(tmp_path)
    return tmp_path
