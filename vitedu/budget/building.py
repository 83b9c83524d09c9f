"""What it takes to build a network, known before a single module of it is made.

`check_memory(config, "model.safetensors: its network")`
"""

from vitedu import errors
from vitedu.model.footprint import NOTHING, Footprint
from vitedu.model.network import NetworkConfig

# Measured with torch 2.13: 2.6 kB, the objects of its parameters included; as
# much on the meta device.
BYTES_PER_MODULE = 3_000
MEND = "make the model smaller"


def footprint(config: NetworkConfig) -> Footprint:
    """Numbers and modules of a whole network, by formula: nothing is built."""
    return sum(config.footprints().values(), NOTHING)


def bytes_on_meta(config: NetworkConfig) -> int:
    """Bytes to build a network on the meta device, where tables are real."""
    whole = footprint(config)
    return BYTES_PER_MODULE * whole.modules + 8 * whole.buffers


def building_bytes(config: NetworkConfig, copies: int = 1) -> int:
    """Bytes of memory to build a network in float32, and hold one image.

    `copies` is how often its weights are held: 4 to train it by Adam on this
    machine.
    """
    whole = footprint(config)
    height, width = config.image_size
    # a table of positions is held twice while it is computed
    numbers = copies * whole.weights + 2 * whole.buffers
    numbers += height * width * config.in_channels
    return 4 * numbers + BYTES_PER_MODULE * whole.modules


def check_memory(
    config: NetworkConfig, what: str = "the model", *, copies: int = 1
) -> None:
    """UserError unless a network fits into the memory that is free.

    `what` begins the sentence; `copies` as for `building_bytes`. Takes
    milliseconds, whatever the sizes are: call it before `new_network`.
    """
    errors.check_memory(building_bytes(config, copies), what, MEND)
