"""What training needs from its processes, for one that trains alone."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vitedu.data import Source
from vitedu.errors import UserError

if TYPE_CHECKING:
    from vitedu.train.step import TrainState

Number = float | Tensor  # a tensor of one element
Batch = tuple[Tensor, Tensor]  # images and labels


class Processes:
    """One process. Several are `Distributed`; all make the same calls."""

    rank = 0
    world_size = 1
    local_size = 1  # of them on this machine

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which reads, writes and reports."""
        return self.rank == 0

    def device(self, device: torch.device) -> torch.device:
        """This process's device if the run is to use `device`."""
        return device

    def connected(self, device: torch.device) -> AbstractContextManager[None]:
        """The block in which processes can communicate."""
        return nullcontext()

    def wrap_model(self, model: nn.Module, shard: bool) -> nn.Module:
        """The model, wrapped so that processes share its gradients."""
        return model

    def batches(self, source: Source, **place: Any) -> Iterator[Batch]:
        """This process's rows of each batch; maybe none of the last one.

        UserError: they are fewer than the source's length promises.
        """
        rank, world, size = self.rank, self.world_size, place["batch_size"]
        whole, rest = divmod(len(source), size)
        mine, last = (len(range(rank, x, world)) for x in (size, rest))
        num_seen, promised = place.get("start", 0) * mine, whole * mine + last
        for batch in source.batches(**place, rank=rank, world=world):
            num_seen += len(batch[1])
            yield batch
        if num_seen < promised:
            to = f" to process {rank} of {world}" if world > 1 else ""
            raise UserError(
                f"the {type(source).__name__} gave {num_seen:,} images in an "
                f"epoch{to}, but its length promises {promised:,}; let it give "
                "all of them, a short last batch too, or give it their length"
            )

    def micro_batches(
        self, model: nn.Module, batch: Batch, size: int | None, num_images: int
    ) -> Iterator[Batch]:
        """This process's share of `num_images`, in parts of at most `size`.

        A part may be one image without a label, which counts nothing.
        """
        images, labels = batch
        size = size or len(images)
        return zip(images.split(size), labels.split(size), strict=True)

    def total(self, numbers: Sequence[Number]) -> list[Number]:
        """Each number summed over all processes."""
        return list(numbers)

    def gather(self, state: "TrainState") -> dict[str, Any]:
        """Model, optimizer and average as of one process; on rank 0 only."""
        return {
            "model": unwrapped(state.model).state_dict(),
            "optimizer": state.optimizer.state_dict(),
            "ema": None if state.ema is None else state.ema.state_dict(),
        }

    def scatter(
        self, read: Callable[[], dict[str, Any]], state: "TrainState"
    ) -> dict[str, Any]:
        """Inverse of `gather`, from what rank 0 reads; returns the rest."""
        content = read()
        unwrapped(state.model).load_state_dict(content.pop("model"))
        state.optimizer.load_state_dict(content.pop("optimizer"))
        average = content.pop("ema")
        if state.ema is not None:
            state.ema.load_state_dict(average)
        return content

    def on_rank0(self, make: Callable[[], Any]) -> Any:
        """Call `make` on rank 0; its result or UserError goes to all."""
        return make()

    def rank0_first(self, make: Callable[[], Any]) -> Any:
        """Call `make` on rank 0, then on all others."""
        return make()


SINGLE = Processes()


def unwrapped(model: nn.Module) -> nn.Module:
    """The model without torch.compile's or DDP's wrapper and prefixes."""
    while hasattr(model, "_orig_mod") or hasattr(model, "module"):
        model = getattr(model, "_orig_mod", None) or model.module
    return model


def full_tensor(tensor: Tensor) -> Tensor:
    """The whole tensor, where FSDP2 left this process only a part."""
    # a DTensor; importing that class would take a second
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
