"""Schedules against the authors' own values and against five-line formulas."""

import json
import math
import os
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitedu.train.config import Schedule
from vitedu.train.schedule import SCHEDULES, build_schedule, warmup_linear

GOLDEN = os.environ.get("VITEDU_GOLDEN")
golden = pytest.mark.skipif(not GOLDEN, reason="VITEDU_GOLDEN is not set")

# What the authors' two code bases have that this package has too. Their other
# shapes (rsqrt, stair, polynomial) have no counterpart here.
GOLDEN_NAMES = (
    *(f"vit_jax_{i}" for i in ("0_cosine", "1_linear", "2_linear", "3_cosine")),
    *(f"vit_jax_{i}" for i in ("4_linear", "5_cosine", "6_linear")),
    *(f"big_vision_{i}" for i in ("0_cosine", "1_linear", "6_cosine")),
)
runs = st.tuples(
    st.floats(1e-5, 10.0),  # lr
    st.integers(1, 10_000),  # num_steps
    st.floats(0.0, 1.0),  # warm-up, a share of num_steps
    st.floats(0.0, 1.0),  # where between the first step and the last
)


def direct(name, step, lr, num_steps, warmup_steps, end=1e-5):
    """The rate, case by case; written without looking at the package's way."""
    shape = {
        "cosine": lambda left: lr * math.sin(math.pi / 2 * left) ** 2,
        "linear": lambda left: end + left * (lr - end),
        "constant": lambda left: lr,
    }[name]
    if step < warmup_steps:
        return step * shape(1.0) / warmup_steps
    if step == num_steps:
        # in the one step of a run that is all warm-up nothing has decayed
        return shape(1.0 if warmup_steps == num_steps else 0.0)
    return shape((num_steps - step) / (num_steps - warmup_steps))


def cases():
    """The authors' schedules of a shape that this package has, by name."""
    every = json.loads(Path(GOLDEN, "schedules.json").read_text())["schedules"]
    return {x["name"]: x for x in every if x["decay_type"] in SCHEDULES}


@golden
@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_equals_the_authors_values(name):
    case = cases()[name]
    lr, num_steps = case["base"], case["total_steps"]
    if case.get("scale_with_batchsize"):
        lr = lr * case["batch_size"] / 256
    warmup_steps = case.get("warmup_steps")
    if warmup_steps is None:
        images = case["warmup_epochs"] * case["data_size"]
        warmup_steps = images // case["batch_size"]
    end = case.get("linear_end", case.get("end", 1e-5))
    options = {"end": end} if case["decay_type"] == "linear" else {}
    schedule = SCHEDULES[case["decay_type"]]
    with np.load(Path(GOLDEN, "schedules.npz")) as stored:
        steps, want = stored[f"{name}/steps"], stored[f"{name}/lr_f64"]
    ours = [
        schedule(int(step), lr, num_steps, warmup_steps, **options)
        for step in steps
    ]
    # float64, a handful of operations: 1e-12 of the peak; near the end of a
    # cosine the value itself is a difference of nearly equal numbers
    assert ours == pytest.approx(want.tolist(), rel=0, abs=1e-12 * lr)


@golden
def test_every_golden_cosine_and_line_is_compared():
    assert cases().keys() == set(GOLDEN_NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
@settings(deadline=None, derandomize=True)
@given(run=runs)
def test_equals_the_direct_formula(name, run):
    lr, num_steps, warmup, at = run
    step, warmup_steps = round(at * num_steps), round(warmup * num_steps)
    ours = SCHEDULES[name](step, lr, num_steps, warmup_steps)
    want = direct(name, step, lr, num_steps, warmup_steps)
    # float64; cos near pi loses digits, so relative to the peak
    assert ours == pytest.approx(want, rel=0, abs=1e-12 * lr)


@pytest.mark.parametrize("name", SCHEDULES)
@settings(deadline=None, derandomize=True)
@given(run=runs)
def test_never_leaves_the_range_from_zero_to_lr(name, run):
    lr, num_steps, warmup, at = run
    rate = build_schedule(name, lr, num_steps, warmup)(round(at * num_steps))
    assert 0.0 <= rate <= lr * (1 + 1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_warmup_rises_in_equal_steps_to_the_full_rate(name):
    # the decay begins after the warm-up, so that it does not bend this line
    schedule = build_schedule(name, 0.1, 1000, 0.1)
    rises = [schedule(step + 1) - schedule(step) for step in range(100)]
    # float64, differences of numbers near 0.1: 2e-17 each
    assert rises == pytest.approx([0.001] * 100, abs=1e-15)
    assert schedule(100) == 0.1
    # and the rate stays at its end after the last step
    assert schedule(10_000) == schedule(1000)


def test_linear_ends_at_its_end():
    assert warmup_linear(100, 0.1, 100, 10, end=0.03) == 0.03
    assert warmup_linear(100, 0.1, 100, 10) == 1e-5


def test_every_choice_of_a_config_has_its_function():
    assert set(get_args(Schedule)) == set(SCHEDULES)
