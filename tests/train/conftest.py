"""A folder to run in, and its keyboard."""

import signal

import pytest

from tests.train.runs import write_set


@pytest.fixture
def here(here):
    """The working folder, with a set of 30 + 11 images in three classes."""
    write_set(here)
    return here


@pytest.fixture
def on_the_keyboard():
    """Ctrl-C as at a terminal: what is started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
