"""Checkpoints to (config, state_dict) and back, one module a dialect."""

from vitedu.weights.load import LoadReport, checkpoint_of, load
from vitedu.weights.vitedu import Checkpoint, read_weights, write_weights

__all__ = [
    "Checkpoint",
    "LoadReport",
    "checkpoint_of",
    "load",
    "read_weights",
    "write_weights",
]
