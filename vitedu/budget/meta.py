"""Bytes that a run of a model keeps; on PyTorch's meta device it's free."""

import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def bytes_kept(module: nn.Module, images: Tensor) -> int:
    """Bytes of the images and of what autograd saves, without parameters.

    On the meta device attention isn't fused, so its weights are counted.
    """
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
    """Bytes of the images and, at its peak, of a forward pass."""
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
    """The storages of all tensors in nested lists and dicts."""
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
    return [tensor.untyped_storage() for tensor in tensors]
