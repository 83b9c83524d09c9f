"""The processes that train one model; usually this one is alone.

While it runs, training asks five things of them: `step`, `total`, `gather`,
`scatter` and `first`. It reads the same for one process and for many.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from vitedu.data import Source
from vitedu.errors import UserError
from vitedu.train.step import StepResult, train_step

if TYPE_CHECKING:
    from vitedu.train.state import TrainState

Number = float | Tensor  # a tensor of one element


class Processes(Protocol):
    """What training asks of its processes. All of them make the same calls."""

    number: int  # of this process; the first is 0
    count: int

    @property
    def is_first(self) -> bool:
        """Whether this is the process that reads, writes and reports."""
        ...

    def step(
        self, state: "TrainState", batch: tuple[Tensor, Tensor], num_images: int
    ) -> StepResult:
        """One update from `num_images`; `batch` is this process's share.

        The sums of the result are those of the share.
        """
        ...

    def total(self, numbers: Sequence[Number]) -> list[Number]:
        """Each of the numbers added up over all processes."""
        ...

    def gather(self, state: "TrainState") -> dict[str, Any]:
        """Model, optimizer and average as a checkpoint stores them.

        Only the first process may use what it gets.
        """
        ...

    def scatter(
        self, read: Callable[[], dict[str, Any]], state: "TrainState"
    ) -> dict[str, Any]:
        """Inverse of `gather`: all states get what the first process reads.

        Returns the other parts of what was read.
        """
        ...

    def first(self, make: Callable[[], Any]) -> Any:
        """What `make()` returns on the first process; all get its UserError."""
        ...

    def in_turn(self, make: Callable[[], Any]) -> Any:
        """What `make()` returns on each process, starting with the first.

        The others then find what it has downloaded or cached. Its UserError
        reaches all, and they don't make anything.
        """
        ...

    def device(self, device: torch.device) -> torch.device:
        """The device of this process if the run is to use `device`."""
        ...

    def connected(self, device: torch.device) -> AbstractContextManager[None]:
        """The block in which the processes can reach each other."""
        ...

    def spread(self, model: nn.Module, shard: bool) -> nn.Module:
        """The same model on all processes, so that they share its gradients."""
        ...

    def share_of(self, source: Source) -> Source:
        """The images of every batch that this process takes."""
        ...


class Alone:
    """The only process there is."""

    number = 0
    count = 1
    is_first = True

    def step(
        self, state: "TrainState", batch: tuple[Tensor, Tensor], num_images: int
    ) -> StepResult:
        """`train_step`: the share is the whole batch."""
        return train_step(state, batch)

    def total(self, numbers: Sequence[Number]) -> list[Number]:
        """The numbers themselves; nothing waits for the device."""
        return list(numbers)

    def gather(self, state: "TrainState") -> dict[str, Any]:
        """Model, optimizer and average as they are."""
        return {
            "model": state.network.state_dict(),
            "optimizer": state.optimizer.state_dict(),
            "ema": None if state.ema is None else state.ema.state_dict(),
        }

    def scatter(
        self, read: Callable[[], dict[str, Any]], state: "TrainState"
    ) -> dict[str, Any]:
        """The inverse of `gather`; returns the other parts of what was read."""
        content = read()
        state.network.load_state_dict(content.pop("model"))
        state.optimizer.load_state_dict(content.pop("optimizer"))
        ema = content.pop("ema")
        if state.ema is not None:
            state.ema.load_state_dict(ema)
        return content

    def first(self, make: Callable[[], Any]) -> Any:
        """What `make()` returns."""
        return make()

    def in_turn(self, make: Callable[[], Any]) -> Any:
        """What `make()` returns."""
        return make()

    def device(self, device: torch.device) -> torch.device:
        """The device itself."""
        return device

    def connected(self, device: torch.device) -> AbstractContextManager[None]:
        """Nothing to connect."""
        return nullcontext()

    def spread(self, model: nn.Module, shard: bool) -> nn.Module:
        """The model itself."""
        return model

    def share_of(self, source: Source) -> Source:
        """All of it."""
        return source


ALONE = Alone()


def from_environment() -> Processes:
    """The processes that `torchrun` started, this one among them; or it alone.

    UserError: the variables that `torchrun` sets contradict each other.
    """
    if "LOCAL_RANK" not in os.environ:
        return ALONE
    rank, world, local_rank = map(
        whole_number, ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    )
    if not 0 <= rank < world or local_rank < 0:
        raise UserError(
            f"RANK={rank}, WORLD_SIZE={world} and LOCAL_RANK={local_rank} "
            "contradict each other; start the processes with torchrun"
        )
    if world == 1:
        return ALONE
    from vitedu.train.processes.several import Several

    return Several(rank, world, local_rank)


def whole_number(name: str) -> int:
    """A variable of the environment. UserError: missing, or not a number."""
    text = os.environ.get(name)
    if text is None:
        raise UserError(
            f"LOCAL_RANK is set, but {name} isn't; start the processes with "
            "torchrun, or unset LOCAL_RANK to train in this process alone"
        )
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UserError(
            f"{name} must be a whole number, got {text!r}; start the processes "
            "with torchrun, or unset LOCAL_RANK to train in this process alone"
        )
    return int(text)
