"""One process that trains alone, and what all kinds of processes need."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from vitedu.data import Source

Number = float | Tensor  # a tensor of one element
Batch = tuple[Tensor, Tensor]  # images and labels


class Learner(Protocol):
    """The part of a TrainState that is kept equal on all processes."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    ema: Any


class SingleProcess:
    """What training asks of its processes, as one alone answers it.

    All processes make the same calls. `Distributed` has the same methods.
    """

    rank = 0
    world_size = 1

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which reads, writes and reports."""
        return self.rank == 0

    def device(self, device: torch.device) -> torch.device:
        """The device of this process if the run is to use `device`."""
        return device

    def connected(self, device: torch.device) -> AbstractContextManager[None]:
        """The block in which the processes can reach each other."""
        return nullcontext()

    def wrap_model(self, model: nn.Module, shard: bool) -> nn.Module:
        """The model, wrapped so that all processes share its gradients."""
        return model

    def batches(self, source: Source, **place: Any) -> Iterator[Batch]:
        """This process's rows of each batch; of the last one possibly none."""
        return source.batches(**place, rank=self.rank, world=self.world_size)

    def micro_batches(
        self, model: nn.Module, batch: Batch, size: int | None, num_images: int
    ) -> Iterator[Batch]:
        """This process's share of `num_images`, cut for the backward passes.

        Parts have at most `size` images. Gradients are exchanged in the last
        pass. A part may have an image and no label; it counts nothing.
        """
        return micro_batches(*batch, size)

    def total(self, numbers: Sequence[Number]) -> list[Number]:
        """Each of the numbers added up over all processes."""
        return list(numbers)

    def gather(self, state: Learner) -> dict[str, Any]:
        """Model, optimizer and average as one process would have them.

        Only rank 0 may use what it gets.
        """
        return {
            "model": unwrapped(state.model).state_dict(),
            "optimizer": state.optimizer.state_dict(),
            "ema": None if state.ema is None else state.ema.state_dict(),
        }

    def scatter(
        self, read: Callable[[], dict[str, Any]], state: Learner
    ) -> dict[str, Any]:
        """Inverse of `gather`, of what rank 0 reads; returns the rest of it."""
        content = read()
        unwrapped(state.model).load_state_dict(content.pop("model"))
        state.optimizer.load_state_dict(content.pop("optimizer"))
        average = content.pop("ema")
        if state.ema is not None:
            state.ema.load_state_dict(average)
        return content

    def on_rank0(self, make: Callable[[], Any]) -> Any:
        """What `make()` returns on rank 0; all get that, or its UserError."""
        return make()

    def rank0_first(self, make: Callable[[], Any]) -> Any:
        """What `make()` returns on each process, beginning with rank 0.

        The others then find what it has downloaded or cached. Its UserError
        reaches all, and they don't make anything.
        """
        return make()


SINGLE = SingleProcess()


def micro_batches(
    images: Tensor, labels: Tensor, size: int | None
) -> Iterator[Batch]:
    """Cut a batch (b, ...) into parts of `size` images or fewer; None: one."""
    size = size or len(images)
    return zip(images.split(size), labels.split(size), strict=True)


def unwrapped(model: nn.Module) -> nn.Module:
    """The model without what torch.compile or DDP wraps around it.

    The wrappers begin every name with `_orig_mod.` or `module.`; a run may go
    on compiled or not, in one process or in several.
    """
    while hasattr(model, "_orig_mod") or hasattr(model, "module"):
        model = getattr(model, "_orig_mod", None) or model.module
    return model


def full_tensor(tensor: Tensor) -> Tensor:
    """All of a tensor, of which FSDP2 may have left a part to this process."""
    # a DTensor; to import that class would take a second
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
