"""The memory it takes to build a network, found from its shapes.

`check_memory(config, "model.safetensors: its network")`
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vitedu import errors
from vitedu.errors import UserError, reason
from vitedu.model import RoPE, SinCos2D, new_network
from vitedu.model.network import NetworkConfig

MEND = "make the model smaller"


def on_meta(
    build: Callable[[NetworkConfig], nn.Module],
    config: NetworkConfig,
    batch_size: int = 1,
    dtype: torch.dtype = torch.float32,
    what: str = "the model",
) -> tuple[nn.Module, Tensor]:
    """`build(config)` and images (b, c, h, w) on meta. UserError: too large."""
    errors.check_memory(table_bytes(config), what, MEND)
    shape = batch_size, config.in_channels, *config.image_size
    try:
        with torch.device("meta"):
            return build(config).to(dtype), torch.empty(shape, dtype=dtype)
    except (RuntimeError, OverflowError, TypeError) as error:
        raise UserError(
            f"{what} is too large for torch ({reason(error)}); {MEND}"
        ) from None


def table_bytes(config: NetworkConfig) -> int:
    """Bytes to compute fixed positions, which are real numbers even on meta."""
    position = getattr(config, "position", None)
    if isinstance(position, SinCos2D):
        layers = config.depth if position.at == "layers" else 1
        width = layers * config.embed_dim
    elif isinstance(position, RoPE):
        width = config.embed_dim // config.num_heads
    else:
        return 0
    return 2 * 8 * config.num_tokens * width  # float64, held twice


def building_bytes(
    config: NetworkConfig, copies: int = 1, what: str = "the model"
) -> int:
    """Bytes to build a network in float32, and hold one image.

    `copies` is how often its weights are held: 4 to train it by Adam here.
    """
    model, images = on_meta(new_network, config, what=what)
    weights = sum(weight.numel() for weight in model.parameters())
    return 4 * (copies * weights + images.numel()) + table_bytes(config)


def check_memory(
    config: NetworkConfig, what: str = "the model", *, copies: int = 1
) -> None:
    """UserError unless building a network fits into the free memory.

    `what` begins the sentence. `copies` is how often the weights are held: 4 to
    train by Adam.
    """
    errors.check_memory(building_bytes(config, copies, what), what, MEND)
