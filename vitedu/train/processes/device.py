"""A run's device and CPU threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from vitedu.budget import training_flops
from vitedu.errors import UserError
from vitedu.train.config import TrainConfig

# operations of a step above which a second thread pays off: with ViTs of width
# 64 to 192, two were up to 1.5 times as fast at 2e10, 1.9 times from 6e10 on
WORTH_SHARING = 3e10


def find_device(name: str) -> torch.device:
    """The device `name`; "auto" is the first of cuda, mps, cpu that is there.

    UserError: this machine doesn't have it.
    """
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    available = [kind for kind in there if there[kind]]
    try:
        device = torch.device(available[0] if name == "auto" else name)
    except RuntimeError:
        raise UserError(
            f"there is no device {name!r}; known: {', '.join(there)}"
        ) from None
    has, count = ", ".join(available), torch.cuda.device_count()
    if device.type in available:
        if device.type != "cuda" or (device.index or 0) < count:
            return device
        has = f"{count} cuda devices, counted from 0"
    raise UserError(
        f"this machine doesn't have the device {name!r}; it has {has}"
    )


def choose_threads(config: TrainConfig, available: int) -> int:
    """1 where a step is small, else all that are `available`.

    The number is recorded and kept when the run is resumed: another adds sums
    in another order, and may change the result's bytes.
    """
    num_images = config.micro_batch_size or config.batch_size
    work = training_flops(config.model) * num_images
    return available if work >= WORTH_SHARING else 1


@contextmanager
def cpu_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
