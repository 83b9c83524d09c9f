"""Draws of others' code: from a seed, and without a trace."""

import random

import numpy as np
import torch

from vitedu.data.feed.source import Draws


def drawn():
    return random.random(), np.random.rand(), torch.rand(()).item()


def test_the_same_numbers_give_the_same_draws():
    with Draws(3, 1):
        first = drawn()
    with Draws(3, 1):
        assert drawn() == first
    with Draws(3, 2):
        assert all(a != b for a, b in zip(drawn(), first, strict=True))


def test_draws_go_on_where_they_stopped():
    with Draws(5):
        both = drawn(), drawn()
    draws = Draws(5)
    with draws:
        first = drawn()
    drawn()
    with draws:
        assert (first, drawn()) == both
