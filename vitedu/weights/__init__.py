"""Checkpoints to (config, state_dict) and back, one module a dialect."""

from vitedu.weights.checkpoint import About, Checkpoint
from vitedu.weights.convert import Conversion, convert
from vitedu.weights.dialects import DIALECTS, recognise
from vitedu.weights.files import Arrays, read_arrays
from vitedu.weights.load import LoadReport, checkpoint_of, load
from vitedu.weights.save import save
from vitedu.weights.vitedu import read_weights, write_weights

__all__ = [
    "DIALECTS",
    "About",
    "Arrays",
    "Checkpoint",
    "Conversion",
    "LoadReport",
    "checkpoint_of",
    "convert",
    "load",
    "read_arrays",
    "read_weights",
    "recognise",
    "save",
    "write_weights",
]
