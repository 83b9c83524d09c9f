"""The processes that train one model: usually this one, or those of `torchrun`.

`with processes.connected(device): ...`; training reads the same for one process
and for many, and nothing else in the package knows of ranks.
"""

import os

from vitedu.errors import UserError
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

    UserError: the variables that `torchrun` sets contradict each other.
    """
    if "LOCAL_RANK" not in os.environ:
        return SINGLE
    rank, world_size, local_rank = map(
        whole_number, ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    )
    if not 0 <= rank < world_size:
        raise UserError(
            f"RANK={rank}, WORLD_SIZE={world_size} and LOCAL_RANK={local_rank} "
            "contradict each other; start the processes with torchrun"
        )
    if world_size == 1:
        return SINGLE
    from vitedu.train.processes.distributed import Distributed

    return Distributed(rank, world_size, local_rank)


def whole_number(name: str) -> int:
    text = os.environ.get(name)
    if text is None:
        raise UserError(
            f"LOCAL_RANK is set, but {name} isn't; start the processes with "
            "torchrun, or unset LOCAL_RANK to train in this process alone"
        )
    if not (text.isascii() and text.isdigit()):
        raise UserError(
            f"{name} must be a whole number, got {text!r}; start the processes "
            "with torchrun, or unset LOCAL_RANK to train in this process alone"
        )
    return int(text)
