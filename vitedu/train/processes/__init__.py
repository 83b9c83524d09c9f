"""The processes that train one model: this one alone, or those of `torchrun`.

`with processes.connected(device): ...`; no other module knows about ranks.
"""

import os

from vitedu.train.processes.single import (
    SINGLE,
    Processes,
    full_tensor,
    unwrapped,
)

__all__ = [
    "SINGLE",
    "Processes",
    "from_environment",
    "full_tensor",
    "unwrapped",
]


def from_environment() -> Processes:
    """Several if RANK, WORLD_SIZE and LOCAL_RANK are all set, else one."""
    variables = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    numbers = [int(os.environ[x]) for x in variables if x in os.environ]
    if len(numbers) < len(variables) or numbers[1] == 1:
        return SINGLE
    from vitedu.train.processes.distributed import Distributed

    # where torchrun didn't start them, all are taken to share this machine
    numbers.append(int(os.environ.get("LOCAL_WORLD_SIZE", numbers[1])))
    return Distributed(*numbers)
