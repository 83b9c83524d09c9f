"""Two processes: they train as one does, stop together, and end together."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.train.runs import PATIENCE, SHORT, Two, stopper, write_set
from vitedu.model import ViT
from vitedu.train import fit
from vitedu.train.checkpoint import read_saved
from vitedu.train.processes import SINGLE, from_environment
from vitedu.train.run_folder import RunFolder
from vitedu.weights import read_weights, save

ROOT = Path(__file__).parents[2]
TORCHRUN = [
    sys.executable,
    *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
]
# 31 + 13 images, so that no share is even; no draws inside the network, which
# each process has of its own.
CONFIG = replace(
    SHORT,
    steps=12,
    batch_size=6,
    micro_batch_size=2,
    lr=0.01,
    optimizer="sgd",
    max_grad_norm=1.0,
    ema=0.9,
    validation=0.2,
    log_every=1,
    device="cpu",
)
# asked to stop after steps alone, there being no evaluation
LONG = replace(CONFIG, steps=100_000, validation=0.0)
# float32, a dozen steps of rate 0.01, sums in another order: measured 3e-8 for
# weights, 2e-6 for velocities; a share of a batch that weighs wrong is off by
# 1e-3
CLOSE = {"rtol": 0, "atol": 1e-5}


@pytest.fixture
def here(here):
    write_set(here, train=31, test=13)
    return here


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What two_processes.py found, and how it ended."""
    folder = tmp_path_factory.mktemp("two")
    worker = Path(__file__).with_name("two_processes.py")
    out = folder / "out.json"
    with started(
        worker, write_set(folder, train=31, test=13), out, cwd=folder
    ) as job:
        _, said = job.communicate(timeout=PATIENCE)
    assert out.exists(), said
    return json.loads(out.read_text()) | {"code": job.returncode, "said": said}


@contextmanager
def started(*words, cwd):
    """Two processes of Python under torchrun, which end with the block."""
    with subprocess.Popen(
        [*TORCHRUN, *map(str, words)],
        cwd=cwd,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        try:
            yield job
        finally:
            job.terminate()  # which ends the others too


def process_of(job, rank):
    """The process id of a rank of a job, once it has one."""
    path = Path(f"/proc/{job.pid}/task/{job.pid}/children")
    for child in path.read_text().split():
        environment = Path(f"/proc/{child}/environ").read_bytes()
        if f"RANK={rank}".encode() in environment.split(b"\0"):
            return int(child)
    raise AssertionError(f"no process of rank {rank}")


def wait_for_steps(log, count):
    """Until the log has lines of so many steps."""
    for _ in range(PATIENCE * 20):
        if log.exists() and len(log.read_text().splitlines()) >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"no {count} steps after {PATIENCE} s")


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="processes are found in /proc"
)

# --- against one process, in float64


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ddp", "fsdp2"])
def test_two_processes_train_as_one(answers, name):
    # 20 steps in float64 with sums in another order; measured 4e-12 for Adam,
    # whose denominator magnifies what is near 0
    for part in ("model", "ema", "optimizer", "sums"):
        assert answers[name][part] < 1e-9, part


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ddp", "fsdp2"])
def test_the_whole_state_comes_back_to_all_processes(answers, name):
    assert answers[name]["restored"] == 0.0
    assert answers[name]["gone on"] == 0.0
    assert answers[name]["updates"] == [20, 20]
    one, two, restored = answers[name]["groups"]
    assert one == two == restored


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ddp", "fsdp2"])
def test_every_image_is_counted_once(answers, name):
    together, alone = answers[f"{name} counts"]
    assert together[2] == alone[2] == 13
    assert together[0] == alone[0]
    assert together[1] == pytest.approx(alone[1], rel=1e-6)  # float32


@pytest.mark.slow
def test_processes_agree(answers):
    assert answers["any"] == [True, False]
    assert answers["first"] == 0
    assert answers["told"] == 2  # of the first one's mistake


@pytest.mark.slow
def test_the_other_processes_find_what_the_first_one_made(answers):
    assert answers["found"] == [False, True]
    assert answers["waited"] == 0  # for what the first one couldn't make


