"""What it takes to build and run a network, found on PyTorch's meta device.

`check_memory(config, "model.safetensors: its network")`
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vitedu import errors
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
    errors.check_free(table_bytes(config), what, MEND)
    shape = batch_size, config.in_channels, *config.image_size
    with torch.device("meta"):
        return build(config).to(dtype), torch.empty(shape, dtype=dtype)


def table_bytes(config: NetworkConfig) -> int:
    """Bytes, at most, for fixed positions, real numbers even on meta."""
    position = getattr(config, "position", None)
    if not isinstance(position, SinCos2D | RoPE):
        return 0
    layers = config.depth if getattr(position, "at", "") == "layers" else 1
    # float64, held twice
    return 2 * 8 * config.num_tokens * layers * config.embed_dim


def check_memory(
    config: NetworkConfig, what: str = "the model", *, copies: int = 1
) -> None:
    """UserError unless building a network fits into the free memory.

    In float32, with one image. `what` begins the sentence. `copies` is how
    often the weights are held: 4 to train by Adam.
    """
    model, images = on_meta(new_network, config, what=what)
    weights = sum(weight.numel() for weight in model.parameters())
    num_bytes = 4 * (copies * weights + images.numel()) + table_bytes(config)
    errors.check_free(num_bytes, what, MEND)


def bytes_kept(module: nn.Module, images: Tensor) -> int:
    """Bytes of the images and of what autograd saves, without parameters."""
    held = {}

    def keep(tensor: Tensor) -> Tensor:
        held.update((id(each), each) for each in storages(tensor))
        return tensor

    keep(images)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module(images)
    for weight in storages(list(module.parameters())):
        held.pop(id(weight), None)
    return sum(each.nbytes() for each in held.values())


def bytes_alive(module: nn.Module, images: Tensor) -> int:
    """Bytes of the images and, at its peak, of a forward pass; in eval mode."""
    for each in module.eval().modules():
        if isinstance(each, nn.Dropout):  # a pretended one copies its input
            each.forward = nn.Identity().forward
    with torch.inference_mode(), Alive() as alive:
        module(images)
    return images.nbytes + alive.peak


class Alive(TorchDispatchMode):
    """Tracks what operators allocate, and the most bytes alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: dict[int, int] = {}  # of each storage that lives
        self.peak = 0

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        known = {id(each): each for each in storages((args, kwargs))}
        out = operator(*args, **(kwargs or {}))
        for made in storages(out):
            if id(made) not in known and id(made) not in self.bytes:
                self.bytes[id(made)] = made.nbytes()
                weakref.finalize(made, self.bytes.pop, id(made))
        self.peak = max(self.peak, sum(self.bytes.values()))
        return out


def storages(values: Any) -> list[torch.UntypedStorage]:
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
    return [tensor.untyped_storage() for tensor in tensors]
