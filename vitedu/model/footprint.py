"""What a network takes up, counted before anything of it is built.

`12 * dense(768, 3072)` is twelve modules of 2,362,368 weights each. Everything
is a Python int, so no size is too large to be counted.
"""

from dataclasses import dataclass
from typing import Annotated

from vitedu.fields import Range

# More blocks than any network has, and minutes to build.
MOST_BLOCKS = 4096
Depth = Annotated[int, Range(1, MOST_BLOCKS)]


@dataclass(frozen=True)
class Footprint:
    """Numbers that are learned, numbers that are computed once, and modules."""

    weights: int = 0
    buffers: int = 0
    modules: int = 0

    def __add__(self, other: "Footprint") -> "Footprint":
        return Footprint(
            self.weights + other.weights,
            self.buffers + other.buffers,
            self.modules + other.modules,
        )

    def __rmul__(self, times: int) -> "Footprint":
        return Footprint(
            times * self.weights, times * self.buffers, times * self.modules
        )


NOTHING = Footprint()
# One without numbers: dropout, an activation, a container.
MODULE = Footprint(modules=1)


def dense(inputs: int, outputs: int, *, bias: bool = True) -> Footprint:
    """A linear layer, or a convolution whose kernel covers `inputs` numbers."""
    return Footprint(weights=(inputs + bias) * outputs, modules=1)


def norm(width: int) -> Footprint:
    """A LayerNorm or a GroupNorm: a scale and a shift for each channel."""
    return Footprint(weights=2 * width, modules=1)
