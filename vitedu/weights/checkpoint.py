"""What dialects take and return: arrays with Metadata, and a Checkpoint.

`to_vitedu(arrays, Metadata(name="vit_tiny_patch16_224"))` is a Checkpoint.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn

from vitedu.model.classifier import LossName, Usage
from vitedu.model.config import Pooling
from vitedu.model.network import Network, NetworkConfig
from vitedu.model.position import Position
from vitedu.model.resize import ResizeMode
from vitedu.model.resnet import PoolPadding
from vitedu.pictures import PreprocessSpec

# the fields of Metadata that the caller of `load` may give
ANSWERS = ("image_size", "num_heads", "pool", "position", "pool_padding")


@dataclass(frozen=True)
class Metadata:
    """What is known about a file besides its arrays.

    `built` is timm's own module, where that is at hand instead of a file. The
    last five are the caller's answers to what a file cannot say.
    """

    name: str = ""  # of the file or the hub's model, without suffix
    header: dict[str, str] = field(default_factory=dict)  # of safetensors
    # config.json and preprocessor_config.json beside the file; empty: none
    config: dict[str, Any] = field(default_factory=dict)
    preprocessor: dict[str, Any] = field(default_factory=dict)
    built: nn.Module | None = None
    image_size: tuple[int, int] | None = None
    num_heads: int | None = None
    pool: Pooling | None = None
    position: Position | None = None
    pool_padding: PoolPadding | None = None


class Checkpoint(NamedTuple):
    """The contents of a weights file, in our terms."""

    config: NetworkConfig
    state_dict: dict[str, Tensor]
    preprocess: PreprocessSpec = PreprocessSpec()
    class_names: tuple[str, ...] = ()  # by index; empty: unknown
    loss_name: LossName | None = None  # trained with it; None: unknown
    resize_mode: ResizeMode = "paper"  # for its positions
    # names of arrays that its dialect knows and leaves out
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # for the load report, a sentence each
    doubts: tuple[str, ...] = ()  # what `load` warns of, a sentence each

    @property
    def usage(self) -> Usage:
        """Everything except the configuration and the weights."""
        return Usage(
            self.preprocess, self.class_names, self.loss_name, self.resize_mode
        )


def checkpoint_of(model: Network) -> Checkpoint:
    """A Checkpoint of a model, with its preprocessing and class names."""
    return Checkpoint(model.config, model.state_dict(), *model.usage)
