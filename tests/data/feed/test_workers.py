"""Workers that are killed, and workers whose parent is."""

import multiprocessing
import os
import re
import signal
import time

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from vitedu import UserError
from vitedu.data import ImageSource, PreprocessSpec, Split
from vitedu.data.dataset import FileReader
from vitedu.data.feed.loader import LoaderSource
from vitedu.data.feed.pictures import follow_the_parent
from vitedu.data.feed.source import explain_killed_workers

SPEC = PreprocessSpec(image_size=4)


def killed(picture):
    """What the system does to a process when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


class Killed(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return killed(index)


def folder_source(folder):
    Image.new("RGB", (4, 4)).save(folder / "x.png")
    pictures = Split(
        "photos", FileReader([folder / "x.png"]), torch.tensor([0]), ("a",)
    )
    return ImageSource(pictures, SPEC, augment=killed, num_workers=1)


def loader_source(_):
    loader = DataLoader(Killed(), num_workers=1)
    return LoaderSource(loader, SPEC, ("a",), num_images=2)


@pytest.mark.slow
@pytest.mark.parametrize("source", [folder_source, loader_source])
def test_a_killed_worker_is_one_sentence_about_memory(tmp_path, source, fork):
    def read():
        list(source(tmp_path).batches(batch_size=1))

    # torch raises it from a signal handler, which later tests must not inherit
    assert re.match(
        r"UserError: the data worker with process number \d+ was killed, most "
        r"likely because memory ran out; set num_workers to a smaller number",
        fork(read).answer(),
    )


def test_a_worker_killed_while_it_hands_over_a_batch_is_that_sentence():
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    with pytest.raises(UserError, match=r"^a data worker was killed.*memory"):
        with explain_killed_workers():
            ours.recv()
    with pytest.raises(ConnectionResetError, match="the user's own"):
        with explain_killed_workers():
            raise ConnectionResetError("the user's own")


def test_it_says_so_of_any_function_and_of_nothing_else():
    @explain_killed_workers()
    def step(message):
        raise RuntimeError(message)

    with pytest.raises(UserError, match=r"number 31 .* shared memory"):
        step(
            "DataLoader worker (pid 31) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory."
        )
    with pytest.raises(RuntimeError, match="out of memory"):
        step("CUDA out of memory")


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def read_on_two_workers(pids):
    """A run that sends the numbers of its workers, and goes on reading."""
    loader = DataLoader(
        range(10**6), num_workers=2, worker_init_fn=follow_the_parent
    )
    for _ in loader:
        pids.send([each.pid for each in multiprocessing.active_children()])
        time.sleep(60)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_workers_end_when_their_parent_is_killed():
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("fork")
    run = context.Process(target=read_on_two_workers, args=(theirs,))
    run.start()
    workers = ours.recv()
    assert len(workers) == 2 and all(map(is_running, workers))
    run.kill()
    run.join()
    deadline = time.monotonic() + 20  # torch's watchdog takes five seconds
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_running, workers))
