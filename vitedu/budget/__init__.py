"""What a configuration costs, before anything is built.

`parameters(vit_config("ViT-B/16")).total` is 86567656.
"""

from vitedu.budget.memory import OPTIMIZER_STATE, Memory, memory
from vitedu.budget.meta import check_memory
from vitedu.budget.operations import (
    DATASHEET,
    Parameters,
    datasheet,
    flops,
    macs,
    mfu,
    parameters,
    training_flops,
)

__all__ = [
    "DATASHEET",
    "OPTIMIZER_STATE",
    "Memory",
    "Parameters",
    "check_memory",
    "datasheet",
    "flops",
    "macs",
    "memory",
    "mfu",
    "parameters",
    "training_flops",
]
