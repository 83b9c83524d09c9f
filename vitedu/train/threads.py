"""How many CPU threads a run uses: decided by its configuration alone.

The number is recorded and kept when the run goes on: sums that are shared out
among threads are added in another order, so another number may give other
bytes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from vitedu.budget import training_flops
from vitedu.train.config import TrainConfig

# Operations of a forward and backward pass from which a second thread pays.
# Below, the threads mostly wait for each other: with ViTs of 64 to 192 wide,
# two threads were up to 1.5 times as fast at 2e10, and 1.8 to 1.9 times from
# 6e10 on.
WORTH_SHARING = 3e10


def choose_threads(config: TrainConfig, available: int) -> int:
    """1 where a step is small, else all that are `available`.

    What counts is the work of one pass: training a micro-batch once.
    """
    num_images = config.micro_batch_size or config.batch_size
    work = training_flops(config.model) * num_images
    return available if work >= WORTH_SHARING else 1


@contextmanager
def cpu_threads(number: int) -> Iterator[None]:
    """Use `number` CPU threads inside the `with` block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
