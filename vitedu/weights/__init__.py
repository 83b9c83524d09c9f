"""Checkpoints to (config, state_dict) and back, one module a dialect."""

from vitedu.weights.checkpoint import Checkpoint, Metadata, checkpoint_of
from vitedu.weights.convert import Conversion, convert
from vitedu.weights.files import Arrays, read_arrays
from vitedu.weights.load import DIALECTS, LoadReport, load, recognise
from vitedu.weights.named import vit, vit_config
from vitedu.weights.save import save
from vitedu.weights.vitedu import read_weights, write_weights

__all__ = [
    "DIALECTS",
    "Arrays",
    "Checkpoint",
    "Conversion",
    "LoadReport",
    "Metadata",
    "checkpoint_of",
    "convert",
    "load",
    "read_arrays",
    "read_weights",
    "recognise",
    "save",
    "vit",
    "vit_config",
    "write_weights",
]
