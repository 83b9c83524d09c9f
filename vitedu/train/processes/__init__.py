"""The processes that train one model: usually this one, or those of `torchrun`.

`with processes.connected(device): ...`; training reads the same for one process
and for many, and nothing else in the package knows of ranks.
"""

import os

from vitedu.train.processes.single import (
    SINGLE,
    SingleProcess,
    full_tensor,
    micro_batches,
    unwrapped,
)

__all__ = [
    "SINGLE",
    "Processes",
    "SingleProcess",
    "from_environment",
    "full_tensor",
    "micro_batches",
    "unwrapped",
]

Processes = SingleProcess  # or Distributed; only this folder asks which


def from_environment() -> Processes:
    """The processes that `torchrun` started, this one among them; or it alone.

    It is alone unless RANK, WORLD_SIZE and LOCAL_RANK are all set.
    """
    variables = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    if not all(name in os.environ for name in variables):
        return SINGLE
    rank, world_size, local_rank = (int(os.environ[x]) for x in variables)
    if world_size == 1:
        return SINGLE
    from vitedu.train.processes.distributed import Distributed

    return Distributed(rank, world_size, local_rank)
