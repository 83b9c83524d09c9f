"""What a configuration costs, before anything is built: weights, arithmetic, memory.

`parameters(vit_config("ViT-B/16")).total` is 86567656.
"""

from vitedu.budget.memory import OPTIMIZER_STATE, Memory, memory
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
    "datasheet",
    "flops",
    "macs",
    "memory",
    "mfu",
    "parameters",
    "training_flops",
]