@pytest.mark.slow
def test_a_process_that_fails_ends_all_and_is_named(answers):
    assert answers["code"] != 0
    assert "the second fails alone" in answers["said"]
    assert "rank      : 1" in answers["said"].split("Root Cause")[1]


# --- runs


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_at_one_step(here):
    RunFolder("two").prepare(LONG)
    two = Two("--resume", "two")
    wait_for_steps(here / "two/log.jsonl", 5)
    os.kill(two.ranks[1].pid, signal.SIGTERM)
    assert two.answer()["status"] == "interrupted"
    talk = [Path(f"err{rank}").read_text() for rank in "01"]
    # the first alone says it
    assert ["data    set.npz" in each for each in talk] == [True, False]
    step = read_saved(here / "two" / "checkpoint.pt")["step"]
    lines = [
        json.loads(x) for x in (here / "two/log.jsonl").read_text().splitlines()
    ]
    steps = [line["step"] for line in lines if "loss" in line]
    assert steps == list(range(1, step + 1))
    # one process goes on
    shutil.copytree("two", "on")
    fit(LONG, "on", should_stop=stopper(3))
    fit(LONG, "one", should_stop=stopper(step + 3))
    states = [read_saved(here / x / "checkpoint.pt") for x in ("on", "one")]
    assert states[0]["step"] == states[1]["step"] == step + 3
    for each in states:
        each["optimizer"] = each["optimizer"]["state"]
    for part in ("model", "optimizer", "ema"):
        torch.testing.assert_close(*(x[part] for x in states), **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["last", "best"])
def test_two_processes_go_on_with_what_one_began(here, keep):
    start, file = ViT(CONFIG.model), "start.safetensors"
    start.resize_mode = "timm"
    save(start, file)
    config = replace(CONFIG, keep=keep, weights=file)
    fit(config, "one")
    fit(config, "two", should_stop=stopper(7))
    result = Two("shard=true", "--resume", "two").answer()
    assert result["status"] == "finished"
    files = [RunFolder(name).weights for name in ("one", "two")]
    one, two = map(read_weights, files)
    torch.testing.assert_close(one.state_dict, two.state_dict, **CLOSE)
    assert one.usage == two.usage and two.resize_mode == "timm"


@pytest.mark.slow
@needs_proc
def test_a_process_that_is_killed_ends_the_run_and_is_named(here):
    RunFolder("two").prepare(LONG)
    words = ("-m", "vitedu", "train", "--resume", "two")
    with started(*words, cwd=here) as job:
        wait_for_steps(here / "two/log.jsonl", 5)
        os.kill(process_of(job, rank=1), signal.SIGKILL)
        _, talk = job.communicate(timeout=60)  # torchrun's patience is 30
    assert job.returncode != 0
    cause = talk.split("Root Cause")[1]
    assert "rank      : 1" in cause
    assert "SIGKILL" in cause


# --- what the environment says

WORLD = {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1"}
WORLD |= {"LOCAL_WORLD_SIZE": "8"}  # on each of two machines


@pytest.fixture
def environment(monkeypatch):
    """A function that sets the variables of torchrun; None: not set."""
    for name in WORLD:
        monkeypatch.delenv(name, raising=False)

    def set_variables(**values):
        for name, value in (WORLD | values).items():
            if value is not None:
                monkeypatch.setenv(name, value)

    return set_variables


@pytest.mark.slow  # a second, for PyTorch's checkpoints of several processes
def test_torchrun_says_which_process_this_is(environment):
    from vitedu.train.processes.distributed import Distributed

    for known, size in ((None, 16), ("8", 8)):
        environment(LOCAL_WORLD_SIZE=known)
        here = from_environment()
        assert isinstance(here, Distributed)
        assert (here.rank, here.world_size, here.local_rank) == (9, 16, 1)
        assert here.local_size == size


@pytest.mark.parametrize(
    "values",
    [
        dict.fromkeys(WORLD),
        {"LOCAL_RANK": None},
        {"RANK": None, "WORLD_SIZE": None},
        {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"},
    ],
)
def test_without_others_a_process_is_alone(environment, values):
    environment(**values)
    assert from_environment() is SINGLE


# --- without other processes
