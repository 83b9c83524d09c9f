"""The share of a run's time that goes by waiting for data."""

import time
from dataclasses import replace

import pytest
import torch

from tests.train.runs import SHORT, SMALL
from vitedu.data import ArraySource
from vitedu.data.readers.arrays import open_pair
from vitedu.pictures import PreprocessSpec
from vitedu.results import read_file
from vitedu.train import fit
from vitedu.train.fit import DataWait

pytestmark = pytest.mark.slow  # each test trains

CPU = torch.device("cpu")
CONFIG = replace(
    SHORT,
    model=replace(SMALL, in_channels=3, num_classes=2),
    dataset="given",
    steps=4,
    batch_size=4,
    log_every=2,
)
PAUSE = 0.05  # seconds; a step of this model takes a few milliseconds


class Slow(ArraySource):
    """A source that takes its time over every batch."""

    def batches(self, **place):
        for batch in super().batches(**place):
            time.sleep(PAUSE)
            yield batch


def source_of(kind):
    images = torch.zeros(16, 3, 8, 8, dtype=torch.uint8)
    split = open_pair(images, torch.arange(16) % 2, ("a", "b"))
    spec = PreprocessSpec(image_size=8)
    return kind(split, spec)


def run(kind, out=None, **options):
    train, test = source_of(kind), source_of(ArraySource)
    return fit(CONFIG, out, train=train, test=test, **options)


def waits(history):
    return [line["data_wait"] for line in history if "data_wait" in line]


def test_only_the_time_until_a_batch_comes_is_counted_and_once():
    def slow():
        time.sleep(PAUSE)
        yield 1

    wait = DataWait(CPU)
    for _ in wait.timed([1, 2]):
        time.sleep(PAUSE)
    assert wait.take() < PAUSE
    assert list(wait.timed(slow())) == [1]
    assert wait.take() >= PAUSE
    assert wait.take() == 0.0


def test_a_run_that_waits_for_its_data_says_so(tmp_path):
    done = run(Slow, tmp_path / "run")
    assert len(waits(done.history)) == 2
    assert min(waits(done.history)) > 0.3
    assert 0.3 < done.result["data_wait"] <= 1
    stored = read_file(tmp_path / "run" / "result.json")
    assert stored["data_wait"] == done.result["data_wait"]
    quick = run(ArraySource)
    assert 0 <= quick.result["data_wait"] < done.result["data_wait"]


def test_a_resumed_run_counts_its_own_time_alone(tmp_path):
    stops = iter([False, False, True])
    run(Slow, tmp_path / "run", should_stop=lambda: next(stops))
    done = run(Slow, tmp_path / "run")
    # the last line is of two steps, of which this process took one
    assert min(waits(done.history)) > 0.3


def test_a_run_stopped_before_its_first_line_says_nothing():
    stopped = run(Slow, should_stop=lambda: True)
    assert stopped.result["status"] == "interrupted"
    assert "data_wait" not in stopped.result


def test_the_whole_share_weighs_the_lines_by_their_time():
    every = replace(CONFIG, log_every=1)
    train, test = source_of(Slow), source_of(ArraySource)
    done = fit(every, train=train, test=test)
    lines = [line for line in done.history if "data_wait" in line]
    before, waited = 0.0, 0.0
    for line in lines:
        waited += line["data_wait"] * (line["wall_seconds"] - before)
        before = line["wall_seconds"]
    want = waited / before
    # rounded to three digits, as the lines are
    assert done.result["data_wait"] == pytest.approx(want, abs=1e-3)


@pytest.mark.gpu
def test_a_gpu_that_has_work_does_not_wait():
    device = torch.device("cuda")
    x = torch.randn(4096, 4096, device=device)
    wait = DataWait(device)
    for _ in wait.timed(range(5)):
        for _ in range(20):
            x @ x  # a tenth of a second or so is queued, and none waits for it
    busy = wait.take()
    for _ in wait.timed(time.sleep(PAUSE) or i for i in range(5)):
        torch.cuda.synchronize()
    assert busy < 5 * PAUSE / 2
    assert wait.take() > 5 * PAUSE / 2
