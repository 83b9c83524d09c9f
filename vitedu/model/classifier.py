"""What a network of ours carries besides its weights.

`model.preprocess` says how a picture becomes its input, `model.class_names` what its
outputs are called, `model.load_report` what became of the file that it came from.
"""

from typing import NamedTuple

from torch import nn

from vitedu.pictures import PreprocessSpec


class LoadReport(NamedTuple):
    """What became of the tensors of a file."""

    source: str
    dialect: str
    loaded: tuple[str, ...]  # taken over unchanged
    dropped: tuple[str, ...]  # in the file, not in the model
    new: tuple[str, ...]  # in the model, not in the file
    resized: tuple[str, ...] = ()  # positions, fitted to another grid
    notes: tuple[str, ...] = ()  # what else is to be known, a sentence each


class Classifier(nn.Module):
    """A network from images to logits, and what is known about it.

    A new one has the authors' preprocessing for its size and channels, no class names
    and no report; `vitedu.load` puts what the file says in their place.
    """

    def __init__(
        self, image_size: tuple[int, int], in_channels: int, num_classes: int
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.preprocess = PreprocessSpec(image_size, in_channels)
        self.class_names: tuple[str, ...] = ()  # by index; empty: unknown
        self.load_report: LoadReport | None = None
