"""Several processes train one model: the same run, however many there are.

Each computes the gradients of its share of every batch; their weighted mean
over the processes is the gradient of the whole batch. `torchrun` starts the
processes, DDP copies the model to each, FSDP2 (`shard=true`) distributes its
weights.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from vitedu.data import Source
from vitedu.errors import UserError
from vitedu.train.optimizer import set_lr
from vitedu.train.processes import Number
from vitedu.train.state import TrainState, whole
from vitedu.train.step import StepResult, micro_batches

# A process that dies ends the run at once (torchrun sees to it); this is for
# one that hangs. Compiling, or a download, may keep the others waiting for
# minutes.
TIMEOUT = timedelta(minutes=30)


@dataclass
class Several:
    """Process `number` of `count`; `local_number` counts those of one machine.

    Messages between them go over the CPU, so that none waits for its device.
    """

    number: int
    count: int
    local_number: int

    @property
    def is_first(self) -> bool:
        """Whether this is the process that reads, writes and reports."""
        return self.number == 0

    def step(
        self, state: TrainState, batch: tuple[Tensor, Tensor], num_images: int
    ) -> StepResult:
        """`train_step` on this process's share (maybe empty) of `num_images`.

        All make as many passes as the process with the largest share, since
        sharded weights are collected in each; gradients are exchanged in the
        last one.
        """
        images, labels = batch
        config = state.config
        set_lr(state.optimizer, state.schedule(state.step))
        largest_share = -(-num_images // self.count)
        size = config.micro_batch_size or largest_share
        num_passes = -(-largest_share // size)
        parts = list(micro_batches(images, labels, size)) if len(images) else []
        loss_sum = torch.zeros((), device=images.device)
        correct = None if labels.ndim == 2 else loss_sum.long()
        for number in range(num_passes):
            exchange_gradients(state.model, number == num_passes - 1)
            is_real = number < len(parts)
            # where no image is left, a black one that counts nothing
            x = parts[number][0] if is_real else black_like(images)
            with state.precision.autocast():
                logits = state.model(x)  # (b, classes)
            if is_real:
                y = parts[number][1]
                loss = state.loss(logits, y)
                loss_sum = loss_sum + loss.detach()
                if correct is not None:
                    correct = correct + (logits.argmax(dim=-1) == y).sum()
            else:
                loss = 0 * logits.float().sum()
            # the exchange divides by the number of processes
            state.precision.backward(loss * (self.count / num_images))
        norm = state.precision.update(state.optimizer, config.max_grad_norm)
        if state.ema is not None:
            state.ema.update(state.model)
        state.step += 1
        norm = None if norm is None else whole(norm)
        return StepResult(loss_sum, correct, len(images), norm)

    def total(self, numbers: Sequence[Number]) -> list[Number]:
        """Each of the numbers added up over all processes, in float64."""
        total = torch.tensor([float(x) for x in numbers], dtype=torch.float64)
        dist.all_reduce(total)
        return list(total)

    def gather(self, state: TrainState) -> dict[str, Any]:
        """Model, optimizer and average as one process alone would have them."""
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            get_model_state_dict,
            get_optimizer_state_dict,
        )

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        optimizer = get_optimizer_state_dict(
            state.model, state.optimizer, options=options
        )
        if self.is_first:
            # it comes by names; the optimizer itself counts its parameters
            numbers = {x: i for i, x in enumerate(parameter_names(state))}
            optimizer = renamed(optimizer, numbers)
        ema = None
        if state.ema is not None:
            ema = state.ema.state_dict()
            average = ema["average"].items()
            ema["average"] = {name: whole(x).cpu() for name, x in average}
        return {
            "model": get_model_state_dict(state.model, options=options),
            "optimizer": optimizer,
            "ema": ema,
        }

    def scatter(
        self, read: Callable[[], dict[str, Any]], state: TrainState
    ) -> dict[str, Any]:
        """The inverse of `gather`; returns the other parts of what was read.

        Tensors are sent one by one, straight into place.
        """
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            set_model_state_dict,
            set_optimizer_state_dict,
        )

        content, error = self.attempt(read)
        model, optimizer, average = {}, {}, {}
        if content is not None:
            model = content.pop("model")
            names = dict(enumerate(parameter_names(state)))
            optimizer = renamed(content.pop("optimizer"), names)
            ema = content.pop("ema")
            if state.ema is not None:
                average = ema["average"]
                content["num_updates"] = ema["num_updates"]
        content = self.send(content, error)
        options = StateDictOptions(
            full_state_dict=True, broadcast_from_rank0=True
        )
        if state.ema is not None:
            # The average is spread as the weights are: it takes their place for
            # a moment. A copy, since its names become those of the wrapped
            # model.
            set_model_state_dict(state.model, dict(average), options=options)
            num_updates = content.pop("num_updates")
            average = state.network.state_dict()
            state.ema.load_state_dict(
                {"num_updates": num_updates, "average": average}
            )
        set_model_state_dict(state.model, dict(model), options=options)
        set_optimizer_state_dict(
            state.model, state.optimizer, optimizer, options=options
        )
        return content

    def first(self, make: Callable[[], Any]) -> Any:
        """What `make()` returns on the first process; all get its UserError."""
        return self.send(*self.attempt(make))

    def in_turn(self, make: Callable[[], Any]) -> Any:
        """What `make()` returns on each process, starting with the first."""
        made, error = self.attempt(make)
        self.send(None, error)
        return made if self.is_first else make()

    def attempt(self, make: Callable[[], Any]) -> tuple[Any, UserError | None]:
        """What `make()` returns on the first process, or its UserError."""
        if not self.is_first:
            return None, None
        try:
            return make(), None
        except UserError as error:
            return None, error

    def send(self, content: Any, error: UserError | None) -> Any:
        """What the first process gives, on all; or its error, raised on all."""
        message = [content, error]
        dist.broadcast_object_list(message, device=torch.device("cpu"))
        content, error = message
        if error is not None:
            raise error
        return content

    def device(self, device: torch.device) -> torch.device:
        """The GPU of this process if the run is to use "cuda".

        UserError: there are more processes than devices, or they cannot share
        one.
        """
        if device.type == "cpu":
            return device
        if device.type != "cuda" or device.index is not None:
            raise UserError(
                f"{self.count} processes cannot share device={device}; set "
                "device=cuda, and each takes its own, or device=cpu"
            )
        count = torch.cuda.device_count()
        if self.local_number >= count:
            raise UserError(
                f"process {self.local_number} of this machine doesn't have a "
                f"device: there are {count}; start torchrun --nproc-per-node "
                f"{count}"
            )
        return torch.device("cuda", self.local_number)

    @contextmanager
    def connected(self, device: torch.device) -> Iterator[None]:
        """Connect the processes: gloo between CPUs, and nccl between GPUs.

        UserError: the variables that say where the others are reached are
        missing.
        """
        if dist.is_initialized():
            yield
            return
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            if name not in os.environ:
                raise UserError(
                    f"there are {self.count} processes, but {name} isn't set; "
                    "start them with torchrun"
                )
        backend = "gloo"
        if device.type == "cuda":
            torch.cuda.set_device(device)
            backend = "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend, timeout=TIMEOUT)
        yield
        # not after an error: the others may be gone, and would be waited for
        dist.destroy_process_group()

    def spread(self, model: nn.Module, shard: bool) -> nn.Module:
        """The same model on all processes, so that they share its gradients.

        With `shard` each process keeps a part of every weight, and a block has
        its whole weights only while it computes.
        """
        if not shard:
            # the class token's gradient has strides of its own, which costs
            # nothing
            warnings.filterwarnings("ignore", "Grad strides do not match")
            return DistributedDataParallel(model, gradient_as_bucket_view=True)
        from torch.distributed.fsdp import fully_shard

        device = next(model.parameters()).device.type
        mesh = dist.init_device_mesh(device, (self.count,))
        for block in model.blocks_in_order():
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    def share_of(self, source: Source) -> Source:
        """Every batch of `source`, reduced to the rows of this process."""
        return Share(source, rank=self.number, world=self.count)


class Share:
    """One process's share of a source."""

    def __init__(self, source: Source, rank: int, world: int) -> None:
        self.source = source
        self.rank = rank
        self.world = world
        self.num_classes = source.num_classes
        self.class_names = source.class_names

    def __len__(self) -> int:
        """The number of images of all processes."""
        return len(self.source)

    def batches(self, **options: Any) -> Iterator[tuple[Tensor, Tensor]]:
        """This process's rows of each batch, possibly none of the last one."""
        return self.source.batches(**options, rank=self.rank, world=self.world)


def exchange_gradients(model: nn.Module, is_last: bool) -> None:
    """Whether the next backward pass exchanges gradients between processes."""
    if isinstance(model, DistributedDataParallel):
        model.require_backward_grad_sync = is_last
    else:  # FSDP2 has changed it in place
        model.set_requires_gradient_sync(is_last)


def black_like(images: Tensor) -> Tensor:
    """One black image of the same form, (b, c, h, w) -> (1, c, h, w)."""
    return images.new_zeros(1, *images.shape[1:])


def parameter_names(state: TrainState) -> list[str]:
    """The names of the optimizer's parameters, in its order."""
    names = {id(p): name for name, p in state.network.named_parameters()}
    return [
        names[id(p)]
        for group in state.optimizer.param_groups
        for p in group["params"]
    ]


def renamed(optimizer: dict[str, Any], names: dict[Any, Any]) -> dict[str, Any]:
    """An optimizer's state with other names for its parameters."""
    groups = [
        group | {"params": [names[each] for each in group["params"]]}
        for group in optimizer["param_groups"]
    ]
    state = {names[each]: x for each, x in optimizer["state"].items()}
    return {"state": state, "param_groups": groups}
