"""Several processes train one model, with the result of one process.

Each computes the gradients of its share of every batch; their weighted mean is
the whole batch's gradient. `torchrun` starts the processes, DDP copies the
model to each, FSDP2 (`shard=true`) shards its weights.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.nn.parallel import DistributedDataParallel

from vitedu.errors import UserError
from vitedu.train.processes.single import (
    Batch,
    Number,
    Processes,
    full_tensor,
    unwrapped,
)

if TYPE_CHECKING:
    from vitedu.train.step import TrainState

# for a process that hangs; a download may keep the others waiting for minutes
TIMEOUT = timedelta(minutes=30)


class Distributed(Processes):
    """Process `rank` of all, `local_rank` of the `local_size` of a machine."""

    group: dist.ProcessGroup | None = None

    def __init__(
        self, rank: int, world_size: int, local_rank: int, local_size: int
    ) -> None:
        self.rank = rank
        self.world_size = world_size
        self.local_rank = local_rank
        self.local_size = local_size

    def device(self, device: torch.device) -> torch.device:
        if device.type == "cpu":
            return device
        if device.type != "cuda" or device.index is not None:
            raise UserError(
                f"{self.world_size} processes cannot share device={device}; "
                "set device=cuda, and each takes its own, or device=cpu"
            )
        count = torch.cuda.device_count()
        if self.local_rank >= count:
            raise UserError(
                f"process {self.local_rank} of this machine doesn't have a "
                f"device: there are {count}; start torchrun --nproc-per-node "
                f"{count}"
            )
        return torch.device("cuda", self.local_rank)

    @contextmanager
    def connected(self, device: torch.device) -> Iterator[None]:
        """Connect the processes: gloo between CPUs, nccl between GPUs."""
        if dist.is_initialized():
            yield
            return
        backend = "gloo"
        if device.type == "cuda":
            torch.cuda.set_device(device)
            backend = "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend, timeout=TIMEOUT)
        # Not to be freed with the model: freeing joins the group's threads, and
        # one of them may be waiting for Python's lock (PyTorch 2.13).
        Distributed.group = dist.group.WORLD
        yield
        # not after an error: the others may be gone, and would be waited for
        dist.destroy_process_group()

    def wrap_model(self, model: nn.Module, shard: bool) -> nn.Module:
        """DDP around the model; with `shard` FSDP2, in place."""
        if not shard:
            # the class token's gradient has other strides, at no cost
            warnings.filterwarnings("ignore", "Grad strides do not match")
            return DistributedDataParallel(model, gradient_as_bucket_view=True)
        from torch.distributed.fsdp import fully_shard

        device = next(model.parameters()).device.type
        mesh = dist.init_device_mesh(device, (self.world_size,))
        for block in model.blocks_in_order():
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    def micro_batches(
        self, model: nn.Module, batch: Batch, size: int | None, num_images: int
    ) -> Iterator[Batch]:
        """As many parts as the process with the largest share has.

        FSDP2 collects weights in every pass, so every process must make it.
        Without images left, a part is one black image with no label.
        """
        images, labels = batch
        largest_share = -(-num_images // self.world_size)
        size = size or largest_share
        num_passes = -(-largest_share // size)
        parts: Iterator[Batch] = iter(())
        if len(images):
            parts = super().micro_batches(model, batch, size, num_images)
        black = images.new_zeros(1, *images.shape[1:]), labels[:0]
        for number in range(num_passes):
            is_last = number == num_passes - 1
            if isinstance(model, DistributedDataParallel):
                model.require_backward_grad_sync = is_last
            else:  # FSDP2 has changed it in place
                model.set_requires_gradient_sync(is_last)
            yield next(parts, black)

    def total(self, numbers: Sequence[Number]) -> list[Number]:
        total = torch.tensor([float(x) for x in numbers], dtype=torch.float64)
        dist.all_reduce(total)
        return list(total)

    def gather(self, state: "TrainState") -> dict[str, Any]:
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        optimizer = get_optimizer_state_dict(
            state.model, state.optimizer, options=options
        )
        if self.is_first:
            # keyed by name; the optimizer's own state numbers its parameters
            numbers = {x: i for i, x in enumerate(parameter_names(state))}
            optimizer = renamed(optimizer, numbers)
        ema = None
        if state.ema is not None:
            ema = state.ema.state_dict()
            average = ema["average"].items()
            ema["average"] = {name: full_tensor(x).cpu() for name, x in average}
        return {
            "model": get_model_state_dict(state.model, options=options),
            "optimizer": optimizer,
            "ema": ema,
        }

    def scatter(
        self, read: Callable[[], dict[str, Any]], state: "TrainState"
    ) -> dict[str, Any]:
        """Inverse of `gather`; tensors are sent one by one, in place."""
        # of rank 0; empty on the others
        held: dict[str, Any] = {"model": {}, "optimizer": {}, "ema": {}}

        def rest() -> dict[str, Any]:
            content = read()
            held.update({name: content.pop(name) for name in held})
            names = dict(enumerate(parameter_names(state)))
            held["optimizer"] = renamed(held["optimizer"], names)
            return content

        content = self.on_rank0(rest)
        options = StateDictOptions(
            full_state_dict=True, broadcast_from_rank0=True
        )
        if state.ema is not None:
            # To be sharded like the weights, the average briefly replaces them.
            # A copy, since its keys become the wrapped model's.
            average = dict(held["ema"].get("average", {}))
            set_model_state_dict(state.model, average, options=options)
            average = unwrapped(state.model).state_dict()
            count = self.on_rank0(lambda: held["ema"]["num_updates"])
            state.ema.load_state_dict(
                {"num_updates": count, "average": average}
            )
        set_model_state_dict(state.model, dict(held["model"]), options=options)
        set_optimizer_state_dict(
            state.model, state.optimizer, held["optimizer"], options=options
        )
        return content

    def on_rank0(self, make: Callable[[], Any]) -> Any:
        message: list[Any] = [None, None]  # what it returns, its UserError
        if self.is_first:
            try:
                message[0] = make()
            except UserError as error:
                message[1] = error
        dist.broadcast_object_list(message, device=torch.device("cpu"))
        content, error = message
        if error is not None:
            raise error
        return content

    def rank0_first(self, make: Callable[[], Any]) -> Any:
        made: list[Any] = []
        self.on_rank0(lambda: made.append(make()))
        return made[0] if self.is_first else make()


def parameter_names(state: "TrainState") -> list[str]:
    named = unwrapped(state.model).named_parameters()
    names = {id(parameter): name for name, parameter in named}
    return [
        names[id(parameter)]
        for group in state.optimizer.param_groups
        for parameter in group["params"]
    ]


def renamed(optimizer: dict[str, Any], names: dict[Any, Any]) -> dict[str, Any]:
    groups = [
        group | {"params": [names[each] for each in group["params"]]}
        for group in optimizer["param_groups"]
    ]
    state = {names[each]: x for each, x in optimizer["state"].items()}
    return {"state": state, "param_groups": groups}
